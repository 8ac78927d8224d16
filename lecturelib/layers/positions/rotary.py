"""Rotary positions (RoPE): queries and keys are turned, so that their dot product depends on their distance."""

import torch
from torch import Tensor

from lecturelib.layers.attention import AttentionPositions
from lecturelib.layers.positions.added import frequencies


class RotaryPositions(AttentionPositions):
    """Turn each pair of a query's and a key's features by an angle that grows with its position.

    The dot product of two turned vectors depends on the difference of the angles only: on how far apart they are.

    Paper: Su et al. 2021 [su2021roformer], Equation 34.
    Differs: nothing. Pairs are neighbouring features (0, 1), (2, 3), … as in the paper and in GGUF files; the hub's
    checkpoints pair feature i with feature i + Dh / 2, the same up to the order of rows: `pair_neighbours`. Angles are
    computed in float32, whatever the precision of the model, as in LLaMA's code.

    Args:
        head_dim: width of one head, even
        base: the slowest hand turns by about 1 / base radians a step
    """

    def __init__(self, head_dim: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"head_dim must be even, features turn in pairs, got {head_dim}")
        self.head_dim, self.base = head_dim, base

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn queries or keys by their positions.

        Shapes: heads (B, H, T, Dh), positions (T,) -> (B, H, T, Dh)
        """
        if heads.shape[-1] != self.head_dim:
            raise ValueError(f"RotaryPositions was built for heads of width {self.head_dim}, got {heads.shape[-1]}")
        angles = positions[..., None] * frequencies(self.head_dim, self.base, device=heads.device)  # (T, Dh / 2)
        cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        even, odd = heads[..., 0::2], heads[..., 1::2]  # (B, H, T, Dh / 2) each
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)  # (B, H, T, Dh / 2, 2)
        return turned.flatten(-2)  # (B, H, T, Dh)


def pair_neighbours(rows: Tensor, head_dim: int) -> Tensor:
    """Bring the rows of a query or key projection that pairs i with i + Dh / 2 into an order that pairs neighbours.

    Queries and keys reordered alike have the same dot products, so that attention is the same. Without this a model
    runs and writes nonsense: the two layouts cannot be told from the shapes.

    Shapes: (H · Dh, ...) -> (H · Dh, ...)
    """
    halves = rows.unflatten(0, (-1, 2, head_dim // 2))  # (H, 2, Dh / 2, ...)
    return halves.transpose(1, 2).reshape(rows.shape)
