"""Attention through many layers at once: how much of each input token reaches each output token."""

from collections.abc import Sequence

import torch
from torch import Tensor


def attention_rollout(weights: Sequence[Tensor]) -> Tensor:
    """Multiply the layers' attention, heads averaged, each with half of the stream passing by.

    Paper: Abnar and Zuidema 2020 [abnar2020quantifying], Section 3.
    Differs: nothing. It takes attention for all that a layer does: values, feed-forward and norms are left out.

    Args:
        weights: for each layer, first to last, (B, H, T, T) with rows that sum to 1

    Shapes: -> (B, T, T), rows that sum to 1
    """
    if not weights:
        raise ValueError("attention_rollout needs the weights of at least one layer")
    rolled: Tensor | None = None
    for layer in weights:
        if layer.dim() != 4 or layer.shape[-1] != layer.shape[-2]:
            raise ValueError(f"each layer's weights must be (batch, heads, tokens, tokens), got {tuple(layer.shape)}")
        mean = layer.mean(dim=1)  # (B, T, T)
        passed = (mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)) / 2
        rolled = passed if rolled is None else passed @ rolled
    assert rolled is not None
    return rolled
