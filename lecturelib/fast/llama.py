"""Llama, reading one token at a time with everything looked up beforehand."""

from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.fast.cache import RoomyCache
from lecturelib.fast.modules import joined_projections
from lecturelib.layers.block import Block, PreNorm
from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.grouped import GroupedQueryAttention
from lecturelib.layers.positions.rotary import RotaryPositions
from lecturelib.layers.rms_norm import RMSNorm
from lecturelib.layers.swiglu import SwiGLU
from lecturelib.models.llama import Llama

PLAIN_PARTS = {Block, GroupedQueryAttention, SwiGLU, PreNorm, RMSNorm, RotaryPositions, nn.Linear, nn.Dropout}


class _Layer(NamedTuple):
    name: str
    norm_attention: RMSNorm
    qkv: Tensor  # a copy, the three matrices one below the other
    out: Tensor
    norm_feed_forward: RMSNorm
    gate: Tensor
    widen: Tensor
    narrow: Tensor


class OneTokenLlama:
    """The same numbers as calling a Llama's blocks with a cache, one token in each row, without their overhead.

    Differs: nothing but rounding. Query heads that share a head of keys are several queries to it, so that no key is
    copied; a turn by the rotary angle is one product of complex numbers.

    Args:
        blocks: those of a `Llama`, all of them plain
    """

    def __init__(self, blocks: list[Any]) -> None:
        mixer = blocks[0].mixer
        self.num_heads, self.num_kv_heads, self.head_dim = mixer.num_heads, mixer.num_kv_heads, mixer.head_dim
        self.positions: RotaryPositions = mixer.positions
        self.layers = [_look_up(str(layer), block) for layer, block in enumerate(blocks)]

    @classmethod
    def prepare(cls, blocks: nn.Module) -> Self | None:
        """Look up the parts of blocks; None if one of them does more than is known here (LoRA, other positions)."""
        found: list[Any] = list(blocks.children())
        if not found or not all(type(part) in PLAIN_PARTS for block in found for part in block.modules()):
            return None
        return cls(found)

    def read(self, x: Tensor, cache: RoomyCache) -> Tensor:
        """Run one token of every row through the blocks; its keys and values join the cache, which has been extended.

        Shapes: x (B, D) -> (B, D)
        """
        mask = cache.mask(x.device)  # (B, 1, Tk) or None
        mask = None if mask is None else mask.unsqueeze(1)
        where = torch.tensor([cache.length - 1], device=x.device)
        turns = self.turns(where, x) if x.dtype == torch.float32 else None
        for layer in self.layers:
            x = x + self._attend(_normalised(x, layer.norm_attention), layer, cache, mask, where, turns)
            read = _normalised(x, layer.norm_feed_forward)
            x = x + F.linear(F.silu(F.linear(read, layer.gate)).mul_(F.linear(read, layer.widen)), layer.narrow)
        return x

    def turns(self, where: Tensor, like: Tensor) -> Tensor:
        """What turns heads of queries and keys and leaves those of values: complex (H + 2 Hkv, 1, Dh / 2)."""
        one = like.new_zeros(1, 1, 1, self.head_dim)
        one[..., 0::2] = 1.0
        turn = torch.view_as_complex(self.positions.turn(one, where).unflatten(-1, (-1, 2)))  # (1, 1, 1, Dh / 2)
        turns = turn[0].repeat(self.num_heads + 2 * self.num_kv_heads, 1, 1)
        turns[-self.num_kv_heads :] = 1.0
        return turns

    def _attend(
        self, x: Tensor, layer: _Layer, cache: RoomyCache, mask: Tensor | None, where: Tensor, turns: Tensor | None
    ) -> Tensor:
        batch, width = x.shape
        heads = F.linear(x, layer.qkv).view(batch, -1, 1, self.head_dim)  # (B, H + 2 Hkv, 1, Dh)
        if turns is None:  # no complex numbers in this precision
            turned = self.positions.turn(heads[:, : -self.num_kv_heads], where)
            heads = torch.cat((turned, heads[:, -self.num_kv_heads :]), dim=1)
        else:
            heads = torch.view_as_real(torch.view_as_complex(heads.unflatten(-1, (-1, 2))) * turns).flatten(-2)
        pair = heads[:, self.num_heads :].unflatten(1, (2, -1)).transpose(0, 1)  # (2, B, Hkv, 1, Dh)
        keys, values = cache.append(layer.name, pair)  # (B, Hkv, Tk, Dh) each
        query = heads[:, : self.num_heads].reshape(batch, self.num_kv_heads, -1, self.head_dim)  # (B, Hkv, G, Dh)
        attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)  # (B, Hkv, G, Dh)
        return F.linear(attended.reshape(batch, width), layer.out)


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
        x = self.one_token.read(self.token_embedding(tokens), cache)  # (B, D)
        return self.head(_normalised(x, self.final_norm)), cache


def _normalised(x: Tensor, norm: Any) -> Tensor:
    """The norm's output, by one call where torch's own rounds as ours does."""
    return F.rms_norm(x, norm.weight.shape, norm.weight, norm.eps) if x.dtype == torch.float32 else norm(x)


def _look_up(name: str, block: Any) -> _Layer:
    mixer, thinker = block.mixer, block.feed_forward
    return _Layer(
        name=name,
        norm_attention=block.mixer_wiring.norm,
        qkv=joined_projections(mixer)[0],
        out=mixer.out_proj.weight,
        norm_feed_forward=block.feed_forward_wiring.norm,
        gate=thinker.gate.weight,
        widen=thinker.widen.weight,
        narrow=thinker.narrow.weight,
    )
