"""Choose a word and see the regions of an image that it reads, or a region and see the words that it reads."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack
from lecturelib.figures.plots.image_grid import drawable


@dataclass(frozen=True)
class GroundingExample:
    """An image, a text, and who reads whom in every layer and head of a model's co-attention.

    Args:
        name: what to call the pair
        image: (1 or 3, height, width) or (height, width), from 0 to 1
        words: the T words of the text
        boxes: (N, 4) the regions as left, top, right, bottom, in pixels
        regions: N names, each of them what is in the box
        word_reads: (layers, heads, T, N), how much each word reads of each region
        region_reads: (layers, heads, N, T), how much each region reads of each word
        verdict: what the model says of the pair, in a few words
    """

    name: str
    image: ArrayLike
    words: Sequence[str]
    boxes: ArrayLike
    regions: Sequence[str]
    word_reads: ArrayLike
    region_reads: ArrayLike
    verdict: str


class GroundingExplorer(Explorer):
    """Choose a pair, a layer and a head; then a word, or a region on the image, and see what it reads of the others.

    Args:
        examples: all with the same layers and heads
        start: example and word shown first, counted from 0
        layer: shown first, counted from 0; the heads start with their mean
    """

    title = "Which regions does a word read, and which words a region?"
    hint = "choose a colour word, then click another box in the image."

    def __init__(
        self, examples: Sequence[GroundingExample], *, start: tuple[int, int] = (0, 0), layer: int = 0
    ) -> None:
        if not examples:
            raise ValueError("GroundingExplorer: give at least one GroundingExample, got none")
        self.examples, self.start, self.layer = list(examples), start, layer
        self.depth = np.asarray(examples[0].word_reads).shape[:2]
        for example in examples:
            self._check(example)
        if not (0 <= start[0] < len(examples) and 0 <= start[1] < len(examples[start[0]].words)):
            raise ValueError(f"start={start} is outside the {len(examples)} examples and their words")
        if not 0 <= layer < self.depth[0]:
            raise ValueError(f"layer={layer} is not one of the {self.depth[0]} layers, counted from 0")

    def _check(self, example: GroundingExample) -> None:
        count = len(example.words), len(example.regions)
        if np.asarray(example.boxes).shape != (count[1], 4):
            raise ValueError(
                f"{example.name!r} names {count[1]} regions, so boxes must be ({count[1]}, 4), "
                f"got {np.asarray(example.boxes).shape}"
            )
        for name, want in (("word_reads", count), ("region_reads", count[::-1])):
            weights = np.asarray(getattr(example, name))
            if weights.shape != (*self.depth, *want):
                raise ValueError(f"{example.name!r}: {name} must be {(*self.depth, *want)}, got {weights.shape}")
            if (weights < 0).any() or not np.allclose(weights.sum(axis=-1), 1, atol=1e-3):
                raise ValueError(f"{example.name!r}: each row of {name} must be a softmax")

    def data(self) -> dict[str, object]:
        return {
            "start": list(self.start),
            "layer": self.layer,
            "depth": list(self.depth),
            "examples": [
                {
                    "name": example.name,
                    "size": list(pixels.shape[:2]),
                    "channels": 1 if pixels.ndim == 2 else 3,
                    "picture": base64.b64encode(pixels.tobytes()).decode(),
                    "words": list(example.words),
                    "boxes": np.asarray(example.boxes, dtype=float).round(2).tolist(),
                    "regions": list(example.regions),
                    "wordReads": pack(np.asarray(example.word_reads).round(4)),
                    "regionReads": pack(np.asarray(example.region_reads).round(4)),
                    "verdict": example.verdict,
                }
                for example, pixels in ((example, drawable(example.image)) for example in self.examples)
            ],
        }

    def text(self) -> str:
        example, word = self.examples[self.start[0]], self.start[1]
        weights = np.asarray(example.word_reads)[self.layer, :, word].mean(axis=0)
        best = int(weights.argmax())
        return (
            f"{example.name}: in layer {self.layer + 1}, “{example.words[word]}” reads most of region {best + 1}, "
            f"{example.regions[best]} (weight {weights[best]:.2f}). The model says: {example.verdict}."
        )
