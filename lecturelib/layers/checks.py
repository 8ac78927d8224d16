"""Checks at the door of layers and models: what was given, what is allowed, what to do."""

import torch
from torch import Tensor


def ends(values: Tensor) -> tuple[int, int] | None:
    """The smallest and the largest of some integers; None if there are none, or a look is impossible or costs a stop.

    A look is free on the CPU; it is a stop on a GPU, and impossible where tensors have no values: on `meta`, while
    compiling, exporting or faking, and under `torch.vmap`.
    """
    is_plain = type(values) is Tensor and values.device.type == "cpu"
    if torch.compiler.is_compiling() or not is_plain or values.numel() == 0:
        return None
    try:
        low, high = values.aminmax()
        return int(low), int(high)
    except RuntimeError:  # vmap shows every example at once, and no way to ask if it is there
        return None


def check_tokens(tokens: Tensor, vocab_size: int, name: str = "tokens", *, batch: int | None = None) -> None:
    """Raise unless `tokens` is a (batch, length) tensor of ids below `vocab_size`, with `batch` rows where that is set.

    The ids themselves are looked at only where that is free; see `ends`.
    """
    if tokens.dim() != 2 or (batch is not None and tokens.shape[0] != batch):
        rows = "batch" if batch is None else batch
        raise ValueError(f"{name} must be ({rows}, length) token ids, got {tuple(tokens.shape)}")
    check_ids(tokens, vocab_size, name)


def check_ids(tokens: Tensor, vocab_size: int, name: str = "tokens") -> None:
    """Raise unless `tokens`, of any shape, holds integer ids below `vocab_size`; see `check_tokens`."""
    if tokens.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} must be integer token ids, got {tokens.dtype}")
    found = ends(tokens)
    if found and (found[0] < 0 or found[1] >= vocab_size):
        wrong = found[0] if found[0] < 0 else found[1]
        raise ValueError(f"{name} must be ids from 0 to {vocab_size - 1}, got {wrong}; was another vocabulary used?")


def check_lengths(lengths: Tensor, batch: int, length: int, name: str = "lengths", *, shortest: int = 0) -> None:
    """Raise unless `lengths` holds, for each row, how many of its `length` steps are real: `shortest` or more."""
    if lengths.shape != (batch,) or lengths.is_floating_point():
        raise ValueError(f"{name} must be ({batch},) integers, got {lengths.dtype} {tuple(lengths.shape)}")
    found = ends(lengths)
    if found and not shortest <= found[0] <= found[1] <= length:
        raise ValueError(f"{name} must be between {shortest} and the padded length {length}, got {lengths.tolist()}")


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
    if d_model < 1 or num_heads < 1 or d_model % num_heads:
        raise ValueError(f"{owner}: num_heads must divide d_model, got d_model={d_model} and num_heads={num_heads}")
