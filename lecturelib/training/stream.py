"""Batches by number: batch i is the same batch whenever, and in whichever process, it is asked for.

Everything random about batch i (shuffling, augmentation, dropout) is drawn from generators that are seeded with the
run's seed and i. That one decision makes a resumed run equal an uninterrupted one without saving any generator's
state, and makes two processes draw the dropout masks that one process would have drawn.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

_NOTHING = object()
Batches = Callable[[int], Any] | Iterable[Any]


def seed_everything(seed: int, index: int = 0) -> None:
    """Seed torch (all devices), numpy and random for the index-th batch of a run."""
    number = int(np.random.SeedSequence((seed, index)).generate_state(1, np.uint64)[0])
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)  # noqa: NPY002  a caller's data set may draw from numpy's global generator


class BatchStream:
    """Give batch i of an endless stream made of a function `i -> batch` or of an iterable walked again and again.

    An iterable is walked in order, so going back means walking again from the start, with the same seeds.
    """

    def __init__(self, batches: Batches, seed: int) -> None:
        if isinstance(batches, Iterator):
            raise TypeError(
                f"batches is a {type(batches).__name__}, which can be walked only once; pass a function step -> batch, "
                "a list or a DataLoader"
            )
        if not callable(batches) and not isinstance(batches, Iterable):
            raise TypeError(
                f"batches is a {type(batches).__name__}; pass a function step -> batch, a list or a DataLoader"
            )
        self._batches = batches
        self._seed = seed
        self._walk: Iterator[Any] = iter(())
        self._next = 0  # the number that the walk gives next

    def __call__(self, index: int) -> Any:
        """Return batch `index`, and leave every global generator seeded for it."""
        if not isinstance(self._batches, Iterable):
            seed_everything(self._seed, index)
            return self._batches(index)
        if index < self._next:
            self._walk, self._next = iter(()), 0
        while True:
            batch = self._advance(self._batches)
            if self._next > index:
                return batch

    def _advance(self, batches: Iterable[Any]) -> Any:
        seed_everything(self._seed, self._next)
        try:
            batch = next(self._walk)
        except StopIteration:
            self._walk = self._walk_again(batches)
            batch = next(self._walk, _NOTHING)
        if batch is _NOTHING:
            raise ValueError("batches is empty: there is nothing to train on")
        self._next += 1
        return batch

    def _walk_again(self, batches: Iterable[Any]) -> Iterator[Any]:
        generator = getattr(batches, "generator", None)  # a DataLoader may shuffle with a generator of its own
        if isinstance(generator, torch.Generator):
            generator.manual_seed(torch.initial_seed())
        return iter(batches)
