"""What comes next? Type, turn n, and watch counts become probabilities, until the counts run out."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from lecturelib.figures.explorers.explorer import Explorer

Tables = Sequence[Mapping[tuple[int, ...], Mapping[int, int]]]

STRENGTHS = (0.0, 0.001, 0.01, 0.1, 1.0, 10.0)
"""What k the slider offers to add to every count."""


class HasTables(Protocol):
    """What a corpus was counted into: after each context of m tokens, how often each token came, for every m < n."""

    @property
    def tables(self) -> Tables: ...


class CountsNGrams(Protocol):
    """A model made of counts, such as `lecturelib.models.NGramModel`."""

    n: int
    vocab_size: int

    @property
    def counts(self) -> HasTables: ...


class NGramExplorer(Explorer):
    """The next character after any text, from the counts of a model, for every n up to the model's own.

    The reader types a text, chooses n and the k of add-k smoothing, sees the likeliest characters as bars, and lets the
    model go on: by its first choice, or by a draw.

    Args:
        model: an n-gram model of characters; its counts are what the page holds, so keep the alphabet small
        alphabet: the character of each token id; no digits, which the packed counts use
        text: what stands in the text field at first
        start: n and k at first
        num_bars: how many characters are shown
    """

    title = "What comes next?"
    hint = "type a word, then raise n until the counts run out."

    def __init__(
        self,
        model: CountsNGrams,
        alphabet: Sequence[str],
        text: str = "",
        *,
        start: tuple[int, float] = (2, 0.0),
        num_bars: int = 8,
    ) -> None:
        if len(alphabet) != model.vocab_size or len(set(alphabet)) != len(alphabet):
            raise ValueError(
                f"alphabet must name each of the model's {model.vocab_size} tokens once, got {len(alphabet)} names, "
                f"{len(set(alphabet))} of them different"
            )
        if wrong := [symbol for symbol in alphabet if len(symbol) != 1 or symbol.isdigit()]:
            raise ValueError(f"an alphabet is made of single characters that are not digits, not {wrong[0]!r}")
        if unknown := set(text) - set(alphabet):
            raise ValueError(f"text has {min(unknown)!r}, which is not in the alphabet of {len(alphabet)}")
        if not 1 <= start[0] <= model.n or start[1] not in STRENGTHS:
            raise ValueError(f"start must be an n from 1 to {model.n} and a k of {STRENGTHS}, got {start}")
        self.model, self.alphabet, self.start_text = model, list(alphabet), text
        self.start, self.num_bars = start, min(num_bars, len(alphabet))

    def probabilities(self, text: str, n: int, k: float = 0.0) -> list[float]:
        """What the explorer shows: P of each character after a text; all 0 if k = 0 and the context was never seen."""
        ids = [self.alphabet.index(symbol) for symbol in text]
        context = tuple(ids[max(0, len(ids) - n + 1) :])
        followers = self.model.counts.tables[len(context)].get(context, {})
        total = sum(followers.values()) + k * len(self.alphabet)
        return [(followers.get(token, 0) + k) / total if total else 0.0 for token in range(len(self.alphabet))]

    def data(self) -> dict[str, object]:
        """Counts as text, a string for each context: its followers in order, each with its count, "e120a31"."""
        tables = [
            {self._write(context): self._pack(followers) for context, followers in sorted(table.items())}
            for table in self.model.counts.tables
        ]
        return {
            "alphabet": "".join(self.alphabet),
            "tables": tables,
            "text": self.start_text,
            "n": self.start[0],
            "k": STRENGTHS.index(self.start[1]),
            "strengths": list(STRENGTHS),
            "bars": self.num_bars,
        }

    def text(self) -> str:
        shown = self.start_text or "nothing"
        parts = []
        for n in range(1, self.model.n + 1):
            probabilities = self.probabilities(self.start_text, n, self.start[1])
            best = max(range(len(probabilities)), key=probabilities.__getitem__)
            parts.append(f"n = {n}: “{self.alphabet[best]}” ({probabilities[best]:.3f})")
        return f"The likeliest character after “{shown}”, by n: " + ", ".join(parts) + "."

    def _write(self, context: tuple[int, ...]) -> str:
        return "".join(self.alphabet[token] for token in context)

    def _pack(self, followers: Mapping[int, int]) -> str:
        ranked = sorted(followers.items(), key=lambda item: (-item[1], item[0]))
        return "".join(f"{self.alphabet[token]}{count}" for token, count in ranked)
