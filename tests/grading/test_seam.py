"""The seam between tests and submissions: calls, comparison, rubrics, results, through the local backend."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lecturelib.grading.rubric.compare import Mismatch, assert_close, raises
from lecturelib.grading.rubric.results import SubmissionResult
from lecturelib.grading.rubric.rubric import Rubric
from lecturelib.grading.rubric.runner import run
from lecturelib.grading.rubric.submission import LocalSubmission, MissingName, StudentError
from lecturelib.grading.sandbox.worker.calls import Opaque, plain, seed_torch


def student(source: str) -> LocalSubmission:
    namespace: dict[str, Any] = {"torch": torch, "nn": nn, "np": np, "math": math}
    exec(source, namespace)
    return LocalSubmission(namespace)


CLASSES = """
class Scale(nn.Module):
    def __init__(self, width, *, bias=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.register_buffer("seen", torch.zeros(()))
        self.drop = nn.Dropout(0.5)
    def forward(self, x, power=1):
        self.seen += 1
        return self.drop(x * self.weight ** power)
    def double(self, x):
        return 2 * x
def apply(layer, x): return layer(x)
def naturals():
    n = 0
    while True:
        yield n
        n += 1
def pair(a, *, b): return {"sum": a + b, "both": (a, [b])}
def bad(x): raise ValueError(f"shape {tuple(x.shape)} is wrong")
def leave(): raise SystemExit(3)
best = 0.5
"""


def test_call_passes_keywords_tuples_and_dicts() -> None:
    got = student(CLASSES).pair(torch.ones(2), b=torch.ones(2))
    assert_close(got, {"sum": torch.full((2,), 2.0), "both": (torch.ones(2), [torch.ones(2)])})


def test_call_copies_its_arguments() -> None:
    x = torch.ones(3)
    student("def change(x):\n    x += 1\n    return x").change(x)
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_call_restores_the_students_random_state() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    student("def draw(): return torch.rand(3)").draw()
    assert torch.equal(before, torch.get_rng_state())


def test_call_sees_torch_as_it_was_imported_and_leaves_it_as_the_student_set_it() -> None:
    layer = student("class Double(nn.Linear):\n    def forward(self, x): return 2 * super().forward(x)").Double(3, 3)
    ours, x = nn.Linear(3, 3), torch.randn(5, 3)
    layer.load_state_dict(ours.state_dict())
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            got = layer.gradients(x)
            assert torch.get_default_dtype() is torch.float64
            assert not torch.is_grad_enabled()
    finally:
        torch.set_default_dtype(torch.float32)
    assert_close(got.value, 2 * ours(x).detach())
    assert_close(got.parameters["bias"], torch.full((3,), 10.0))


def test_call_runs_on_one_thread_and_gives_the_threads_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        submission = LocalSubmission({"threads": torch.get_num_threads})
        assert submission.threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_seed_torch_draws_what_manual_seed_draws() -> None:
    torch.manual_seed(7)
    want = torch.randn(5)
    seed_torch(7)
    assert torch.equal(torch.randn(5), want)


def test_generator_gives_as_many_items_as_asked() -> None:
    assert student(CLASSES).naturals.take(4) == [0, 1, 2, 3]


def test_items_of_a_generator_and_long_lists_stay_whole() -> None:
    made = student(
        "def pairs(n):\n"
        "    for i in range(n):\n"
        "        yield [i, i + 1, {'more': (i, i, i)}]\n"
        "def table(n): return {f'word {i}': [i] for i in range(n)}\n"
        "def listed(n): return list(range(n))\n"
    )
    assert made.pairs.take(1, 5) == [[0, 1, {"more": (0, 0, 0)}]]
    assert made.listed.take(2, 5) == [0, 1]
    assert made.listed(3000) == list(range(3000))
    assert made.table(3000) == {f"word {i}": [i] for i in range(3000)}


def test_value_reads_a_variable() -> None:
    assert student(CLASSES).value("best") == 0.5


def test_module_replays_the_same_weights_and_loads_given_ones() -> None:
    layer = student(CLASSES).Scale(3).eval()
    x = torch.randn(5, 3)
    assert_close(layer(x), x * layer.state_dict()["weight"])
    layer.load_state_dict({"weight": torch.arange(3.0), "seen": torch.zeros(())})
    assert_close(layer(x, power=2), x * torch.arange(3.0) ** 2)
    assert_close(layer.method.double(x), 2 * x)


def test_module_gradients_reach_inputs_and_parameters() -> None:
    layer = student(CLASSES).Scale(3).eval()
    layer.load_state_dict({"weight": torch.arange(3.0), "seen": torch.zeros(())})
    x, upstream = torch.randn(5, 3), torch.randn(5, 3)
    got = layer.gradients(x, upstream=upstream)
    assert_close(got.inputs[0], upstream * torch.arange(3.0))
    assert_close(got.parameters["weight"], (upstream * x).sum(0))


def test_module_may_have_buffers_that_the_reference_has_not() -> None:
    layer = student(CLASSES).Scale(3)
    layer.load_state_dict({"weight": torch.arange(3.0)})
    assert layer.after(torch.ones(1, 3)).state_dict()["seen"] == 1
    layer.load_state_dict({"seen": torch.zeros(())})
    with pytest.raises(StudentError, match=r"Missing key.*weight"):
        layer(torch.ones(1, 3))


def test_answer_without_tensors_has_no_gradient() -> None:
    got = student("def numbers(x): return x.detach().numpy()").numbers.gradients(torch.ones(3), upstream=torch.ones(3))
    assert got.inputs == (None,)
    assert_close(got.value, torch.ones(3))


def test_module_keeps_nothing_between_calls_except_by_after() -> None:
    layer = student(CLASSES).Scale(3)
    layer(torch.ones(1, 3))
    assert layer.state_dict()["seen"] == 0
    assert layer.after(torch.ones(1, 3)).after(torch.ones(1, 3)).state_dict()["seen"] == 2


def test_module_can_be_an_argument() -> None:
    submission = student(CLASSES)
    layer = submission.Scale(3).eval()
    x = torch.randn(5, 3)
    assert_close(submission.apply(layer, x), layer(x))


def test_callable_can_be_an_argument() -> None:
    assert_close(student(CLASSES).apply(torch.tanh, torch.ones(2)), torch.ones(2).tanh())


def test_missing_name_and_exceptions_are_told_apart() -> None:
    submission = student(CLASSES)
    with pytest.raises(MissingName):
        submission.nothing(1)
    with raises(ValueError, match=r"shape \(2, 3\)"):
        submission.bad(torch.ones(2, 3))
    with raises(SystemExit):
        submission.leave()
    with pytest.raises(Mismatch, match="should raise KeyError here, raised ValueError"), raises(KeyError):
        submission.bad(torch.ones(2))
    with pytest.raises(Mismatch, match="did not"), raises(ValueError):
        submission.pair(1, b=2)


def test_raises_never_accepts_an_untouched_stub() -> None:
    submission = student("def f(): raise NotImplementedError")
    with pytest.raises(StudentError), raises(NotImplementedError, RuntimeError, Exception):
        submission.f()


def test_replacement_reaches_the_functions_that_call_it() -> None:
    submission = student("def one(): return 0\ndef two(): return 2 * one()")
    assert submission.two() == 0
    assert submission.with_replacements({"one": lambda: 1}).two() == 2
    assert submission.two() == 0


class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.tensor(True)

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return True

    __hash__ = torch.Tensor.__hash__


class AlwaysEqual(float):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


def test_lying_subclasses_are_compared_by_their_numbers() -> None:
    lie = torch.zeros(2, 3).as_subclass(Liar)
    assert type(plain(lie)) is torch.Tensor
    with pytest.raises(Mismatch, match="6 of 6 values differ"):
        assert_close(lie, torch.ones(2, 3))
    assert_close(torch.ones(2, 3).as_subclass(Liar), torch.ones(2, 3))
    with pytest.raises(Mismatch):
        assert_close(AlwaysEqual(3.0), 4.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_any_precise_float_dtype_is_right(dtype: torch.dtype) -> None:
    assert_close(torch.ones(2, dtype=dtype) / 3, torch.ones(2) / 3)


@pytest.mark.parametrize(
    ("got", "want", "message"),
    [
        (torch.zeros(2, 5, 3), torch.zeros(2, 3, 5), "axes 1 and 2 look swapped"),
        (torch.zeros(2, 3), torch.zeros(2, 1, 3), "an axis of size 1 is missing"),
        (torch.zeros(6), torch.zeros(2, 3), "the right number of values, in another shape"),
        (torch.tensor([1.0, math.nan]), torch.ones(2), "NaN in 1 of 2 places, the first at [1]"),
        (torch.tensor([1, 0]), torch.tensor([True, False]), "should hold booleans, got torch.int64"),
        (None, torch.ones(2), "is None: is a `return` missing?"),
        ([1.0, 1.0], torch.ones(2), "got a list of 2"),
        (torch.ones(2).bfloat16() / 3, torch.ones(2) / 3, "Half precision"),
        ((1, 2), (1, 2, 3), "should have 3 items, got 2 items"),
        (True, 1, "should be a number, got True"),
        (math.inf, 1.0, "is inf, expected 1"),
        ({"a": 1}, {"b": 1}, "keys b; got a"),
        (torch.tensor([1.0, 4.0]), torch.ones(2), "1 of 2 values differ; the worst, at [1], is 4 and should be 1."),
        (Opaque(type="Linear"), torch.ones(1), "got a Linear"),
    ],
)
def test_comparison_says_what_differs(got: Any, want: Any, message: str) -> None:
    with pytest.raises(Mismatch) as failure:
        assert_close(got, want)
    assert message in str(failure.value)


def test_comparison_of_empty_and_special_values() -> None:
    assert_close(torch.zeros(0, 3), torch.zeros(0, 3))
    assert_close(torch.tensor([math.nan, -math.inf]), torch.tensor([math.nan, -math.inf]))
    assert_close(torch.tensor(2.0), 2)
    with pytest.raises(Mismatch):
        assert_close(torch.tensor([math.inf]), torch.tensor([-math.inf]))
    with pytest.raises(Mismatch):
        assert_close(torch.tensor([3.0]), torch.tensor([-math.inf]))
    with pytest.raises(Mismatch):
        assert_close(3.0, math.inf)


def test_cut_gradient_is_named() -> None:
    right = student("def f(x): return x * 2")
    cut = student("def f(x): return x.detach() * 2")
    x = torch.ones(3)
    with pytest.raises(Mismatch, match=r"no gradient reaches input 0"):
        assert_close(cut.f.gradients(x), right.f.gradients(x))


def small_rubric() -> Rubric:
    rubric = Rubric("00_small", title="Small")
    rubric.exercise("double", title="Double", minutes=1, difficulty=1)
    rubric.exercise("quadruple", title="Double twice", minutes=2, difficulty=1)

    @rubric.reference
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @rubric.reference
    def quadruple(x: torch.Tensor) -> torch.Tensor:
        return double(double(x))

    @rubric.mistake("double", "That is the square.")
    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @rubric.test("double", points=2, visible=True, hint="Twice as much.")
    def doubles(submission: Any, rng: torch.Generator) -> None:
        x = torch.randn(3, 5, generator=rng)
        assert_close(submission.double(x), double(x))

    @rubric.test("quadruple", points=3, visible=False, hint="Twice twice as much.", needs=("double",))
    def quadruples(submission: Any, rng: torch.Generator) -> None:
        x = torch.randn(3, 5, generator=rng)
        assert_close(submission.quadruple(x), quadruple(x))

    return rubric


RIGHT = "def double(x): return x + x\ndef quadruple(x): return double(double(x))"


@pytest.mark.parametrize(
    ("source", "outcomes", "hints"),
    [
        (RIGHT, ["pass", "pass"], ["", ""]),
        (RIGHT.replace("x + x", "x ** 2"), ["fail", "pass"], ["That is the square.", ""]),
        (RIGHT.replace("x + x", "x"), ["fail", "pass"], ["Twice as much.", ""]),
        (RIGHT.replace("x + x", "1 / 0"), ["error", "pass"], ["", ""]),
        (RIGHT.replace("x + x", "x.long().softmax(-1)"), ["error", "pass"], ["", ""]),
        ("", ["missing", "missing"], ["Twice as much.", "Twice twice as much."]),
        (RIGHT.replace("return x + x", "raise NotImplementedError"), ["missing", "pass"], ["Twice as much.", ""]),
    ],
)
def test_runner_grades_and_hints(source: str, outcomes: list[str], hints: list[str]) -> None:
    results = run(small_rubric(), student(source), seed=3)
    assert [r.outcome for r in results] == outcomes
    assert [r.hint for r in results] == hints
    assert sum(r.earned for r in results) == sum(p for p, o in zip((2, 3), outcomes, strict=True) if o == "pass")


def test_runner_says_what_it_replaced() -> None:
    _, later = run(small_rubric(), student(RIGHT.replace("x + x", "x")), seed=3, exercises=None)
    assert later.replaced == ("double",)
    (alone,) = run(small_rubric(), student(RIGHT.replace("x + x", "x")), seed=3, exercises=("quadruple",))
    assert alone.passed
    assert alone.replaced == ("double",)


def test_runner_forgives_two_right_parts_that_do_not_fit() -> None:
    picky = "def quadruple(x):\n    y = double(x)\n    assert y.dtype == torch.float32\n    return y + y"
    first, second = run(small_rubric(), student(f"def double(x): return x.double() * 2\n{picky}"), seed=3)
    assert first.passed
    assert second.passed
    assert second.replaced == ("double",)


def test_runner_names_two_mistakes_of_the_same_answers_unless_another_test_tells_them_apart() -> None:
    twins = Rubric("twins", title="Twins")
    twins.exercise("double", title="Double", minutes=1, difficulty=1)
    double = twins.reference(named("double", lambda x: 2 * x))
    twins.mistake("double", "You square.")(named("squares", lambda x: x * x))
    twins.mistake("double", "You add six.")(named("adds_six", lambda x: x + 6))
    for name, x in (("of_three", 3), ("of_four", 4), ("of_three_again", 3)):
        test = named(name, lambda submission, rng, x=x: assert_close(submission.double(x), double(x)))
        twins.test("double", points=1, visible=True)(test)
    hints = [result.hint for result in run(twins, LocalSubmission({"double": lambda x: x + 6}), seed=0)]
    assert all(told in hints[0] for told in ("You square.", "You add six."))
    assert hints[1:] == ["You add six.", "You add six."]


def named(name: str, function: Any) -> Any:
    function.__name__ = name
    return function


@pytest.mark.parametrize(
    ("got", "want", "said"),
    [
        (float(torch.tensor(2.6342404).half()), 2.6342404, "the few digits of half precision"),
        (torch.tensor(2.6342404).bfloat16(), torch.tensor(2.6342404), "the few digits of half precision"),
        (2.63, 2.6342404, "looks rounded"),
        (2.634, torch.tensor(2.6342404, dtype=torch.float64), "looks rounded"),
        (0.5, 0.503, "is 0.5, expected 0.503"),
        (12288, 12345, "is 12288, expected 12345"),
        (2.6371234, 2.6342404, "is 2.63712, expected 2.63424"),
    ],
)
def test_comparison_tells_lost_digits_from_other_values(got: Any, want: Any, said: str) -> None:
    with pytest.raises(Mismatch) as failure:
        assert_close(got, want, rtol=1e-6)
    assert str(failure.value).partition(": compute")[0].partition(": return")[0].endswith(said)


def test_inputs_are_fresh_by_seed_and_test_and_reproducible() -> None:
    rubric = small_rubric()
    first, second = rubric.tests
    draw = [torch.randn(4, generator=rubric.generator(t, s)).tolist() for t, s in ((first, 1), (first, 1), (first, 2))]
    assert draw[0] == draw[1] != draw[2]
    assert draw[0] != torch.randn(4, generator=rubric.generator(second, 1)).tolist()


def test_result_survives_json() -> None:
    tests = run(small_rubric(), student(RIGHT.replace("x + x", "x / 0")), seed=3)
    result = SubmissionResult(submission="=Ada", rubric="00_small", seed=3, tests=tests, notes=("cell 2 failed",))
    assert result.tests[0].picture is not None
    again = SubmissionResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert (again.earned, again.points) == (3, 5)
    assert "\n" not in result.to_json()
    with pytest.raises(ValueError, match="not a submission result"):
        SubmissionResult.from_json("{}")


@pytest.mark.parametrize("bad", ["[]", "3", '{"tests": [{"outcome": "won"}], "notes": []}'])
def test_result_refuses_other_json(bad: str) -> None:
    with pytest.raises(ValueError, match=r"not a submission result|outcome must be"):
        SubmissionResult.from_json(bad)


def test_rubric_names_its_errors() -> None:
    rubric = small_rubric()
    with pytest.raises(ValueError, match="no exercise 'triple'"):
        rubric.test("triple", points=1, visible=True)
    with pytest.raises(ValueError, match="declared twice"):
        rubric.exercise("double", title="Again", minutes=1, difficulty=1)
    with pytest.raises(ValueError, match="difficulty must be 1 to 5, got 9"):
        rubric.exercise("hard", title="Hard", minutes=1, difficulty=9)
