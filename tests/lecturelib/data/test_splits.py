"""Splits are a function of the content."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.data import Splits, split_by, split_of


def test_split_of_never_changes():
    assert [split_of(word) for word in ("attention", "rnn", "bert", "lstm")] == ["train"] * 4
    held_out = [word for word in map(str, range(60)) if split_of(word) != "train"]
    assert held_out == ["18", "29", "47", "55"]


def test_split_of_gives_each_its_share():
    counts = Counter(split_of(str(number), validation=0.1, test=0.2) for number in range(20_000))
    assert counts["validation"] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert counts["test"] / 20_000 == pytest.approx(0.2, abs=0.01)


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_split_by_loses_nothing_and_keeps_equal_content_together(items):
    parts = split_by(items, lambda item: item, validation=0.3, test=0.3)
    assert Counter(parts.train) + Counter(parts.validation) + Counter(parts.test) == Counter(items)
    assert not set(parts.train) & set(parts.test)
    assert not set(parts.train) & set(parts.validation)
    assert not set(parts.test) & set(parts.validation)


def test_split_of_refuses_shares_beyond_one():
    with pytest.raises(ValueError, match=r"validation=0.6 and test=0.6"):
        split_of("a", validation=0.6, test=0.6)


def test_splits_are_reached_by_name():
    splits = Splits(1, 2, 3)
    assert [splits[name] for name in ("train", "validation", "test")] == [1, 2, 3]
    with pytest.raises(KeyError, match="choose one of train, validation, test"):
        splits["dev"]
