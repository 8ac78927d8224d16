"""The wire: what is sent arrives equal, and what was not sent by us is refused."""

import contextlib
import json
import socket
import struct
import time

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from lecturelib.grading.sandbox.limits import Allowance
from lecturelib.grading.sandbox.worker import wire
from lecturelib.grading.sandbox.worker.calls import Call, Opaque, Reply, Step


def split(frame: bytes) -> tuple[bytes, bytes]:
    header_bytes, _ = struct.unpack("<II", frame[:8])
    return frame[8 : 8 + header_bytes], frame[8 + header_bytes :]


def within(seconds: float) -> wire.Left:
    return Allowance(seconds, 1, time.monotonic() + seconds, lambda: 0.0).left


def round_trip(value: object, *records: type) -> object:
    return wire.Decoder(records=records).decode(*split(wire.encode(value)))


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, float) and one != one:
        return isinstance(other, float) and other != other
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    return type(one) is type(other) and one == other


tensors = st.builds(
    lambda shape, dtype: (torch.arange(torch.Size(shape).numel()).reshape(shape) % 2).to(dtype),
    st.lists(st.integers(0, 4), max_size=4),
    st.sampled_from(list(wire.DTYPES.values())),
)
text = st.text(st.characters(exclude_categories=["Cs"]))
leaves = st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats() | text | tensors
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(text, inner), max_leaves=20
)


@given(values)
def test_values_arrive_equal(value):
    assert same(round_trip(value), value)


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_noise_is_malformed_or_a_value_and_nothing_else(header, buffers):
    with contextlib.suppress(wire.Malformed):
        wire.Decoder().decode(header, buffers)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda i: (
            st.lists(i)
            | st.dictionaries(
                st.sampled_from(["tensor", "list", "tuple", "dict", "record", "float", "callable", "nodes", "value"]), i
            )
        ),
    )
)
def test_wellformed_json_is_malformed_or_a_value_and_nothing_else(tree):
    with contextlib.suppress(wire.Malformed):
        wire.Decoder(records=(Reply, Opaque)).decode(json.dumps(tree).encode(), bytes(8))


def test_records_arrive_and_only_where_expected():
    call = Call(name="f", args=(torch.ones(2), [1]), steps=(Step(kwargs={"x": 3}),), state={"w": torch.zeros(3)})
    arrived = round_trip(call, Call, Step)
    assert isinstance(arrived, Call)
    assert torch.equal(arrived.args[0], torch.ones(2))
    assert arrived.steps[0].kwargs == {"x": 3}
    with pytest.raises(wire.Malformed, match="'Call' that is not expected"):
        round_trip(call, Reply)


def test_tensor_subclasses_and_views_arrive_as_their_numbers():
    class Liar(torch.Tensor):
        pass

    arrived = round_trip([torch.arange(6).reshape(2, 3).mT, torch.ones(2).as_subclass(Liar)])
    assert torch.equal(arrived[0], torch.tensor([[0, 3], [1, 4], [2, 5]]))
    assert type(arrived[1]) is torch.Tensor


def test_objects_are_not_sent():
    with pytest.raises(TypeError, match="a object cannot be sent"):
        wire.encode(object())
    with pytest.raises(TypeError, match="a function cannot be sent"):
        wire.encode(lambda: None)


def test_caps_hold_before_anything_is_made():
    caps = wire.Caps(nodes=10, depth=3, buffer_bytes=16)
    for value, message in (([0] * 20, "more than 10 values"), ([[[[[1]]]]], "deeper than 3"), (torch.ones(9), "bytes")):
        with pytest.raises(wire.Malformed, match=message):
            wire.Decoder(caps).decode(*split(wire.encode(value)))


def test_silence_half_a_frame_and_hanging_up_are_told_apart():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(TimeoutError):
            wire.receive(ours, wire.Caps(), within(0.05))
        theirs.sendall(b"\x05\x00\x00\x00\x00\x00\x00\x00ab")
        with pytest.raises(TimeoutError):
            wire.receive(ours, wire.Caps(), within(0.05))
        theirs.close()
        with pytest.raises(wire.Closed):
            wire.receive(ours, wire.Caps(), within(1))


def test_one_element_of_a_column_arrives():
    column = torch.arange(10).reshape(1, 2, 5)[:, 1, 2]  # one element, whose stride is still that of the whole
    assert torch.equal(round_trip(column), torch.tensor([7]))
    assert torch.equal(round_trip(torch.ones(3, 4)[1:, :1].T), torch.ones(1, 2))
