"""A Llama whose linear layers never are float32 all at once: each is read, stored in few bits, and forgotten."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from lecturelib.data.store.gguf import read_gguf
from lecturelib.layers.quantised import QuantisedLinear, fits_in_blocks
from lecturelib.models.llama import Llama
from lecturelib.models.weights.blocks import dequantise
from lecturelib.models.weights.gguf import GGUF_LAYOUTS
from lecturelib.models.weights.layout import copy_weights


def load_in_bits(path: Path | str, bits: int) -> Llama:
    """`quantise(load(Llama, path), bits=bits)` of a GGUF file, in a fraction of the memory that this would take.

    Args:
        path: of the file
        bits: 8 or 4, of the linear layers; embeddings and norms are float32
    """
    file, layout = read_gguf(path), GGUF_LAYOUTS[Llama]
    assert layout.config is not None
    shapes = {name: torch.empty(raw.shape, device="meta") for name, raw in file.tensors.items()}
    with torch.device("meta"):  # sizes without numbers
        model: Any = layout.build(Llama, layout.config(file.settings), shapes)
    where = layout.entries(model)
    copy_weights(model, shapes, where)  # copies nothing, but says what does not fit
    for name, entry in where.items():
        path_to_part, _, kind = name.rpartition(".")
        part = model.get_submodule(path_to_part)
        setattr(part, kind, nn.Parameter(dequantise(file.tensors[entry.name], entry.name)))
        if fits_in_blocks(part):
            owner, _, place = path_to_part.rpartition(".")
            setattr(model.get_submodule(owner), place, QuantisedLinear(part, bits))
    return model
