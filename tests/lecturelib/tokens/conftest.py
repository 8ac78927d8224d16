"""Real text for the tokenizers."""

import pytest

from lecturelib.data import shakespeare


@pytest.fixture(scope="session")
def plays():
    return shakespeare().train
