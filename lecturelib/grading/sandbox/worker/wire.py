"""The frames that cross between the grader and a student's process: plain data, checked on arrival, never pickle.

    8 bytes     length of the header, length of the buffers (little-endian, 4 bytes each)
    header      JSON in ASCII: one value, in the encoding below
    buffers     the raw numbers of the header's tensors, one after the other, in the order they are named

A value in the header is null, a boolean, an integer, a string, or an object with exactly one key that says what it is:

    {"float": "0x1.8p+1"}                           exact, and able to say nan and inf
    {"tensor": ["float32", [2, 3], false]}          dtype, shape, requires_grad; its numbers are the next buffer
    {"list": [...]}  {"tuple": [...]}  {"dict": [[key, value], ...]}
    {"record": ["Reply", [[field, value], ...]]}    one of the dataclasses that the receiver said it accepts
    {"callable": [3, "function"]}                   the sender's third callable; the receiver makes a proxy of it

The decoder trusts nothing: every length, shape, name and count is checked against what was really sent and against
`Caps` before anything is made of it. What is wrong raises `Malformed`. Only tensors' numbers arrive, so a tensor
subclass, an object with its own `==`, or anything else that could lie, arrives as plain numbers or not at all.
"""

import dataclasses
import json
import math
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        *("float32", "float64", "float16", "bfloat16", "complex64", "complex128"),
        *("int64", "int32", "int16", "int8", "uint8", "bool"),
    )
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_PREFIX = struct.Struct("<II")


class Malformed(Exception):
    """What arrived is not a frame, or breaks a cap."""


class Closed(Exception):
    """The other side hung up before the frame was complete."""


@dataclass(frozen=True, kw_only=True)
class Caps:
    """The most that a receiver will take in one frame."""

    header_bytes: int = 4 << 20
    buffer_bytes: int = 64 << 20
    nodes: int = 100_000
    depth: int = 40
    dimensions: int = 16


# ---------------------------------------------------------------------------------------------------- to the wire


def encode(value: Any, register: Callable[[Any], tuple[int, str]] | None = None) -> bytes:
    """One frame. `register` is given each callable and returns its number and kind; without it none may be sent."""
    buffers: list[bytes] = []
    header = json.dumps(_pack(value, buffers, register), separators=(",", ":")).encode("ascii")
    body = b"".join(buffers)
    return _PREFIX.pack(len(header), len(body)) + header + body


def _pack(value: Any, buffers: list[bytes], register: Callable[[Any], tuple[int, str]] | None) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, Tensor):
        tensor = value.detach().cpu().contiguous()
        if tensor.dtype not in _NAMES:
            raise TypeError(f"a tensor of {tensor.dtype} cannot be sent; one of {', '.join(DTYPES)} can")
        if tensor.numel():
            flat = tensor.as_strided((tensor.numel(),), (1,))  # one element of a column still has the column's stride
            buffers.append(flat.view(torch.uint8).numpy().tobytes())
        return {"tensor": [_NAMES[tensor.dtype], list(tensor.shape), bool(value.requires_grad)]}
    if isinstance(value, list):
        return {"list": [_pack(item, buffers, register) for item in value]}
    if isinstance(value, tuple):
        return {"tuple": [_pack(item, buffers, register) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_pack(k, buffers, register), _pack(v, buffers, register)] for k, v in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [
            [field.name, _pack(getattr(value, field.name), buffers, register)] for field in dataclasses.fields(value)
        ]
        return {"record": [type(value).__name__, fields]}
    if callable(value) and register is not None:
        return {"callable": list(register(value))}
    raise TypeError(f"a {type(value).__name__} cannot be sent; numbers, text, tensors, and lists and dicts of them can")


# -------------------------------------------------------------------------------------------------- from the wire


class Decoder:
    """Turns frames into values, within caps.

    Args:
        records: the dataclasses that may arrive, each with exactly its own fields
        proxy: makes something callable out of the other side's callable number and kind; without it none may arrive
    """

    def __init__(
        self,
        caps: Caps | None = None,
        records: Iterable[type] = (),
        proxy: Callable[[int, str], Any] | None = None,
    ) -> None:
        self.caps = caps or Caps()
        self._records = {record.__name__: record for record in records}
        self._proxy = proxy

    def decode(self, header: bytes, buffers: bytes) -> Any:
        try:
            tree = json.loads(header.decode("ascii"), parse_float=_no_number, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"the header is not JSON that we write: {error}") from None
        reading = _Reading(self.caps, self._records, self._proxy, buffers)
        value = reading.value(tree, 0)
        if reading.position != len(buffers):
            raise Malformed(f"{len(buffers) - reading.position} bytes are left over after the last tensor")
        return value


def _no_number(text: str) -> float:
    raise ValueError(f"a bare {text[:20]}")


class _Reading:
    """One frame on its way in: what is left of its buffers, and how many values it has had."""

    def __init__(
        self, caps: Caps, records: Mapping[str, type], proxy: Callable[[int, str], Any] | None, buffers: bytes
    ) -> None:
        self.caps, self.records, self.proxy, self.buffers = caps, records, proxy, buffers
        self.position = self.nodes = 0

    def value(self, node: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > self.caps.nodes:
            raise Malformed(f"more than {self.caps.nodes} values in one frame")
        if depth > self.caps.depth:
            raise Malformed(f"nested deeper than {self.caps.depth}")
        if node is None or type(node) is bool:
            return node
        if type(node) is str:  # half a surrogate pair cannot be written to any file later
            return node.encode("utf-8", "replace").decode("utf-8")
        if type(node) is int:
            if abs(node) >= 2**63:
                raise Malformed("an integer of more than 64 bits")
            return node
        if type(node) is not dict or len(node) != 1:
            raise Malformed("a value that says no kind, or several")
        ((kind, content),) = node.items()
        reader = getattr(self, f"_{kind}", None) if kind in _KINDS else None
        if reader is None:
            raise Malformed(f"a value of unknown kind {kind[:40]!r}")
        return reader(content, depth + 1)

    def _float(self, content: Any, depth: int) -> float:
        if type(content) is not str or len(content) > 40:
            raise Malformed("a float that is not in hexadecimal")
        try:
            return float.fromhex(content)
        except (ValueError, OverflowError):
            raise Malformed("a float that is not in hexadecimal") from None

    def _tensor(self, content: Any, depth: int) -> Tensor:
        dtype_name, shape, requires_grad = _exactly(content, str, list, bool)
        dtype = DTYPES.get(dtype_name)
        if dtype is None:
            raise Malformed(f"a tensor of unknown dtype {dtype_name[:40]!r}")
        if len(shape) > self.caps.dimensions or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
            raise Malformed("a tensor whose shape is not a short list of sizes")
        if math.prod(max(n, 1) for n in shape) * dtype.itemsize > self.caps.buffer_bytes:
            raise Malformed(f"a tensor of shape {shape}, which is more than {self.caps.buffer_bytes} bytes")
        size = math.prod(shape) * dtype.itemsize
        piece = self.buffers[self.position : self.position + size]
        if len(piece) != size:
            raise Malformed(f"a tensor of {size} bytes, of which {len(piece)} were sent")
        self.position += size
        if not size:
            tensor = torch.empty(shape, dtype=dtype)
        elif dtype is torch.bool:  # any byte but 0 and 1 would be undefined behaviour inside torch
            tensor = (torch.frombuffer(bytearray(piece), dtype=torch.uint8) != 0).reshape(shape)
        else:
            tensor = torch.frombuffer(bytearray(piece), dtype=dtype).reshape(shape)
        if requires_grad:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise Malformed(f"a tensor of {dtype_name} that requires a gradient")
            tensor.requires_grad_()
        return tensor

    def _list(self, content: Any, depth: int) -> list[Any]:
        if type(content) is not list:
            raise Malformed("a list that is not a list")
        return [self.value(item, depth) for item in content]

    def _tuple(self, content: Any, depth: int) -> tuple[Any, ...]:
        return tuple(self._list(content, depth))

    def _dict(self, content: Any, depth: int) -> dict[Any, Any]:
        if type(content) is not list:
            raise Malformed("a dict that is not a list of pairs")
        found = {}
        for pair in content:
            key_node, value_node = _exactly(pair, object, object)
            key = self.value(key_node, depth)
            if not _plain_key(key) or key in found:
                raise Malformed("a dict key that is repeated or not plain")
            found[key] = self.value(value_node, depth)
        return found

    def _record(self, content: Any, depth: int) -> Any:
        name, pairs = _exactly(content, str, list)
        record = self.records.get(name)
        if record is None:
            raise Malformed(f"a record {name[:40]!r} that is not expected here")
        fields = {}
        for pair in pairs:
            field, node = _exactly(pair, str, object)
            if field in fields:
                raise Malformed(f"{name} with a field twice")
            fields[field] = self.value(node, depth)
        if set(fields) != {field.name for field in dataclasses.fields(record)}:
            raise Malformed(f"{name} without exactly its own fields")
        return record(**fields)

    def _callable(self, content: Any, depth: int) -> Any:
        number, kind = _exactly(content, int, str)
        if self.proxy is None:
            raise Malformed("a callable, which is not expected here")
        return self.proxy(number, kind)


_KINDS = frozenset({"float", "tensor", "list", "tuple", "dict", "record", "callable"})


def _exactly(content: Any, *kinds: type) -> tuple[Any, ...]:
    if type(content) is not list or len(content) != len(kinds):
        raise Malformed("a value with the wrong number of parts")
    for part, kind in zip(content, kinds, strict=True):
        if kind is not object and type(part) is not kind:
            raise Malformed("a value with a part of the wrong kind")
    return tuple(content)


def _plain_key(key: Any) -> bool:
    if type(key) is tuple:
        return all(_plain_key(part) for part in key)
    return key is None or type(key) in (bool, int, float, str)


# ------------------------------------------------------------------------------------------------------ the socket


Left = Callable[[], float]  # how many seconds to wait before asking again; raises `TimeoutError` when none are left


def send(connection: socket.socket, frame: bytes, left: Left | None = None) -> None:
    """Send a frame, for as long as `left` allows."""
    unsent = memoryview(frame)
    while unsent:
        connection.settimeout(left() if left else None)
        try:
            unsent = unsent[connection.send(unsent) :]
        except TimeoutError:
            continue  # whether it was too long is for `left` to say
        except (BrokenPipeError, ConnectionResetError):
            raise Closed("hung up while being sent to") from None


def receive(connection: socket.socket, caps: Caps, left: Left | None = None) -> tuple[bytes, bytes]:
    """The header and the buffers of the next frame; lengths beyond the caps are refused before anything is read."""
    header_bytes, buffer_bytes = _PREFIX.unpack(_exact(connection, _PREFIX.size, left))
    if header_bytes > caps.header_bytes or buffer_bytes > caps.buffer_bytes:
        raise Malformed(f"a frame of {header_bytes} + {buffer_bytes} bytes, more than we take")
    return _exact(connection, header_bytes, left), _exact(connection, buffer_bytes, left)


def _exact(connection: socket.socket, count: int, left: Left | None) -> bytes:
    chunks: list[bytes] = []
    missing = count
    while missing:
        connection.settimeout(left() if left else None)
        try:
            chunk = connection.recv(min(missing, 1 << 20))
        except TimeoutError:
            continue
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            raise Closed("hung up in the middle of a frame" if chunks or missing < count else "hung up")
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)
