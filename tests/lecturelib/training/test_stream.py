"""Batches by number, and everything random about them."""

import random
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from lecturelib.training import choose_device, to_device
from lecturelib.training.stream import BatchStream


@pytest.mark.parametrize("own_generator", [False, True])
def test_stream_of_a_shuffling_loader_can_be_entered_anywhere(own_generator) -> None:
    def stream() -> BatchStream:
        generator = torch.Generator().manual_seed(5) if own_generator else None
        return BatchStream(DataLoader(list(range(10)), batch_size=3, shuffle=True, generator=generator), seed=1)

    through = stream()
    whole = [through(i).tolist() for i in range(11)]
    for walk in (whole[:4], whole[4:8]):
        assert sorted(number for batch in walk for number in batch) == list(range(10))
    assert whole[:4] != whole[4:8]  # each pass is shuffled anew
    entered = stream()
    assert [entered(i).tolist() for i in (6, 7, 2, 10)] == [whole[i] for i in (6, 7, 2, 10)]


def test_stream_seeds_every_generator_for_its_batch() -> None:
    def draw(index: int) -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002  that one is meant

    stream = BatchStream(draw, seed=3)
    first, second, after = stream(0), stream(1), torch.rand(())
    assert BatchStream(draw, seed=3)(1) == second != first
    assert BatchStream(draw, seed=4)(1) != second
    stream(0)
    torch.rand(7)
    stream(1)
    assert torch.equal(torch.rand(()), after)  # what comes after fetching batch 1 is fixed too: dropout


def test_stream_rejects_what_it_can_not_walk_again() -> None:
    with pytest.raises(ValueError, match="empty"):
        BatchStream([], seed=0)(0)
    with pytest.raises(TypeError, match="generator, which can be walked only once"):
        BatchStream((i for i in range(3)), seed=0)
    with pytest.raises(TypeError, match="int; pass a function"):
        BatchStream(3, seed=0)  # type: ignore[arg-type]


class Named(NamedTuple):
    ids: torch.Tensor
    name: str


def test_to_device_reaches_every_tensor() -> None:
    meta = torch.device("meta")
    moved = to_device({"a": [torch.ones(2), (torch.ones(3), 4)], "b": Named(torch.ones(1), "x")}, meta)
    assert moved["a"][0].device == moved["a"][1][0].device == moved["b"].ids.device == meta
    assert moved["b"].name == "x"


def test_choose_device_says_what_is_wrong() -> None:
    assert choose_device("cpu").type == "cpu"
    with pytest.raises(ValueError, match="'abacus' is not a torch device"):
        choose_device("abacus")
    with pytest.raises(ValueError, match="'meta' is not available on this machine"):
        choose_device("meta")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="not available on this machine"):
            choose_device("cuda")
