"""Layouts of `torch.nn`: its attention, its transformer layers and its recurrent nets, as layers of ours."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PostNorm, PreNorm
from lecturelib.layers.cells import GRU, LSTM, RNN, Cell, TorchCell
from lecturelib.layers.decoder_block import DecoderBlock
from lecturelib.layers.recurrent import KERNELS, Recurrent
from lecturelib.models.weights.layout import Entries, Entry, modules

PROJECTIONS = ("query", "key", "value")
CELLS: dict[str, Callable[[int, int], Cell]] = {
    "RNN_TANH": RNN,
    "RNN_RELU": partial(RNN, nonlinearity="relu"),
    "LSTM": LSTM,
    "GRU": GRU,
}


class TorchLayout(NamedTuple):
    """How one of our layers is stored in a module of `torch.nn`.

    `build` makes ours in the sizes of theirs; `entries` takes ours and theirs, and raises where they do not match;
    `tensors` is what theirs holds.
    """

    theirs: type[nn.Module]
    build: Callable[[Any], nn.Module]
    entries: Callable[[Any, Any], Entries]
    tensors: Callable[[Any], dict[str, Tensor]] = nn.Module.state_dict


# Attention ----------------------------------------------------------------------------------------------------------


def _build_attention(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    return MultiHeadAttention(
        theirs.embed_dim,
        theirs.num_heads,
        kv_dim=theirs.kdim,
        dropout=theirs.dropout,
        bias=theirs.in_proj_bias is not None,
    )


def _attention_entries(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Entries:
    if theirs.bias_k is not None or theirs.bias_v is not None or theirs.add_zero_attn:
        raise ValueError("add_bias_kv and add_zero_attn have no counterpart here; build the torch module without")
    if theirs.num_heads != ours.num_heads:
        raise ValueError(f"num_heads differs: {theirs.num_heads} in the torch module, {ours.num_heads} here")
    if (theirs.in_proj_bias is None) != (ours.out_proj.bias is None):
        raise ValueError("one module has biases and the other has none; build both with the same `bias`")
    entries = {"out_proj.weight": Entry("out_proj.weight"), "out_proj.bias": Entry("out_proj.bias")}
    for third, name in enumerate(PROJECTIONS):
        joined = theirs.in_proj_weight is not None
        entries[f"{name}_proj.weight"] = Entry("in_proj_weight", third) if joined else Entry(f"{name[0]}_proj_weight")
        entries[f"{name}_proj.bias"] = Entry("in_proj_bias", third)
    return {name: entry for name, entry in entries.items() if theirs.in_proj_bias is not None or "bias" not in name}


# Blocks -------------------------------------------------------------------------------------------------------------

FEED_FORWARD = {"feed_forward.widen": "linear1", "feed_forward.narrow": "linear2"}


def _rest_of_block(theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> tuple[FeedForward, Any]:
    dropout, widen = theirs.dropout.p, theirs.linear1
    d_model, d_ff = widen.in_features, widen.out_features
    wiring = partial(
        PreNorm if theirs.norm_first else PostNorm, d_model, dropout=theirs.dropout1.p, eps=theirs.norm1.eps
    )
    return FeedForward(d_model, d_ff, activation=theirs.activation, dropout=dropout), wiring


def _build_block(theirs: nn.TransformerEncoderLayer) -> Block:
    return Block(_build_attention(theirs.self_attn), *_rest_of_block(theirs))


def _build_decoder_block(theirs: nn.TransformerDecoderLayer) -> DecoderBlock:
    mixer, cross = _build_attention(theirs.self_attn), _build_attention(theirs.multihead_attn)
    return DecoderBlock(mixer, cross, *_rest_of_block(theirs))


def _block_entries(ours: Block, theirs: nn.TransformerEncoderLayer) -> Entries:
    norms = {"mixer_wiring.norm": "norm1", "feed_forward_wiring.norm": "norm2"}
    return _inner_attention("mixer", ours.mixer, "self_attn", theirs.self_attn) | _other_modules(ours, norms)


def _decoder_block_entries(ours: DecoderBlock, theirs: nn.TransformerDecoderLayer) -> Entries:
    norms = {"mixer_wiring.norm": "norm1", "cross_wiring.norm": "norm2", "feed_forward_wiring.norm": "norm3"}
    entries = _inner_attention("mixer", ours.mixer, "self_attn", theirs.self_attn)
    entries |= _inner_attention("cross", ours.cross, "multihead_attn", theirs.multihead_attn)
    return entries | _other_modules(ours, norms)


def _inner_attention(here: str, ours: nn.Module, there: str, theirs: nn.MultiheadAttention) -> Entries:
    if not isinstance(ours, MultiHeadAttention):
        raise TypeError(f"torch's layer has multi-head attention and this block mixes with {type(ours).__name__}")
    entries = _attention_entries(ours, theirs)
    return {f"{here}.{name}": entry._replace(name=f"{there}.{entry.name}") for name, entry in entries.items()}


def _other_modules(ours: Block | DecoderBlock, norms: dict[str, str]) -> Entries:
    if not isinstance(ours.feed_forward, FeedForward):
        kind = type(ours.feed_forward).__name__
        raise TypeError(f"torch's layer has a two-matrix feed-forward net and this block has {kind}")
    return modules(FEED_FORWARD | norms)


# Recurrent nets -----------------------------------------------------------------------------------------------------


def _build_recurrent(theirs: nn.RNNBase) -> Recurrent:
    return Recurrent(
        CELLS[theirs.mode],
        theirs.input_size,
        theirs.hidden_size,
        num_layers=theirs.num_layers,
        bidirectional=theirs.bidirectional,
        dropout=theirs.dropout,
    )


def _recurrent_entries(ours: Recurrent, theirs: nn.RNNBase) -> Entries:
    if theirs.proj_size:
        raise ValueError("proj_size has no counterpart here; build the torch module without")
    layers = (theirs.num_layers, 2 if theirs.bidirectional else 1)
    if layers != (ours.num_layers, ours.directions):
        raise ValueError(
            f"the torch module has {layers[0]} layers × {layers[1]} directions, this one has "
            f"{ours.num_layers} × {ours.directions}"
        )
    entries: Entries = {}
    for index, cell in enumerate(ours.cells):
        if not isinstance(cell, TorchCell) or cell.kernel() is not KERNELS[theirs.mode]:
            raise ValueError(f"cannot copy a torch {theirs.mode} into a {type(cell).__name__} cell")
        layer, direction = divmod(index, ours.directions)
        suffix = f"_l{layer}_reverse" if direction else f"_l{layer}"
        entries |= {f"cells.{index}.{name}": Entry(name + suffix) for name, _ in cell.named_parameters()}
    return entries


def _recurrent_tensors(theirs: nn.RNNBase) -> dict[str, Tensor]:
    """All weights; built with bias=False it has the biases that change nothing."""
    tensors = dict(theirs.state_dict())
    if not theirs.bias:
        for name in [name for name in tensors if name.startswith("weight")]:
            tensors[name.replace("weight", "bias")] = torch.zeros(len(tensors[name]))
    return tensors


TORCH_NN: dict[type[nn.Module], TorchLayout] = {
    MultiHeadAttention: TorchLayout(nn.MultiheadAttention, _build_attention, _attention_entries),
    Block: TorchLayout(nn.TransformerEncoderLayer, _build_block, _block_entries),
    DecoderBlock: TorchLayout(nn.TransformerDecoderLayer, _build_decoder_block, _decoder_block_entries),
    Recurrent: TorchLayout(nn.RNNBase, _build_recurrent, _recurrent_entries, _recurrent_tensors),
}
