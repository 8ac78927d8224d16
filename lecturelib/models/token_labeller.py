"""A label for every token, by blocks with any mixer: where mixers are compared on equal terms."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.checks import check_config, check_lengths, check_tokens
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.positions.added import LearnedPositions


@dataclass(frozen=True, kw_only=True)
class TokenLabellerConfig:
    """The sizes of a TokenLabeller; `d_ff` is 4 · d_model when left out."""

    vocab_size: int
    num_labels: int
    max_len: int
    d_model: int
    num_layers: int
    d_ff: int | None = None
    dropout: float = 0.0
    is_causal: bool = False

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "num_labels", "max_len", "d_model", "num_layers")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"))


class TokenLabeller(nn.Module):
    """Embed tokens and positions, mix them in pre-norm blocks, and give each token's label.

    Differs: not from a paper; it is a small pre-norm encoder whose mixer is a part:

        TokenLabeller(config, lambda: Performer(config.d_model, num_heads=4))

    Args:
        config: the sizes
        mixer: makes a layer's mixer: `MultiHeadAttention`, or one of `lecturelib.layers.mixers`
    """

    def __init__(self, config: TokenLabellerConfig, mixer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        self.token_embedding = nn.Embedding(config.vocab_size, d_model)
        self.positions = LearnedPositions(config.max_len, d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                mixer(),
                FeedForward(d_model, config.d_ff or 4 * d_model, activation=F.gelu),
                partial(PreNorm, d_model, dropout=config.dropout),
            )
            for _ in range(config.num_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, config.num_labels)
        nn.init.normal_(self.token_embedding.weight, std=0.02)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits of each token's label; `lengths` (B,) are the real tokens in each row, and padding gets zeros.

        Shapes: tokens (B, T) -> (B, T, labels)
        """
        check_tokens(tokens, self.config.vocab_size)
        if tokens.shape[1] > self.config.max_len:
            raise ValueError(f"a text of {tokens.shape[1]} tokens is longer than max_len={self.config.max_len}")
        mask = None
        if lengths is not None:
            check_lengths(lengths, *tokens.shape)
            mask = padding_mask(lengths, tokens.shape[1])  # (B, 1, T)
        x = self.token_embedding(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        x = self.dropout(x)  # (B, T, D)
        for block in self.blocks:
            x = block(x, mask, is_causal=self.config.is_causal)
        logits = self.head(self.norm(x))
        return logits if mask is None else logits * mask.transpose(1, 2)  # (B, T, labels)
