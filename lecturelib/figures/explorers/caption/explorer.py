"""Read a caption word by word and see where in the image each word was taken from."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack
from lecturelib.figures.plots.image_grid import drawable


@dataclass(frozen=True)
class CaptionExample:
    """An image with the caption that each model wrote of it.

    Args:
        name: what to call the image
        image: (1 or 3, height, width) or (height, width), from 0 to 1
        words: for each model, by its name, the T words that it wrote
        weights: for each model (T, rows, columns), where it looked for each word
        named: for each model, for each word the regions (rows, columns) of the thing it names, 0 or 1; None for a word
            that names nothing
    """

    name: str
    image: ArrayLike
    words: Mapping[str, Sequence[str]]
    weights: Mapping[str, ArrayLike]
    named: Mapping[str, Sequence[ArrayLike | None]]


class CaptionExplorer(Explorer):
    """Choose an image and a model, walk along the caption, and see the look that came before each word.

    Args:
        examples: all of the same models, image size and grid
        start: example and word shown first, counted from 0
    """

    title = "Where does it look before it writes a word?"
    hint = "press play, or choose a word of the caption; then change the model."

    def __init__(self, examples: Sequence[CaptionExample], *, start: tuple[int, int] = (0, 0)) -> None:
        if not examples:
            raise ValueError("CaptionExplorer: give at least one CaptionExample, got none")
        self.examples, self.models = list(examples), list(examples[0].words)
        self.pixels = [drawable(example.image) for example in examples]
        self.grid = np.asarray(examples[0].weights[self.models[0]]).shape[1:]
        for example in examples:
            self._check(example)
        if len({pixels.shape for pixels in self.pixels}) != 1:
            raise ValueError("CaptionExplorer: all images must have one size")
        if not (0 <= start[0] < len(examples) and 0 <= start[1] < len(examples[start[0]].words[self.models[0]])):
            raise ValueError(f"start={start} is outside the {len(examples)} examples and their words")
        self.start = start

    def _check(self, example: CaptionExample) -> None:
        for given in (example.words, example.weights, example.named):
            if list(given) != self.models:
                raise ValueError(
                    f"{example.name!r} has {list(given)}, the first example {self.models}: give all the same"
                )
        for model in self.models:
            want = (len(example.words[model]), *self.grid)
            weights = np.asarray(example.weights[model])
            if weights.shape != want or len(example.named[model]) != want[0]:
                raise ValueError(f"{example.name!r}, {model!r}: weights must be {want}, got {weights.shape}")
            if (weights < 0).any() or not np.allclose(weights.sum(axis=(1, 2)), 1, atol=1e-3):
                raise ValueError(f"{example.name!r}, {model!r}: the weights of each word must be a softmax")

    def data(self) -> dict[str, object]:
        return {
            "grid": list(self.grid),
            "size": list(self.pixels[0].shape[:2]),
            "channels": 1 if self.pixels[0].ndim == 2 else 3,
            "models": self.models,
            "start": list(self.start),
            "examples": [
                {
                    "name": example.name,
                    "picture": base64.b64encode(pixels.tobytes()).decode(),
                    "captions": [
                        {
                            "words": list(example.words[model]),
                            "weights": pack(np.asarray(example.weights[model]).round(4)),
                            "named": [
                                None if regions is None else np.flatnonzero(np.asarray(regions)).tolist()
                                for regions in example.named[model]
                            ],
                        }
                        for model in self.models
                    ],
                }
                for example, pixels in zip(self.examples, self.pixels, strict=True)
            ],
        }

    def text(self) -> str:
        example, word = self.examples[self.start[0]], self.start[1]
        model = self.models[0]
        words, weights = example.words[model], np.asarray(example.weights[model])[word]
        row, column = np.unravel_index(int(weights.argmax()), weights.shape)
        return (
            f"{example.name}: the {model} model wrote “{' '.join(words)}”. Before “{words[word]}” it looked most at "
            f"the region in row {row + 1}, column {column + 1} (weight {weights.max():.2f})."
        )
