"""The page a student gets back: what passed, what did not, and what to look at."""

import hashlib
import re

from lecturelib.grading.check import heatmap
from lecturelib.grading.check.inline import inline_html
from lecturelib.grading.reports.page import number, page, text
from lecturelib.grading.rubric.outline import Outline
from lecturelib.grading.rubric.results import ExerciseResult, Graded, TestResult

SAID = {
    "pass": "passed",
    "fail": "not right yet",
    "error": "stopped with an error",
    "missing": "nothing to test",
    "timeout": "took too long",
    "crash": "ended the process",
    "written": "read",
}


def feedback_page(outline: Outline, graded: Graded) -> str:
    """Visible tests with message, hint and picture; of hidden ones the points and the topics to look at."""
    result = graded.result
    parts = [
        f"<h1>{text(outline.title)}</h1>",
        f"<p>For {text(graded.name, 200)}: <strong>{number(graded.points)} of {number(outline.points)} points</strong>"
        f"{', handed in late' if graded.late else ''}.</p>",
    ]
    if graded.lateness or graded.deducted:
        earned = f"{number(result.earned)} points earned, {number(graded.deducted)} deducted"
        parts.append(f"<p>{text(_sentence(graded.lateness))} {earned}.</p>")
    if graded.total is not None:
        parts.append("<p>The points were set by hand.</p>")
    if graded.comment:
        parts.append(f'<p class="hint">{text(graded.comment)}</p>')
    if graded.waits:
        parts.append("<p>A written answer has not been read yet; its points are still missing.</p>")
    if graded.path:
        parts.append(f"<p>File: {text(graded.path, 600)}{text(f'; {graded.note}', 1200) if graded.note else ''}</p>")
    if result.reason:
        parts.append(f'<p class="hint">{text(_sentence(result.reason))}</p>')
    answers = dict(result.answers)
    titles = {exercise.name: exercise.title for exercise in outline.exercises.values()}
    for exercise in result.exercises(titles):
        is_written = bool(outline.exercises[exercise.name].items) if exercise.name in outline.exercises else False
        parts.append(_exercise(exercise, answers.get(exercise.name), is_written))
    if result.notes:
        notes = "".join(f"<li>{text(note, 600)}</li>" for note in result.notes[:40])
        parts += ["<h2>Notes</h2>", f"<p>These cost no points by themselves.</p><ul>{notes}</ul>"]
    return page(f"{outline.title}: feedback", "\n".join(parts))


def heading(exercise: ExerciseResult) -> str:
    """An exercise and its points; a title that asks has its mark already."""
    title = exercise.title if exercise.title.endswith("?") else f"{exercise.title}:"
    return f"<h2>{text(title)} {number(exercise.earned)} of {number(exercise.points)} points</h2>"


def _exercise(exercise: ExerciseResult, answer: str | None, is_written: bool) -> str:
    visible = [test for test in exercise.tests if test.visible]
    hidden = [test for test in exercise.tests if not test.visible]
    parts = [heading(exercise)]
    if answer:
        parts.append(f"<pre>{text(answer, 20_000)}</pre>")
    elif is_written:
        parts.append("<p>There is no answer in its cell.</p>")
    parts += [_test(test) for test in visible]
    if hidden:
        earned, points = sum(test.earned for test in hidden), sum(test.points for test in hidden)
        topics = ", ".join(dict.fromkeys(test.topic for test in hidden if test.topic and not test.passed))
        look = f" Look at: {text(topics)}." if topics else ""
        parts.append(f"<p>Further tests on other inputs: {number(earned)} of {number(points)} points.{look}</p>")
        parts += [f"<p>Measured: {text(test.message)}.</p>" for test in hidden if test.measured]
        parts += [f'<p class="hint">{text(test.comment)}</p>' for test in hidden if test.comment]
    return "\n".join(parts)


def _test(test: TestResult) -> str:
    is_full = test.earned >= test.points
    kind, mark = ("", "·") if test.waits else ("pass", "✓") if is_full else ("fail", "✗")
    said = "not read yet" if test.waits else "set by hand" if test.awarded is not None else SAID[test.outcome]
    title = test.name if test.outcome == "written" else test.name.replace("_", " ").capitalize()
    parts = [
        f'<h3>{text(title)} <small><span class="{kind}">{mark} {said}</span>, '
        f"{number(test.earned)} of {number(test.points)} points</small></h3>",
    ]
    if test.comment:
        parts.append(f'<p class="hint">{text(test.comment)}</p>')
    if test.message:
        parts.append(f"<pre>{text(test.message)}</pre>")
    if test.call:
        parts.append(f"<p>Called: <code>{text(test.call)}</code></p>")
    if test.hint:
        parts.append(f'<p class="hint">{test.hint_label}: {inline_html(test.hint)}</p>')
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
