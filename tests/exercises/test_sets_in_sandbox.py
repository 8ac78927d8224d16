"""The promises of `test_sets.py`, kept by the sandbox too: the same tests, each call in its own confined fork."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lecturelib.grading import load_rubric, run
from lecturelib.grading.notebook import parse_notebook
from lecturelib.grading.release.notebooks import Paths, sets_in
from lecturelib.grading.rubric.answers import load_answers
from lecturelib.grading.rubric.results import TestResult
from lecturelib.grading.sandbox.limits import Limits
from lecturelib.grading.sandbox.sandbox import Sandbox

ROOT = Path(__file__).parents[2]

each_set = pytest.mark.parametrize("paths", [pytest.param(paths, id=paths.name) for paths in sets_in(ROOT)])


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(Limits()) as box:
        yield box


def grade(
    box: Sandbox, paths: Paths, notebook: Path, extra: str = "", exercises: tuple[str, ...] | None = None
) -> tuple[TestResult, ...]:
    tree = json.loads(notebook.read_text(encoding="utf-8"))
    tree["cells"].append(
        {"cell_type": "code", "id": "extra", "source": extra, "metadata": {}, "outputs": [], "execution_count": None}
    )
    with box.open(parse_notebook(json.dumps(tree).encode())) as submission:
        return run(load_rubric(paths.rubric), submission, seed=11, exercises=exercises)


@each_set
def test_sandbox_gives_the_solution_full_points_and_a_blank_none(box: Sandbox, paths: Paths) -> None:
    solved = grade(box, paths, paths.solution)
    assert [(r.name, r.message) for r in solved if not r.passed] == []
    assert {r.outcome for r in grade(box, paths, paths.exercise)} == {"missing"}


@each_set
def test_sandbox_charges_a_broken_name_to_no_test_that_only_needs_it(box: Sandbox, paths: Paths) -> None:
    tests = load_rubric(paths.rubric).tests
    for name in {name for test in tests for name in test.needs}:
        above = {test.name for test in tests if name in test.needs}
        exercises = tuple({test.exercise for test in tests if test.name in above})
        broken = f"class {name}:\n    def __new__(cls, *args, **kwargs):\n        raise ValueError('broken')"
        lost = [r for r in grade(box, paths, paths.solution, broken, exercises) if not r.passed and r.name in above]
        assert [(name, r.name, r.message) for r in lost] == []


@pytest.mark.slow
@each_set
def test_sandbox_judges_every_answer_as_the_kernel_does(box: Sandbox, paths: Paths) -> None:
    wrongly_judged = []
    for answer in load_answers(ROOT / "tests" / "exercises" / "answers" / f"{paths.name}.py"):
        results = grade(box, paths, paths.solution, answer.source, exercises=(answer.exercise,))
        lost = [r for r in results if not r.passed]
        named = any(answer.hint in r.hint or answer.hint in r.message for r in lost)
        if not (named if answer.kind == "wrong" else not lost):
            wrongly_judged.append((answer.kind, answer.title, [(r.name, r.message, r.hint) for r in lost]))
    assert wrongly_judged == []
