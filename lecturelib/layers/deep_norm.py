"""The numbers of DeepNorm: what multiplies the stream, and the first weights, in a stack of some depth."""

from typing import NamedTuple

from torch import nn

SCALED_DOWN = ("value_proj", "out_proj", "widen", "narrow")
"""The matrices whose first weights are multiplied by beta; queries and keys are not, for softmax hides their size."""


class Scales(NamedTuple):
    """What multiplies the stream (alpha), and the first weights of a stack (beta)."""

    alpha: float
    beta: float


def deep_norm_scales(num_layers: int, *, encoder_layers: int = 0, decoder_layers: int = 0) -> Scales:
    """Return alpha and beta of a stack of this depth.

    Paper: Wang et al. 2022 [wang2022deepnet], Figure 2.
    Differs: nothing.

    Args:
        num_layers: of the stack itself
        encoder_layers: given for a decoder that reads an encoder of this depth
        decoder_layers: given for an encoder that is read by a decoder of this depth
    """
    if decoder_layers:
        product = num_layers**4 * decoder_layers
        return Scales(0.81 * product ** (1 / 16), 0.87 * product ** (-1 / 16))
    if encoder_layers:
        return Scales((3 * num_layers) ** 0.25, (12 * num_layers) ** -0.25)
    return Scales((2 * num_layers) ** 0.25, (8 * num_layers) ** -0.25)


def initialise_deep_norm(blocks: nn.Module, beta: float) -> None:
    """Start matrices Xavier-normal, times beta for those named in `SCALED_DOWN`, and biases at zero.

    With beta=1 this is the plain Xavier start that the papers on deep post-norm stacks compare with.
    """
    for name, module in blocks.named_modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight, gain=beta if name.endswith(SCALED_DOWN) else 1.0)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
