"""Transformer-XL: a language model that reads a long text in segments and remembers the ones before."""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import AttentionPositions, MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PostNorm
from lecturelib.layers.cache import align_right
from lecturelib.layers.checks import check_config, check_heads, check_lengths, check_tokens
from lecturelib.layers.masks import causal_mask
from lecturelib.layers.positions.added import SinusoidalPositions
from lecturelib.layers.positions.relative import query_positions


@dataclass(frozen=True, kw_only=True)
class TransformerXLConfig:
    """The sizes of a Transformer-XL; `memory_len` is how many earlier tokens each layer remembers."""

    vocab_size: int
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int
    memory_len: int
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "d_model", "num_heads", "num_layers", "d_ff"))
        check_heads(self.d_model, self.num_heads, "TransformerXLConfig")
        if self.memory_len < 0:
            raise ValueError(f"TransformerXLConfig: memory_len must be 0 or more, got {self.memory_len}")


TRANSFORMER_XL_ENWIK8 = TransformerXLConfig(
    vocab_size=204, d_model=512, num_heads=8, num_layers=12, d_ff=2048, memory_len=512
)


class DistancePositions(AttentionPositions):
    """Score content and distance apart: q · k_j + u · k_j + (q + v) · W R_{i-j}, with R the sinusoid of the distance.

    Paper: Dai et al. 2019 [dai2019transformer], Section 3.3; u, v and W_{k,R} there are `content_bias`,
    `distance_bias` and `distance_proj` here.
    Differs: distances are looked up by index, where the authors shift a matrix; sines and cosines alternate.

    Args:
        d_model: width of the sinusoid
        num_heads: each has its own u, v and slice of W
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.sinusoid = SinusoidalPositions(d_model)
        self.distance_proj = nn.Linear(d_model, d_model, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(num_heads, 1, self.head_dim))
        self.distance_bias = nn.Parameter(torch.zeros(num_heads, 1, self.head_dim))

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """All but q · k; keys after the query count as distance 0, a causal mask hides them anyway."""
        steps = torch.arange(key.shape[-2], device=query.device)
        distances = self.distance_proj(self.sinusoid(steps).to(query.dtype))  # (Tk, D)
        distances = distances.unflatten(-1, (self.num_heads, self.head_dim)).transpose(0, 1)  # (H, Tk, Dh)
        by_distance = (query + self.distance_bias) @ distances.transpose(-2, -1)  # (B, H, Tq, Tk)
        index = (query_positions(query, key)[:, None] - steps).clamp(min=0).expand(by_distance.shape)
        by_content = self.content_bias @ key.transpose(-2, -1)  # (B, H, 1, Tk)
        return (by_content + by_distance.gather(-1, index)) / math.sqrt(self.head_dim)  # (B, H, Tq, Tk)


@dataclass(frozen=True)
class TransformerXLState:
    """What each layer read before: its input at the last M tokens, and which of those a row really has."""

    memories: list[Tensor]  # num_layers of (B, M, D)
    mask: Tensor | None = None  # (B, M), True = there; None when all are

    def select(self, index: Tensor) -> "TransformerXLState":
        """Take the rows `index` of the batch."""
        memories = [memory.index_select(0, index) for memory in self.memories]
        return TransformerXLState(memories, None if self.mask is None else self.mask.index_select(0, index))


class TransformerXL(nn.Module):
    """Predict each next token from its segment and, layer by layer, from what was remembered of earlier segments.

    No gradient flows into the memory, but a token of layer n reaches n · memory_len tokens back.

    Paper: Dai et al. 2019 [dai2019transformer].
    Differs: one softmax over the vocabulary, tied to the embedding, where the paper's word models have an adaptive one.
    u and v are each layer's own, as in the authors' experiments on enwik8.

    Args:
        config: sizes, or the preset TRANSFORMER_XL_ENWIK8
    """

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        self.config = config
        d_model, num_heads, dropout = config.d_model, config.num_heads, config.dropout
        self.embedding = nn.Embedding(config.vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(d_model, num_heads, bias=False, positions=DistancePositions(d_model, num_heads)),
                FeedForward(d_model, config.d_ff, dropout=dropout),
                partial(PostNorm, d_model, dropout=dropout),
            )
            for _ in range(config.num_layers)
        )
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif not name.endswith("norm.weight"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position of one segment that nothing came before.

        Shapes: tokens (B, T) -> (B, T, V)
        """
        return self.read_segment(tokens)[0]

    def read_segment(
        self, tokens: Tensor, state: TransformerXLState | None = None
    ) -> tuple[Tensor, TransformerXLState]:
        """Logits at every position of the next segment, and what to remember of it; train with this, in order.

        Shapes: tokens (B, T) -> (B, T, V), state
        """
        x, state = self._read(tokens, state)
        return self.head(x), state

    def head(self, x: Tensor) -> Tensor:
        """Compare with every token's embedding: (..., D) -> (..., V)."""
        return F.linear(x, self.embedding.weight)

    @torch.no_grad()
    def start(self, prompt: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, TransformerXLState]:
        """Read the prompts as one segment; give the logits of what follows each, and the state to go on from.

        Args:
            prompt: (B, T), at least one token
            lengths: (B,) tokens that count in each row, the rest is padding; all of them when left out

        Shapes: -> (B, V), state
        """
        check_tokens(prompt, self.config.vocab_size, "prompt")
        batch, length = prompt.shape
        if length == 0:
            raise ValueError("the prompt is empty; start from at least one token, such as a begin-of-text symbol")
        there = None
        if lengths is not None:
            check_lengths(lengths, batch, length, shortest=1)
            prompt, absent = align_right(prompt, lengths)  # only the order of a row's real tokens matters
            there = torch.arange(length, device=prompt.device) >= absent[:, None]  # (B, T)
        x, state = self._read(prompt, None, there=there)
        return self.head(x[:, -1]), state

    @torch.no_grad()
    def step(self, tokens: Tensor, state: TransformerXLState) -> tuple[Tensor, TransformerXLState]:
        """Read one more token in every row.

        Shapes: tokens (B,) -> logits of the next one (B, V), state
        """
        rows = len(state.memories[0])
        if tokens.shape != (rows,):
            raise ValueError(f"tokens must be ({rows},) token ids, one for each row, got {tuple(tokens.shape)}")
        x, state = self._read(tokens[:, None], state)
        return self.head(x[:, -1]), state

    def _read(
        self, tokens: Tensor, state: TransformerXLState | None, *, there: Tensor | None = None
    ) -> tuple[Tensor, TransformerXLState]:
        """Run a segment (B, T) through the blocks; `there` (B, T) says which of its tokens are real, all if None."""
        check_tokens(tokens, self.config.vocab_size)
        batch, length = tokens.shape
        x = self.dropout(self.embedding(tokens) * math.sqrt(self.config.d_model))
        memories = state.memories if state is not None else [x[:, :0].detach()] * len(self.blocks)
        remembered = memories[0].shape[1]
        if there is not None or (state is not None and state.mask is not None):
            new = torch.ones_like(tokens, dtype=torch.bool) if there is None else there
            old = state.mask if state is not None and state.mask is not None else new.new_ones(batch, remembered)
            there = torch.cat((old, new), dim=1)  # (B, M + T)
        mask = causal_mask(length, remembered + length, device=tokens.device)
        if there is not None:
            mask = mask & there[:, None]  # (B, T, M + T)
        keep = max(0, remembered + length - self.config.memory_len)
        following = []
        for block, memory in zip(self.blocks, memories, strict=True):
            following.append(torch.cat((memory, x.detach()), dim=1)[:, keep:])
            x = block(x, mask, memory=memory)
        return self.dropout(x), TransformerXLState(following, None if there is None else there[:, keep:])
