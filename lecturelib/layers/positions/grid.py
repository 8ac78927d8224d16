"""Positions of patches: a learned vector for every place of a grid, added to the patch that stands there."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def interpolate_positions(table: Tensor, old: tuple[int, int], new: tuple[int, int], *, num_prefix: int = 0) -> Tensor:
    """Stretch a table of positions from one grid of patches to another; the rows of prefix tokens stay as they are.

    Paper: Dosovitskiy et al. 2021 [dosovitskiy2021image], Section 3.2; Touvron et al. 2021 [touvron2021training],
    Section 3, for bicubic rather than bilinear: it keeps the norm of the vectors.
    Differs: nothing.

    Shapes: (1, prefix + old rows · old columns, D) -> (1, prefix + new rows · new columns, D)
    """
    if table.shape[1] != num_prefix + old[0] * old[1]:
        raise ValueError(
            f"a table for {num_prefix} prefix tokens and a grid of {old[0]} × {old[1]} has "
            f"{num_prefix + old[0] * old[1]} rows, got {table.shape[1]}"
        )
    if old == new:
        return table
    prefix, grid = table[:, :num_prefix], table[:, num_prefix:]
    grid = grid.unflatten(1, old).permute(0, 3, 1, 2)  # (1, D, rows, columns)
    grid = F.interpolate(grid.float(), size=new, mode="bicubic", align_corners=False).to(table.dtype)
    return torch.cat((prefix, grid.flatten(2).transpose(1, 2)), dim=1)  # (1, prefix + N, D)


class GridPositions(nn.Module):
    """A learned vector for every patch of a grid, and for every token in front of it; other grids interpolate.

    Paper: Dosovitskiy et al. 2021 [dosovitskiy2021image], Section 3.1 and 3.2.
    Differs: nothing; an image of another size is read with interpolated positions, without being asked.

    Args:
        grid: rows and columns of patches
        d_model: width of a token
        num_prefix: tokens before the patches: 1 for a class token

    Shapes: grid -> (1, prefix + rows · columns, D)
    """

    def __init__(self, grid: tuple[int, int], d_model: int, *, num_prefix: int = 0) -> None:
        super().__init__()
        self.grid, self.num_prefix = grid, num_prefix
        self.weight = nn.Parameter(torch.zeros(1, num_prefix + grid[0] * grid[1], d_model))

    def forward(self, grid: tuple[int, int]) -> Tensor:
        """The table for a grid of this many rows and columns."""
        return interpolate_positions(self.weight, self.grid, grid, num_prefix=self.num_prefix)

    @torch.no_grad()
    def resize_(self, grid: tuple[int, int]) -> None:
        """Make this grid the table's own, before fine-tuning at another resolution; build the optimizer afterwards."""
        self.weight = nn.Parameter(self.forward(grid).clone())
        self.grid = grid
