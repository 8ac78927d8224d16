"""Multi30k: captions in English and German, for those with a network (no package registry has it)."""

from lecturelib.data.store.archives import read_members
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import Splits

LANGUAGES = ("en", "de")


def multi30k(*, source: str = "en", target: str = "de") -> Splits[list[tuple[str, str]]]:
    """29,000 captions as (source sentence, target sentence), and the official validation and test sentences.

    A pair that occurs in a later split is dropped from the earlier ones, so nothing is both learned and asked.
    """
    if {source, target} != set(LANGUAGES):
        raise ValueError(f"source={source!r} and target={target!r} must be 'en' and 'de', one each")
    stems = ("train", "val", "test")
    lines: dict[tuple[str, str], list[str]] = {}
    for path in fetch("multi30k").values():
        for member, content in read_members(path, "*"):
            stem, _, language = member.rpartition("/")[2].partition(".")
            if stem in stems and language in LANGUAGES:  # not "._train.en", which a Mac put beside it
                lines[stem, language] = content.decode("utf-8").splitlines()
    parts: list[list[tuple[str, str]]] = []
    seen: set[tuple[str, str]] = set()
    for stem in reversed(stems):
        pairs = zip(lines[stem, source], lines[stem, target], strict=True)
        fresh = [
            pair for pair in ((left.strip(), right.strip()) for left, right in pairs) if pair not in seen and all(pair)
        ]
        seen |= set(fresh)
        parts.append(fresh)
    return Splits(*reversed(parts))
