"""Local windows, and a few memory tokens through which far places talk."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.mixers.band import allowed, band, offsets
from lecturelib.layers.mixers.mixer import SelfMixer


class LocalAttention(SelfMixer):
    """Each token sees those at most `window` steps away, and the memory tokens, which see all.

    Memory tokens are learned. First each reads the whole sequence, then every token reads its window and what the
    memory tokens have read: two far tokens meet in one layer. The cost is T · (2 · window + 1 + 2 · num_memory) scores.

    Paper: Beltagy et al. 2020 [beltagy2020longformer], Section 3.1: a sliding window and global attention.
    Differs: global tokens are extra, learned, and the layer's own, as in the "inducing points" of Lee et al. 2019
    [lee2019set]; Longformer chooses them among the tokens, with projections of their own. Causal, a token sees only
    its window, and memory tokens are refused: they have seen the future.

    Args:
        d_model, num_heads, bias: as in `MultiHeadAttention`
        window: steps to either side
        num_memory: memory tokens; 0 for none

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(self, d_model: int, num_heads: int, *, window: int, num_memory: int = 0, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, bias=bias)
        if window < 1 or num_memory < 0:
            raise ValueError(
                f"LocalAttention: window must be at least 1 and num_memory 0 or more, got {window}, {num_memory}"
            )
        self.window = window
        self.memory_queries = nn.Parameter(torch.randn(num_heads, num_memory, self.head_dim)) if num_memory else None
        self.memory_keys = nn.Parameter(torch.randn(num_heads, num_memory, self.head_dim)) if num_memory else None

    def mix(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, *, is_causal: bool) -> Tensor:
        """Memory reads the sequence; each block of tokens reads itself, its neighbours and the memory."""
        batch, heads, length, _ = q.shape
        block, after = min(self.window, max(length, 1)), not is_causal
        near = offsets(block, after=after, device=q.device).abs() <= self.window  # (block, keys)
        if is_causal:
            near = near.tril(block)
        seen = near & allowed(real, length, heads, block, after=after, device=q.device)  # (.., blocks, block, keys)
        blocks, keys, values = band(q, k, v, block, after=after)
        if self.memory_queries is not None and self.memory_keys is not None:
            if is_causal:
                raise ValueError("memory tokens have read the whole sequence; a causal LocalAttention has num_memory=0")
            asking = self.memory_queries.to(q.dtype).expand(batch, -1, -1, -1)  # (B, H, M, Dh)
            mask = None if real is None else real[:, None, None, :]
            read = F.scaled_dot_product_attention(asking, k, v, attn_mask=mask)  # (B, H, M, Dh)
            named = self.memory_keys.to(k.dtype).expand(batch, -1, -1, -1)  # (B, H, M, Dh)
            many = (-1, blocks.shape[1], -1, -1)  # every block sees the same memory
            keys = torch.cat((keys, named.flatten(0, 1)[:, None].expand(many)), dim=2)
            values = torch.cat((values, read.flatten(0, 1)[:, None].expand(many)), dim=2)
            seen = F.pad(seen, (0, asking.shape[2]), value=True)
        mixed = F.scaled_dot_product_attention(blocks, keys, values, attn_mask=seen)  # (B · H, blocks, block, Dh)
        return mixed.flatten(1, 2)[:, :length].unflatten(0, (batch, heads))  # (B, H, T, Dh)
