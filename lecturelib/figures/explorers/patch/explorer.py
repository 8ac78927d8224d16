"""Look at a picture through a vision transformer: what does a patch, or the class token, attend to?"""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer
from lecturelib.figures.plots.image_grid import drawable


class PatchAttentionExplorer(Explorer):
    """Choose a picture, a layer, a head and a query; see the query's attention laid over the picture.

    Args:
        images: a few pictures, (1 or 3, height, width) or (height, width) each, from 0 to 1, all of one size
        weights: (pictures, layers, heads, 1 + N, 1 + N), the class token first, then the patches row by row
        grid: rows and columns of patches
        names: one for each picture
        start: layer and head shown first, counted from 0; the first query is the class token
    """

    title = "What does a patch look at?"
    hint = "click a patch of the image, then change the head."

    def __init__(
        self,
        images: Sequence[ArrayLike],
        weights: ArrayLike,
        grid: tuple[int, int],
        names: Sequence[str],
        *,
        start: tuple[int, int] = (0, 0),
    ) -> None:
        self.pixels = [drawable(image) for image in images]
        self.weights = np.asarray(weights, dtype=np.float32)
        self.grid, self.names, self.start = grid, list(names), start
        tokens = 1 + grid[0] * grid[1]
        if self.weights.ndim != 5 or self.weights.shape[0] != len(images) or self.weights.shape[3:] != (tokens, tokens):
            raise ValueError(
                f"weights must be ({len(images)} pictures, layers, heads, {tokens} queries, {tokens} keys) for a grid "
                f"of {grid[0]} × {grid[1]}, got {self.weights.shape}"
            )
        if (self.weights < 0).any() or not np.isclose(self.weights.sum(axis=-1), 1, atol=1e-3).all():
            raise ValueError("each row of weights must be a softmax: non-negative, with sum 1")
        if len(self.names) != len(images) or len({pixels.shape for pixels in self.pixels}) != 1:
            raise ValueError(f"need a name for each picture and pictures of one size, got {len(self.names)} names")
        if any(not 0 <= index < size for index, size in zip(start, self.weights.shape[1:3], strict=True)):
            raise ValueError(f"start={start} is outside (layers, heads) = {self.weights.shape[1:3]}")

    def data(self) -> dict[str, object]:
        steps = np.rint(self.weights * 65535).astype("<u2")  # a weight to the nearest 1/65535
        return {
            "weights": {"shape": list(steps.shape), "u2": base64.b64encode(steps.tobytes()).decode()},
            "pictures": [base64.b64encode(pixels.tobytes()).decode() for pixels in self.pixels],
            "size": list(self.pixels[0].shape[:2]),
            "channels": 1 if self.pixels[0].ndim == 2 else 3,
            "grid": list(self.grid),
            "names": self.names,
            "start": list(self.start),
        }

    def text(self) -> str:
        layer, head = self.start
        row = self.weights[0, layer, head, 0]
        best = int(row[1:].argmax())
        return (
            f"Attention of {self.weights.shape[1]} layers with {self.weights.shape[2]} heads each over "
            f"{self.grid[0]} × {self.grid[1]} patches. For the {self.names[0]}, in layer {layer + 1}, head {head + 1}, "
            f"the class token attends most to the patch in row {best // self.grid[1] + 1}, column "
            f"{best % self.grid[1] + 1} ({row[1 + best]:.3f})."
        )
