"""Ways to mix tokens below quadratic cost, one file each, called as `MultiHeadAttention` is."""

from lecturelib.layers.mixers.adaptive_span import AdaptiveSpan
from lecturelib.layers.mixers.big_bird import BigBird
from lecturelib.layers.mixers.fourier import FourierMixing
from lecturelib.layers.mixers.latents import CrossBlock, LatentMixing
from lecturelib.layers.mixers.linformer import Linformer
from lecturelib.layers.mixers.local import LocalAttention
from lecturelib.layers.mixers.performer import (
    Performer,
    causal_linear_attention,
    linear_attention,
    orthogonal_features,
    random_features,
)
from lecturelib.layers.mixers.reformer import Reformer
from lecturelib.layers.mixers.tiled import TiledAttention, tiled_attention
from lecturelib.layers.mixers.token_mlp import TokenMixing
from lecturelib.layers.mixers.universal import Thought, UniversalTransformer
from lecturelib.layers.mixers.workspace import SharedWorkspace

__all__ = [
    "AdaptiveSpan",
    "BigBird",
    "CrossBlock",
    "FourierMixing",
    "LatentMixing",
    "Linformer",
    "LocalAttention",
    "Performer",
    "Reformer",
    "SharedWorkspace",
    "Thought",
    "TiledAttention",
    "TokenMixing",
    "UniversalTransformer",
    "causal_linear_attention",
    "linear_attention",
    "orthogonal_features",
    "random_features",
    "tiled_attention",
]
