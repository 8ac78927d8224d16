"""Linformer: the whole length is summed up in k keys and k values by two learned matrices."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.mixers.mixer import SelfMixer


class Linformer(SelfMixer):
    """Attend to k learned mixtures of the keys and values: T · k scores instead of T · T.

    Paper: Wang et al. 2020 [wang2020linformer], Equation 7.
    Differs: nothing. Heads share their two matrices E and F, one of the paper's choices ("headwise sharing"). Shorter
    sequences use the first T rows; padding is left out of the mixtures.

    Args:
        d_model, num_heads, bias: as in `MultiHeadAttention`
        max_len: of the longest sequence; E and F have a row for each position
        k: mixtures of keys, and of values

    Shapes: (B, T, D) -> (B, T, D)
    """

    can_be_causal = False

    def __init__(self, d_model: int, num_heads: int, *, max_len: int, k: int = 256, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, bias=bias)
        if max_len < 1 or k < 1:
            raise ValueError(f"Linformer: max_len and k must be at least 1, got {max_len} and {k}")
        self.max_len = max_len
        self.key_mixtures = nn.Parameter(torch.empty(max_len, k))  # E
        self.value_mixtures = nn.Parameter(torch.empty(max_len, k))  # F
        for mixtures in (self.key_mixtures, self.value_mixtures):
            nn.init.uniform_(mixtures, -1 / math.sqrt(k), 1 / math.sqrt(k))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, *, is_causal: bool) -> Tensor:
        """Project keys and values along the length, then attend."""
        length = k.shape[2]
        if length > self.max_len:
            raise ValueError(f"Linformer was built for max_len={self.max_len}, got a sequence of {length}")
        if real is not None:
            k, v = (x.masked_fill(~real[:, None, :, None], 0.0) for x in (k, v))
        of_keys, of_values = self.key_mixtures[:length].T.to(k.dtype), self.value_mixtures[:length].T.to(v.dtype)
        return F.scaled_dot_product_attention(q, of_keys @ k, of_values @ v)  # (B, H, T, Dh)
