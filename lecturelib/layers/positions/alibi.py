"""ALiBi: attention with linear biases, the further the fainter."""

import math

import torch
from torch import Tensor

from lecturelib.layers.attention import AttentionPositions
from lecturelib.layers.positions.relative import query_positions


class ALiBi(AttentionPositions):
    """Subtract from each score the distance between query and key, times a slope that differs between heads.

    Nothing is learned, and nothing stops at the training length: longer texts only meet larger penalties.

    Paper: Press et al. 2022 [press2022train], Section 3.
    Differs: the distance is |i - j|, so that it also serves without a causal mask; with one it is the paper's i - j.
    Slopes for a number of heads that is not a power of two follow the authors' code.

    Args:
        num_heads: one slope for each
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        power = 2 ** math.floor(math.log2(num_heads))
        slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
        slopes += [2 ** (-4 * (2 * h + 1) / power) for h in range(num_heads - power)]
        self.register_buffer("slopes", torch.tensor(slopes), persistent=False)

    def bias(self, positions: Tensor, num_keys: int) -> Tensor:
        """The penalties of queries at `positions`. Shapes: (Tq,) -> (H, Tq, Tk)"""
        distance = (torch.arange(num_keys, device=positions.device) - positions[:, None]).abs()  # (Tq, Tk)
        return -self.slopes[:, None, None] * distance  # (H, Tq, Tk)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """The penalties of these queries and keys, (H, Tq, Tk)."""
        return self.bias(query_positions(query, key), key.shape[-2])
