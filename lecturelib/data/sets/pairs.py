"""A source and a target sequence, the example of every sequence-to-sequence task."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A source, its target, and where known the gold alignment between them.

    Attributes:
        source: the symbols to read (characters, letters or words).
        target: the symbols to write.
        links: pairs (target index, source index), counted from 0, of symbols that correspond.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: frozenset[tuple[int, int]] = frozenset()
