"""DeepNorm: post-norm whose stream counts for more, and whose first weights are smaller, the deeper the stack."""

from typing import NamedTuple

from torch import Tensor, nn

from lecturelib.layers.block import PostNorm

SCALED_DOWN = ("value_proj", "out_proj", "widen", "narrow")
"""The matrices whose first weights are multiplied by beta; queries and keys are not, for softmax hides their size."""


class DeepNorm(PostNorm):
    """Multiply the stream by alpha before every addition, then normalise: norm(alpha · x + f(x)).

    Paper: Wang et al. 2022 [wang2022deepnet], Figure 2.
    Differs: nothing, with the numbers and first weights of `use_deep_norm`.

    Args:
        d_model: width of the stream
        alpha: how much the stream counts for; 1 is post-norm
        dropout: of the sublayer's output
        eps: of the layer norm
        branch: what the output passes through before it is added
    """

    def __init__(
        self, d_model: int, *, alpha: float, dropout: float = 0.0, eps: float = 1e-5, branch: nn.Module | None = None
    ) -> None:
        super().__init__(d_model, dropout=dropout, eps=eps, branch=branch)
        self.alpha = alpha

    def join(self, x: Tensor, out: Tensor) -> Tensor:
        """The weighted sum, normalised."""
        return self.norm(self.alpha * x + self.through_branch(out))

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:.4g}"


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


def use_deep_norm(stack: nn.ModuleList, *, encoder_layers: int = 0, decoder_layers: int = 0) -> None:
    """Turn a stack of blocks that is wired "post_norm" into one with DeepNorm, scaled and started by its depth.

    Args:
        stack: a model's blocks, such as `GPT.blocks` or `Transformer.encoder`; changed in place
        encoder_layers: given for a decoder that reads an encoder of this depth
        decoder_layers: given for an encoder that is read by a decoder of this depth
    """
    scales = deep_norm_scales(len(stack), encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    found = [
        (parent, name, child)
        for parent in stack.modules()
        for name, child in parent.named_children()
        if isinstance(child, PostNorm)
    ]
    if not found:
        raise ValueError('use_deep_norm needs blocks that are wired "post_norm"; these have no PostNorm')
    for parent, name, wiring in found:
        assert isinstance(wiring.norm, nn.LayerNorm), "the models that are wired post_norm have layer norms"
        (d_model,) = wiring.norm.normalized_shape
        deep = DeepNorm(d_model, alpha=scales.alpha, branch=wiring.branch)
        deep.norm, deep.dropout = wiring.norm, wiring.dropout
        setattr(parent, name, deep)
    initialise_deep_norm(stack, scales.beta)
