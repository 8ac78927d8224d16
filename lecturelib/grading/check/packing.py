"""The visible tests of a rubric as a few lines of text that a notebook can carry.

A released exercise holds its own checks, so `check` needs only the notebook and an installed lecturelib, and an
instructor's own sets need no repackaging. The text is base64 of zlib of two frames as the sandbox's wire has them, JSON
with raw numbers: first what the set is and the objects that its functions are given, then the recorded tests. The one
piece of source in it is that of the classes marked `@rubric.given`, which are inputs: a model to decode with.
"""

import ast
import base64
import binascii
import builtins
import math
import re
import struct
import textwrap
import types
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lecturelib.grading.check.recording import Judgement, Recorded, record, replay
from lecturelib.grading.rubric.compare import Comparison
from lecturelib.grading.rubric.contest import Contest
from lecturelib.grading.rubric.outline import Item
from lecturelib.grading.rubric.rubric import Exercise, GraderTest, Mistake, Rubric
from lecturelib.grading.sandbox.worker import wire
from lecturelib.grading.sandbox.worker.calls import Call, Gradients, Opaque, Raised, Reply, Step

MOST_BYTES = 8 << 20  # unpacked; far above any real one
_CAPS = wire.Caps(header_bytes=MOST_BYTES, buffer_bytes=MOST_BYTES, nodes=1_000_000)
_RECORDS = (Call, Step, Judgement, Comparison, Contest, Recorded, Reply, Gradients, Raised, Opaque)
_PREFIX = struct.Struct("<II")
_NAME = re.compile(r"[\w.-]{1,80}", re.ASCII)
_GIVEN_MAY_USE = {"torch": torch, "math": math, "nn": nn, "F": functional}


def pack_rubric(rubric: Rubric) -> str:
    """Text to put between triple quotes: the visible part of a rubric, in lines of 100."""
    objects: list[tuple[str, dict[str, Any], str]] = []

    def register(function: Any) -> tuple[int, str]:
        method = "" if type(function).__name__ in rubric.givens else getattr(function, "__name__", "")
        owner = function if not method else getattr(function, "__self__", None)
        if type(owner) is not rubric.givens.get(type(owner).__name__):
            raise ValueError(
                f"a visible test hands {function!r} to a student's function; mark its class with @rubric.given"
            )
        objects.append((type(owner).__name__, dict(vars(owner)), method))
        return len(objects) - 1, "given"

    visible = [test for test in rubric.tests if test.visible]
    tests = [
        {
            "name": test.name,
            "exercise": test.exercise,
            "points": test.points,
            "hint": test.hint,
            "needs": test.needs,
            "noise": test.noise,
            "recorded": record(rubric, test),
        }
        for test in visible
    ]
    second = wire.encode(tests, register)
    about: dict[str, Any] = {
        "name": rubric.name,
        "title": rubric.title,
        "exercises": [
            (e.name, e.title, e.minutes, e.difficulty, e.defines, _hidden_points(rubric, e.name))
            for e in rubric.exercises.values()
            if not e.items
        ],
        "mistakes": [(m.name, m.exercise, m.stands_for, m.hint) for m in rubric.mistakes],
        "given": given_source(rubric),
        "objects": objects,
    }
    if written := [e for e in rubric.exercises.values() if e.items]:  # what they are read for stays with the reader
        about["written"] = [(e.name, e.title, e.minutes, e.difficulty, rubric.points_of(e.name)) for e in written]
    packed = zlib.compress(wire.encode(about) + second, 9)
    return "\n".join(textwrap.wrap(base64.b64encode(packed).decode(), 100))


def _hidden_points(rubric: Rubric, exercise: str) -> float:
    return float(sum(test.points for test in rubric.tests_of(exercise) if not test.visible))


def given_source(rubric: Rubric) -> str:
    """The source of the given classes and of the constants they use; ValueError if they use anything else."""
    if not rubric.givens:
        return ""
    body = ast.parse(rubric.source).body
    classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name in rubric.givens]
    used = {n.id for node in classes for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    constants = [node for node in body if isinstance(node, ast.Assign) and _constants(node) & used]
    made = {"rubric", "draw", *(name for node in constants for name in _constants(node)), *_GIVEN_MAY_USE}
    for node in classes:
        node.decorator_list = []
        node.body = [part for part in node.body if getattr(part, "name", "") != "__init__"]  # it arrives with its state
        inside = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        local = {n.id for n in inside if not isinstance(n.ctx, ast.Load)}
        local |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        foreign = {n.id for n in inside if n.id not in made | local} - set(rubric.givens) - set(dir(builtins))
        if foreign:
            raise ValueError(f"the given class {node.name} uses {', '.join(sorted(foreign))}; {_GIVEN_RULE}")
    return "\n\n".join(ast.unparse(node) for node in (*constants, *classes))


_GIVEN_RULE = f"a notebook carries its source, which may use {', '.join(_GIVEN_MAY_USE)} and plain constants"


def _constants(node: ast.Assign) -> set[str]:
    """The names that a statement such as `PAD, BOS = 0, 1` gives plain values."""
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return set()
    return {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def unpack(blob: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is packed: the set, and its tests; ValueError in the reader's words if the text is damaged."""
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode("".join(blob.split()), validate=True), 2 * MOST_BYTES)
        if not inflater.eof:
            raise ValueError("cut short or too large")
        about, rest = _frame(data, None)
        tests, rest = _frame(rest, _given_objects(about))
        if rest or not isinstance(tests, list):
            raise ValueError("not what was packed")
    except (binascii.Error, zlib.error, struct.error, wire.Malformed, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"the packed checks of this notebook are damaged ({error}); download the notebook again"
        ) from error
    return about, tests


def _frame(data: bytes, proxy: Callable[[int, str], Any] | None) -> tuple[Any, bytes]:
    header, body = _PREFIX.unpack(data[: _PREFIX.size])
    data = data[_PREFIX.size :]
    value = wire.Decoder(_CAPS, _RECORDS, proxy).decode(data[:header], data[header : header + body])
    return value, data[header + body :]


def _given_objects(about: dict[str, Any]) -> Callable[[int, str], Any]:
    namespace: dict[str, Any] = dict(_GIVEN_MAY_USE)
    exec(compile(about["given"], "<given>", "exec"), namespace)

    def proxy(number: int, kind: str) -> Any:
        name, state, method = about["objects"][number]
        made = object.__new__(namespace[name])
        vars(made).update(state)
        return getattr(made, method) if method else made

    return proxy


def packed_name(blob: str) -> str:
    """The set that a stranger's packed checks say they are of; "" if they are no such. Nothing in them is run."""
    try:
        data = zlib.decompressobj().decompress(base64.b64decode("".join(blob.split()), validate=True), MOST_BYTES)
        header, body = _PREFIX.unpack(data[: _PREFIX.size])
        frame = data[_PREFIX.size :]
        about = wire.Decoder(wire.Caps(nodes=20_000)).decode(frame[:header], frame[header : header + body])
        name = about["name"]
    except (binascii.Error, zlib.error, struct.error, wire.Malformed, ValueError, KeyError, TypeError):
        return ""
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def unpack_rubric(blob: str) -> Rubric:
    """A rubric of the visible tests: without references, its mistakes known by their answers alone."""
    about, tests = unpack(blob)
    rubric = Rubric(about["name"], title=about["title"])
    for name, title, minutes, difficulty, defines, hidden in about["exercises"]:
        rubric.exercises[name] = Exercise(
            name=name, title=title, minutes=minutes, difficulty=difficulty, defines=defines, hidden_points=hidden
        )
    for name, title, minutes, difficulty, points in about.get("written", ()):
        items = (Item(name="all that a reader looks for", points=points),)
        rubric.exercises[name] = Exercise(
            name=name, title=title, minutes=minutes, difficulty=difficulty, defines=(), items=items
        )
    for name, exercise, stands_for, hint in about["mistakes"]:
        rubric.mistakes.append(Mistake(name=name, exercise=exercise, stands_for=stands_for, hint=hint, function=None))
    for test in tests:
        recorded = test.pop("recorded")
        rubric.tests.append(
            GraderTest(**test, visible=True, topic="", function=replay(recorded), recorded=recorded.mistakes)
        )
    return rubric


def same_checks(one: str, other: str) -> bool:
    """Whether two packed texts hold the same, up to the rounding by which machines differ."""
    return _same(unpack(one), unpack(other))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return bool(torch.isclose(one.double(), other.double(), rtol=1e-3, atol=1e-4, equal_nan=True).all())
    if type(one).__name__ != type(other).__name__:  # each unpacking makes its own given classes
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, types.MethodType):  # of a given object
        return one.__name__ == other.__name__ and _same(one.__self__, other.__self__)
    if hasattr(one, "__dict__"):  # a record, or a given object
        return _same(dict(vars(one)), dict(vars(other)))
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-4) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
