"""A small network as plain data: a list of layers, and the weights by name. It labels every symbol of a sequence.

    layers = [("embedding", 8), ("convolution", 16, 3, 1), ("relu",), ("linear", 4)]
    network = build(layers, num_symbols=8)      # tokens (B, T) -> (B, T, 4)
    answer = describe(layers, network)          # numbers and names only: what crosses to a grader

Whoever has the answer can build the network anew, count its parameters and operations, and run it. It needs no code of
the author's and believes no claim of theirs. This file needs torch only, so that a notebook can carry it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Kinds:
    """The layers there are, with the names of their numbers, and how many and how large they may be."""

    numbers = {  # noqa: RUF012 - nobody changes it
        "embedding": ("width",),
        "positions": ("length",),
        "convolution": ("width", "kernel", "dilation"),
        "recurrence": ("width",),
        "attention": ("heads",),
        "linear": ("width",),
        "norm": (),
        "relu": (),
        "gelu": (),
        "residual": ("layers",),
    }
    most_layers, largest = 32, 256


class Positions(nn.Module):
    """Add a learned vector for each position."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(length, width)

    def forward(self, x: Tensor) -> Tensor:
        length = self.table.num_embeddings
        return x + self.table(torch.arange(x.shape[1], device=x.device).clamp(max=length - 1))  # (B, T, D)


class Convolution(nn.Module):
    """Each output reads `kernel` symbols, the newest its own, `dilation` apart."""

    def __init__(self, width_in: int, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width_in, width, kernel, dilation=dilation)
        self.reach = (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        padded = nn.functional.pad(x.transpose(1, 2), (self.reach, 0))  # (B, D, reach + T)
        return self.conv(padded).transpose(1, 2)  # (B, T, width)


class Recurrence(nn.Module):
    """A GRU that reads from left to right."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width_in, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]  # (B, T, width)


class Attention(nn.Module):
    """Self-attention to the symbol itself and those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, Dh)
        return self.out(mixed.transpose(1, 2).flatten(2))  # (B, T, D)


class Residual(nn.Module):
    """x + f(x)"""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


def build(layers: Sequence[Any], num_symbols: int) -> nn.Sequential:
    """The network of a list of layers; ValueError if the list is not one. Each layer is a name and its numbers."""
    parts, _ = _build(layers, 0, num_symbols, [])
    return parts


def describe(layers: Sequence[Any], network: nn.Module) -> dict[str, Any]:
    """A built network as plain data."""
    return {"layers": layers, "weights": {name: tensor.detach() for name, tensor in network.state_dict().items()}}


def _build(layers: Any, width: int, num_symbols: int, seen: list[str]) -> tuple[nn.Sequential, int]:
    if not isinstance(layers, list | tuple) or not layers:
        raise ValueError(f"layers must be a list such as [('embedding', 8), ('linear', 4)], got {layers!r:.60}")
    made: list[nn.Module] = []
    for layer in layers:
        if not isinstance(layer, list | tuple) or not layer or layer[0] not in [*Kinds.numbers]:
            raise ValueError(f"a layer is one of {', '.join(Kinds.numbers)}, with its numbers; got {layer!r:.60}")
        name, *given = layer
        seen.append(name)
        if len(seen) > Kinds.most_layers:
            raise ValueError(f"more than {Kinds.most_layers} layers")
        if len(given) != len(Kinds.numbers[name]):
            wanted = ", ".join((name, *Kinds.numbers[name]))
            raise ValueError(f"a layer ({wanted}) has {len(Kinds.numbers[name])} numbers, got {layer!r:.60}")
        if (name == "embedding") != (len(seen) == 1):
            raise ValueError("the first layer, and no other, must be an embedding")
        if name == "residual":
            inner, after = _build(given[0], width, num_symbols, seen)
            if after != width:
                raise ValueError(f"a residual of width {width} has layers that end with width {after}; they must agree")
            made.append(Residual(inner))
            continue
        for number in given:
            if type(number) is not int or not 1 <= number <= Kinds.largest:
                raise ValueError(f"the numbers of a layer are from 1 to {Kinds.largest}, got {layer!r:.60}")
        part, width = _layer(name, given, width, num_symbols)
        made.append(part)
    return nn.Sequential(*made), width


def _layer(name: str, given: list[int], width: int, num_symbols: int) -> tuple[nn.Module, int]:
    match name, given:
        case "embedding", [wide]:
            return nn.Embedding(num_symbols, wide), wide
        case "positions", [length]:
            return Positions(length, width), width
        case "convolution", [wide, kernel, dilation]:
            return Convolution(width, wide, kernel, dilation), wide
        case "recurrence", [wide]:
            return Recurrence(width, wide), wide
        case "attention", [heads]:
            if width % heads:
                raise ValueError(f"{heads} heads do not divide the width {width}")
            return Attention(width, heads), width
        case "linear", [wide]:
            return nn.Linear(width, wide), wide
        case "norm", []:
            return nn.LayerNorm(width), width
    return (nn.ReLU() if name == "relu" else nn.GELU()), width
