"""Adaptive span: every head learns how far back it needs to look."""

import math

import torch
from torch import Tensor, nn

from lecturelib.layers.mixers.band import allowed, band, offsets
from lecturelib.layers.mixers.mixer import SelfMixer
from lecturelib.layers.precision import precise


class AdaptiveSpan(SelfMixer):
    """Each head sees up to its own span z, past which weights fall to zero over a ramp of R tokens.

    A weight at distance x is multiplied by min(max((R + z - x) / R, 0), 1), and the weights are normalised again. The
    spans are parameters; add a multiple of `spans.mean()` to the loss, and heads that need no reach give it up. A band
    of `reach` tokens is computed, max_span + ramp - 1 at first; `trim` narrows it to what the longest span needs.

    Paper: Sukhbaatar et al. 2019 [sukhbaatar2019adaptive], Section 2.2.
    Differs: no relative positions of its own. Where not causal, which the paper is not about, the span counts to both
    sides.

    Args:
        d_model, num_heads, bias: as in `MultiHeadAttention`
        max_span: S, the longest that can be learned
        ramp: R
        start: the spans' first value

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(
        self, d_model: int, num_heads: int, *, max_span: int, ramp: int = 32, start: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__(d_model, num_heads, bias=bias)
        if max_span < 1 or ramp < 1 or not 0 <= start <= max_span:
            raise ValueError(
                f"AdaptiveSpan: max_span and ramp must be at least 1 and start between 0 and max_span, got "
                f"max_span={max_span}, ramp={ramp}, start={start}"
            )
        self.max_span, self.ramp, self.reach = max_span, ramp, max_span + ramp - 1  # beyond, weights are zero
        self.fractions = nn.Parameter(torch.full((num_heads,), start / max_span))  # of max_span

    @property
    def spans(self) -> Tensor:
        """z of each head, in tokens: (H,)."""
        return self.fractions.clamp(0.0, 1.0) * self.max_span

    def trim(self) -> int:
        """Compute no more than the longest span of now needs, and return how far that is; see `reach`."""
        self.reach = max(1, math.ceil(float(self.spans.detach().max())) + self.ramp - 1)
        return self.reach

    def mix(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, *, is_causal: bool) -> Tensor:
        """Scores in a band, a softmax, the ramps, and weights that sum to one again."""
        batch, heads, length, head_dim = q.shape
        block, after = max(1, min(self.reach, length)), not is_causal
        blocks, keys, values = band(q, k, v, block, after=after)
        apart = offsets(block, after=after, device=q.device)  # (block, keys)
        soft = ((self.ramp + self.spans[:, None, None] - apart.abs()) / self.ramp).clamp(0.0, 1.0)  # (H, block, keys)
        seen = allowed(real, length, heads, block, after=after, device=q.device)
        seen = seen & (apart <= 0) if is_causal else seen  # (1 or B · H, blocks, block or 1, keys)
        scores = precise(blocks @ keys.transpose(-2, -1)) / math.sqrt(head_dim)
        scores = scores.masked_fill(~seen, -1e30)
        weights = scores.softmax(dim=-1) * soft.repeat(batch, 1, 1)[:, None] * seen  # (B · H, blocks, block, keys)
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-8)
        mixed = (weights.to(values.dtype) @ values).flatten(1, 2)[:, :length]
        return mixed.unflatten(0, (batch, heads))  # (B, H, T, Dh)
