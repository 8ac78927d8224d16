"""GPT: a stack of causal blocks that predicts the next token."""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import AttentionPositions, MultiHeadAttention
from lecturelib.layers.block import GELU_TANH, WIRINGS, Block, FeedForward
from lecturelib.layers.cache import KeyValueCache, align_right
from lecturelib.layers.checks import check_config, check_heads, check_lengths, check_tokens
from lecturelib.layers.positions.added import LearnedPositions


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """The sizes of a GPT; `d_ff` is 4 · d_model when left out, `wiring` is a name in `lecturelib.layers.WIRINGS`."""

    vocab_size: int
    max_len: int
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int | None = None
    dropout: float = 0.1
    wiring: str = "pre_norm"

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "max_len", "d_model", "num_heads", "num_layers")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"))
        check_heads(self.d_model, self.num_heads, "GPTConfig")
        if self.wiring not in WIRINGS:
            raise ValueError(f"GPTConfig: wiring must be one of {sorted(WIRINGS)}, got {self.wiring!r}")


GPT1 = GPTConfig(vocab_size=40_478, max_len=512, d_model=768, num_heads=12, num_layers=12, wiring="post_norm")
GPT2_SMALL = GPTConfig(vocab_size=50_257, max_len=1024, d_model=768, num_heads=12, num_layers=12)
GPT2_MEDIUM = GPTConfig(vocab_size=50_257, max_len=1024, d_model=1024, num_heads=16, num_layers=24)
GPT2_LARGE = GPTConfig(vocab_size=50_257, max_len=1024, d_model=1280, num_heads=20, num_layers=36)
GPT2_XL = GPTConfig(vocab_size=50_257, max_len=1024, d_model=1600, num_heads=25, num_layers=48)


class GPT(nn.Module):
    """Predict each next token from the tokens before it.

    Paper: Radford et al. 2018 [radford2018improving] (wired "post_norm", without a final norm) and Radford et al. 2019
    [radford2019language] (wired "pre_norm", with one; projections onto the residual stream start smaller by
    1 / sqrt(2 · num_layers)).
    Differs: nothing in the network. Initial standard deviations follow the authors' code: 0.02, and 0.01 for GPT-2's
    position table. The head is the embedding matrix, tied. Three projections make queries, keys and values where the
    authors store one matrix three times as wide.

    Args:
        config: sizes, or a preset such as GPT2_SMALL
        positions: what tells positions apart; a `LearnedPositions` table as published when left out. A part added to
            the embeddings (`SinusoidalPositions`), or one for attention (`RotaryPositions`, `ALiBi`, …), which all
            layers then share.
    """

    def __init__(self, config: GPTConfig, *, positions: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        d_model, pre_norm = config.d_model, config.wiring == "pre_norm"
        if positions is None:
            positions = LearnedPositions(config.max_len, d_model, std=0.01 if pre_norm else 0.02)
        in_attention = isinstance(positions, AttentionPositions)
        self.token_embedding = nn.Embedding(config.vocab_size, d_model)
        self.positions = None if in_attention else positions
        self.dropout = nn.Dropout(config.dropout)
        wiring = WIRINGS[config.wiring]
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(
                    d_model, config.num_heads, dropout=config.dropout, positions=positions if in_attention else None
                ),
                FeedForward(d_model, config.d_ff or 4 * d_model, activation=GELU_TANH),
                partial(wiring, d_model, dropout=config.dropout),
            )
            for _ in range(config.num_layers)
        )
        self.final_norm = wiring.final_norm(d_model)
        self._initialise(residual_std=0.02 / math.sqrt(2 * config.num_layers) if pre_norm else 0.02)

    def _initialise(self, residual_std: float) -> None:
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        for name, module in self.blocks.named_modules():
            if isinstance(module, nn.Linear):
                onto_stream = name.endswith(("out_proj", "narrow"))
                nn.init.normal_(module.weight, std=residual_std if onto_stream else 0.02)
                nn.init.zeros_(module.bias)

    @property
    def max_len(self) -> int | None:
        """The longest text it can read: the length of a learned position table, else no limit."""
        return self.positions.max_len if isinstance(self.positions, LearnedPositions) else None

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position; padding after a text changes nothing before it.

        Shapes: tokens (B, T) -> (B, T, V)
        """
        return self.head(self.features(tokens))

    def features(self, tokens: Tensor) -> Tensor:
        """The last layer's output, for a head of your own: (B, T) -> (B, T, D)."""
        self._check(tokens)
        x = self._embed(tokens, torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.final_norm(x)

    def head(self, x: Tensor) -> Tensor:
        """Compare with every token's embedding: (..., D) -> (..., V)."""
        return F.linear(x, self.token_embedding.weight)

    @torch.no_grad()
    def start(self, prompt: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, KeyValueCache]:
        """Read the prompts at once; give the logits of what follows each, and the state to go on from.

        Args:
            prompt: (B, T), at least one token
            lengths: (B,) tokens that count in each row, the rest is padding; all of them when left out

        Shapes: -> (B, V), state
        """
        if prompt.shape[-1] == 0:
            raise ValueError("the prompt is empty; start from at least one token, such as a begin-of-text symbol")
        absent = None
        if lengths is not None:
            check_tokens(prompt, self.config.vocab_size)
            check_lengths(lengths, *prompt.shape, shortest=1)
            prompt, absent = align_right(prompt, lengths)
        return self._read(prompt, KeyValueCache(max_len=self.max_len, absent=absent))

    @torch.no_grad()
    def step(self, tokens: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        """Read one more token in every row.

        Shapes: tokens (B,) -> logits of the next one (B, V), state
        """
        if tokens.dim() != 1:
            raise ValueError(f"tokens must be (batch,) token ids, one for each row, got {tuple(tokens.shape)}")
        return self._read(tokens[:, None], state)

    def _read(self, tokens: Tensor, cache: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        """Run new tokens (B, T) through the blocks, after those in the cache; -> logits of what follows (B, V)."""
        self._check(tokens)
        cache = cache.extend(tokens.shape[1], len(tokens))
        x, mask = self._embed(tokens, cache.positions(tokens.device)), cache.mask(tokens.device)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, cache=cache[layer])
        return self.head(self.final_norm(x[:, -1])), cache

    def _embed(self, tokens: Tensor, where: Tensor) -> Tensor:
        x = self.token_embedding(tokens)  # (B, T, D)
        if self.positions is not None:
            x = x + self.positions(where).to(x.dtype)
        return self.dropout(x)

    def _check(self, tokens: Tensor) -> None:
        check_tokens(tokens, self.config.vocab_size)
        if self.max_len is not None and tokens.shape[1] > self.max_len:
            raise ValueError(f"a text of {tokens.shape[1]} tokens is longer than max_len={self.max_len}; shorten it")
