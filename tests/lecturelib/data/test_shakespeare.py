"""The works of Shakespeare, fetched for real (5 MB, once)."""

import pytest

from lecturelib.data import shakespeare, shakespeare_works


@pytest.fixture(scope="module")
def texts():
    return shakespeare()


def test_shakespeare_is_all_there():
    works = shakespeare_works()
    assert len(works) == 42
    assert sum(map(len, works.values())) == 5_057_198
    assert "To be, or not to be" in works["hamlet"]
    assert "Shall I compare thee to a summer's day?" in works["sonnets"]


def test_shakespeare_splits_have_one_alphabet(texts):
    assert len(texts.train) > 4_500_000
    assert len(texts.validation) > 200_000
    assert len(texts.test) > 200_000
    assert len(set(texts.train)) == 84
    assert set(texts.validation + texts.test) <= set(texts.train)


def test_shakespeare_splits_share_no_passage(texts):
    def passages(text):
        return {passage for passage in text.split("\n\n") if len(passage) > 80}

    train, validation, test = map(passages, (texts.train, texts.validation, texts.test))
    assert len(train) > 10_000
    assert train.isdisjoint(validation | test)
    assert validation.isdisjoint(test)
