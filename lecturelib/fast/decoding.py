"""GPT, reading one token at a time with everything looked up beforehand.

A step of a small decoder is a few dozen products of a matrix with one vector. They are over so soon that looking up
modules and attributes, and preparing one call after another, takes as long as the arithmetic. So decoding looks it
all up once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.fast.cache import RoomyCache
from lecturelib.fast.modules import InPlaceGELU, OneProjection, RowLinear
from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Activation, Block, FeedForward, PostNorm, PreNorm
from lecturelib.layers.cache import KeyValueCache
from lecturelib.models.gpt import GPT

PLAIN_PARTS = {Block, MultiHeadAttention, FeedForward, PreNorm, PostNorm, nn.Linear, nn.LayerNorm, nn.Dropout}
PLAIN_PARTS |= {OneProjection, InPlaceGELU}


class _Norm(NamedTuple):
    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float


class _Layer(NamedTuple):
    name: str
    is_pre_norm: bool
    norm_attention: _Norm
    qkv: tuple[RowLinear, ...]  # one matrix for all three, or three
    out: RowLinear
    norm_feed_forward: _Norm
    widen: RowLinear
    activation: Activation
    narrow: RowLinear


class OneTokenBlocks:
    """The same numbers as calling `Block`s with a cache, one token in each row, without their overhead.

    Differs: nothing but rounding: up to a width of `FUSE_UP_TO` queries, keys and values are one product.

    Args:
        num_heads: of every block
        layers: as `prepare` finds them
    """

    def __init__(self, num_heads: int, layers: list[_Layer]) -> None:
        self.num_heads, self.layers = num_heads, layers

    @classmethod
    def prepare(cls, blocks: nn.Module) -> Self | None:
        """Look up the parts of prepared blocks; None if one of them does more than is known here (positions, LoRA)."""
        found: list[Any] = list(blocks.children())
        if not found or not all(type(part) in PLAIN_PARTS for block in found for part in block.modules()):
            return None
        return cls(found[0].mixer.num_heads, [_look_up(str(layer), block) for layer, block in enumerate(found)])

    def read(self, x: Tensor, cache: RoomyCache) -> Tensor:
        """Run one token of every row through the blocks; its keys and values join the cache, which has been extended.

        Shapes: x (B, D) -> (B, D)
        """
        mask = cache.mask(x.device)  # (B, 1, Tk) or None
        mask = None if mask is None else mask.unsqueeze(1)
        for layer in self.layers:
            mixed = self._attend(F.layer_norm(x, *layer.norm_attention) if layer.is_pre_norm else x, layer, cache, mask)
            x = x + mixed if layer.is_pre_norm else F.layer_norm(x + mixed, *layer.norm_attention)
            read = F.layer_norm(x, *layer.norm_feed_forward) if layer.is_pre_norm else x
            thought = layer.narrow(layer.activation(layer.widen(read)))
            x = x + thought if layer.is_pre_norm else F.layer_norm(x + thought, *layer.norm_feed_forward)
        return x

    def _attend(self, x: Tensor, layer: _Layer, cache: RoomyCache, mask: Tensor | None) -> Tensor:
        batch, width = x.shape
        if len(layer.qkv) == 1:
            qkv = layer.qkv[0](x)  # (B, 3D)
        else:
            qkv = torch.cat([project(x) for project in layer.qkv], dim=1)  # (B, 3D)
        heads = qkv.view(batch, 3, self.num_heads, 1, width // self.num_heads).transpose(0, 1)  # (3, B, H, 1, Dh)
        keys, values = cache.append(layer.name, heads[1:])  # (B, H, Tk, Dh) each
        attended = F.scaled_dot_product_attention(heads[0], keys, values, attn_mask=mask)  # (B, H, 1, Dh)
        return layer.out(attended.reshape(batch, width))


class PreparedGPT(GPT):
    """A GPT whose steps go through `OneTokenBlocks`, on a cache with room."""

    one_token: OneTokenBlocks
    row_head: Callable[[Tensor], Tensor]

    @torch.no_grad()
    def step(self, tokens: Tensor, state: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        """As the plain model's, also from a state of the plain model."""
        cache = RoomyCache.of(state)
        if tokens.dim() != 1 or torch.is_autocast_enabled(tokens.device.type):
            return super().step(tokens, cache)
        self._check(tokens[:, None])
        cache = cache.extend(1, len(tokens))
        x = self._embed(tokens[:, None], cache.positions(tokens.device)).squeeze(1)  # (B, D)
        return self.row_head(self.final_norm(self.one_token.read(x, cache))), cache


def _look_up(name: str, block: Any) -> _Layer:
    mixer, thinker = block.mixer, block.feed_forward
    around, after = block.mixer_wiring, block.feed_forward_wiring
    projections = [RowLinear.of(linear) for linear in (mixer.query_proj, mixer.key_proj, mixer.value_proj)]
    if isinstance(mixer, OneProjection):
        projections = [RowLinear(*mixer.joined)]
    return _Layer(
        name=name,
        is_pre_norm=isinstance(around, PreNorm),
        norm_attention=_norm(around.norm),
        qkv=tuple(projections),
        out=RowLinear.of(mixer.out_proj),
        norm_feed_forward=_norm(after.norm),
        widen=RowLinear.of(thinker.widen),
        activation=thinker.activation,
        narrow=RowLinear.of(thinker.narrow),
    )


def _norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(tuple(norm.normalized_shape), norm.weight, norm.bias, norm.eps)
