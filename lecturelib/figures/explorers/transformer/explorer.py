"""See every head of an encoder-decoder at once: encoder, decoder and cross-attention, one of them enlarged."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack

KINDS = ("encoder", "decoder", "cross")


class TransformerExplorer(Explorer):
    """All attention maps of one translation as small multiples; choose one to see it large, with its tokens.

    Args:
        encoder: (layers, heads, S, S), the source looking at itself
        decoder: (layers, heads, T, T), the target looking back at itself; nothing above the diagonal
        cross: (layers, heads, T, S), the target looking at the source
        source: names of the S source tokens
        read: names of the T target tokens that the decoder reads, the begin symbol first
        written: names of the T tokens that it writes next, the end symbol last
        start: kind ("encoder", "decoder" or "cross"), layer, head and query shown first, counted from 0
    """

    title = "What does every head look at?"
    hint = "choose a cross-attention map, then walk through the words."

    def __init__(
        self,
        encoder: ArrayLike,
        decoder: ArrayLike,
        cross: ArrayLike,
        *,
        source: Sequence[str],
        read: Sequence[str],
        written: Sequence[str],
        start: tuple[str, int, int, int] = ("cross", 0, 0, 0),
    ) -> None:
        self.source, self.read, self.written = list(source), list(read), list(written)
        if len(self.read) != len(self.written):
            raise ValueError(
                f"read has {len(self.read)} tokens and written {len(self.written)}: one is written for each"
            )
        size = {"source": len(self.source), "target": len(self.read)}
        sides = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
        given = dict(zip(KINDS, (encoder, decoder, cross), strict=True))
        self.weights = {kind: np.asarray(given[kind], dtype=np.float32) for kind in KINDS}
        for kind, weights in self.weights.items():
            wanted = tuple(size[side] for side in sides[kind])
            if weights.ndim != 4 or weights.shape[2:] != wanted or 0 in weights.shape:
                raise ValueError(
                    f"{kind} must be (layers, heads, {wanted[0]} queries, {wanted[1]} keys), got {weights.shape}"
                )
            rows = weights.sum(axis=-1)
            if (weights < 0).any() or not np.isclose(rows, 1, atol=1e-3).all():
                raise ValueError(f"each row of {kind} must be a softmax: non-negative, with sum 1")
        if np.triu(self.weights["decoder"], k=1).any():
            raise ValueError("decoder has weight above its diagonal: a target token attends to one that comes later")
        kind, *place = start
        if kind not in KINDS:
            raise ValueError(f"start must begin with one of {', '.join(KINDS)}, got {kind!r}")
        if any(not 0 <= index < most for index, most in zip(place, self.weights[kind].shape, strict=False)):
            raise ValueError(f"start={start} is outside (layers, heads, queries) = {self.weights[kind].shape[:3]}")
        self.start = start

    def data(self) -> dict[str, object]:
        return {
            "weights": {kind: pack(weights) for kind, weights in self.weights.items()},
            "source": self.source,
            "read": self.read,
            "written": self.written,
            "start": list(self.start),
            "text": self.text(),
        }

    def text(self) -> str:
        kind, layer, head, query = self.start
        counts = {name: weights.shape[:2] for name, weights in self.weights.items()}
        maps = sum(layers * heads for layers, heads in counts.values())
        row = self.weights[kind][layer, head, query]
        names = (self.source, self.read, self.source)[KINDS.index(kind)]
        asking = self.source[query] if kind == "encoder" else self.read[query]
        best = int(row.argmax())
        return (
            f"All {maps} attention maps of a transformer: encoder, decoder, cross; every layer and head. In {kind} "
            f"layer {layer + 1}, head {head + 1}, “{asking}” attends most to “{names[best]}” ({row[best]:.3f})."
        )
