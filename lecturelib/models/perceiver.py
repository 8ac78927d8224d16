"""Perceiver: a fixed number of latent vectors reads an input of any length and any kind."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.checks import check_config, check_heads
from lecturelib.layers.mixers.latents import CrossBlock


@dataclass(frozen=True, kw_only=True)
class PerceiverConfig:
    """The sizes of a Perceiver: `num_blocks` passes through the same `num_layers` blocks of latents."""

    input_dim: int
    num_classes: int
    d_model: int
    num_latents: int
    num_heads: int
    num_layers: int
    num_blocks: int = 1
    cross_heads: int = 1
    widening: int = 1

    def __post_init__(self) -> None:
        names = ("input_dim", "num_classes", "d_model", "num_latents", "num_layers", "num_blocks", "widening")
        check_config(self, sizes=names, dropout=())
        check_heads(self.d_model, self.num_heads, "PerceiverConfig")
        check_heads(self.d_model, self.cross_heads, "PerceiverConfig")


class Perceiver(nn.Module):
    """Latents read the input by cross-attention, mix among themselves, and their mean is classified.

    Paper: Jaegle et al. 2021 [jaegle2021perceiver], Section 3; read once, as in Perceiver IO [jaegle2022perceiver].
    Differs: the input is read once; the first paper reads it again between blocks of latents. The input comes as
    vectors: what turns bytes or pixels into them, positions included, is the caller's.
    """

    def __init__(self, config: PerceiverConfig) -> None:
        super().__init__()
        self.config = config
        d_model, d_ff = config.d_model, config.widening * config.d_model
        self.latents = nn.Parameter(0.02 * torch.randn(config.num_latents, d_model))
        self.read = CrossBlock(d_model, config.input_dim, config.cross_heads, d_ff=d_ff)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(d_model, config.num_heads),
                FeedForward(d_model, d_ff, activation=F.gelu),
                partial(PreNorm, d_model),
            )
            for _ in range(config.num_layers)
        )
        self.head = nn.Linear(d_model, config.num_classes)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits of the classes; `mask` (B, 1, T) says which vectors are real.

        Shapes: inputs (B, T, input_dim) -> (B, classes)
        """
        return self.head(self.features(inputs, mask).mean(dim=1))

    def features(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """What the latents know in the end: (B, T, input_dim) -> (B, num_latents, D)."""
        if inputs.dim() != 3 or inputs.shape[-1] != self.config.input_dim:
            raise ValueError(f"inputs must be (batch, length, {self.config.input_dim}), got {tuple(inputs.shape)}")
        x = self.read(self.latents.repeat(len(inputs), 1, 1), inputs, mask)  # (B, M, D)
        for _ in range(self.config.num_blocks):
            for block in self.blocks:
                x = block(x)
        return x
