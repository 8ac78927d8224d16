"""The page a student gets back: what passed, what did not, and what to look at."""

import hashlib
import re

from lecturelib.grading.check import heatmap
from lecturelib.grading.reports.page import number, page, text
from lecturelib.grading.rubric.results import ExerciseResult, Graded, TestResult
from lecturelib.grading.rubric.rubric import Rubric

SAID = {
    "pass": "passed",
    "fail": "not right yet",
    "error": "stopped with an error",
    "missing": "nothing to test",
    "timeout": "took too long",
    "crash": "ended the process",
}


def feedback_page(rubric: Rubric, graded: Graded) -> str:
    """Visible tests with message, hint and picture; of hidden ones only the points they add up to."""
    result = graded.result
    parts = [
        f"<h1>{text(rubric.title)}</h1>",
        f"<p>For {text(graded.name, 200)}: <strong>{number(result.earned)} of {number(rubric.points)} points</strong>"
        f"{', handed in late' if graded.late else ''}.</p>",
        f"<p>File: {text(graded.path, 600)}{text(f'; {graded.note}', 1200) if graded.note else ''}</p>",
    ]
    if result.reason:
        parts.append(f'<p class="hint">{text(_sentence(result.reason))}</p>')
    titles = {exercise.name: exercise.title for exercise in rubric.exercises.values()}
    parts += [_exercise(exercise) for exercise in result.exercises(titles)]
    if result.notes:
        notes = "".join(f"<li>{text(note, 600)}</li>" for note in result.notes[:40])
        parts += ["<h2>Notes</h2>", f"<p>These cost no points by themselves.</p><ul>{notes}</ul>"]
    return page(f"{rubric.title}: feedback", "\n".join(parts))


def _exercise(exercise: ExerciseResult) -> str:
    head = f"<h2>{text(exercise.title)}: {number(exercise.earned)} of {number(exercise.points)} points</h2>"
    visible = [test for test in exercise.tests if test.visible]
    hidden = [test for test in exercise.tests if not test.visible]
    parts = [head, *(_test(test) for test in visible)]
    if hidden:
        earned, points = sum(test.earned for test in hidden), sum(test.points for test in hidden)
        parts.append(f"<p>Further tests on other inputs: {number(earned)} of {number(points)} points.</p>")
    return "\n".join(parts)


def _test(test: TestResult) -> str:
    kind = "pass" if test.passed else "fail"
    mark = "✓" if test.passed else "✗"
    parts = [
        f"<h3>{text(test.name.replace('_', ' ').capitalize())} <small>"
        f'<span class="{kind}">{mark} {SAID[test.outcome]}</span>, '
        f"{number(test.earned)} of {number(test.points)} points</small></h3>",
    ]
    if test.message:
        parts.append(f"<pre>{text(test.message)}</pre>")
    if test.hint:
        parts.append(f'<p class="hint">Hint: {text(test.hint)}</p>')
    if test.replaced:
        names = ", ".join(test.replaced)
        parts.append(
            f"<p>Tested with the reference version of {text(names)}, so an earlier mistake costs nothing here.</p>"
        )
    if test.picture is not None:
        parts.append(f"<p>{heatmap.svg(test.picture)}</p>")
    return "\n".join(parts)


def file_name(student: str) -> str:
    """A file name that is safe for any student id, and different for different ones."""
    safe = re.sub(r"[^A-Za-z0-9-]+", "_", student).strip("_")[:60]
    return f"{safe or 'student'}-{hashlib.sha256(student.encode()).hexdigest()[:8]}.html"


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}{'' if reason.endswith('.') else '.'}"
