"""The transformer of 2017: an encoder reads the source at once, a decoder writes the target word by word."""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import WIRINGS, Block, FeedForward
from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.checks import check_config, check_heads, check_ids, check_lengths, check_tokens
from lecturelib.layers.decoder_block import DecoderBlock
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.positions.added import LearnedPositions, SinusoidalPositions


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes of an encoder-decoder; `wiring` is a name in `lecturelib.layers.WIRINGS`."""

    vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    num_layers: int = 6
    d_ff: int = 2048
    dropout: float = 0.1
    wiring: str = "post_norm"

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "d_model", "num_heads", "num_layers", "d_ff")
        check_config(self, sizes=sizes)
        check_heads(self.d_model, self.num_heads, "TransformerConfig")
        if self.wiring not in WIRINGS:
            raise ValueError(f"TransformerConfig: wiring must be one of {sorted(WIRINGS)}, got {self.wiring!r}")


TRANSFORMER_BASE = TransformerConfig(vocab_size=37_000)
TRANSFORMER_BIG = replace(TRANSFORMER_BASE, d_model=1024, num_heads=16, d_ff=4096, dropout=0.3)


@dataclass(frozen=True)
class TransformerState:
    """The source as the encoder gave it, and what the decoder has read of the target."""

    memory: Tensor  # (B, S, D)
    mask: Tensor | None  # (B, 1, S)
    cache: KeyValueCache

    def select(self, index: Tensor) -> "TransformerState":
        """Take the rows `index` of the batch."""
        mask = None if self.mask is None else self.mask.index_select(0, index)
        return TransformerState(self.memory.index_select(0, index), mask, self.cache.select(index))


class Transformer(nn.Module):
    """Translate one sequence into another with attention alone.

    Paper: Vaswani et al. 2017 [vaswani2017attention]. One matrix embeds source and target and scores the output; its
    rows are multiplied by sqrt(d_model) on the way in.
    Differs: nothing, wired "post_norm" and with the default positions. Matrices start Xavier-uniform and embeddings
    normal with deviation 1 / sqrt(d_model), as in the authors' code. Wired "pre_norm", encoder and decoder end in a
    norm each. The projections of attention have biases, which the paper's equations leave out.

    Args:
        config: sizes, or a preset: TRANSFORMER_BASE, TRANSFORMER_BIG
        positions: added to the embeddings; `SinusoidalPositions` when left out, or `LearnedPositions`
    """

    def __init__(self, config: TransformerConfig, *, positions: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        d_model, num_heads, dropout = config.d_model, config.num_heads, config.dropout
        self.embedding = nn.Embedding(config.vocab_size, d_model)
        self.positions = SinusoidalPositions(d_model) if positions is None else positions
        self.dropout = nn.Dropout(dropout)
        attention = partial(MultiHeadAttention, d_model, num_heads)
        feed_forward = partial(FeedForward, d_model, config.d_ff)
        wiring = partial(WIRINGS[config.wiring], d_model, dropout=dropout)
        self.encoder = nn.ModuleList(Block(attention(), feed_forward(), wiring) for _ in range(config.num_layers))
        self.decoder = nn.ModuleList(
            DecoderBlock(attention(), attention(), feed_forward(), wiring) for _ in range(config.num_layers)
        )
        self.encoder_norm = WIRINGS[config.wiring].final_norm(d_model)
        self.decoder_norm = WIRINGS[config.wiring].final_norm(d_model)
        self._initialise()

    def _initialise(self) -> None:
        nn.init.normal_(self.embedding.weight, std=self.config.d_model**-0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, source: Tensor, source_lengths: Tensor | None, target_in: Tensor) -> Tensor:
        """Score every next target token at once, given the right ones before it (teacher forcing).

        Args:
            source: (B, S)
            source_lengths: (B,) real tokens in each source; all of them when None
            target_in: (B, T) target shifted right; padding at its end changes nothing before it

        Shapes: -> (B, T, V)
        """
        mask = self._source_mask(source, source_lengths)  # (B, 1, S)
        self._check(target_in, "target_in", batch=len(source))
        memory = self._encode(source, mask)
        x = self._embed(target_in, torch.arange(target_in.shape[1], device=target_in.device))
        for block in self.decoder:
            x = block(x, memory, memory_mask=mask, is_causal=True)
        return self.head(self.decoder_norm(x))

    def encode(self, source: Tensor, source_lengths: Tensor | None = None) -> Tensor:
        """The encoder alone: every source token in its context, (B, S) -> (B, S, D)."""
        return self._encode(source, self._source_mask(source, source_lengths))

    def _encode(self, source: Tensor, mask: Tensor | None) -> Tensor:
        x = self._embed(source, torch.arange(source.shape[1], device=source.device))
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x)

    def _source_mask(self, source: Tensor, source_lengths: Tensor | None) -> Tensor | None:
        self._check(source, "source")
        if source_lengths is None:
            return None
        check_lengths(source_lengths, source.shape[0], source.shape[1], "source_lengths")
        return padding_mask(source_lengths, source.shape[1])  # (B, 1, S)

    def head(self, x: Tensor) -> Tensor:
        """Compare with every token's embedding: (..., D) -> (..., V)."""
        return F.linear(x, self.embedding.weight)

    @torch.no_grad()
    def start(self, source: Tensor, source_lengths: Tensor | None = None) -> TransformerState:
        """Read the source, once; nothing of the target yet.

        Shapes: source (B, S), source_lengths (B,) -> state
        """
        mask = self._source_mask(source, source_lengths)
        max_len = self.positions.max_len if isinstance(self.positions, LearnedPositions) else None
        return TransformerState(self._encode(source, mask), mask, KeyValueCache(max_len=max_len))

    @torch.no_grad()
    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Read one more target token in every row, the first being the begin symbol.

        Shapes: tokens (B,) -> logits of the next one (B, V), state
        """
        rows = len(state.memory)
        if tokens.shape != (rows,):
            raise ValueError(f"tokens must be ({rows},) token ids, one for each row, got {tuple(tokens.shape)}")
        check_ids(tokens, self.config.vocab_size)
        cache = state.cache.extend(1, rows)
        x = self._embed(tokens[:, None], cache.positions(tokens.device))  # (B, 1, D)
        for layer, block in enumerate(self.decoder):
            x = block(x, state.memory, memory_mask=state.mask, cache=cache[layer])
        return self.head(self.decoder_norm(x[:, 0])), replace(state, cache=cache)

    def _embed(self, tokens: Tensor, where: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        return self.dropout(x + self.positions(where).to(x.dtype))  # (B, T, D)

    def _check(self, tokens: Tensor, name: str, batch: int | None = None) -> None:
        check_tokens(tokens, self.config.vocab_size, name, batch=batch)
        if isinstance(self.positions, LearnedPositions) and tokens.shape[1] > self.positions.max_len:
            raise ValueError(f"{name} has {tokens.shape[1]} tokens, more than max_len={self.positions.max_len}")
