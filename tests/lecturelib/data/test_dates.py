"""The dates generator."""

import datetime

import pytest

from lecturelib.data import date_pairs, dates
from lecturelib.data.sets.dates import FORMATS, date_pair, ordinal


@pytest.mark.parametrize(
    ("style", "source"),
    [
        ("{weekday}, {day} {month} {year}", "Tuesday, 3 March 2026"),
        ("the {nth} of {month}, {year}", "the 3rd of March, 2026"),
        ("{wkd} {dd}.{mm}.{year}", "Tue 03.03.2026"),
        ("{mon} {day}!", "Mar 3!"),
    ],
)
def test_date_pair_writes_the_format(style, source):
    pair = date_pair(datetime.date(2026, 3, 3), style)
    assert "".join(pair.source) == source
    assert "".join(pair.target) == "2026-03-03"


def test_date_pair_knows_its_alignment():
    pair = date_pair(datetime.date(2026, 11, 5), "{day} {mon} {year}")
    assert "".join(pair.source) == "5 Nov 2026"
    day = {(8, 0), (9, 0)}
    month = {(place, letter) for place in (5, 6) for letter in (2, 3, 4)}
    year = {(0, 6), (1, 7), (2, 8), (3, 9)}
    assert pair.links == day | month | year


def test_date_pair_names_an_unknown_placeholder():
    with pytest.raises(ValueError, match=r"unknown \['century'\]"):
        date_pair(datetime.date(2026, 11, 5), "{day} {century}")


def test_ordinals_are_english():
    expected = ["1st", "2nd", "3rd", "4th", "10th", "11th", "12th", "13th", "21st", "22nd", "23rd", "24th", "31st"]
    assert [ordinal(int(word[:-2])) for word in expected] == expected


def test_dates_are_a_function_of_the_seed():
    assert date_pairs(50, seed=3) == date_pairs(50, seed=3)
    assert date_pairs(50, seed=3) != date_pairs(50, seed=4)
    assert date_pairs(80, seed=3)[:50] == date_pairs(50, seed=3)


def test_dates_are_distinct_and_share_nothing_between_splits():
    splits = dates(train=3000, validation=500, test=500, seed=1)
    for part in ("source", "target"):
        train, validation, test = (
            {getattr(pair, part) for pair in split} for split in (splits.train, splits.validation, splits.test)
        )
        assert train.isdisjoint(validation | test)
        assert validation.isdisjoint(test)
    assert len({pair.source for pair in splits.train}) == 3000


def test_every_format_is_used_and_read_in_one_way():
    meanings = {}
    day, last = datetime.date(2012, 1, 1), datetime.date(2012, 12, 31)
    while day <= last:
        for style in FORMATS:
            pair = date_pair(day, style)
            assert meanings.setdefault(pair.source, pair.target) == pair.target
        day += datetime.timedelta(1)
    lengths = {len(pair.source) for pair in date_pairs(400)}
    assert len(lengths) > 15


def test_dates_respect_max_len_and_say_when_there_are_too_few():
    assert all(len(pair.source) <= 12 for pair in date_pairs(40, max_len=12))
    with pytest.raises(ValueError, match="found only 0 distinct dates"):
        date_pairs(1, max_len=3)
    with pytest.raises(ValueError, match="split='dev' must be one of train, validation, test"):
        date_pairs(1, split="dev")
    assert date_pairs(0) == []
