"""Positions within a window of a grid: a learned number for every offset between two of its patches."""

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import AttentionPositions
from lecturelib.layers.initialisation import truncated_normal_


class WindowBias(AttentionPositions):
    """Add to each score a learned number for its head and for the offset between the two patches.

    Paper: Liu et al. 2021 [liu2021swin], Equation 4.
    Differs: nothing.

    Args:
        num_heads: one number per offset for each
        window: rows and columns
    """

    index: Tensor

    def __init__(self, num_heads: int, window: tuple[int, int]) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros((2 * window[0] - 1) * (2 * window[1] - 1), num_heads))
        self.register_buffer("index", relative_index(window), persistent=False)
        truncated_normal_(self.table)

    def bias(self) -> Tensor:
        """The learned numbers for all pairs of a window. Shapes: -> (H, T, T)"""
        return self.table[self.index.flatten()].unflatten(0, self.index.shape).permute(2, 0, 1)  # (H, T, T)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """The same for all queries and keys."""
        return self.bias()


def relative_index(window: tuple[int, int]) -> Tensor:
    """For each pair of patches of a window, which of the (2h - 1)(2w - 1) offsets lies between them.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.2.
    Differs: nothing; the offset is query minus key, rows first, and the most negative one is number 0.

    Shapes: -> (T, T), T = h · w
    """
    height, width = window
    row, column = torch.arange(height).repeat_interleave(width), torch.arange(width).repeat(height)  # (T,) each
    down = row[:, None] - row + height - 1  # (T, T), 0 ... 2h - 2
    across = column[:, None] - column + width - 1
    return down * (2 * width - 1) + across
