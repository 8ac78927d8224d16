"""MLP-Mixer's mixer: a feed-forward net over positions, the same for every feature."""

import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import Memory
from lecturelib.layers.block import FeedForward
from lecturelib.layers.mixers.mixer import check_alone, check_whole


class TokenMixing(nn.Module):
    """Turn the sequence on its side and send every feature's T numbers through one feed-forward net.

    Paper: Tolstikhin et al. 2021 [tolstikhin2021mlp], Equation 1, first line.
    Differs: nothing.

    Args:
        length: T, of every sequence
        d_tokens: width of the net's hidden layer

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(self, length: int, d_tokens: int) -> None:
        super().__init__()
        if length < 1 or d_tokens < 1:
            raise ValueError(f"TokenMixing: length and d_tokens must be at least 1, got {length} and {d_tokens}")
        self.length = length
        self.net = FeedForward(length, d_tokens, activation=F.gelu)

    def forward(
        self,
        x: Tensor,
        key: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Memory | None = None,
    ) -> Tensor:
        """Mix positions; `key`, `mask`, `is_causal` and `cache` are refused."""
        check_alone("TokenMixing", key, cache)
        check_whole("TokenMixing", mask, is_causal)
        if x.shape[1] != self.length:
            raise ValueError(f"TokenMixing was built for {self.length} tokens, got {x.shape[1]}")
        return self.net(x.transpose(1, 2)).transpose(1, 2)  # (B, T, D)
