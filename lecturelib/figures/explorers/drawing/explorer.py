"""Watch an image being drawn from a caption, one token after the other."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack
from lecturelib.figures.plots.image_grid import drawable


@dataclass(frozen=True)
class DrawingExample:
    """Images drawn from one caption.

    Args:
        caption: the words
        images: each (3, height, width), from 0 to 1, painted from all its tokens
        ids: for each image (rows, columns), the tokens in reading order
        chances: for each image (rows, columns), the probability that the model gave each token when it chose it
    """

    caption: str
    images: Sequence[ArrayLike]
    ids: Sequence[ArrayLike]
    chances: Sequence[ArrayLike]


class DrawingExplorer(Explorer):
    """Choose a caption and play: the grid of ids fills from the top left, and the image beside it.

    Args:
        examples: all with as many images, of one size and one grid
        colours: (K, 3), from 0 to 1, a colour for each id
        start: example and number of tokens shown first
    """

    title = "How does a caption become an image?"
    hint = "press play; then choose another sample of the same caption, and watch the probability."

    def __init__(
        self, examples: Sequence[DrawingExample], *, colours: ArrayLike, start: tuple[int, int] = (0, 0)
    ) -> None:
        if not examples:
            raise ValueError("DrawingExplorer: give at least one DrawingExample, got none")
        self.examples, self.colours = list(examples), np.asarray(colours, dtype=float)
        self.grid = np.asarray(examples[0].ids[0]).shape
        self.samples = len(examples[0].images)
        if len(self.grid) != 2 or self.colours.ndim != 2 or self.colours.shape[1] != 3:
            raise ValueError(
                f"ids must be (rows, columns) and colours (ids, 3), got {self.grid} and {self.colours.shape}"
            )
        for example in examples:
            self._check(example)
        self.pixels = [[drawable(image) for image in example.images] for example in examples]
        sizes = {pixels.shape for row in self.pixels for pixels in row}
        if len(sizes) != 1 or len(next(iter(sizes))) != 3:
            raise ValueError(f"DrawingExplorer: all images must be (3, height, width) of one size, got {sorted(sizes)}")
        if not (0 <= start[0] < len(examples) and 0 <= start[1] <= self.grid[0] * self.grid[1]):
            raise ValueError(f"start={start} is outside the {len(examples)} examples and their tokens")
        self.start = start

    def _check(self, example: DrawingExample) -> None:
        counts = {len(example.images), len(example.ids), len(example.chances)}
        if counts != {self.samples}:
            raise ValueError(f"{example.caption!r} must have {self.samples} images, ids and chances, got {counts}")
        for ids, chances in zip(example.ids, example.chances, strict=True):
            found, given = np.asarray(ids), np.asarray(chances)
            if found.shape != self.grid or given.shape != self.grid:
                raise ValueError(
                    f"{example.caption!r}: ids and chances must be {self.grid}, got {found.shape} and {given.shape}"
                )
            if found.min() < 0 or found.max() >= len(self.colours):
                raise ValueError(f"{example.caption!r}: ids must be from 0 to {len(self.colours) - 1}, as the colours")
            if given.min() < 0 or given.max() > 1:
                raise ValueError(f"{example.caption!r}: chances must be probabilities, from 0 to 1")

    def data(self) -> dict[str, object]:
        return {
            "grid": list(self.grid),
            "size": list(self.pixels[0][0].shape[:2]),
            "samples": self.samples,
            "start": list(self.start),
            "colours": (255 * self.colours.clip(0, 1)).round().astype(int).tolist(),
            "examples": [
                {
                    "caption": example.caption,
                    "pictures": [base64.b64encode(image.tobytes()).decode() for image in pixels],
                    "ids": [np.asarray(ids).flatten().tolist() for ids in example.ids],
                    "chances": [pack(np.asarray(chances).flatten().round(4)) for chances in example.chances],
                }
                for example, pixels in zip(self.examples, self.pixels, strict=True)
            ],
        }

    def text(self) -> str:
        example = self.examples[self.start[0]]
        chances, ids = np.asarray(example.chances[0]).flatten(), np.asarray(example.ids[0]).flatten()
        least = int(chances.argmin())
        row, column = divmod(least, self.grid[1])
        return (
            f"From “{example.caption}” the model chose {ids.size} tokens in reading order. The least likely, id "
            f"{ids[least]} in row {row + 1}, column {column + 1}, had a probability of {chances[least]:.2f}."
        )
