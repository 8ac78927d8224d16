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
from lecturelib.layers.lora import LoRALinear, add_lora, lora_parameters, merge_lora
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
    "LoRALinear",
    "MultiHeadAttention",
    "PostNorm",
    "PreNorm",
    "RelativeBias",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "Wiring",
    "add_lora",
    "causal_mask",
    "dot_product_attention",
    "lora_parameters",
    "merge_lora",
    "padding_mask",
]
