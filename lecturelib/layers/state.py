"""What a model remembers between two decoding steps, and the protocol that lets one search decode them all.

A decodable model has two methods. `start` reads what is given, a source or a prompt; `step` takes one token per row
and the state, and returns the logits of the next token and the new state:

    state = model.start(source, source_lengths)    # an encoder-decoder: nothing is written yet
    logits, state = model.start(prompt, lengths)   # a language model: logits of what follows; lengths may be left out
    logits, state = model.step(tokens, state)      # tokens (B,) -> logits (B, V)
    state = state.select(index)                    # rows reordered, repeated or dropped: beams

A state is never changed in place: the one passed to `step` stays valid, so a search may branch from it.
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor

from lecturelib.layers.precision import is_autocast

State = TypeVar("State")


@runtime_checkable
class DecodingState(Protocol):
    """A batch of half-finished sequences; every tensor in it has the batch as its first axis."""

    def select(self, index: Tensor) -> Self:
        """Take the rows `index` (any length, repeats allowed), as `tensor[index]` would of every tensor inside."""
        ...


@runtime_checkable
class Decodable(Protocol[State]):
    """A model that a greedy, sampling or beam search can drive; `start` differs between kinds of model."""

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Feed one token to every row: tokens (B,) -> logits of the next token (B, V), and the new state."""
        ...


def select_rows(state: State, index: Tensor) -> State:
    """Take rows `index` of the first axis of every tensor in a nest of dataclasses, tuples, lists and dicts.

    Anything that is not a tensor (None, a number) is the same for all rows and stays as it is.

    Shapes: every tensor (B, ...), index (B',) -> (B', ...)
    """
    return _map_tensors(state, lambda tensor: tensor.index_select(0, index))


def detach_state(state: State) -> State:
    """Cut the graph behind a state, so that truncated backpropagation stops at it.

    Paper: Williams & Peng 1990 [williams1990efficient].
    Differs: nothing; gradients stop at every chunk border, so the truncation length is the chunk length.
    """
    return _map_tensors(state, torch.Tensor.detach)


def in_precision_of(weight: Tensor, state: State) -> State:
    """Bring a state's real numbers into the type of a model's weights, should autocast have made it and be gone."""
    if is_autocast(weight):
        return state  # products find their own type
    return _map_tensors(state, lambda tensor: tensor.to(weight.dtype) if tensor.is_floating_point() else tensor)


def _map_tensors(state: Any, function: Any) -> Any:
    if isinstance(state, Tensor):
        return function(state)
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{f.name: _map_tensors(getattr(state, f.name), function) for f in fields(state)})
    if isinstance(state, dict):
        return {key: _map_tensors(value, function) for key, value in state.items()}
    if isinstance(state, tuple) and hasattr(state, "_fields"):  # a NamedTuple takes its fields one by one
        return type(state)(*(_map_tensors(value, function) for value in state))
    if isinstance(state, tuple | list):
        return type(state)(_map_tensors(value, function) for value in state)
    return state
