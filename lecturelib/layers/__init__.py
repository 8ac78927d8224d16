"""Parts that two or more models share."""

from lecturelib.layers.attention import (
    AdditiveAttention,
    AttentionPositions,
    MultiHeadAttention,
    dot_product_attention,
)
from lecturelib.layers.attention_positions import ALiBi, RelativeBias, RelativePositions, RotaryPositions
from lecturelib.layers.block import WIRINGS, Block, DecoderBlock, FeedForward, PostNorm, PreNorm, Wiring
from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.masks import causal_mask, padding_mask
from lecturelib.layers.positions import LearnedPositions, SinusoidalPositions

__all__ = [
    "WIRINGS",
    "ALiBi",
    "AdditiveAttention",
    "AttentionPositions",
    "Block",
    "DecoderBlock",
    "FeedForward",
    "KeyValueCache",
    "LearnedPositions",
    "MultiHeadAttention",
    "PostNorm",
    "PreNorm",
    "RelativeBias",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "Wiring",
    "causal_mask",
    "dot_product_attention",
    "padding_mask",
]
