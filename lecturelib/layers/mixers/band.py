"""A band around the diagonal, in blocks: what attention to near tokens only, local or of a learned span, computes."""

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.layers.mixers.mixer import in_blocks


def beside(blocks: Tensor, *, after: bool) -> Tensor:
    """Each block with the one before it and, if `after`, the one after it; zeros beyond both ends.

    Shapes: (..., blocks, block, D) -> (..., blocks, 2 or 3 · block, D)
    """
    padded = F.pad(blocks, (0, 0, 0, 0, 1, 1))  # (..., blocks + 2, block, D)
    parts = [padded[..., :-2, :, :], blocks] + ([padded[..., 2:, :, :]] if after else [])
    return torch.cat(parts, dim=-2)


def offsets(block: int, *, after: bool, device: torch.device) -> Tensor:
    """How far each key that `beside` lays out stands after each query: (block, 2 or 3 · block)."""
    keys = torch.arange(-block, 2 * block if after else block, device=device)
    return keys - torch.arange(block, device=device)[:, None]


def inside(length: int, block: int, *, after: bool, device: torch.device) -> Tensor:
    """Which keys that `beside` lays out are tokens of the sequence: (blocks, 1, 2 or 3 · block)."""
    real = torch.ones(length, 1, dtype=torch.bool, device=device)
    return beside(in_blocks(real.byte(), block), after=after).bool().transpose(-2, -1)


def band(q: Tensor, k: Tensor, v: Tensor, block: int, *, after: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Queries in blocks, and the keys and values beside each block, with batch and heads in one axis.

    Shapes: (B, H, T, D) -> (B · H, blocks, block, D), and twice (B · H, blocks, 2 or 3 · block, D)
    """
    q, k, v = (in_blocks(x.flatten(0, 1), block) for x in (q, k, v))  # (B · H, blocks, block, D)
    return q, beside(k, after=after), beside(v, after=after)


def allowed(real: Tensor | None, length: int, heads: int, block: int, *, after: bool, device: torch.device) -> Tensor:
    """Which of the keys beside each block are real tokens: (1 or B · H, blocks, 1, 2 or 3 · block)."""
    if real is None:
        return inside(length, block, after=after, device=device)[None]
    near = beside(in_blocks(real[..., None].byte(), block), after=after).bool()  # (B, blocks, 2 or 3 · block, 1)
    return near.transpose(-2, -1).repeat_interleave(heads, dim=0)
