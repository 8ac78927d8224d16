"""Sequence problems that isolate one ability: to remember over a gap, and to copy.

Each call makes one batch and is a function of its arguments, so `lambda step: copying(32, length=10, seed=step)` is a
stream of batches that training can resume anywhere. Test with seeds that training never reaches, negative ones say.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

IGNORE = -100  # the target of a position where nothing is asked, as torch's cross-entropy expects it
BLANK = 0


@dataclass(frozen=True)
class SequenceBatch:
    """What to read and what to answer, position by position.

    Shapes: inputs (B, T) with ids below vocab_size; targets (B, T), IGNORE where nothing is asked.
    """

    inputs: Tensor
    targets: Tensor
    vocab_size: int


def remembering(batch_size: int, *, gap: int, num_symbols: int = 8, seed: int = 0) -> SequenceBatch:
    """Say, at the end, which symbol came first; `gap` symbols of another alphabet come between.

    Ids: 0 the question, then `num_symbols` symbols to remember, then as many that only distract.
    """
    _check(1, batch_size=batch_size, num_symbols=num_symbols)
    _check(0, gap=gap)
    draw = _generator("remembering", seed)
    inputs = np.zeros((batch_size, gap + 2), dtype=np.int64)
    inputs[:, 0] = draw.integers(1, num_symbols + 1, batch_size)
    inputs[:, 1:-1] = draw.integers(num_symbols + 1, 2 * num_symbols + 1, (batch_size, gap))
    targets = np.full_like(inputs, IGNORE)
    targets[:, -1] = inputs[:, 0]
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), 2 * num_symbols + 1)


def copying(
    batch_size: int, *, length: int, gap: int = 0, num_symbols: int = 8, reverse: bool = False, seed: int = 0
) -> SequenceBatch:
    """Read `length` symbols, wait for `gap` blanks, and write them again, in order or in reverse.

    Ids: 0 blank, then the symbols. T = 2 length + gap.
    """
    _check(1, batch_size=batch_size, num_symbols=num_symbols, length=length)
    _check(0, gap=gap)
    symbols = _generator("copying", seed).integers(1, num_symbols + 1, (batch_size, length))
    blanks = np.full((batch_size, gap + length), BLANK)
    silence = np.full((batch_size, length + gap), IGNORE)
    answer = symbols[:, ::-1] if reverse else symbols
    inputs = np.concatenate([symbols, blanks], axis=1)  # (B, T)
    targets = np.concatenate([silence, answer], axis=1)  # (B, T)
    return SequenceBatch(torch.from_numpy(inputs), torch.from_numpy(targets), num_symbols + 1)


def _generator(task: str, seed: int) -> np.random.Generator:
    """A generator for this task and seed; any integer is a seed."""
    return np.random.Generator(np.random.PCG64([*task.encode(), abs(seed), int(seed < 0)]))


def _check(least: int, **sizes: int) -> None:
    for name, size in sizes.items():
        if size < least:
            raise ValueError(f"{name}={size} must be at least {least}")
