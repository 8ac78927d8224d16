"""Positions as vectors that a model adds to its token embeddings: fixed waves, or a learned table."""

import torch
from torch import Tensor, nn


def frequencies(
    dim: int, base: float = 10_000.0, *, device: torch.device | None = None, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Angles per step of dim / 2 clock hands, from 1 radian down to nearly 1 / base: base^(-2i / dim).

    Shapes: (dim / 2,), in float64 if `dtype` is that, else in float32: half of it would not tell far positions apart
    """
    return 1.0 / base ** (torch.arange(0, dim, 2, device=device, dtype=torch.promote_types(dtype, torch.float32)) / dim)


class SinusoidalPositions(nn.Module):
    """Write a position as sines and cosines of D / 2 frequencies, from fast to slow, like the bits of a counter.

    A shift by k steps is a rotation of each (sine, cosine) pair, the same one at every position.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.5; the authors' later code puts all sines first.
    Differs: nothing; there is no table, so no longest position.

    Shapes: positions (..., T) -> (..., T, D)
    """

    def __init__(self, d_model: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if d_model < 2 or d_model % 2:
            raise ValueError(f"d_model must be even, a sine and a cosine for each frequency, got {d_model}")
        self.d_model, self.base = d_model, base
        self.register_buffer("precision", torch.empty(0), persistent=False)  # its type is that of the model

    def forward(self, positions: Tensor) -> Tensor:
        """One vector for each position, in float32; in float64 in a model of that precision."""
        hands = frequencies(self.d_model, self.base, device=positions.device, dtype=self.get_buffer("precision").dtype)
        angles = positions[..., None] * hands  # (..., T, D / 2)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # (..., T, D)


class LearnedPositions(nn.Module):
    """Look a position's vector up in a table that is trained like any embedding; past `max_len` there is none.

    Paper: Gehring et al. 2017 [gehring2017convolutional], Section 3.1; used by GPT and BERT.
    Differs: nothing.

    Shapes: positions (..., T) -> (..., T, D)
    """

    def __init__(self, max_len: int, d_model: int, *, std: float = 0.02) -> None:
        super().__init__()
        self.max_len, self.d_model = max_len, d_model
        self.weight = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.weight, std=std)

    def forward(self, positions: Tensor) -> Tensor:
        """One row of the table for each position."""
        return nn.functional.embedding(positions, self.weight)
