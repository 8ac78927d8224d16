"""Linear layers whose weights are kept in 8 or 4 bits, and made into numbers again at every call."""

from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCK = 32
BITS = (8, 4)


class QuantisedLinear(nn.Module):
    """A linear layer that stores each block of 32 weights as small integers with a common scale and least value.

    A weight is scale · code + least, with codes from 0 to 2^bits - 1. In 4 bits a byte holds two codes, and a weight
    costs 5 bits with its share of the block's two half-precision numbers; in 8 bits it costs 9.

    Paper: none; the blocks are those of llama.cpp's Q4_1.
    Differs: a row's even features are the low halves of its bytes; in 8 bits there is a least value too.

    Args:
        linear: the layer to store
        bits: 8 or 4

    Shapes: (..., Din) -> (..., Dout)
    """

    codes: Tensor
    scale: Tensor
    least: Tensor

    def __init__(self, linear: nn.Linear, bits: int) -> None:
        super().__init__()
        if bits not in BITS:
            raise ValueError(f"weights are kept in 8 or 4 bits, got bits={bits}")
        if linear.in_features % BLOCK:
            raise ValueError(f"rows come in blocks of {BLOCK}, got in_features={linear.in_features}")
        self.in_features, self.out_features, self.bits = linear.in_features, linear.out_features, bits
        blocks = linear.weight.detach().float().unflatten(1, (-1, BLOCK))  # (Dout, N, 32)
        least, most = blocks.amin(-1, keepdim=True).half(), blocks.amax(-1, keepdim=True)  # (Dout, N, 1)
        scale = ((most - least) / (2**bits - 1)).half()
        steps = scale.float().where(scale > 0, 1.0)
        codes = ((blocks - least) / steps).round().clamp(0, 2**bits - 1).to(torch.uint8).flatten(1)  # (Dout, Din)
        self.register_buffer("codes", codes if bits == 8 else codes[:, 0::2] | codes[:, 1::2] << 4)
        self.register_buffer("scale", scale)
        self.register_buffer("least", least)
        self.bias = linear.bias

    def weight(self) -> Tensor:
        """The weights as numbers again, (Dout, Din)."""
        codes = self.codes if self.bits == 8 else torch.stack((self.codes & 15, self.codes >> 4), dim=-1).flatten(1)
        blocks = codes.unflatten(1, (-1, BLOCK)).float()  # (Dout, N, 32)
        return blocks.mul_(self.scale).add_(self.least).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """As a linear layer's, by weights that live for this call only."""
        return F.linear(x, self.weight().to(x.dtype), self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bits={self.bits}"


def quantise(model: nn.Module, *, bits: int) -> nn.Module:
    """Replace every linear layer inside a model, in place, by one that keeps its weights in so many bits; returns it.

    Embeddings stay as they are, and so does a layer whose rows are no whole number of blocks.
    """
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if fits_in_blocks(child):
                setattr(module, name, QuantisedLinear(child, bits))
    return model


def fits_in_blocks(part: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether `quantise` replaces this: a linear layer whose rows are whole blocks."""
    return type(part) is nn.Linear and part.in_features % BLOCK == 0


def stored_bytes(model: nn.Module) -> int:
    """How much memory a model's parameters and buffers take; what is shared counts once."""
    tensors = {tensor.data_ptr(): tensor for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
