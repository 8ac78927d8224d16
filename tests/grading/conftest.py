"""What the tests of grading share."""

from pathlib import Path

import axe_core_python
import pytest


@pytest.fixture(scope="session")
def axe_source() -> str:
    (script,) = Path(axe_core_python.__file__).parent.rglob("axe.min.js")
    return script.read_text(encoding="utf-8")
