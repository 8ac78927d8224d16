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
from lecturelib.layers.cells import GRU, LSTM, RNN, Cell
from lecturelib.layers.cells_searched import MUT1, MUT2, MUT3, NASCell
from lecturelib.layers.lora import LoRALinear, add_lora, lora_parameters, merge_lora
from lecturelib.layers.masks import causal_mask, padding_mask
from lecturelib.layers.positions import LearnedPositions, SinusoidalPositions
from lecturelib.layers.recurrent import Recurrent, Trace, gradient_norms, reverse_sequences
from lecturelib.layers.state import Decodable, DecodingState, detach_state, select_rows

__all__ = [
    "GRU",
    "LSTM",
    "MUT1",
    "MUT2",
    "MUT3",
    "RNN",
    "WIRINGS",
    "ALiBi",
    "AdditiveAttention",
    "AttentionPositions",
    "Block",
    "Cell",
    "Decodable",
    "DecoderBlock",
    "DecodingState",
    "FeedForward",
    "KeyValueCache",
    "LearnedPositions",
    "LoRALinear",
    "MultiHeadAttention",
    "NASCell",
    "PostNorm",
    "PreNorm",
    "Recurrent",
    "RelativeBias",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "Trace",
    "Wiring",
    "add_lora",
    "causal_mask",
    "detach_state",
    "dot_product_attention",
    "gradient_norms",
    "lora_parameters",
    "merge_lora",
    "padding_mask",
    "reverse_sequences",
    "select_rows",
]
