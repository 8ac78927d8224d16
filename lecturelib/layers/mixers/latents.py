"""Perceiver's mixer: a few latent vectors read a long input, think among themselves, and answer."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import Memory, MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.mixers.mixer import check_alone, real_keys


class CrossBlock(nn.Module):
    """One set of vectors reads another: pre-norm cross-attention on the readers' stream, then a feed-forward net.

    Paper: Jaegle et al. 2021 [jaegle2021perceiver], Section 3.1 and Appendix; Jaegle et al. 2022 [jaegle2022perceiver].
    Differs: nothing.

    Args:
        d_model: width of the readers
        kv_dim: width of what is read
        num_heads: must divide d_model
        d_ff: of the feed-forward net; d_model when left out, as in the paper

    Shapes: readers (B, M, D), source (B, T, kv_dim) -> (B, M, D)
    """

    def __init__(self, d_model: int, kv_dim: int, num_heads: int, *, d_ff: int | None = None) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, kv_dim=kv_dim)
        self.attention_wiring, self.source_norm = PreNorm(d_model), nn.LayerNorm(kv_dim)
        self.feed_forward = FeedForward(d_model, d_ff or d_model, activation=F.gelu)
        self.feed_forward_wiring = PreNorm(d_model)

    def forward(self, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """Read `source`, of which `mask` (B, 1, T) says what may be read."""
        around = self.attention_wiring
        x = around.join(x, self.attention(around.enter(x), self.source_norm(source), mask=mask))
        around = self.feed_forward_wiring
        return around.join(x, self.feed_forward(around.enter(x)))


class LatentMixing(nn.Module):
    """Tokens talk through M latent vectors: these read the tokens, mix among themselves, and the tokens read them.

    The cost is 2 · T · M + num_layers · M · M scores, whatever the length.

    Paper: Jaegle et al. 2022 [jaegle2022perceiver] (Perceiver IO), Section 3: read, process, and write by queries.
    Differs: the queries that read the answer out are the tokens themselves, so that it fits in a `Block`.

    Args:
        d_model: width of tokens and latents
        num_heads: must divide d_model
        num_latents: M
        num_layers: blocks among the latents

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(self, d_model: int, num_heads: int, *, num_latents: int, num_layers: int = 1) -> None:
        super().__init__()
        if num_latents < 1 or num_layers < 0:
            raise ValueError(
                "LatentMixing: num_latents must be at least 1 and num_layers 0 or more, "
                f"got {num_latents} and {num_layers}"
            )
        self.latents = nn.Parameter(0.02 * torch.randn(num_latents, d_model))
        self.read = CrossBlock(d_model, d_model, num_heads)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(d_model, num_heads),
                FeedForward(d_model, d_model, activation=F.gelu),
                partial(PreNorm, d_model),
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.answer = MultiHeadAttention(d_model, num_heads)

    def forward(
        self,
        x: Tensor,
        key: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Memory | None = None,
    ) -> Tensor:
        """Read, think, answer; `mask` (B, 1, T) says which tokens are real."""
        check_alone("LatentMixing", key, cache)
        if is_causal:
            raise ValueError("LatentMixing lets every token see later ones; it cannot be causal")
        real_keys("LatentMixing", mask, *x.shape[:2])
        latents = self.read(self.latents.repeat(len(x), 1, 1), x, mask)  # (B, M, D)
        for block in self.blocks:
            latents = block(latents)
        return self.answer(x, self.norm(latents))  # (B, T, D)
