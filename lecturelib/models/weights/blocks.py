"""The tensor types of GGUF that are read here: plain numbers, and blocks of 32 small integers with a common scale.

| type | bits a weight | a block of 32 weights |
|------|---------------|-----------------------|
| Q8_0 | 8.5           | a half-precision scale d and 32 signed bytes q; the weight is d · q |
| Q4_0 | 4.5           | d and 16 bytes, two 4-bit numbers q in each; the weight is d · (q - 8) |
| Q4_1 | 5             | d, a half-precision least value m, and 16 bytes; the weight is d · q + m |

In the 4-bit types a block's first 16 weights are the low halves of its bytes, and the last 16 are the high halves.

Differs: nothing; the layouts are those of llama.cpp's `ggml-common.h`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lecturelib.data.store.gguf import RawTensor

BLOCK = 32


class _Type(NamedTuple):
    """How many weights a block has, in how many bytes, and what makes of blocks (N, bytes) weights (N, weights)."""

    weights: int
    bytes: int
    read: Callable[[np.ndarray], np.ndarray]


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """The half-precision number at a byte of each block. Shapes: (N, bytes) -> (N, 1)"""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """The two 4-bit numbers of each byte, all low ones first. Shapes: (N, 16) -> (N, 32)"""
    return np.concatenate((packed & 15, packed >> 4), axis=1).astype(np.float32)


TYPES = {
    0: _Type(1, 4, lambda blocks: blocks.view("<f4")),
    1: _Type(1, 2, lambda blocks: blocks.view("<f2").astype(np.float32)),
    2: _Type(BLOCK, 18, lambda blocks: _half(blocks, 0) * (_nibbles(blocks[:, 2:]) - 8)),
    3: _Type(BLOCK, 20, lambda blocks: _half(blocks, 0) * _nibbles(blocks[:, 4:]) + _half(blocks, 2)),
    8: _Type(BLOCK, 34, lambda blocks: _half(blocks, 0) * blocks[:, 2:].view(np.int8)),
}
READ = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 8: "Q8_0"}
KNOWN = READ | {
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    30: "BF16",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}


def dequantise(raw: RawTensor, name: str = "the tensor") -> Tensor:
    """A tensor of a GGUF file as float32; a type that is not read here is refused by its name."""
    if raw.type not in TYPES:
        raise ValueError(
            f"{name} is stored as {KNOWN.get(raw.type, f'type {raw.type}')}; {', '.join(READ.values())} can be read "
            "here, so ask for the file in one of those"
        )
    kind, count = TYPES[raw.type], math.prod(raw.shape)
    if raw.shape and raw.shape[-1] % kind.weights:
        raise ValueError(f"{name} of shape {raw.shape} cannot be {READ[raw.type]}: rows come in blocks of {BLOCK}")
    size = count // kind.weights * kind.bytes
    if len(raw.data) < size:
        raise ValueError(f"{name} is cut off: {size} bytes were expected and {len(raw.data)} are there; fetch it again")
    blocks = np.ascontiguousarray(raw.data[:size]).reshape(-1, kind.bytes)  # (N, bytes)
    return torch.from_numpy(np.array(kind.read(blocks), dtype=np.float32)).reshape(raw.shape)
