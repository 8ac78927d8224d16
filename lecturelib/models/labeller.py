"""One skeleton, three ways to mix tokens: convolution, recurrence, attention, each alone or in a stack together."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.cells import GRU
from lecturelib.layers.checks import check_config, check_heads, check_tokens
from lecturelib.layers.positions.rotary import RotaryPositions
from lecturelib.layers.recurrent import Recurrent
from lecturelib.layers.state import select_rows

MIXERS = ("convolution", "recurrence", "attention")


@dataclass(frozen=True, kw_only=True)
class LabellerConfig:
    """Sizes of a `SequenceLabeller`; `mixers` has one of `MIXERS` for each layer, from the first on.

    The second convolution skips `kernel_size` tokens at a time, the third the square of that, so that a few of them
    see far.
    """

    vocab_size: int
    num_classes: int
    mixers: tuple[str, ...]
    d_model: int = 32
    num_heads: int = 2
    d_ff: int = 64
    kernel_size: int = 6
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "num_classes", "d_model", "num_heads", "d_ff", "kernel_size"))
        check_heads(self.d_model, self.num_heads, "LabellerConfig")
        if not self.mixers or not set(self.mixers) <= set(MIXERS):
            raise ValueError(f"LabellerConfig: mixers must name one of {MIXERS} for each layer, got {self.mixers}")


class Remembered:
    """What one layer keeps of the tokens it has read: keys and values, a window of inputs, or a hidden state."""

    def __init__(self, held: tuple[Tensor, ...] = ()) -> None:
        self.held = held

    @property
    def length(self) -> int:
        """How many tokens an attention layer has read."""
        return self.held[0].shape[2] if self.held else 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Remember new keys and values (B, H, T, Dh), and return all there are (B, H, Tk, Dh)."""
        if self.held:
            keys, values = (torch.cat(pair, dim=2) for pair in zip(self.held, (keys, values), strict=True))
        self.held = keys, values
        return keys, values

    def keep(self, project: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Nothing here is read from elsewhere."""
        raise NotImplementedError("a labeller attends to its own tokens only")


class CausalConvolution(nn.Module):
    """Mix each token with the tokens just before it, by the same weights everywhere.

    Paper: van den Oord et al. 2016 [oord2016wavenet], Section 2.1.
    Differs: no gate; the nonlinearity is in the feed-forward net of the block.

    Args:
        d_model: width in and out
        kernel_size: tokens that one output reads
        dilation: how far these are apart

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(self, d_model: int, kernel_size: int, *, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(d_model, d_model, kernel_size, dilation=dilation)
        self.reach = (kernel_size - 1) * dilation  # tokens before the newest that it reads

    def forward(
        self,
        x: Tensor,
        key: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = True,
        cache: Remembered | None = None,
    ) -> Tensor:
        """Called as attention is; the convolution is causal in any case."""
        _only_causal(key, mask)
        past = cache.held[0] if cache is not None and cache.held else x.new_zeros(len(x), self.reach, x.shape[2])
        window = torch.cat((past, x), dim=1)  # (B, reach + T, D)
        if cache is not None:
            cache.held = (window[:, window.shape[1] - self.reach :],)
        return self.conv(window.transpose(1, 2)).transpose(1, 2)  # (B, T, D)


class RecurrentMixer(nn.Module):
    """Mix each token with all before it, through one state: a GRU as wide as the stream.

    Paper: Cho et al. 2014 [cho2014learning]; the cell is torch's variant.
    Differs: nothing.

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.recurrent = Recurrent(GRU, d_model, d_model)

    def forward(
        self,
        x: Tensor,
        key: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = True,
        cache: Remembered | None = None,
    ) -> Tensor:
        """Called as attention is; recurrence is causal in any case."""
        _only_causal(key, mask)
        outputs, (state,) = self.recurrent(x, state=(cache.held,) if cache is not None and cache.held else None)
        if cache is not None:
            cache.held = state
        return outputs


def _only_causal(key: Tensor | None, mask: Tensor | None) -> None:
    if key is not None or mask is not None:
        raise ValueError("convolution and recurrence read one sequence from its start: they take no key and no mask")


@dataclass(frozen=True)
class LabellerState:
    """What each layer remembers."""

    layers: tuple[tuple[Tensor, ...], ...]

    def select(self, index: Tensor) -> "LabellerState":
        return select_rows(self, index)


class SequenceLabeller(nn.Module):
    """Label every token of a sequence from it and the tokens before; blocks differ in how they mix tokens, only.

    Paper: the block is that of Vaswani et al. 2017 [vaswani2017attention], wired pre-norm; that its mixer can be any
    other, Tay et al. 2021 [tay2021pretrained] show for convolutions.
    Differs: it reads from left to right, with rotary positions in its attention and none elsewhere.

    Shapes: tokens (B, T) -> logits (B, T, C)
    """

    def __init__(self, config: LabellerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        blocks = []
        for layer, name in enumerate(config.mixers):
            dilation = config.kernel_size ** config.mixers[:layer].count("convolution")
            wiring = partial(PreNorm, config.d_model, dropout=config.dropout)
            blocks.append(Block(_mixer(config, name, dilation), FeedForward(config.d_model, config.d_ff), wiring))
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = nn.LayerNorm(config.d_model)
        self.output = nn.Linear(config.d_model, config.num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Shapes: tokens (B, T) -> logits (B, T, C)"""
        check_tokens(tokens, self.config.vocab_size)
        x = self.dropout(self.embedding(tokens))  # (B, T, D)
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.output(self.final_norm(x))

    def start(self, prompt: Tensor) -> tuple[Tensor, LabellerState]:
        """Read the beginning at once: (B, T) -> logits at its last token (B, C), and what to go on from."""
        check_tokens(prompt, self.config.vocab_size)
        return self._read(prompt, LabellerState(((),) * len(self.blocks)), is_causal=True)

    def step(self, tokens: Tensor, state: LabellerState) -> tuple[Tensor, LabellerState]:
        """One more token for each row: (B,) -> logits at it (B, C), and the state after it."""
        return self._read(tokens[:, None], state, is_causal=False)

    def _read(self, tokens: Tensor, state: LabellerState, *, is_causal: bool) -> tuple[Tensor, LabellerState]:
        x, remembered = self.embedding(tokens), [Remembered(held) for held in state.layers]
        for block, memory in zip(self.blocks, remembered, strict=True):
            x = block(x, is_causal=is_causal, cache=memory)
        return self.output(self.final_norm(x[:, -1])), LabellerState(tuple(memory.held for memory in remembered))


def _mixer(config: LabellerConfig, name: str, dilation: int) -> nn.Module:
    match name:
        case "convolution":
            return CausalConvolution(config.d_model, config.kernel_size, dilation=dilation)
        case "recurrence":
            return RecurrentMixer(config.d_model)
    positions = RotaryPositions(config.d_model // config.num_heads)
    return MultiHeadAttention(config.d_model, config.num_heads, dropout=config.dropout, positions=positions)
