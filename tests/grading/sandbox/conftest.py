"""A small rubric, honest and dishonest submissions of it, and one sandbox for all tests of this folder."""

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from lecturelib.grading import Rubric, assert_close
from lecturelib.grading.rubric.results import SubmissionResult
from lecturelib.grading.rubric.runner import run
from lecturelib.grading.sandbox.limits import Limits
from lecturelib.grading.sandbox.sandbox import Sandbox
from lecturelib.grading.sandbox.worker import processes

# A string that stands for everything secret: in the tests, the references, the environment, other submissions.
CANARY = "canary-7f3a9e51"

HONEST = [
    "import math\nimport torch\nfrom torch import nn\nfrom lecturelib.grading import check",
    "def softmax(x):\n    e = torch.exp(x - x.max(-1, keepdim=True).values)\n    return e / e.sum(-1, keepdim=True)",
    "def attention(q, k, v):\n    return softmax(q @ k.mT / math.sqrt(q.shape[-1])) @ v\ncheck('attention')",
    "class Affine(nn.Module):\n"
    "    def __init__(self, d_model):\n"
    "        super().__init__()\n"
    "        self.linear = nn.Linear(d_model, d_model)\n"
    "    def forward(self, x):\n"
    "        return self.linear(x) + x",
]
# Everything right but attention: 4 of 7 points. Attacks are added to it, and may not end with more.
WEAK = [HONEST[0], HONEST[1], "def attention(q, k, v):\n    return v", HONEST[3]]
WEAK_SCORE, FULL_SCORE = 4.0, 7.0


def make_rubric() -> Rubric:
    rubric = Rubric("red_team", title=f"Red team ({CANARY})")
    rubric.exercise("softmax", title="Softmax", minutes=5, difficulty=1)
    rubric.exercise("attention", title="Attention", minutes=5, difficulty=1)
    rubric.exercise("affine", title="A module", minutes=5, difficulty=1, defines=("Affine",))

    @rubric.reference
    def softmax(x):
        "canary-7f3a9e51"
        return torch.softmax(x, -1)

    @rubric.reference
    def attention(q, k, v):
        "canary-7f3a9e51"
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

    @rubric.reference
    class Affine(nn.Module):
        "canary-7f3a9e51"

        def __init__(self, d_model: int) -> None:
            super().__init__()
            self.linear = nn.Linear(d_model, d_model)

        def forward(self, x):
            return self.linear(x) + x

    @rubric.test("softmax", points=1, visible=True)
    def softmax_matches(submission, rng):
        x = torch.randn(2, 3, 5, generator=rng)
        assert_close(submission.softmax(x), softmax(x))

    @rubric.test("softmax", points=1, visible=False)
    def softmax_gradient(submission, rng):
        x, g = torch.randn(3, 5, generator=rng), torch.randn(3, 5, generator=rng)
        want = rubric.solution.softmax.gradients(x, upstream=g)
        assert_close(submission.softmax.gradients(x, upstream=g).inputs[0], want.inputs[0])

    @rubric.test("attention", points=2, visible=False, needs=("softmax",))
    def attention_matches(submission, rng):
        q, k, v = (torch.randn(2, n, 3, generator=rng) for n in (4, 5, 5))
        assert_close(submission.attention(q, k, v), attention(q, k, v))

    @rubric.test("attention", points=1, visible=False, needs=("softmax",))
    def attention_gradient(submission, rng):
        q, k, v = (torch.randn(2, n, 3, generator=rng) for n in (4, 5, 5))
        want = rubric.solution.attention.gradients(q, k, v)
        got = submission.attention.gradients(q, k, v)
        for ours, theirs in zip(got.inputs, want.inputs, strict=True):
            assert_close(ours, theirs)

    @rubric.test("affine", points=2, visible=False)
    def affine_matches(submission, rng):
        x = torch.randn(2, 3, generator=rng)
        layer, ours = submission.Affine(3), Affine(3)
        layer.load_state_dict(ours.state_dict())
        assert_close(layer(x), ours(x).detach())

    return rubric


@pytest.fixture(scope="session")
def rubric() -> Rubric:
    return make_rubric()


@pytest.fixture(scope="session")
def limits() -> Limits:
    """Short for what computes: honest cells and calls need hundredths of these seconds. Patient by the clock: a busy
    machine keeps everybody waiting, and no test here is about that."""
    sizes = Limits(memory_mb=400, scratch_mb=16, file_mb=8)
    return replace(sizes, notebook_seconds=4, call_seconds=2, patience=8, total_seconds=240)


@pytest.fixture(scope="session")
def box(limits: Limits) -> Iterator[Sandbox]:
    before = dict(os.environ)
    os.environ["GRADER_SECRET"] = CANARY  # what a submission must not be able to see
    try:
        with Sandbox(limits) as box:
            yield box
    finally:
        os.environ.clear()
        os.environ.update(before)


Impatient = Callable[[Sandbox], contextlib.AbstractContextManager[None]]


@pytest.fixture
def impatient() -> Impatient:
    """For submissions that only the clock can end, because they do not compute: it ends them sooner."""

    @contextlib.contextmanager
    def impatient(sandbox: Sandbox) -> Iterator[None]:
        before = sandbox.limits
        sandbox.limits = replace(before, patience=2)
        try:
            yield
        finally:
            sandbox.limits = before

    return impatient


@pytest.fixture
def write_notebook(tmp_path: Path) -> Callable[..., Path]:
    """Write cells as a notebook file."""

    def write(cells: list[str], name: str = "submission.ipynb") -> Path:
        made = [
            {"cell_type": "code", "source": s, "metadata": {}, "outputs": [], "execution_count": None} for s in cells
        ]
        path = tmp_path / name
        path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}))
        return path

    return write


@pytest.fixture
def grade(box: Sandbox, rubric: Rubric, write_notebook: Callable[..., Path]) -> Callable[..., SubmissionResult]:
    """Grade cells in the sandbox; the notebook's output is the result's `reason`, which nothing else uses here."""

    def grade(cells: list[str], sandbox: Sandbox = box) -> SubmissionResult:
        with sandbox.open(write_notebook(cells)) as submission:
            tests = run(rubric, submission, seed=int.from_bytes(os.urandom(4), "big"))
            return SubmissionResult(
                submission="x", rubric="x", seed=0, tests=tests, notes=submission.notes, reason=submission.output
            )

    return grade


@pytest.fixture(scope="session")
def honest() -> list[str]:
    return list(HONEST)


@pytest.fixture(scope="session")
def weak() -> list[str]:
    return list(WEAK)


def descendants_on_host(box: Sandbox) -> set[int]:
    """The processes below the zygote, as the machine sees them."""
    assert box._process is not None
    return processes.descendants(box._process.pid)


def wait_until_nothing_is_left(box: Sandbox) -> bool:
    """Whether, before long, only the zygote itself remains."""
    deadline = time.monotonic() + 60
    while len(descendants_on_host(box)) > 1:
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.02)
    return True


@pytest.fixture
def attack(
    box: Sandbox,
    grade: Callable[..., SubmissionResult],
    impatient: Impatient,
    rubric_file: Path,
) -> Callable[..., SubmissionResult]:
    """Add an attack to the weak submission and show that it gained nothing, learned nothing and left nothing.

    `score` is what the weak submission is left with; `reason` is looked for in what the report will say; `sleeps` is
    for attacks that wait until the clock ends them.
    """

    def attack(
        source: str, *, score: float | None = WEAK_SCORE, reason: str = "", sleeps: bool = False
    ) -> SubmissionResult:
        with impatient(box) if sleeps else contextlib.nullcontext():
            result = grade([*WEAK, source.replace("RUBRIC_FILE", str(rubric_file))])
        said = "\n".join([*result.notes, *(test.message for test in result.tests)])
        assert result.earned <= WEAK_SCORE, f"points gained: {result.earned} of an honest {WEAK_SCORE}"
        assert CANARY not in result.reason + said, "a secret was read"
        assert score is None or result.earned == score, f"{result.earned} points, not {score}; the report says: {said}"
        assert re.search(reason, said), f"no reason {reason!r} in: {said}"
        assert wait_until_nothing_is_left(box), "processes were left behind"
        assert grade(HONEST).earned == FULL_SCORE, "the next submission was affected"
        return result

    return attack


@pytest.fixture
def rubric_file(tmp_path: Path) -> Path:
    """A rubric on disk, readable by everybody, beside a solution and another student's submission."""
    folder = tmp_path / "graders"
    folder.mkdir(mode=0o755)
    for name in ("rubric.py", "solution.ipynb", "other_student.ipynb"):
        (folder / name).write_text(f"# {CANARY}")
        (folder / name).chmod(0o644)
    for parent in folder.parents:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
        if parent.name.startswith("pytest-of"):
            break
    return folder / "rubric.py"
