"""Dates as people write them, to be rewritten as ISO 8601: "Tuesday, 3 March 2026" -> "2026-03-03".

A generator: as many pairs as you like, each a function of the seed and its number. Year, month and day change
places on the way, so the alignment is far from diagonal, and the generator knows it exactly.
"""

import datetime
import functools
import random
import re
from collections.abc import Sequence

from lecturelib.data.sets.pairs import Pair
from lecturelib.data.store.splits import SPLITS, Splits, split_of

FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)

# {weekday} {wkd} Tuesday, Tue · {month} {mon} {mm} March, Mar, 03 · {day} {nth} {dd} 3, 3rd, 03 · {year} 2026
# Each is read in one way only: with dots the day comes first, with strokes the month.
FORMATS = (
    "{weekday}, {day} {month} {year}",
    "{weekday}, {month} {day}, {year}",
    "{wkd} {day} {mon} {year}",
    "{day} {month} {year}",
    "{day} {mon} {year}",
    "{month} {day}, {year}",
    "{month} {nth}, {year}",
    "the {nth} of {month}, {year}",
    "{weekday} the {nth} of {month} {year}",
    "{dd}.{mm}.{year}",
    "{mm}/{dd}/{year}",
    "{year}, {month} {day}",
)
_ISO_PLACES = {"year": (0, 1, 2, 3), "month": (5, 6), "day": (8, 9)}  # where each part stands in YYYY-MM-DD


def ordinal(day: int) -> str:
    """1 -> '1st', 2 -> '2nd', 11 -> '11th', 23 -> '23rd'."""
    ending = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _written(date: datetime.date) -> dict[str, tuple[str, str]]:
    """Each placeholder's text for this date, and the part of the date it tells."""
    weekday, month = WEEKDAYS[date.weekday()], MONTHS[date.month - 1]
    return {
        "weekday": (weekday, ""),
        "wkd": (weekday[:3], ""),
        "month": (month, "month"),
        "mon": (month[:3], "month"),
        "mm": (f"{date.month:02d}", "month"),
        "day": (str(date.day), "day"),
        "nth": (ordinal(date.day), "day"),
        "dd": (f"{date.day:02d}", "day"),
        "year": (f"{date.year:04d}", "year"),
    }


@functools.cache
def _pieces(style: str) -> tuple[tuple[str, str], ...]:
    """A format as (literal text, placeholder) in order; the last placeholder may be empty."""
    pieces = tuple(re.findall(r"([^{]*)(?:\{(\w+)\})?", style))
    if unknown := {name for _, name in pieces} - {*_written(FIRST), ""}:
        raise ValueError(f"format {style!r} has unknown {sorted(unknown)}: use {', '.join(_written(FIRST))}")
    return pieces


@functools.cache
def _days_of(split: str) -> tuple[datetime.date, ...]:
    """Every calendar date that belongs to the split: eight in ten to train, one each to validation and test."""
    days = (FIRST + datetime.timedelta(number) for number in range((LAST - FIRST).days + 1))
    return tuple(day for day in days if split_of(f"date {day.isoformat()}", validation=0.1, test=0.1) == split)


def date_pair(date: datetime.date, style: str) -> Pair:
    """Write the date in one of FORMATS, character by character, with its links to the ISO form.

    Digits that are copied link one to one; a spelled-out month, or a day that gains a leading zero, links as a whole.
    """
    source, links = "", set()
    for literal, name in _pieces(style):
        source += literal
        if not name:
            continue
        text, part = _written(date)[name]
        places = _ISO_PLACES.get(part, ())
        if text.isdigit() and len(text) == len(places):
            links |= {(place, len(source) + i) for i, place in enumerate(places)}
        else:
            links |= {(place, len(source) + i) for i in range(len(text)) for place in places}
        source += text
    return Pair(tuple(source), tuple(date.isoformat()), frozenset(links))


def date_pairs(
    count: int, *, split: str = "train", seed: int = 0, formats: Sequence[str] = FORMATS, max_len: int | None = None
) -> list[Pair]:
    """Make `count` distinct pairs for one split.

    A calendar date belongs to one split whatever its format, so no target of the test split is seen in training.
    `max_len` keeps only sources of at most so many characters.
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r} must be one of {', '.join(SPLITS)}")
    if count < 0:
        raise ValueError(f"count={count} must not be negative")
    rng = random.Random(f"dates {split} {seed}")
    days = _days_of(split)
    pairs: dict[tuple[str, ...], Pair] = {}
    tries = 0
    while len(pairs) < count:
        tries += 1
        if tries > 1000 + 20 * count:
            raise ValueError(
                f"found only {len(pairs)} distinct dates for split {split!r} (asked for count={count}, "
                f"max_len={max_len}, {len(formats)} formats): ask for fewer, or allow more formats"
            )
        date, style = rng.choice(days), rng.choice(formats)
        pair = date_pair(date, style)
        if max_len is None or len(pair.source) <= max_len:
            pairs.setdefault(pair.source, pair)
    return list(pairs.values())


def dates(*, train: int = 10_000, validation: int = 1_000, test: int = 1_000, seed: int = 0) -> Splits[list[Pair]]:
    """The three splits at once, of the sizes asked for."""
    return Splits(
        date_pairs(train, split="train", seed=seed),
        date_pairs(validation, split="validation", seed=seed),
        date_pairs(test, split="test", seed=seed),
    )
