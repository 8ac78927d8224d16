"""Every exercise set is held to the same promises; a new set needs no test of its own.

The blank exercise scores 0 and the solution full; every wrong answer loses its exercise, with its own hint, and nothing
else; every right answer scores full; the released notebook is what its solution gives.
"""

from functools import cache
from pathlib import Path

import pytest

from lecturelib.grading import LocalSubmission, Rubric, load_rubric, run
from lecturelib.grading.check.checker import Checker
from lecturelib.grading.check.packing import pack_rubric, unpack_rubric
from lecturelib.grading.notebook import INVITATION, parse_notebook
from lecturelib.grading.release.notebooks import Paths, drift, load_notebook, sets_in, strays
from lecturelib.grading.rubric.answers import Answer, definitions, load_answers, namespace_of
from lecturelib.grading.rubric.results import TestResult

ROOT = Path(__file__).parents[2]
SETS = sets_in(ROOT)


def answers_of(paths: Paths) -> list[Answer]:
    return load_answers(ROOT / "tests" / "exercises" / "answers" / f"{paths.name}.py")


def answers(kind: str) -> list[object]:
    return [
        pytest.param(paths, answer, id=f"{paths.name}: {answer.exercise}: {answer.title}")
        for paths in SETS
        for answer in answers_of(paths)
        if answer.kind == kind
    ]


@cache
def rubric_of(paths: Paths) -> Rubric:
    return load_rubric(paths.rubric)


@cache
def checks_of(paths: Paths) -> Rubric:
    return unpack_rubric(pack_rubric(rubric_of(paths)))


def graded_by_tests(rubric: Rubric) -> list[str]:
    """The exercises that tests grade; the others are answered in words."""
    return [exercise.name for exercise in rubric.exercises.values() if not exercise.items]


def points_from_tests(rubric: Rubric) -> float:
    return sum(map(rubric.points_of, graded_by_tests(rubric)))


@cache
def solution_of(paths: Paths) -> str:
    return definitions(paths.solution)


def grade(paths: Paths, seed: int, *sources: str) -> tuple[TestResult, ...]:
    return run(rubric_of(paths), LocalSubmission(namespace_of(*sources)), seed=seed)


each_set = pytest.mark.parametrize("paths", [pytest.param(paths, id=paths.name) for paths in SETS])


@each_set
def test_set_blank_scores_nothing(paths: Paths) -> None:
    results = grade(paths, 0, definitions(paths.exercise))
    assert {r.outcome for r in results} == {"missing"}
    assert sum(r.earned for r in results) == 0
    assert {r.outcome for r in grade(paths, 0, "")} == {"missing"}


@each_set
@pytest.mark.parametrize("seed", range(4))
def test_set_solution_scores_full(paths: Paths, seed: int) -> None:
    results = grade(paths, seed, solution_of(paths))
    assert [(r.name, r.outcome, r.message) for r in results if not r.passed] == []
    assert sum(r.earned for r in results) == points_from_tests(rubric_of(paths)) > 0


@pytest.mark.parametrize(("paths", "answer"), answers("right"))
def test_right_answer_scores_full(paths: Paths, answer: Answer) -> None:
    for seed in (0, 1):
        results = grade(paths, seed, solution_of(paths), answer.source)
        assert [(r.name, r.outcome, r.message) for r in results if not r.passed] == []


@pytest.mark.parametrize(("paths", "answer"), answers("wrong"))
def test_wrong_answer_fails_with_its_own_hint(paths: Paths, answer: Answer) -> None:
    lost = [r for r in grade(paths, 0, solution_of(paths), answer.source) if not r.passed]
    assert {r.exercise for r in lost} == {answer.exercise}
    assert any(answer.hint in r.hint or answer.hint in r.message for r in lost), [(r.hint, r.message) for r in lost]


@each_set
def test_set_has_enough_answers_with_hints_of_their_own(paths: Paths) -> None:
    given = answers_of(paths)
    assert len([a for a in given if a.kind == "wrong"]) >= 8
    hints = [a.hint for a in given if a.kind == "wrong"]
    assert len(set(hints)) == len(hints)
    for exercise in graded_by_tests(rubric_of(paths)):
        assert len([a for a in given if a.exercise == exercise and a.kind == "right"]) >= 2
        assert len([a for a in given if a.exercise == exercise and a.kind == "wrong"]) >= 2


@each_set
def test_every_mistake_is_recognised_in_place_of_its_name(paths: Paths) -> None:
    rubric = rubric_of(paths)
    for mistake in rubric.mistakes:
        submission = LocalSubmission({**rubric.references, mistake.stands_for: mistake.function})
        lost = [r for r in run(rubric, submission, seed=4, exercises=(mistake.exercise,)) if not r.passed]
        assert mistake.name in {r.mistake for r in lost}
        for result in lost:  # none is taken for another: where two give the same numbers, both are named
            assert not (result.visible and result.mistake) or mistake.hint in result.hint, result.name


@each_set
def test_packed_checks_keep_every_visible_test_and_no_hidden_one(paths: Paths) -> None:
    rubric, packed = rubric_of(paths), checks_of(paths)
    assert [t.name for t in packed.tests] == [t.name for t in rubric.tests if t.visible]
    assert [m.name for m in packed.mistakes] == [m.name for m in rubric.mistakes]
    assert all(any(t.visible for t in rubric.tests_of(name)) for name in graded_by_tests(rubric))
    assert all(any(not t.visible for t in rubric.tests_of(name)) for name in graded_by_tests(rubric))
    points = {name: packed.points_of(name) + packed.exercises[name].hidden_points for name in packed.exercises}
    assert points == {name: rubric.points_of(name) for name in rubric.exercises}


@each_set
def test_hidden_tests_name_their_topic_in_a_word(paths: Paths) -> None:
    for test in rubric_of(paths).tests:
        assert test.visible or 0 < len(test.topic.split()) <= 4, test.name


def test_some_set_asks_a_question_to_be_answered_in_words() -> None:
    assert [paths.name for paths in SETS if len(graded_by_tests(rubric_of(paths))) < len(rubric_of(paths).exercises)]


@each_set
def test_a_written_question_says_what_a_reader_looks_for_and_its_solution_answers_it(paths: Paths) -> None:
    cells = {tag: cell.source for cell in load_notebook(paths.exercise).cells for tag in cell.metadata.get("tags", [])}
    released = "\n".join(cell.source for cell in load_notebook(paths.exercise).cells)
    solution = dict(parse_notebook(paths.solution.read_bytes()).answers)
    for exercise in rubric_of(paths).exercises.values():
        for item in exercise.items:
            assert f"| {item.name} | {item.points:g} |" in released
        if exercise.items:
            assert cells[f"answer:{exercise.name}"].endswith(INVITATION)
            assert len(solution[exercise.name].split()) > 50
            assert solution[exercise.name] not in released


@each_set
def test_packed_checks_pass_the_solution(paths: Paths) -> None:
    report = Checker(checks_of(paths), namespace_of(solution_of(paths)))()
    assert report.passed, repr(report)


@pytest.mark.parametrize(("paths", "answer"), [*answers("right"), *answers("wrong")])
def test_check_judges_as_the_grader_does(paths: Paths, answer: Answer) -> None:
    namespace = namespace_of(solution_of(paths), answer.source)
    ours = run(rubric_of(paths), LocalSubmission(namespace), seed=0, exercises=(answer.exercise,), visible_only=True)
    theirs = run(checks_of(paths), LocalSubmission(namespace), seed=5, exercises=(answer.exercise,))
    for one, other in zip(ours, theirs, strict=True):
        assert one.passed or not other.passed, "check accepts what the grader refuses"
        if not other.message.startswith("this builds on"):
            assert (one.outcome, one.message, one.hint) == (other.outcome, other.message, other.hint)


@each_set
def test_release_has_not_drifted(paths: Paths) -> None:
    assert drift(paths) == []


def test_no_exercise_is_without_a_solution() -> None:
    assert strays(ROOT) == []
