"""Judged by a metric: what is counted is counted on our side, limits hold, shares follow marks, liars gain nothing."""

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lecturelib.cli import main
from lecturelib.grading import Contest, LocalSubmission, load_rubric, run
from lecturelib.grading.check.checker import Checker
from lecturelib.grading.check.packing import pack_rubric, unpack_rubric
from lecturelib.grading.notebook import Notebook
from lecturelib.grading.release.notebooks import load_notebook
from lecturelib.grading.reports.feedback import feedback_page
from lecturelib.grading.reports.gradebook import leaderboard_csv
from lecturelib.grading.rubric import network
from lecturelib.grading.rubric.compare import Mismatch
from lecturelib.grading.rubric.network import build, describe
from lecturelib.grading.rubric.results import Graded, SubmissionResult, TestResult
from lecturelib.grading.sandbox.limits import Limits
from lecturelib.grading.sandbox.sandbox import Sandbox

ROOT = Path(__file__).parents[2]
RUBRICS = Path(__file__).parent / "rubrics"
COUNTING = """
import torch
def train(inputs, targets):
    classes = torch.stack([targets[inputs == symbol].mode().values for symbol in range(4)])
    return {"layers": [("embedding", 4)], "weights": {"0.weight": torch.eye(4)[classes]}}
"""
WIDE = """
import torch
def train(inputs, targets):
    classes = torch.stack([targets[inputs == symbol].mode().values for symbol in range(4)])
    weights = {"0.weight": torch.eye(4)[classes], "1.weight": torch.eye(4), "1.bias": torch.zeros(4)}
    return {"layers": [("embedding", 4), ("linear", 4)], "weights": weights}
"""
HALF = COUNTING.replace("torch.eye(4)[classes]", "torch.eye(4)[classes] * torch.tensor([1.0, 1, 1, -1])[:, None]")
TOO_WIDE = """
import torch
def train(inputs, targets):
    return {"layers": [("embedding", 16)], "weights": {"0.weight": torch.zeros(4, 16)}}
"""


def contest(**changes: Any) -> Contest:
    inputs = torch.arange(4).repeat(3, 2)
    limits = {
        "num_symbols": 4,
        "num_classes": 4,
        "most_parameters": 400,
        "most_flops": 50_000,
        "marks": (0.25, 0.5, 1.0),
    }
    return Contest(**{"inputs": inputs, "targets": inputs, **limits, **changes})


def one_hot(right: int) -> dict[str, Any]:
    """A network that names the first symbols rightly, and of the others another than they are."""
    table = torch.eye(4).roll(1, dims=0)
    table[:right] = torch.eye(4)[:right]
    return {"layers": [("embedding", 4)], "weights": {"0.weight": table}}


@pytest.mark.parametrize(("right", "share"), [(1, 1 / 3), (2, 2 / 3), (3, 2 / 3), (4, 1.0)])
def test_share_of_the_points_follows_the_marks(right, share):
    score = contest().judge(one_hot(right))
    assert score.share == pytest.approx(share)
    assert dict(score.measured) == {"accuracy": right / 4, "parameters": 16.0, "operations": 0.0}
    assert ("next mark" in score.told) == (share < 1)


def test_no_mark_is_no_pass():
    with pytest.raises(Mismatch, match=r"accuracy 0\.000 .* the first mark is 0\.25"):
        contest().judge(one_hot(0))


def test_nothing_is_asked_where_a_target_is_negative():
    targets = torch.arange(4).repeat(3, 2)
    targets[:, 2:] = -1
    assert dict(contest(targets=targets).judge(one_hot(2)).measured)["accuracy"] == 1.0


def test_parameters_and_operations_are_those_of_a_count_by_hand():
    layers = [
        ("embedding", 6),
        ("positions", 9),
        ("convolution", 8, 3, 2),
        ("gelu",),
        ("recurrence", 10),
        ("residual", [("norm",), ("attention", 2)]),
        ("linear", 4),
    ]
    made = build(layers, num_symbols=4)
    weights = 4 * 6 + 9 * 6 + (6 * 3 + 1) * 8 + 3 * 10 * (8 + 10 + 2) + 2 * 10 + 11 * 30 + 11 * 10 + 11 * 4
    per_symbol = 2 * (6 * 3 * 8 + 3 * 10 * (8 + 10) + 10 * 30 + 10 * 10 + 10 * 4)
    score = contest(most_parameters=weights, marks=(0.0,)).judge(describe(layers, made))
    scores_and_means = 2 * 2 * 8 * 8 * 10
    assert dict(score.measured)["parameters"] == weights
    assert dict(score.measured)["operations"] == 8 * per_symbol + scores_and_means
    for limit, most, word in (("most_parameters", weights, "parameters"), ("most_flops", 8 * per_symbol, "operations")):
        with pytest.raises(Mismatch, match=f"{word}.* at most {most - 1:,}"):
            contest(**{"most_parameters": weights, "marks": (0.0,), limit: most - 1}).judge(describe(layers, made))


def test_built_network_is_causal_in_every_layer():
    layers = [("embedding", 6), ("convolution", 6, 2, 3), ("recurrence", 6), ("attention", 3), ("linear", 5)]
    made, tokens = build(layers, num_symbols=7).eval(), torch.randint(7, (2, 9))
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 7
    before, after = made(tokens), made(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


DEEP: list[Any] = [("relu",)]
for _ in range(40):
    DEEP = [("residual", DEEP)]


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ([], "layers must be a list"),
        ("embedding", "layers must be a list"),
        ([("embedding", 4), ("exec", "1")], "a layer is one of"),
        ([("embedding", 4), ()], "a layer is one of"),
        ([("embedding", 4), ([],)], "a layer is one of"),
        ([("linear", 4)], "the first layer, and no other"),
        ([("embedding", 4), ("embedding", 4)], "the first layer, and no other"),
        ([("embedding", True)], "from 1 to 256"),
        ([("embedding", 4.0)], "from 1 to 256"),
        ([("embedding", 0)], "from 1 to 256"),
        ([("embedding", 10**12)], "from 1 to 256"),
        ([("embedding", 4), ("convolution", 4, 2, 10**9)], "from 1 to 256"),
        ([("embedding", 4), ("linear", 4, 4)], "has 1 numbers"),
        ([("embedding", 4), ("attention", 3)], "3 heads do not divide"),
        ([("embedding", 4), ("residual", [("linear", 5)])], "must agree"),
        ([("embedding", 4), *DEEP], "nested too deeply"),
        ([("embedding", 4), *[("relu",)] * 10_000], "more than 32 layers"),
        ([("embedding", 256), ("convolution", 256, 256, 256)], "parameters; at most"),
    ],
)
def test_description_that_is_no_network_is_refused_in_words(layers, said):
    with pytest.raises(Mismatch, match=said):
        contest().judge({"layers": layers, "weights": {}})


class Small(torch.Tensor):
    """Says that it has one number."""

    def numel(self) -> int:
        return 1


@pytest.mark.parametrize(
    "weights",
    [
        None,
        {},
        {"0.weight": None},
        {"0.weight": torch.eye(4).long()},
        {"0.weight": torch.eye(5)},
        {"0.weight": torch.eye(4) / 0},
        {"0.weight": torch.eye(4), "smuggled": torch.zeros(9)},
        {"0.weight": torch.eye(4), 3: torch.zeros(9)},
        {"0.weight": torch.eye(4, device="meta")},
    ],
)
def test_weights_that_are_not_the_networks_are_refused(weights):
    with pytest.raises(Mismatch, match="weight"):
        contest().judge({"layers": [("embedding", 4)], "weights": weights})


def test_what_a_network_says_of_itself_is_not_believed():
    told = {**one_hot(4), "parameters": 1, "accuracy": 1.0}
    with pytest.raises(Mismatch, match="a dict of layers and weights"):
        contest().judge(told)
    lying = {"layers": [("embedding", 4)], "weights": {"0.weight": torch.eye(4).as_subclass(Small)}}
    assert dict(contest().judge(lying).measured)["parameters"] == 16
    with pytest.raises(Mismatch, match="16 parameters; at most 15"):
        contest(most_parameters=15).judge(lying)


def namespace(source: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    exec(source, made)
    return made


def test_check_gives_the_metric_on_the_notebooks_own_data():
    packed = unpack_rubric(pack_rubric(load_rubric(RUBRICS / "contest.py")))
    report = Checker(packed, namespace(COUNTING))("train")
    assert report.passed
    assert "accuracy 1.000 on 40 sequences that it has not seen, with 16 of 60 parameters" in repr(report)
    assert "accuracy 1.000" in report._repr_html_()
    partly = Checker(packed, namespace(HALF))("train")
    assert "the next mark is 0.9" in repr(partly)
    assert "2 of 3 points here, 6 more in grading" in repr(partly)
    assert "at most 60 are allowed" in repr(Checker(packed, namespace(TOO_WIDE))("train"))


# Each is added to a submission that names the classes rightly in the first case only if it looks: it may gain nothing.
LIARS = {
    "patches the counters": """
import torch, torch.utils.flop_counter
torch.utils.flop_counter.FlopCounterMode.get_total_flops = lambda self: 0
torch.nn.Module.parameters = lambda *a, **k: iter(())
torch.Tensor.numel = lambda self: 0
torch.Tensor.shape = property(lambda self: torch.Size((4, 4)))
def train(inputs, targets):
    return {"layers": [("embedding", 16)], "weights": {"0.weight": torch.zeros(4, 16)}}
""",
    "says how large it is": """
def train(inputs, targets):
    import torch
    return {"layers": [("embedding", 4)], "weights": {"0.weight": torch.eye(4)}, "parameters": 0, "accuracy": 1.0}
""",
    "returns code": """
def train(inputs, targets):
    return {"layers": [("embedding", 4)], "weights": {"0.weight": lambda *a: 1}}
""",
    "returns a module": """
import torch
class Oracle(torch.nn.Module):
    def forward(self, x):
        return x
def train(inputs, targets):
    return Oracle()
""",
    "looks for what it is judged on": """
import gc, sys, torch
def train(inputs, targets):
    found = [t for t in gc.get_objects() if type(t) is torch.Tensor and t.dim() == 2 and t.shape[0] == 40]
    frame = sys._getframe()
    while frame:
        found += [v for v in frame.f_locals.values() if type(v) is torch.Tensor and v.dim() == 2 and len(v) == 40]
        frame = frame.f_back
    if not found:
        raise LookupError("it is nowhere here")
    return {"layers": [("embedding", 4)], "weights": {"0.weight": torch.eye(4)[found[0][0]]}}
""",
    "keeps the classes of the last call": """
import os, torch
def train(inputs, targets):
    table = torch.load("kept.pt") if os.path.exists("kept.pt") else torch.zeros(4, 4)
    torch.save(torch.eye(4), "kept.pt")
    return {"layers": [("embedding", 4)], "weights": {"0.weight": table * float("nan") if not table.any() else table}}
""",
    "never ends": """
def train(inputs, targets):
    while True:
        pass
""",
    "is larger than any answer": """
def train(inputs, targets):
    return {"layers": [["relu"]] * 2_000_000, "weights": {}}
""",
}


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(Limits(call_seconds=1.0)) as box:
        yield box


def grade(box: Sandbox, source: str) -> tuple[TestResult, ...]:
    with box.open(Notebook(cells=((1, source),))) as submission:
        return run(load_rubric(RUBRICS / "contest.py"), submission, seed=5)


def test_sandbox_judges_as_the_kernel_does(box):
    for source, least, most in ((COUNTING, 9, 9), (WIDE, 9, 9), (HALF, 1, 8), (TOO_WIDE, 0, 0)):
        ours = run(load_rubric(RUBRICS / "contest.py"), LocalSubmission(namespace(source)), seed=5)
        theirs = grade(box, source)
        assert [(r.outcome, r.measured, r.share) for r in ours] == [(r.outcome, r.measured, r.share) for r in theirs]
        assert least <= sum(r.earned for r in theirs) <= most


@pytest.mark.parametrize("source", LIARS.values(), ids=LIARS)
def test_liar_gains_no_point_and_no_place(box, source):
    results = grade(box, source)
    assert sum(r.earned for r in results) == 0
    assert [r.measured for r in results] == [(), ()]


def test_whoever_comes_after_the_liars_is_not_touched(box):
    assert sum(r.earned for r in grade(box, COUNTING)) == 9.0


def graded(student: str, metric: float, parameters: float, operations: float, *, late: bool = False) -> Graded:
    measured = (("accuracy", metric), ("parameters", parameters), ("operations", operations))
    common = {"exercise": "train", "points": 6.0, "outcome": "pass", "measured": measured}
    tests = (
        TestResult(name="seen", visible=True, **{**common, "measured": (("accuracy", 1.0),)}),
        TestResult(name="hidden", visible=False, share=0.5, message="accuracy told", **common),
    )
    result = SubmissionResult(submission=student, rubric="contest", seed=1, tests=tests)
    return Graded(student=student, name=student.title(), path="x.ipynb", late=late, result=result)


def test_leaderboard_ranks_by_the_metric_then_by_what_it_costs():
    rows = [
        graded("ada", 0.9, 100, 900),
        graded("bo", 0.9712, 300, 500),
        graded("cy", 0.9, 900, 100, late=True),
        graded("=di", 0.9, 100, 900),
        replace(graded("ed", 1.0, 1, 1), result=SubmissionResult(submission="ed", rubric="contest", seed=1)),
    ]
    found = list(csv.DictReader(leaderboard_csv(rows).splitlines()))
    assert [(row["rank"], row["student"]) for row in found] == [("1", "bo"), ("2", "cy"), ("3", "ada"), ("3", "'=di")]
    assert found[0] == {
        **{"rank": "1", "student": "bo", "name": "Bo", "accuracy": "0.9712", "parameters": "300"},
        **{"operations": "500", "points": "9", "late": ""},
    }
    assert found[1]["late"] == "late"
    assert leaderboard_csv(rows[-1:]) == ""


def test_result_with_a_metric_survives_json_and_one_without_is_read_too():
    result = graded("ada", 0.9, 100, 900).result
    assert SubmissionResult.from_json(result.to_json()) == result
    assert result.earned == 9.0
    old = json.loads(result.to_json())
    for test in old["tests"]:
        del test["measured"], test["share"]
    assert SubmissionResult.from_json(json.dumps(old)).earned == 12.0


def test_feedback_says_what_was_measured_on_hidden_data():
    outline = load_rubric(RUBRICS / "contest.py").outline
    assert "Measured: accuracy told." in feedback_page(outline, graded("ada", 0.9, 100, 900))


def test_grade_command_writes_a_leaderboard(tmp_path, capsys):
    handed_in, out = tmp_path / "in", tmp_path / "out"
    for student, source in {"ada": COUNTING, "bo": WIDE, "cy": HALF, "di": TOO_WIDE}.items():
        (handed_in / student).mkdir(parents=True)
        cell = {
            "cell_type": "code",
            "id": "c",
            "source": source,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        tree = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
        (handed_in / student / "contest.ipynb").write_text(json.dumps(tree))
    asked = ["--exercise", "contest", "--rubrics", str(RUBRICS), "--out", str(out), "--seed", "3", "--workers", "1"]
    assert main(["grade", str(handed_in), *asked]) == 0
    with open(out / "leaderboard.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["rank"], row["student"], row["parameters"]) for row in rows[:2]] == [
        ("1", "ada", "16"),
        ("2", "bo", "36"),
    ]
    assert [row["student"] for row in rows] == ["ada", "bo", "cy"]


def test_project_notebook_carries_the_network_as_the_grader_builds_it():
    source = Path(network.__file__).read_text(encoding="utf-8").rstrip()
    for folder in ("solutions", "exercises"):
        cells = load_notebook(ROOT / folder / "21_choosing.ipynb").cells
        assert source in [cell.source for cell in cells]
