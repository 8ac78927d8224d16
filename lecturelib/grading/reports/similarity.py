"""Which submissions have code in common that nobody gave them.

Winnowing over token streams: names, numbers, strings and comments are made the same, so that renaming hides nothing;
every run of `RUN` tokens is hashed, of each `WINDOW` neighbouring hashes the smallest is kept, and two submissions are
as similar as the share of kept runs they have in common. Runs of the official starter code never count, nor do those
that a good part of the class has: an exercise of three lines has one answer.

Paper: Schleimer, Wilkerson, Aiken 2003, "Winnowing: local algorithms for document fingerprinting".
Differs: tokens of Python's own tokenizer instead of characters, and what most of a class shares is left out.

It finds what to look at, and accuses nobody.
"""

import hashlib
import io
import keyword
import tokenize
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lecturelib.grading.reports.page import page, table, text

RUN, WINDOW = 18, 8
COMMON = 0.5  # of the class: what more than so many have is everybody's
FEWEST_OWNERS = 6  # below so many a run is not common, however small the class
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
SAME = {tokenize.NUMBER: "0", tokenize.STRING: "S", tokenize.NEWLINE: ";", tokenize.INDENT: "{", tokenize.DEDENT: "}"}


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token made anonymous, and the line it is on."""

    kind: str
    line: int


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two submissions and what they share.

    Args:
        one, other: the students
        share: of the smaller one's fingerprints, how many the other has too
        matched: how many that are
        lines: the longest stretch in common, as the first one wrote it
    """

    one: str
    other: str
    share: float
    matched: int
    lines: str


def tokens(source: str) -> list[Token]:
    """The code of one cell as anonymous tokens; what cannot be tokenized counts up to there."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in SKIPPED:
                continue
            kind = SAME.get(token.type, token.string)
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                kind = "N"
            found.append(Token(kind=kind, line=token.start[0]))
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return found


def fingerprints(cells: Iterable[str]) -> dict[int, tuple[int, int]]:
    """The kept runs of a notebook's cells, each with the cell and the line where it begins."""
    kept: dict[int, tuple[int, int]] = {}
    for number, source in enumerate(cells):
        stream = tokens(source)
        hashes = [_hash(token.kind for token in stream[i : i + RUN]) for i in range(len(stream) - RUN + 1)]
        for start in range(max(len(hashes) - WINDOW + 1, min(len(hashes), 1))):
            window = hashes[start : start + WINDOW]
            smallest = min(window)
            at = start + len(window) - 1 - window[::-1].index(smallest)
            kept.setdefault(smallest, (number, stream[at].line))
    return kept


def _hash(kinds: Iterable[str]) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(kinds).encode(), digest_size=8).digest(), "big")


def all_runs(cells: Iterable[str]) -> set[int]:
    """Every run, kept or not: starter code must be recognised wherever the windows fall."""
    streams = [tokens(source) for source in cells]
    return {_hash(t.kind for t in stream[i : i + RUN]) for stream in streams for i in range(len(stream) - RUN + 1)}


def similar_pairs(
    notebooks: Mapping[str, Sequence[str]], starter: Iterable[str] = (), *, least: float = 0.5, fewest: int = 5
) -> list[Pair]:
    """Pairs that share much, the most similar first.

    Args:
        notebooks: the code cells of each student
        starter: code cells that everybody was given
        least: share of fingerprints from which a pair is listed
        fewest: a pair with fewer fingerprints in common is not listed
    """
    given = all_runs(starter)
    kept = {student: fingerprints(cells) for student, cells in notebooks.items()}
    owners = Counter(run for runs in kept.values() for run in runs)
    most = max(COMMON * len(kept), FEWEST_OWNERS - 1)
    own = {s: {run for run in runs if run not in given and owners[run] <= most} for s, runs in kept.items()}
    having: dict[int, list[str]] = {}
    for student, runs in own.items():
        for run in runs:
            having.setdefault(run, []).append(student)
    shared = Counter(
        (one, other) for students in having.values() for i, one in enumerate(students) for other in students[i + 1 :]
    )
    pairs = []
    for (one, other), matched in shared.items():
        share = matched / min(len(own[one]), len(own[other]))
        if matched >= fewest and share >= least:
            places = sorted(kept[one][run] for run in own[one] & own[other])
            pairs.append(
                Pair(one=one, other=other, share=share, matched=matched, lines=_excerpt(notebooks[one], places))
            )
    return sorted(pairs, key=lambda pair: (-pair.share, -pair.matched, pair.one, pair.other))


def _excerpt(cells: Sequence[str], places: list[tuple[int, int]], most: int = 12) -> str:
    """The lines of the cell that has most of the runs in common."""
    (cell, _), *_ = Counter(cell for cell, _ in places).most_common(1)
    lines = [line for number, line in places if number == cell]
    source = cells[cell].splitlines()
    return "\n".join(source[min(lines) - 1 : max(lines) + 2][:most])


def similarity_page(title: str, pairs: Sequence[Pair], read: int, unread: Sequence[str] = ()) -> str:
    """The instructor's page."""
    rows = [
        [
            text(pair.one, 80),
            text(pair.other, 80),
            f"{pair.share:.0%}",
            str(pair.matched),
            f"<pre>{text(pair.lines, 1500)}</pre>",
        ]
        for pair in pairs[:200]
    ]
    compared = "1 submission" if read == 1 else f"{read} submissions"
    parts = [
        f"<h1>{text(title)}: similar code</h1>",
        f"<p>{compared} compared, names, numbers and comments apart; starter code and what half the class "
        "shares left out. This shows where to look. It proves nothing: read both before you speak to anybody.</p>",
        table(
            "The most similar first",
            ["one", "other", "in common", "runs", "code of the first"],
            rows,
            frozenset({2, 3}),
        )
        if rows
        else "<p>No two have much code in common.</p>",
    ]
    if unread:
        parts.append(f"<p>Not compared, because they cannot be read: {text(', '.join(unread))}</p>")
    return page(f"{title}: similar code", "\n".join(parts))
