"""Big Bird: blocks of tokens see their neighbours, a few blocks by chance, and two that everyone sees."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.layers.mixers.mixer import SelfMixer, in_blocks


class BigBird(SelfMixer):
    """Attention in blocks: a window of three, `num_random` drawn by chance, and the first and the last for all.

    The first and the last block see everything and are seen by everyone. Every other block sees itself, its two
    neighbours, those two, and its random ones. In all these are about T · block · (7 + num_random) scores.

    Paper: Zaheer et al. 2020 [zaheer2020big], Section 2 and Appendix D (the internal construction, BigBird-ITC).
    Differs: nothing. Random blocks are drawn when the layer is built, for each head its own. transformers does the
    same in training, and in evaluation sends every random link to the first block.

    Args:
        d_model, num_heads, bias: as in `MultiHeadAttention`
        max_len: of the longest sequence
        block: tokens in a block
        num_random: random blocks of each block

    Shapes: (B, T, D) -> (B, T, D)
    """

    can_be_causal = False
    lots: Tensor

    def __init__(
        self, d_model: int, num_heads: int, *, max_len: int, block: int = 64, num_random: int = 3, bias: bool = True
    ) -> None:
        super().__init__(d_model, num_heads, bias=bias)
        if min(max_len, block) < 1 or num_random < 0:
            raise ValueError(
                f"BigBird: max_len and block must be at least 1 and num_random 0 or more, got max_len={max_len}, "
                f"block={block}, num_random={num_random}"
            )
        self.max_len, self.block, self.num_random = max_len, block, num_random
        most = math.ceil(max_len / block)
        self.register_buffer("lots", torch.rand(num_heads, most, most))  # a block takes those with the highest lots

    def links(self, length: int) -> tuple[Tensor, Tensor]:
        """The blocks that each block but the first and last sees, and which of these links count.

        Shapes: -> indices (H, blocks - 2, 5 + random), and booleans alike: a block that is seen already does not
        count again, nor does one that is not there
        """
        if length > self.max_len:
            raise ValueError(f"BigBird was built for max_len={self.max_len}, got a sequence of {length}")
        count = math.ceil(length / self.block)
        device = self.lots.device
        own = torch.arange(1, count - 1, device=device)[:, None]  # (blocks - 2, 1)
        last = torch.full_like(own, count - 1)
        fixed = torch.cat((own - 1, own, own + 1, torch.zeros_like(own), last), dim=1)  # (blocks - 2, 5)
        counts = torch.ones_like(fixed, dtype=torch.bool)
        counts[:, 3], counts[:, 4] = (own != 1).squeeze(1), (own != count - 2).squeeze(1)
        every = torch.arange(count, device=device)
        taken = (every[None] - own).abs().le(1) | (every == 0) | (every == count - 1)  # (blocks - 2, blocks)
        lots = self.lots[:, 1 : count - 1, :count].masked_fill(taken, -1.0)
        drawn = lots.topk(min(self.num_random, count), dim=-1)  # (H, blocks - 2, random)
        heads = len(self.lots)
        chosen = torch.cat((fixed.expand(heads, -1, -1), drawn.indices), dim=-1)
        return chosen, torch.cat((counts.expand(heads, -1, -1), drawn.values >= 0), dim=-1)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, *, is_causal: bool) -> Tensor:
        """The two ends attend to all; every block between attends to the blocks that it is linked to."""
        batch, heads, length, _ = q.shape
        count = math.ceil(length / self.block)
        whole = None if real is None else real[:, None, None, :]  # (B, 1, 1, T)
        if count <= 2:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=whole)
        chosen, counts = self.links(length)  # (H, n, links), n = blocks - 2
        if length % self.block or real is not None:
            real = torch.ones(batch, length, dtype=torch.bool, device=q.device) if real is None else real
            known = in_blocks(real[..., None].byte(), self.block).squeeze(-1).bool()  # (B, blocks, block)
            seen = known[:, chosen] & counts[..., None]  # (B, H, n, links, block)
        else:
            seen = counts[None, ..., None].expand(-1, -1, -1, -1, self.block)
        keys, values = in_blocks(k, self.block), in_blocks(v, self.block)  # (B, H, blocks, block, Dh)
        head = torch.arange(heads, device=q.device)[:, None, None]
        keys, values = (x[:, head, chosen].flatten(3, 4).flatten(1, 2) for x in (keys, values))  # (B, H·n, keys, Dh)
        between = in_blocks(q, self.block)[:, :, 1:-1].flatten(1, 2)  # (B, H · n, block, Dh)
        mask = seen.flatten(3, 4).flatten(1, 2)[:, :, None]  # (1 or B, H · n, 1, keys)
        mixed = F.scaled_dot_product_attention(between, keys, values, attn_mask=mask)
        mixed = mixed.unflatten(1, (heads, -1)).flatten(2, 3)  # (B, H, n · block, Dh)
        tail = (count - 1) * self.block
        ends = torch.cat((q[:, :, : self.block], q[:, :, tail:]), dim=2)
        ends = F.scaled_dot_product_attention(ends, k, v, attn_mask=whole)
        return torch.cat((ends[:, :, : self.block], mixed, ends[:, :, self.block :]), dim=2)  # (B, H, T, Dh)
