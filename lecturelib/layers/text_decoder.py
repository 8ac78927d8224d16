"""A decoder that writes text about something it can look at: a source sentence, the regions of an image."""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import FeedForward, PreNorm
from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.checks import check_ids, check_tokens
from lecturelib.layers.decoder_block import DecoderBlock
from lecturelib.layers.positions.added import SinusoidalPositions


@dataclass(frozen=True)
class WritingState:
    """What is looked at, and the keys and values of all that has been written."""

    memory: Tensor  # (B, N, kv_dim)
    cache: KeyValueCache

    def select(self, index: Tensor) -> "WritingState":
        """Take the rows `index` of the batch."""
        return WritingState(self.memory.index_select(0, index), self.cache.select(index))


class TextDecoder(nn.Module):
    """Words look back at the words before them and across at a memory: all at once in training, or one by one.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.1, the right half of its Figure 1.
    Differs: pre-norm [xiong2020layer], with a norm after the last block. As in `Transformer`, one matrix embeds the
    words and scores the output, matrices start Xavier-uniform, and the projections have biases.

    Args:
        vocab_size: words to choose from
        d_model: width of a word
        num_heads: of either attention; must divide d_model
        num_layers: blocks
        d_ff: width of the feed-forward nets
        kv_dim: width of the memory's vectors; d_model when left out
        dropout: of the embedded words and of every sublayer's output

    Shapes: tokens (B, T), memory (B, N, kv_dim) -> logits (B, T, V)
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        *,
        num_layers: int,
        d_ff: int,
        kv_dim: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocab_size, self.d_model = vocab_size, d_model
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = SinusoidalPositions(d_model)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            DecoderBlock(
                MultiHeadAttention(d_model, num_heads),
                MultiHeadAttention(d_model, num_heads, kv_dim=kv_dim),
                FeedForward(d_model, d_ff),
                partial(PreNorm, d_model, dropout=dropout),
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        """Score every next word at once, given the right ones before it (teacher forcing)."""
        check_tokens(tokens, self.vocab_size, "target_in", batch=len(memory))
        x = self._embed(tokens, torch.arange(tokens.shape[1], device=tokens.device))  # (B, T, D)
        for block in self.blocks:
            x = block(x, memory, is_causal=True)
        return self.head(self.norm(x))

    def head(self, x: Tensor) -> Tensor:
        """Compare with every word's embedding: (..., D) -> (..., V)."""
        return F.linear(x, self.embedding.weight)

    def start(self, memory: Tensor) -> WritingState:
        """Before the first word: (B, N, kv_dim) -> state."""
        return WritingState(memory, KeyValueCache())

    @torch.no_grad()
    def step(self, tokens: Tensor, state: WritingState) -> tuple[Tensor, WritingState]:
        """Read one more word in every row, the first being the begin symbol.

        Shapes: tokens (B,) -> logits of the next one (B, V), state
        """
        rows = len(state.memory)
        if tokens.shape != (rows,):
            raise ValueError(f"tokens must be ({rows},) token ids, one for each row, got {tuple(tokens.shape)}")
        check_ids(tokens, self.vocab_size)
        cache = state.cache.extend(1, rows)
        x = self._embed(tokens[:, None], cache.positions(tokens.device))  # (B, 1, D)
        for layer, block in enumerate(self.blocks):
            x = block(x, state.memory, cache=cache[layer])
        return self.head(self.norm(x[:, 0])), replace(state, cache=cache)

    def _embed(self, tokens: Tensor, where: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.d_model)
        return self.dropout(x + self.positions(where).to(x.dtype))  # (B, T, D)


class Captioner(nn.Module):
    """Put into words what an encoder makes of an image: a `TextDecoder` looks at its regions or patches.

    Differs: nothing; it is bookkeeping, not from a paper.

    Args:
        encoder: images (B, channels, height, width) -> (B, N, kv_dim)
        decoder: of the same kv_dim

    Shapes: images (B, channels, height, width), target_in (B, T) -> logits (B, T, V)
    """

    def __init__(self, encoder: nn.Module, decoder: TextDecoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, images: Tensor, target_in: Tensor) -> Tensor:
        """Teacher forcing: the logits of the next word at every position of the caption."""
        return self.decoder(target_in, self.encoder(images))

    @torch.no_grad()
    def start(self, images: Tensor) -> WritingState:
        """Read the image: (B, channels, height, width) -> the state before the first word."""
        return self.decoder.start(self.encoder(images))

    def step(self, tokens: Tensor, state: WritingState) -> tuple[Tensor, WritingState]:
        """One word a row: (B,) -> logits of the next (B, V), and the state after it."""
        return self.decoder.step(tokens, state)
