"""Parts that two or more models share."""

from lecturelib.layers.additive import AdditiveAttention
from lecturelib.layers.alignment import SoftAlignment
from lecturelib.layers.attention import Attention, AttentionPositions, MultiHeadAttention, dot_product_attention
from lecturelib.layers.block import WIRINGS, Block, FeedForward, PostNorm, PreNorm, Wiring
from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.cells import GRU, LSTM, RNN, Cell
from lecturelib.layers.cells_searched import MUT1, MUT2, MUT3, NASCell
from lecturelib.layers.decoder_block import DecoderBlock
from lecturelib.layers.deep_norm import DeepNorm, deep_norm_scales, initialise_deep_norm, use_deep_norm
from lecturelib.layers.grouped import GroupedQueryAttention
from lecturelib.layers.initialisation import initialise, truncated_normal_
from lecturelib.layers.lora import LoRALinear, add_lora, lora_parameters, merge_lora
from lecturelib.layers.masks import causal_mask, padding_mask
from lecturelib.layers.norms import AdaNorm, PowerNorm
from lecturelib.layers.patches import PatchEmbedding
from lecturelib.layers.pooling import AttentionPooling, LastPooling, MaxPooling, MeanPooling
from lecturelib.layers.positions import (
    ALiBi,
    GridPositions,
    LearnedPositions,
    RelativeBias,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    WindowBias,
    interpolate_positions,
    pair_neighbours,
    relative_index,
)
from lecturelib.layers.quantised import QuantisedLinear, quantise, stored_bytes
from lecturelib.layers.recurrent import Recurrent, Trace, gradient_norms, reverse_sequences
from lecturelib.layers.residual import StochasticDepth, depth_rates
from lecturelib.layers.rms_norm import RMSNorm
from lecturelib.layers.state import Decodable, DecodingState, detach_state, select_rows
from lecturelib.layers.swiglu import SwiGLU
from lecturelib.layers.watching import attention_weights
from lecturelib.layers.windows import (
    WindowAttention,
    join_neighbours,
    merge_windows,
    partition_windows,
    shift_mask,
    shift_regions,
)

__all__ = [
    "GRU",
    "LSTM",
    "MUT1",
    "MUT2",
    "MUT3",
    "RNN",
    "WIRINGS",
    "ALiBi",
    "AdaNorm",
    "AdditiveAttention",
    "Attention",
    "AttentionPooling",
    "AttentionPositions",
    "Block",
    "Cell",
    "Decodable",
    "DecoderBlock",
    "DecodingState",
    "DeepNorm",
    "FeedForward",
    "GridPositions",
    "GroupedQueryAttention",
    "KeyValueCache",
    "LastPooling",
    "LearnedPositions",
    "LoRALinear",
    "MaxPooling",
    "MeanPooling",
    "MultiHeadAttention",
    "NASCell",
    "PatchEmbedding",
    "PostNorm",
    "PowerNorm",
    "PreNorm",
    "QuantisedLinear",
    "RMSNorm",
    "Recurrent",
    "RelativeBias",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "SoftAlignment",
    "StochasticDepth",
    "SwiGLU",
    "Trace",
    "WindowAttention",
    "WindowBias",
    "Wiring",
    "add_lora",
    "attention_weights",
    "causal_mask",
    "deep_norm_scales",
    "depth_rates",
    "detach_state",
    "dot_product_attention",
    "gradient_norms",
    "initialise",
    "initialise_deep_norm",
    "interpolate_positions",
    "join_neighbours",
    "lora_parameters",
    "merge_lora",
    "merge_windows",
    "padding_mask",
    "pair_neighbours",
    "partition_windows",
    "quantise",
    "relative_index",
    "reverse_sequences",
    "select_rows",
    "shift_mask",
    "shift_regions",
    "stored_bytes",
    "truncated_normal_",
    "use_deep_norm",
]
