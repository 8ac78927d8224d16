"""The Greek New Testament in English, verse by verse, with word alignments made by people and parts of speech."""

import functools
import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lecturelib.data.sets.pairs import Pair
from lecturelib.data.store.archives import read_member
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import Splits, split_by

TAGS = ("adj", "adv", "conj", "det", "intj", "noun", "num", "prep", "pron", "ptcl", "verb")


@dataclass(frozen=True)
class Verse:
    """One verse: its place (book, chapter, verse as BBCCCVVV), the pair, and a part of speech for each Greek word."""

    place: str
    pair: Pair
    tags: tuple[str, ...]


def greek_english(*, max_len: int | None = None, punctuation: bool = True) -> Splits[list[Pair]]:
    """Greek words as source, English words as target, and the gold links between them, in 7,900 verses.

    The Greek has no punctuation; English marks are linked to nothing. A verse whose Greek or whose English occurred
    before is left out, so no sentence is in two splits. The Gospels tell some stories in nearly the same words, and
    those remain.

    Args:
        max_len: keep only verses of at most so many words on either side.
        punctuation: keep English punctuation marks.
    """
    splits = verses(punctuation=punctuation)
    return Splits(
        *(
            [
                verse.pair
                for verse in part
                if max_len is None or max(map(len, (verse.pair.source, verse.pair.target))) <= max_len
            ]
            for part in (splits.train, splits.validation, splits.test)
        )
    )


def greek_tags() -> Splits[list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """(Greek words, their parts of speech) for each verse, split as `greek_english` is; the tags are in TAGS."""
    splits = verses()
    return Splits(
        *(
            [(verse.pair.source, verse.tags) for verse in part]
            for part in (splits.train, splits.validation, splits.test)
        )
    )


def stem(word: str, letters: int = 5) -> str:
    """A word without accents, capitals and most of its ending: its first few bare letters.

    Greek marks case, number, person and tense at the end of the word, so that most forms are rare. Cut off, the forms
    of a word mostly fall together (and now and then two words do).
    """
    return plain_text([word])[:letters]


def plain_text(words: Iterable[str]) -> str:
    """Words as one line of text in small letters and without accents, so that καὶ and Καί are the same word."""
    apart = unicodedata.normalize("NFD", " ".join(words).lower())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def verses(*, punctuation: bool = True) -> Splits[list[Verse]]:
    """Every verse that both texts have, in order; a twentieth each for validation and test."""
    (path,) = fetch("greek_english").values()
    return split_by(_all_verses(path, punctuation), lambda verse: verse.place, validation=0.05, test=0.05)


@functools.lru_cache(maxsize=2)
def _all_verses(path: Path, punctuation: bool) -> tuple[Verse, ...]:
    greek: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for name, word, tag in _columns(path, "data/sources/SBLGNT.tsv", "id", "text", "pos"):
        greek[name[1:9]].append((name, word, tag))
    english: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    columns = ("id", "source_verse", "text", "exclude")
    for name, place, word, mark in _columns(path, "data/eng/targets/BSB/nt_BSB.tsv", *columns):
        if punctuation or not mark:
            english[place].append((name, word))
    aligned = _links(path)
    found: list[Verse] = []
    seen: set[tuple[str, ...]] = set()
    for place in sorted(greek.keys() & english.keys()):
        names, source, tags = zip(*greek[place], strict=True)
        target = tuple(word for _, word in english[place])
        keys = {("greek", *_bare(source)), ("english", *_bare(target))}
        if seen.isdisjoint(keys):
            index = {name: number for number, name in enumerate(names)}
            links = frozenset(
                (number, index[other])
                for number, (name, _) in enumerate(english[place])
                for other in aligned.get(name, ())
                if other in index  # a few links cross into the next verse
            )
            found.append(Verse(place, Pair(source, target, links), tags))
        seen |= keys
    return tuple(found)


def _bare(words: tuple[str, ...]) -> list[str]:
    return [word.lower() for word in words if word[0].isalnum()]


def _columns(path: Path, member: str, *names: str) -> Iterator[list[str]]:
    """The named columns of a tab-separated table, row by row."""
    header, *rows = read_member(path, member).decode("utf-8").rstrip("\n").split("\n")
    places = [header.rstrip("\r").split("\t").index(name) for name in names]
    for row in rows:
        cells = row.rstrip("\r").split("\t")
        yield [cells[place] for place in places]


def _links(path: Path) -> dict[str, list[str]]:
    """The Greek words that each English word translates, both by their ids."""
    aligned: defaultdict[str, list[str]] = defaultdict(list)
    for record in json.loads(read_member(path, "data/eng/alignments/BSB/SBLGNT-BSB-manual.json"))["records"]:
        for target in record["target"]:
            aligned[target] += record["source"]
    return dict(aligned)
