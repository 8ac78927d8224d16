"""A stack of blocks that reads one token at a time, with everything looked up beforehand.

A step of a small decoder is a few dozen products of a matrix with one vector. They are over so soon that looking up
modules and attributes, and preparing one call after another, takes as long as the arithmetic. So decoding looks it
all up once.
"""

from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Activation, Block, FeedForward, PostNorm, PreNorm
from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.inference import is_as_built

FUSE_UP_TO = 512  # a wider product takes so long that one call is no faster than three, and the copy is large
PLAIN_PARTS = {Block, MultiHeadAttention, FeedForward, PreNorm, PostNorm, nn.Linear, nn.LayerNorm, nn.Dropout}


class _Affine(NamedTuple):
    """The weight and bias of a linear layer or of a norm."""

    weight: Tensor
    bias: Tensor | None


class _Norm(NamedTuple):
    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float


class _Layer(NamedTuple):
    is_pre_norm: bool
    norm_attention: _Norm
    qkv: tuple[_Affine, ...]  # one matrix for all three, or three
    out: _Affine
    norm_feed_forward: _Norm
    widen: _Affine
    activation: Activation
    narrow: _Affine


class OneTokenBlocks:
    """The same numbers as calling `Block`s with a cache, one token in each row, without their overhead.

    Differs: nothing but rounding: up to a width of `FUSE_UP_TO` queries, keys and values are one product, of a copy
    of the three matrices. Make it anew when the weights change; the keys in a cache are from the old ones, too.

    Args:
        num_heads: of every block
        layers: as `prepare` finds them
    """

    def __init__(self, num_heads: int, layers: list[_Layer]) -> None:
        self.num_heads = num_heads
        self.layers = layers

    @classmethod
    def prepare(cls, blocks: nn.ModuleList) -> Self | None:
        """Look up the parts of the blocks; None if one of them does more than is known here, or is watched by a hook.

        In training, with positions in attention, or with layers wrapped or replaced (LoRA), call the blocks themselves.
        """
        found: list[Any] = [block for block in blocks if _is_plain(block)]
        if not found or len(found) < len(blocks):
            return None
        return cls(found[0].mixer.num_heads, [_look_up(block) for block in found])

    def read(self, x: Tensor, cache: KeyValueCache) -> Tensor:
        """Run one token of every row through the blocks; its keys and values join the cache, which has been advanced.

        Shapes: x (B, D) -> (B, D)
        """
        for index, layer in enumerate(self.layers):
            mixed = self._attend(F.layer_norm(x, *layer.norm_attention) if layer.is_pre_norm else x, index, cache)
            x = x + mixed if layer.is_pre_norm else F.layer_norm(x + mixed, *layer.norm_attention)
            read = F.layer_norm(x, *layer.norm_feed_forward) if layer.is_pre_norm else x
            hidden = layer.activation(F.linear(read, *layer.widen))  # (B, d_ff)
            thought = F.linear(hidden, *layer.narrow)
            x = x + thought if layer.is_pre_norm else F.layer_norm(x + thought, *layer.norm_feed_forward)
        return x

    def _attend(self, x: Tensor, index: int, cache: KeyValueCache) -> Tensor:
        layer, (batch, width) = self.layers[index], x.shape
        if len(layer.qkv) == 1:
            qkv = F.linear(x, *layer.qkv[0])  # (B, 3D)
        else:
            qkv = torch.cat([F.linear(x, *matrix) for matrix in layer.qkv], dim=1)  # (B, 3D)
        heads = qkv.view(batch, 3, self.num_heads, width // self.num_heads).transpose(0, 1)  # (3, B, H, Dh)
        keys, values = cache.append_one(index, heads[1:])  # (B, H, Tk, Dh) each
        attended = F.scaled_dot_product_attention(heads[0].unsqueeze(2), keys, values)  # (B, H, 1, Dh)
        return F.linear(attended.reshape(batch, width), *layer.out)


def _is_plain(block: nn.Module) -> bool:
    return all(type(part) in PLAIN_PARTS and is_as_built(part) and not part.training for part in block.modules())


def _look_up(block: Any) -> _Layer:
    mixer, thinker = block.mixer, block.feed_forward
    around, after = block.mixer_wiring, block.feed_forward_wiring
    projections = [_Affine(p.weight, p.bias) for p in (mixer.query_proj, mixer.key_proj, mixer.value_proj)]
    if mixer.d_model <= FUSE_UP_TO:
        projections = [_Affine(*mixer.joined_projections())]
    return _Layer(
        is_pre_norm=isinstance(around, PreNorm),
        norm_attention=_norm(around.norm),
        qkv=tuple(projections),
        out=_Affine(mixer.out_proj.weight, mixer.out_proj.bias),
        norm_feed_forward=_norm(after.norm),
        widen=_Affine(thinker.widen.weight, thinker.widen.bias),
        activation=thinker.activation,
        narrow=_Affine(thinker.narrow.weight, thinker.narrow.bias),
    )


def _norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(tuple(norm.normalized_shape), norm.weight, norm.bias, norm.eps)
