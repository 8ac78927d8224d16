"""The promises of `test_sets.py`, kept by the sandbox too: the same tests, each call in its own confined fork."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lecturelib.grading import load_rubric, run
from lecturelib.grading.notebook import Notebook, parse_notebook
from lecturelib.grading.release.notebooks import Paths, sets_in
from lecturelib.grading.rubric.answers import definitions, load_answers
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


def grade_in_place_of_the_solution(
    box: Sandbox, paths: Paths, source: str, exercises: tuple[str, ...]
) -> tuple[TestResult, ...]:
    """Only what the solution defines, and the source after it: a solution's examples, too, may train for seconds."""
    parts = [ast.unparse(node) for node in ast.parse(definitions(paths.solution)).body]
    with box.open(Notebook(cells=tuple(enumerate([*parts, source], start=1)))) as submission:
        return run(load_rubric(paths.rubric), submission, seed=11, exercises=exercises)


def solved(paths: Paths) -> bytes:
    """What a student hands in who has everything right: the released notebook with the solution's code in it."""
    tree = json.loads(paths.exercise.read_text(encoding="utf-8"))
    solution = json.loads(paths.solution.read_text(encoding="utf-8"))["cells"]
    code = {cell["id"]: cell for cell in solution if cell["cell_type"] == "code"}
    for cell in tree["cells"]:
        if cell["id"] in code:
            cell["source"] = code.pop(cell["id"])["source"]
    tree["cells"][:0] = code.values()  # cells that are not released, such as an import of the solution's own
    return json.dumps(tree).encode()


@each_set
def test_sandbox_gives_the_solution_full_points_without_a_note_and_a_blank_none(box: Sandbox, paths: Paths) -> None:
    """Neither a lost point nor a cell of the course's own, graded or not, that shows as an error."""
    with box.open(parse_notebook(solved(paths))) as submission:
        results = run(load_rubric(paths.rubric), submission, seed=11)
    assert [(r.name, r.message) for r in results if not r.passed] == []
    assert submission.notes == ()
    assert {r.outcome for r in grade(box, paths, paths.exercise)} == {"missing"}


@each_set
def test_sandbox_charges_a_broken_name_to_no_test_that_only_needs_it(box: Sandbox, paths: Paths) -> None:
    tests = load_rubric(paths.rubric).tests
    for name in {name for test in tests for name in test.needs}:
        above = {test.name for test in tests if name in test.needs}
        exercises = tuple({test.exercise for test in tests if test.name in above})
        broken = f"class {name}:\n    def __new__(cls, *args, **kwargs):\n        raise ValueError('broken')"
        results = grade_in_place_of_the_solution(box, paths, broken, exercises)
        lost = [r for r in results if not r.passed and r.name in above]
        assert [(name, r.name, r.message) for r in lost] == []


# Where `rotate` does not pass, tests of `rotary_weights` run with the reference in its place. This keeps it in a list,
# on a module and in a file, and answers the tests of `rotate` with whatever was kept.
KEEPS_THE_REFERENCE = """
import os, torch
kept = []

def rotary_weights(query, key, query_positions, key_positions, base=10000.0):
    kept.append(rotate)
    torch.kept = rotate
    torch.save(rotate(query, query_positions, base), "kept.pt")
    return rotate(query, query_positions, base)

def rotate(x, positions, base=10000.0):
    if kept or hasattr(torch, "kept"):
        return (kept or [torch.kept])[0](x, positions, base)
    if os.path.exists("kept.pt"):
        return torch.load("kept.pt")
    try:
        rotary_weights(x, x, positions, positions, base)
    except RecursionError:
        pass
    return x

def shift_gap(weights, positions, shifts):
    return rotate(positions, positions)
"""


def test_the_reference_in_place_of_a_broken_name_answers_no_test_of_set_09(box: Sandbox) -> None:
    (paths,) = sets_in(ROOT, ["09_positions"])
    results = grade(box, paths, paths.exercise, KEEPS_THE_REFERENCE, exercises=("rotary",))
    assert ("rotate",) in {r.replaced for r in results}  # it was at hand
    assert [r.name for r in results if r.passed] == []


@pytest.mark.slow
@each_set
def test_sandbox_judges_every_answer_as_the_kernel_does(box: Sandbox, paths: Paths) -> None:
    wrongly_judged = []
    for answer in load_answers(ROOT / "tests" / "exercises" / "answers" / f"{paths.name}.py"):
        results = grade_in_place_of_the_solution(box, paths, answer.source, (answer.exercise,))
        lost = [r for r in results if not r.passed]
        named = any(answer.hint in r.hint or answer.hint in r.message for r in lost)
        if not (named if answer.kind == "wrong" else not lost):
            wrongly_judged.append((answer.kind, answer.title, [(r.name, r.message, r.hint) for r in lost]))
    assert wrongly_judged == []
