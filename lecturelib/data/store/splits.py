"""Train, validation and test: who goes where is a function of the content, and of nothing else."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Splits(Generic[T]):
    """The three parts of a data set; `splits["test"]` is `splits.test`."""

    train: T
    validation: T
    test: T

    def __getitem__(self, name: str) -> T:
        if name not in SPLITS:
            raise KeyError(f"there is no split {name!r}: choose one of {', '.join(SPLITS)}")
        part: T = getattr(self, name)
        return part


def split_of(key: str, *, validation: float = 0.05, test: float = 0.05) -> str:
    """The split that content with this key belongs to, by its hash: the same on every machine, in every order.

    Equal keys always share a split, so nothing leaks from one to another however often it occurs in the source.
    """
    if not (validation >= 0 and test >= 0 and validation + test <= 1):
        raise ValueError(f"validation={validation} and test={test} must be shares of 1, together at most 1")
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    position = int.from_bytes(digest, "big") / 2**64  # uniform in [0, 1)
    if position < test:
        return "test"
    return "validation" if position < test + validation else "train"


def split_by(items: Iterable[T], key: Callable[[T], str], *, validation: float, test: float) -> Splits[list[T]]:
    """Deal the items out by their keys; each part keeps the order of the source."""
    parts: Splits[list[T]] = Splits([], [], [])
    for item in items:
        parts[split_of(key(item), validation=validation, test=test)].append(item)
    return parts
