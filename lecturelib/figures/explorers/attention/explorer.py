"""Look into the attention of a model: any layer, any head, any query token."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack


class AttentionExplorer(Explorer):
    """Choose a layer, a head and a query token; see what it attends to, in bars, in digits and in the whole matrix.

    Args:
        weights: (layers, heads, Tq, Tk), each row non-negative with sum 1 (or 0 where nothing may be attended)
        tokens: names of the Tq queries
        key_tokens: names of the Tk keys; the query tokens again when left out
        start: layer, head and query shown first, counted from 0
    """

    title = "What does each word look at?"
    hint = "choose another word, then another head."

    def __init__(
        self,
        weights: ArrayLike,
        tokens: Sequence[str],
        key_tokens: Sequence[str] | None = None,
        *,
        start: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        self.weights = np.asarray(weights, dtype=np.float32)
        self.tokens = list(tokens)
        self.key_tokens = self.tokens if key_tokens is None else list(key_tokens)
        expected = (len(self.tokens), len(self.key_tokens))
        if self.weights.ndim != 4 or self.weights.shape[2:] != expected or 0 in self.weights.shape:
            raise ValueError(
                f"weights must be (layers, heads, {expected[0]} queries, {expected[1]} keys), got {self.weights.shape}"
            )
        rows = self.weights.sum(axis=-1)
        if (self.weights < 0).any() or not (np.isclose(rows, 1, atol=1e-3) | np.isclose(rows, 0, atol=1e-6)).all():
            raise ValueError("each row of weights must be a softmax: non-negative, with sum 1 (or 0 if fully masked)")
        if any(not 0 <= index < size for index, size in zip(start, self.weights.shape, strict=False)):
            raise ValueError(f"start={start} is outside (layers, heads, queries) = {self.weights.shape[:3]}")
        self.start = start

    def data(self) -> dict[str, object]:
        return {
            "weights": pack(self.weights),
            "queries": self.tokens,
            "keys": self.key_tokens,
            "start": list(self.start),
            "text": self.text(),
        }

    def text(self) -> str:
        layers, heads = self.weights.shape[:2]
        layer, head, query = self.start
        row = self.weights[self.start]
        best = int(row.argmax())
        return (
            f"Attention of {layers} layer{'s' * (layers > 1)} with {heads} head{'s' * (heads > 1)} each. In layer "
            f"{layer + 1}, head {head + 1}, “{self.tokens[query]}” attends most to “{self.key_tokens[best]}” "
            f"({row[best]:.3f})."
        )
