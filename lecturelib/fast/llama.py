"""Llama, reading one token at a time with everything looked up beforehand.

Most of the time goes into bringing the weights from memory, by all threads at once (`RowLinear`). What is left is some
25 calls for each layer, of a few microseconds each; the plain layers need three times as many.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.fast.cache import RoomyCache
from lecturelib.fast.modules import RowLinear, joined_projections, row_head
from lecturelib.layers.block import Block, PreNorm
from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.grouped import GroupedQueryAttention
from lecturelib.layers.positions.rotary import RotaryPositions
from lecturelib.layers.rms_norm import RMSNorm
from lecturelib.layers.swiglu import SwiGLU
from lecturelib.models.llama import Llama

PLAIN_PARTS = {Block, GroupedQueryAttention, SwiGLU, PreNorm, RMSNorm, RotaryPositions, nn.Linear, nn.Dropout}


class _Norm(NamedTuple):
    plain: RMSNorm
    gain: Tensor  # times √D


class _Layer(NamedTuple):
    name: str
    norm_attention: _Norm
    qkv: RowLinear  # of a copy, the three matrices one below the other
    out: RowLinear
    norm_feed_forward: _Norm
    gate: RowLinear
    widen: RowLinear
    narrow: RowLinear


class OneTokenLlama:
    """The same numbers as calling a Llama's blocks with a cache, one token in each row, without their overhead.

    The residual stream lies in a buffer with one feature more, √(D · eps), which never changes. The length of a row is
    then √(D · (mean square + eps)), so that an RMS norm takes three calls. A turn by the rotary angle is one product of
    complex numbers. Query heads that share a head of keys are several queries to it: no key is copied.

    Differs: nothing but rounding. In other precisions than float32, norms and turns are those of the plain layers.

    Args:
        blocks: those of a `Llama`, all of them plain
        final_norm: the norm after them
        head: what compares with every token
    """

    def __init__(self, blocks: list[Any], final_norm: RMSNorm, head: Callable[[Tensor], Tensor]) -> None:
        mixer = blocks[0].mixer
        self.num_heads, self.num_kv_heads, self.head_dim = mixer.num_heads, mixer.num_kv_heads, mixer.head_dim
        self.positions: RotaryPositions = mixer.positions
        self.turns = torch.empty(0)
        self.layers = [_look_up(str(layer), block) for layer, block in enumerate(blocks)]
        self.final_norm, self.head = _norm(final_norm), head

    @classmethod
    def prepare(cls, model: Any) -> Self | None:
        """Look up a Llama's parts; None if one of them does more than is known here (LoRA, other positions)."""
        parts = [*model.blocks.children(), model.final_norm]
        norms = {part.eps for whole in parts for part in whole.modules() if type(part) is RMSNorm}
        if len(parts) < 2 or len(norms) != 1 or not all(type(p) in PLAIN_PARTS for w in parts for p in w.modules()):
            return None
        return cls(
            parts[:-1], parts[-1], row_head(model, model.token_embedding if model.output is None else model.output)
        )

    def read(self, x: Tensor, cache: RoomyCache) -> Tensor:
        """Logits after one token of every row; its keys and values join the cache, which has been extended.

        Shapes: x (B, D) -> (B, V)
        """
        batch, width = x.shape
        mask = cache.mask(x.device)  # (B, 1, Tk) or None
        mask = None if mask is None else mask.repeat_interleave(self.num_kv_heads, dim=0)[:, None]  # (B Hkv, 1, 1, Tk)
        where = cache.length - 1
        turn = self._turn(where, x) if x.dtype == torch.float32 else None
        buffer = x.new_full((batch, width + 1), math.sqrt(width * self.final_norm.plain.eps))
        stream = buffer[:, :-1]
        stream.copy_(x)
        for layer in self.layers:
            heads = layer.qkv(_normalised(buffer, stream, layer.norm_attention))  # (B, (H + 2 Hkv) Dh)
            if turn is None:
                heads = self._turn_plainly(heads, where)
            else:
                heads.view(torch.complex64).mul_(turn)
            stream.add_(layer.out(self._attend(heads, layer.name, cache, mask)))
            read = _normalised(buffer, stream, layer.norm_feed_forward)
            hidden = F.silu(layer.gate(read), inplace=True).mul_(layer.widen(read))
            stream.add_(layer.narrow(hidden))
        return self.head(_normalised(buffer, stream, self.final_norm))

    def _attend(self, heads: Tensor, name: str, cache: RoomyCache, mask: Tensor | None) -> Tensor:
        """What the heads read, (B, D), of turned queries and keys and of values (B, (H + 2 Hkv) Dh)."""
        batch, row = heads.shape
        few, width, group = self.num_kv_heads, self.head_dim, self.num_heads // self.num_kv_heads
        pair = heads.as_strided((2, batch, few, 1, width), (few * width, row, width, width, 1), row - 2 * few * width)
        keys, values = cache.append(name, pair)  # (B, Hkv, Tk, Dh) each
        query = heads.as_strided((batch, few, group, width), (row, group * width, width, 1))  # (B, Hkv, G, Dh)
        shape = (batch * few, 1, -1, width)  # as many texts of one head, so that the result lies in order
        attended = F.scaled_dot_product_attention(
            query.reshape(shape), keys.view(shape), values.view(shape), attn_mask=mask
        )  # (B Hkv, 1, G, Dh)
        return attended.reshape(batch, -1)

    def _turn(self, where: int, like: Tensor) -> Tensor:
        """What turns queries and keys at a position, and leaves values: complex ((H + 2 Hkv) Dh / 2,)."""
        if len(self.turns) <= where or self.turns.device != like.device:
            count = max(64, 2 * where)  # a table of all positions so far, and as many to come
            one = like.new_zeros(1, 1, count, self.head_dim)
            one[..., 0::2] = 1.0
            turned = self.positions.turn(one, torch.arange(count, device=like.device)).view(count, -1)
            turn = turned.view(torch.complex64)  # (count, Dh / 2)
            rest = torch.ones(count, self.num_kv_heads * self.head_dim // 2, dtype=turn.dtype, device=like.device)
            self.turns = torch.cat((turn.repeat(1, self.num_heads + self.num_kv_heads), rest), dim=1)
        return self.turns[where]

    def _turn_plainly(self, heads: Tensor, where: int) -> Tensor:
        parts = heads.view(len(heads), -1, 1, self.head_dim)  # (B, H + 2 Hkv, 1, Dh)
        at = torch.tensor([where], device=heads.device)
        turned = self.positions.turn(parts[:, : -self.num_kv_heads], at)
        return torch.cat((turned, parts[:, -self.num_kv_heads :]), dim=1).flatten(1)


class PreparedLlama(Llama):
    """A Llama whose steps go through `OneTokenLlama`, on a cache with room."""

    one_token: OneTokenLlama

    @torch.no_grad()
    def step(self, tokens: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        """As the plain model's, also from a state of the plain model."""
        cache = RoomyCache.of(state)
        if tokens.dim() != 1 or torch.is_autocast_enabled(tokens.device.type):
            return super().step(tokens, cache)
        self._check(tokens[:, None])
        cache = cache.extend(1, len(tokens))
        return self.one_token.read(self.token_embedding(tokens), cache), cache


def _normalised(buffer: Tensor, stream: Tensor, norm: _Norm) -> Tensor:
    """The stream after a norm. Shapes: (B, D + 1) and of it (B, D) -> (B, D)"""
    if stream.dtype != torch.float32:
        return norm.plain(stream)
    return torch.div(stream, torch.linalg.vector_norm(buffer, dim=1, keepdim=True)).mul_(norm.gain)


def _norm(norm: RMSNorm) -> _Norm:
    return _Norm(norm, norm.weight.detach() * math.sqrt(len(norm.weight)))


def _look_up(name: str, block: Any) -> _Layer:
    mixer, thinker = block.mixer, block.feed_forward
    return _Layer(
        name=name,
        norm_attention=_norm(block.mixer_wiring.norm),
        qkv=RowLinear(joined_projections(mixer)[0]),
        out=RowLinear.of(mixer.out_proj),
        norm_feed_forward=_norm(block.feed_forward_wiring.norm),
        gate=RowLinear.of(thinker.gate),
        widen=RowLinear.of(thinker.widen),
        narrow=RowLinear.of(thinker.narrow),
    )
