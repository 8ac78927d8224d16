"""Why scores are divided by √d: turn the width, the scaling and the temperature, and watch the softmax."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from lecturelib.figures.explorers.explorer import Explorer, pack
from lecturelib.layers.attention import dot_product_attention

Scaling = Literal["none", "1/√d", "1/d"]
SCALINGS: tuple[Scaling, ...] = ("none", "1/√d", "1/d")


class SoftmaxExplorer(Explorer):
    """One query and a few keys with standard normal entries, cut to width d, scaled, and put through softmax.

    Args:
        widths: the values of d the slider offers
        num_keys: how many keys share the attention
        seed: of the draw
    """

    title = "Why divide by √d?"
    hint = "switch to 1/√d and raise d."

    def __init__(
        self, widths: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512), num_keys: int = 6, *, seed: int = 0
    ) -> None:
        if not widths or min(widths) < 1 or num_keys < 2:
            raise ValueError(f"need widths of at least 1 and at least 2 keys, got widths={widths}, num_keys={num_keys}")
        generator = torch.Generator().manual_seed(seed)
        self.widths = list(widths)
        self.query = torch.randn(1, max(widths), generator=generator, dtype=torch.float64)  # (1, D)
        self.keys = torch.randn(num_keys, max(widths), generator=generator, dtype=torch.float64)  # (Tk, D)

    def weights(self, width: int, scaling: Scaling = "1/√d", temperature: float = 1.0) -> Tensor:
        """The (Tk,) attention weights the explorer shows for one setting, from `dot_product_attention`."""
        scale = {"none": 1.0, "1/√d": 1 / math.sqrt(width), "1/d": 1 / width}[scaling] / temperature
        query, keys = self.query[:, :width], self.keys[:, :width]
        _, weights = dot_product_attention(query, keys, keys, scale=scale, need_weights=True)
        return weights[0]  # (Tk,)

    def data(self) -> dict[str, object]:
        scores = [(self.keys[:, :width] @ self.query[0, :width]).tolist() for width in self.widths]
        return {"widths": self.widths, "scores": pack(scores), "scalings": list(SCALINGS)}

    def text(self) -> str:
        wide = self.widths[-1]
        raw, scaled = float(self.weights(wide, "none").max()), float(self.weights(wide, "1/√d").max())
        return (
            f"Softmax over {len(self.keys)} keys of width {wide}: without scaling the largest weight is {raw:.3f}, "
            f"with 1/√d it is {scaled:.3f}."
        )
