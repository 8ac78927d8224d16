"""Positions on a grid as sines and cosines of several frequencies, put beside what stands there."""

import torch
from torch import Tensor


def fourier_positions(grid: tuple[int, ...], num_bands: int, *, device: torch.device | str | None = None) -> Tensor:
    """Describe every point of a grid by its coordinates, from −1 to 1, and by waves of each of them.

    The slowest wave makes one turn from border to border, the fastest half a turn from each point to the next. Nothing
    is learned, and there is no longest side.

    Paper: Jaegle et al. 2021 [jaegle2021perceiver], Section 3.2.
    Differs: nothing; the fastest wave is that of the grid itself (their μ is the number of points along a side).

    Args:
        grid: points along each side
        num_bands: waves of each coordinate, their frequencies equally far apart

    Shapes: -> (N, dims · (1 + 2 · num_bands)), points row by row: first all coordinates, then sines, then cosines
    """
    if not grid or min(grid) < 1 or num_bands < 1:
        raise ValueError(f"need at least one point on each side and one band, got grid={grid}, num_bands={num_bands}")
    sides = [torch.linspace(-1, 1, side, device=device) for side in grid]
    where = torch.stack(torch.meshgrid(*sides, indexing="ij"), dim=-1).flatten(0, -2)  # (N, dims)
    rates = torch.stack([torch.linspace(1, side / 2, num_bands, device=device) for side in grid])  # (dims, bands)
    angles = (torch.pi * where[..., None] * rates).flatten(1)  # (N, dims · bands)
    return torch.cat((where, angles.sin(), angles.cos()), dim=1)
