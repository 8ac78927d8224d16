"""Who is compared with whom: choose a mixer, drag N, and see how many scores it computes."""

import base64
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from lecturelib.figures.explorers.explorer import Explorer


class PatternExplorer(Explorer):
    """A matrix with a filled cell for every score that is computed, for several mixers and lengths.

    Args:
        sizes: lengths N, rising
        patterns: for each mixer by name, a boolean matrix for each length: a row for whoever asks, the N tokens first,
            and a column for whatever is asked, tokens or memory
        about: for each mixer, a sentence on what the columns are
        mixer: the one shown first
    """

    title = "Which pairs are computed?"
    hint = "drag N from left to right with all pairs, then again with Big Bird."

    def __init__(
        self,
        sizes: Sequence[int],
        patterns: Mapping[str, Sequence[Tensor]],
        about: Mapping[str, str],
        *,
        mixer: str | None = None,
    ) -> None:
        if len(sizes) < 2 or list(sizes) != sorted(set(sizes)):
            raise ValueError(f"PatternExplorer: sizes must be two or more, rising, got {list(sizes)}")
        if not patterns or set(patterns) != set(about):
            raise ValueError(
                f"PatternExplorer: every pattern needs its sentence, got {list(patterns)} and {list(about)}"
            )
        for name, matrices in patterns.items():
            fits = len(matrices) == len(sizes) and all(
                matrix.dtype == torch.bool and matrix.dim() == 2 and matrix.shape[0] >= size
                for matrix, size in zip(matrices, sizes, strict=True)
            )
            if not fits:
                shapes = [(matrix.dtype, tuple(matrix.shape)) for matrix in matrices]
                raise ValueError(
                    f"{name!r} needs a boolean matrix with N rows or more for each of {sizes}, got {shapes}"
                )
        self.sizes, self.patterns, self.about = list(sizes), dict(patterns), dict(about)
        self.first = next(iter(patterns)) if mixer is None else mixer
        if self.first not in self.patterns:
            raise ValueError(f"no pattern {mixer!r}; there are {list(patterns)}")

    def count(self, name: str, size: int) -> int:
        """How many scores a mixer computes at a length."""
        return int(self.patterns[name][self.sizes.index(size)].sum())

    def data(self) -> dict[str, object]:
        return {
            "sizes": self.sizes,
            "names": list(self.patterns),
            "about": [self.about[name] for name in self.patterns],
            "first": list(self.patterns).index(self.first),
            "patterns": [
                [{"rows": len(matrix), "columns": matrix.shape[1], "bits": _bits(matrix)} for matrix in matrices]
                for matrices in self.patterns.values()
            ],
        }

    def text(self) -> str:
        small, large = self.sizes[0], self.sizes[-1]
        told = "; ".join(
            f"{name} {self.count(name, small):,} and {self.count(name, large):,}" for name in self.patterns
        )
        return f"Scores computed for N = {small} and N = {large}: {told}."


def _bits(matrix: Tensor) -> str:
    return base64.b64encode(np.packbits(matrix.flatten().numpy()).tobytes()).decode()
