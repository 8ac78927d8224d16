"""Parts that two or more models share."""

from lecturelib.layers.additive import AdditiveAttention
from lecturelib.layers.alignment import SoftAlignment
from lecturelib.layers.attention import Attention, AttentionPositions, MultiHeadAttention, dot_product_attention
from lecturelib.layers.block import WIRINGS, Block, FeedForward, PostNorm, PreNorm, Wiring
from lecturelib.layers.boxes import box_corners, box_iou, generalised_iou
from lecturelib.layers.cache import KeyValueCache
from lecturelib.layers.cells import GRU, LSTM, RNN, Cell
from lecturelib.layers.cells_searched import MUT1, MUT2, MUT3, NASCell
from lecturelib.layers.decoder_block import DecoderBlock
from lecturelib.layers.deep_norm import DeepNorm, deep_norm_scales, initialise_deep_norm, use_deep_norm
from lecturelib.layers.grouped import GroupedQueryAttention
from lecturelib.layers.initialisation import initialise, truncated_normal_
from lecturelib.layers.lora import LoRALinear, add_lora, lora_parameters, merge_lora
from lecturelib.layers.masked_heads import Guesses, MaskedHead
from lecturelib.layers.masks import causal_mask, padding_mask
from lecturelib.layers.mixers import (
    AdaptiveSpan,
    BigBird,
    CrossBlock,
    FourierMixing,
    LatentMixing,
    Linformer,
    LocalAttention,
    Performer,
    Reformer,
    SharedWorkspace,
    Thought,
    TiledAttention,
    TokenMixing,
    UniversalTransformer,
    causal_linear_attention,
    linear_attention,
    orthogonal_features,
    random_features,
    tiled_attention,
)
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
    fourier_positions,
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
from lecturelib.layers.switch import Routing, SwitchFFN, balance_loss, use_switch
from lecturelib.layers.text_decoder import Captioner, TextDecoder, WritingState
from lecturelib.layers.tubelets import TubeletEmbedding
from lecturelib.layers.watching import attention_weights, routings
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
    "AdaptiveSpan",
    "AdditiveAttention",
    "Attention",
    "AttentionPooling",
    "AttentionPositions",
    "BigBird",
    "Block",
    "Captioner",
    "Cell",
    "CrossBlock",
    "Decodable",
    "DecoderBlock",
    "DecodingState",
    "DeepNorm",
    "FeedForward",
    "FourierMixing",
    "GridPositions",
    "GroupedQueryAttention",
    "Guesses",
    "KeyValueCache",
    "LastPooling",
    "LatentMixing",
    "LearnedPositions",
    "Linformer",
    "LoRALinear",
    "LocalAttention",
    "MaskedHead",
    "MaxPooling",
    "MeanPooling",
    "MultiHeadAttention",
    "NASCell",
    "PatchEmbedding",
    "Performer",
    "PostNorm",
    "PowerNorm",
    "PreNorm",
    "QuantisedLinear",
    "RMSNorm",
    "Recurrent",
    "Reformer",
    "RelativeBias",
    "RelativePositions",
    "RotaryPositions",
    "Routing",
    "SharedWorkspace",
    "SinusoidalPositions",
    "SoftAlignment",
    "StochasticDepth",
    "SwiGLU",
    "SwitchFFN",
    "TextDecoder",
    "Thought",
    "TiledAttention",
    "TokenMixing",
    "Trace",
    "TubeletEmbedding",
    "UniversalTransformer",
    "WindowAttention",
    "WindowBias",
    "Wiring",
    "WritingState",
    "add_lora",
    "attention_weights",
    "balance_loss",
    "box_corners",
    "box_iou",
    "causal_linear_attention",
    "causal_mask",
    "deep_norm_scales",
    "depth_rates",
    "detach_state",
    "dot_product_attention",
    "fourier_positions",
    "generalised_iou",
    "gradient_norms",
    "initialise",
    "initialise_deep_norm",
    "interpolate_positions",
    "join_neighbours",
    "linear_attention",
    "lora_parameters",
    "merge_lora",
    "merge_windows",
    "orthogonal_features",
    "padding_mask",
    "pair_neighbours",
    "partition_windows",
    "quantise",
    "random_features",
    "relative_index",
    "reverse_sequences",
    "routings",
    "select_rows",
    "shift_mask",
    "shift_regions",
    "stored_bytes",
    "tiled_attention",
    "truncated_normal_",
    "use_deep_norm",
    "use_switch",
]
