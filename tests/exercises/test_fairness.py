"""One mistake costs its own points only, and nothing in a notebook is worth points on inputs it has not seen."""

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lecturelib.grading import LocalSubmission, Rubric, load_rubric, run
from lecturelib.grading.check.packing import unpack
from lecturelib.grading.check.terminal import packed_checks
from lecturelib.grading.release.notebooks import Paths, load_notebook, sets_in
from lecturelib.grading.rubric.answers import definitions, namespace_of
from lecturelib.grading.rubric.runner import Recording
from lecturelib.grading.sandbox.worker.calls import Call, Opaque, leaves

ROOT = Path(__file__).parents[2]
each_set = pytest.mark.parametrize("paths", [pytest.param(paths, id=paths.name) for paths in sets_in(ROOT)])


@cache
def rubric_of(paths: Paths) -> Rubric:
    """The set's rubric without its mistakes: they change hints, never points, and take most of the time."""
    rubric = load_rubric(paths.rubric)
    rubric.mistakes = []
    return rubric


def names_called(rubric: Rubric) -> dict[tuple[str, str], set[str]]:
    """By test, the names it calls itself or builds objects of."""
    found = {}
    for test in rubric.tests:
        recording = Recording(rubric.solution)
        test.function(recording, rubric.generator(test, 0))
        given = [c for call in recording.calls for c in leaves([call.args, call.kwargs]) if isinstance(c, Call)]
        found[test.exercise, test.name] = recording.names | {call.name for call in given}
    return found


@each_set
def test_no_test_calls_a_name_that_it_needs(paths: Paths) -> None:
    rubric = rubric_of(paths)
    for test in rubric.tests:
        recording = Recording(rubric.solution)
        test.function(recording, rubric.generator(test, 0))
        assert not recording.names & set(test.needs), test.name
        assert {rubric.owner_of(name) for name in recording.names} == {test.exercise}, test.name


def raising(name: str) -> str:
    return f"def {name}(*args, **kwargs):\n    raise ValueError('broken')\n"


def silent(name: str) -> str:
    return f"def {name}(*args, **kwargs):\n    return None\n"


def doubling(name: str) -> str:
    """Right in kind and wrong in value."""
    return f"""
import torch as _torch
_right_{name} = {name}

def _wrong(value):
    if isinstance(value, _torch.Tensor):
        return ~value if value.dtype == _torch.bool else 2 * value + 1
    if isinstance(value, bool | str):
        return not value if isinstance(value, bool) else value + "?"
    if isinstance(value, int | float):
        return 2 * value + 1
    if isinstance(value, list | tuple):
        return type(value)(map(_wrong, value))
    if isinstance(value, dict):
        return {{key: _wrong(entry) for key, entry in value.items()}}
    return value

if isinstance(_right_{name}, type):
    class {name}(_right_{name}):
        def forward(self, *args, **kwargs):
            return _wrong(super().forward(*args, **kwargs))
else:
    def {name}(*args, **kwargs):
        return _wrong(_right_{name}(*args, **kwargs))
"""


@each_set
@pytest.mark.parametrize("breaks", [raising, silent, doubling])
def test_a_broken_function_costs_the_tests_that_call_it_and_no_others(
    paths: Paths, breaks: Callable[[str], str]
) -> None:
    rubric, solution = rubric_of(paths), definitions(paths.solution)
    called = names_called(rubric)
    for exercise in rubric.exercises.values():
        for name in exercise.defines:
            results = run(rubric, LocalSubmission(namespace_of(solution, breaks(name))), seed=3)
            lost = {(r.exercise, r.name) for r in results if not r.passed}
            assert lost, name
            for test in lost:
                assert name in called[test], f"a broken {name} costs {test}"


@each_set
def test_an_upstream_reference_answers_no_test(paths: Paths) -> None:
    """A broken name is the reference's where later work needs it: handing its answers on must earn nothing."""
    rubric, solution = rubric_of(paths), definitions(paths.solution)
    for needed in {name for test in rubric.tests for name in test.needs}:
        tests = [test for test in rubric.tests if needed in test.needs]
        exercises = tuple({rubric.owner_of(needed) or "", *(test.exercise for test in tests)})
        names = {name for exercise in exercises for name in rubric.exercises[exercise].defines} - {needed}
        oracle = "".join(
            f"def {name}(*args, **kwargs):\n    return {needed}(*args, **kwargs)\n" for name in sorted(names)
        )
        broken = f"def {needed}(*args, **kwargs):\n    raise ValueError('broken')\n"
        results = run(rubric, LocalSubmission(namespace_of(solution, broken, oracle)), seed=3, exercises=exercises)
        assert [r.name for r in results if r.passed] == [], needed


@each_set
@pytest.mark.parametrize("constant", ["0.0", "1", "True", '"equivariant"', "[]", "args[0]", "torch.zeros(())"])
def test_a_constant_earns_nothing(paths: Paths, constant: str) -> None:
    rubric = rubric_of(paths)
    lines = "".join(
        f"def {name}(*args, **kwargs):\n    return {constant}\n"
        for exercise in rubric.exercises.values()
        for name in exercise.defines
    )
    results = run(rubric, LocalSubmission(namespace_of("import torch\n" + lines)), seed=3)
    assert [r.name for r in results if r.passed] == []


@each_set
def test_what_a_notebook_carries_earns_nothing_on_hidden_tests(paths: Paths) -> None:
    """Decode the checks; try every function and every value in them as the answer to everything."""
    rubric = rubric_of(paths)
    about, tests = unpack(packed_checks(load_notebook(paths.exercise)))
    assert "NotImplementedError" not in about["given"]
    given: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "math": __import__("math"), "nn": torch.nn}
    exec(about["given"], given)
    functions = [
        getattr(kind, name)
        for kind in given.values()
        if isinstance(kind, type)
        for name, part in vars(kind).items()
        if callable(part) and (name == "__call__" or not name.startswith("_"))
    ]
    objects = [
        leaf
        for test in tests
        for step in test["recorded"].steps
        if isinstance(step, Call)
        for leaf in leaves([step.args, step.kwargs])
        if callable(leaf)
    ]
    values = [
        leaf
        for test in tests
        for replies in test["recorded"].mistakes.values()
        for reply in replies
        for leaf in leaves([reply.value])
    ]
    values += [
        leaf
        for test in tests
        for step in test["recorded"].steps
        if not isinstance(step, Call)
        for leaf in leaves([vars(step.comparison).get("want", vars(step.comparison))])
    ]
    constants = [lambda *args, value=value, **kwargs: value for value in distinct(values)]
    hidden = tuple(test.name for test in rubric.tests if not test.visible)
    for answer in itertools.chain(functions, objects, constants):
        namespace = {name: answer for exercise in rubric.exercises.values() for name in exercise.defines}
        for test in rubric.tests:
            if test.name in hidden:
                assert not passes(rubric, test, namespace), f"{answer} passes {test.name}"


def distinct(values: list[Any]) -> list[Any]:
    """One of each kind of value: every number and text, and tensors by shape, a few of each."""
    found: dict[Any, Any] = {}
    for value in values:
        if isinstance(value, Tensor):
            found.setdefault((tuple(value.shape), value.dtype), value)
        elif not isinstance(value, Opaque) and isinstance(value, bool | int | float | str):
            found.setdefault((type(value), round(value, 3) if isinstance(value, float) else value), value)
    return list(found.values())[:60]


def passes(rubric: Rubric, test: Any, namespace: dict[str, Any]) -> bool:
    recording = Recording(LocalSubmission(namespace))
    try:
        test.function(recording, rubric.generator(test, 9))
    except Exception:  # whatever a wrong answer makes it raise
        return False
    return True
