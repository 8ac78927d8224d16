"""A shared workspace: tokens compete to write into a few slots, and all read what was written."""

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import Memory, MultiHeadAttention
from lecturelib.layers.checks import check_heads
from lecturelib.layers.mixers.mixer import check_alone, real_keys


class SharedWorkspace(nn.Module):
    """Slots are written by the few tokens that win the competition for them, and are then read by every token.

    Each slot is a query. Of its scores only the `num_writers` highest enter the softmax: the other tokens do not write.
    A gate decides how much of the slot's old content stays. Then every token reads the slots: 2 · T · M scores.

    Paper: Goyal et al. 2022 [goyal2022coordination], Section 2.1.
    Differs: the slots start from learned vectors in every layer; the authors' code starts them as rows of the identity
    and hands them on from layer to layer. Losing scores are left out before the softmax; there, after it and without
    dividing again. Both gates, input and forget, are computed from the slot and what is written to it; there from the
    slot and a mean over all tokens, the forget gate with a bias of 1. No feed-forward net follows for the slots.

    Args:
        d_model: width of tokens and slots
        num_heads: must divide d_model
        num_slots: M
        num_writers: tokens that may write into a slot, for each head

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(self, d_model: int, num_heads: int, *, num_slots: int, num_writers: int) -> None:
        super().__init__()
        check_heads(d_model, num_heads, "SharedWorkspace")
        if num_slots < 1 or num_writers < 1:
            raise ValueError(
                f"SharedWorkspace: num_slots and num_writers must be at least 1, got {num_slots} and {num_writers}"
            )
        self.num_writers = num_writers
        self.slots = nn.Parameter(torch.randn(num_slots, d_model) / d_model**0.5)
        self.write = _Competition(d_model, num_heads)
        self.gates = nn.Linear(2 * d_model, 2 * d_model)
        self.read = MultiHeadAttention(d_model, num_heads)

    def forward(
        self,
        x: Tensor,
        key: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Memory | None = None,
    ) -> Tensor:
        """Write, gate, broadcast; `mask` (B, 1, T) says which tokens are real."""
        check_alone("SharedWorkspace", key, cache)
        if is_causal:
            raise ValueError("SharedWorkspace lets every token see later ones; it cannot be causal")
        real = real_keys("SharedWorkspace", mask, *x.shape[:2])
        slots = self.slots.repeat(len(x), 1, 1)  # (B, M, D)
        written = self.write(slots, x, mask=self.winners(x, real))
        keep, take = self.gates(torch.cat((slots, written), dim=-1)).sigmoid().chunk(2, dim=-1)  # (B, M, D) each
        slots = keep * slots + take * written.tanh()
        return self.read(x, slots)  # (B, T, D)

    def winners(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Which tokens write into which slot: boolean (B, H, M, T), `num_writers` True in each row, fewer if T is."""
        scores = self.write.scores(self.slots.repeat(len(x), 1, 1), x)  # (B, H, M, T)
        if real is not None:
            scores = scores.masked_fill(~real[:, None, None], float("-inf"))
        best = scores.topk(min(self.num_writers, x.shape[1]), dim=-1).indices  # (B, H, M, writers)
        won = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, torch.ones_like(best, dtype=torch.bool))
        return won if real is None else won & real[:, None, None]


class _Competition(MultiHeadAttention):
    """Cross-attention that can also show its scores."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """How well each query likes each key, without gradient: (B, M, D), (B, T, D) -> (B, H, M, T)."""
        with torch.no_grad():
            q, k = self._split(self.query_proj(query)), self._split(self.key_proj(key))
            return q @ k.transpose(-2, -1)
