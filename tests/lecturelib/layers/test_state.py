from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lecturelib.layers.state import DecodingState, detach_state, select_rows


@dataclass(frozen=True)
class Nested:
    layers: tuple[dict[str, Tensor], ...]
    lengths: Tensor
    step: int
    mask: Tensor | None = None

    def select(self, index: Tensor) -> "Nested":
        return select_rows(self, index)


def nested(batch: int) -> Nested:
    rows = torch.arange(batch, dtype=torch.float32)
    layers = tuple({"key": rows[:, None] + 10 * layer, "value": rows[:, None, None] - layer} for layer in range(2))
    return Nested(layers=layers, lengths=torch.arange(batch), step=7)


def test_select_rows_repeats_and_reorders_every_tensor():
    state = nested(3)
    index = torch.tensor([2, 2, 0, 1, 2])
    chosen = state.select(index)
    for layer in range(2):
        for name in ("key", "value"):
            assert torch.equal(chosen.layers[layer][name], state.layers[layer][name][index])
    assert torch.equal(chosen.lengths, index)
    assert chosen.step == 7
    assert chosen.mask is None


def test_select_rows_leaves_the_old_state_alone():
    state = nested(3)
    before = state.layers[1]["key"].clone()
    state.select(torch.tensor([1])).layers[1]["key"].zero_()
    assert torch.equal(state.layers[1]["key"], before)


def test_select_rows_of_an_empty_choice_is_an_empty_batch():
    assert nested(3).select(torch.tensor([], dtype=torch.long)).layers[0]["value"].shape == (0, 1, 1)


def test_a_dataclass_with_select_is_a_decoding_state():
    assert isinstance(nested(2), DecodingState)
    assert not isinstance((torch.zeros(2),), DecodingState)


def test_detach_state_cuts_the_graph_and_keeps_the_values():
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    state = ((weight * 2, weight * 3), None)
    detached = detach_state(state)
    assert torch.equal(detached[0][1], state[0][1])
    assert not any(tensor.requires_grad for tensor in detached[0])


class Pair(NamedTuple):
    first: Tensor
    rest: list[Tensor]


def test_named_tuples_are_states_too():
    state = Pair(torch.arange(3.0, requires_grad=True), [torch.arange(3, 6)])
    chosen = select_rows(state, torch.tensor([2, 0]))
    assert type(chosen) is Pair
    assert chosen.first.tolist() == [2, 0]
    assert chosen.rest[0].tolist() == [5, 3]
    assert not detach_state(state).first.requires_grad
