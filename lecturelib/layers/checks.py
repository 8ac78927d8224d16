"""Checks at the door of layers and models: what was given, what is allowed, what to do."""

import torch
from torch import Tensor


def check_tokens(tokens: Tensor, vocab_size: int, name: str = "tokens", *, batch: int | None = None) -> None:
    """Raise unless `tokens` is a (batch, length) tensor of ids below `vocab_size`.

    The ids themselves are looked at only on the CPU and outside the compiler: elsewhere it would cost a stop.

    Args:
        tokens: what the caller gave
        vocab_size: one more than the largest id
        name: what the caller calls it
        batch: how many rows it must have, when that is settled by another argument
    """
    if tokens.dim() != 2 or (batch is not None and tokens.shape[0] != batch):
        rows = "batch" if batch is None else batch
        raise ValueError(f"{name} must be ({rows}, length) token ids, got {tuple(tokens.shape)}")
    check_ids(tokens, vocab_size, name)


def check_ids(tokens: Tensor, vocab_size: int, name: str = "tokens") -> None:
    """Raise unless `tokens`, of any shape, holds integer ids below `vocab_size`; see `check_tokens`."""
    if tokens.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} must be integer token ids, got {tokens.dtype}")
    if torch.compiler.is_compiling() or tokens.device.type != "cpu" or not tokens.numel():
        return
    low, high = (int(end) for end in tokens.aminmax())
    if low < 0 or high >= vocab_size:
        wrong = low if low < 0 else high
        raise ValueError(f"{name} must be ids from 0 to {vocab_size - 1}, got {wrong}; was another vocabulary used?")


def check_lengths(lengths: Tensor, batch: int, length: int, name: str = "lengths") -> None:
    """Raise unless `lengths` holds, for each row, how many of its `length` steps are real."""
    if lengths.shape != (batch,) or lengths.is_floating_point():
        raise ValueError(f"{name} must be ({batch},) integers, got {lengths.dtype} {tuple(lengths.shape)}")
    if torch.compiler.is_compiling() or not batch:
        return
    if not 0 <= int(lengths.min()) <= int(lengths.max()) <= length:
        raise ValueError(f"{name} must be between 0 and the padded length {length}, got {lengths.tolist()}")


def check_config(config: object, *, sizes: tuple[str, ...], dropout: tuple[str, ...] = ("dropout",)) -> None:
    """Raise unless the named fields of a config are sizes of at least 1, and the named dropouts in [0, 1)."""
    for name in sizes:
        if getattr(config, name) < 1:
            raise ValueError(f"{type(config).__name__}: {name} must be at least 1, got {getattr(config, name)}")
    for name in dropout:
        if not 0.0 <= getattr(config, name) < 1.0:
            raise ValueError(f"{type(config).__name__}: {name} must be in [0, 1), got {getattr(config, name)}")


def check_heads(d_model: int, num_heads: int, owner: str) -> None:
    """Raise unless the heads divide the width; `owner` is whose numbers they are."""
    if num_heads < 1 or d_model % num_heads:
        raise ValueError(f"{owner}: num_heads must divide d_model, got d_model={d_model} and num_heads={num_heads}")
