"""`check("attention")` in a notebook: an answer within a second, in a sentence and a picture.

    check = load_checks(PACKED, globals())      # in a collapsed cell that `lecturelib release` writes
    check("attention")                          # one exercise
    check()                                     # all of them

A check never raises at the student. It runs in the student's own kernel and proves nothing to a grader; the grader
runs the same tests, and hidden ones, on its own side.
"""

import html
import textwrap
from collections.abc import Callable, MutableMapping
from typing import Any

from lecturelib.grading.check import heatmap
from lecturelib.grading.check.inline import inline_html
from lecturelib.grading.check.own_work import OwnWork
from lecturelib.grading.check.packing import unpack_rubric
from lecturelib.grading.rubric.results import ExerciseResult, TestResult
from lecturelib.grading.rubric.rubric import Exercise, Rubric
from lecturelib.grading.rubric.runner import run

MARKS = {"pass": "✓", "missing": "·"}
FAILED_MARK = "✗"

_STYLE = """<style>
.lecturelib-check{border-left:4px solid #d2691e;padding:.2em 0 .2em .9em;margin:.4em 0;color:inherit;
font:14px/1.5 system-ui,sans-serif;max-width:52em}
.lecturelib-check.all-pass{border-left-color:#2b9258}
.lecturelib-check p{margin:.25em 0}
.lecturelib-check ul{list-style:none;padding:0;margin:.25em 0}
.lecturelib-check li{margin:.2em 0;padding-left:1.5em;text-indent:-1.5em}
.lecturelib-check li>*{text-indent:0}
.lecturelib-check .hint{border:1px solid currentColor;border-radius:4px;padding:.3em .6em;margin:.4em 0;
display:inline-block}
.lecturelib-check code{background:none;color:inherit;font-size:.95em}
.lecturelib-check figure{margin:.5em 0;overflow-x:auto}
html[data-theme=dark] .bd-content div.cell_output .text_html:has(.lecturelib-check)
{background-color:transparent!important;color:inherit!important}
</style>"""


class Report:
    """What `check` answers: HTML in a notebook, text in a terminal."""

    def __init__(self, exercises: tuple[ExerciseResult, ...] = (), note: str = "", to_read: str = "") -> None:
        self.exercises, self.note, self.to_read = exercises, note, to_read

    @property
    def passed(self) -> bool:
        return bool(self.exercises) and not self.note and all(exercise.passed for exercise in self.exercises)

    def __repr__(self) -> str:
        blocks = [_exercise_text(exercise) for exercise in self.exercises]
        return "\n\n".join([*blocks, *self._lines()])

    def _lines(self) -> list[str]:
        return [line for line in (_total(self.exercises), self.to_read, self.note) if line]

    def _repr_html_(self) -> str:
        blocks = [_exercise_html(exercise) for exercise in self.exercises]
        blocks += [
            f'<div class="lecturelib-check" role="status"><p>{inline_html(line)}</p></div>' for line in self._lines()
        ]
        return "".join(blocks) + _STYLE


class Checker:
    """The `check` of a notebook: its visible tests and the namespace where the student's answers are."""

    def __init__(self, rubric: Rubric, namespace: MutableMapping[str, Any]) -> None:
        self.rubric, self.namespace = rubric, namespace

    def __call__(self, exercise: str | Callable[..., Any] | None = None) -> Report:
        """Check one exercise, by its name or by a function it defines, or all."""
        names: tuple[str, ...] = tuple(name for name, one in self.rubric.exercises.items() if not one.items)
        written = [one for one in self.rubric.exercises.values() if one.items]
        note = " ".join(map(self._read_by_a_person, written))
        if exercise is not None:
            name = exercise if isinstance(exercise, str) else getattr(exercise, "__name__", repr(exercise))
            name = name if name in self.rubric.exercises else self.rubric.owner_of(name) or name
            if name not in self.rubric.exercises:
                known = ", ".join(f'"{n}"' for n in self.rubric.exercises)
                return Report(note=f"There is no exercise called {name!r} here. The exercises are {known}.")
            if self.rubric.exercises[name].items:
                return Report(note=self._read_by_a_person(self.rubric.exercises[name]))
            names, note = (name,), ""
        try:
            results = run(self.rubric, OwnWork(self.namespace), seed=0, exercises=names, visible_only=True)
        except KeyboardInterrupt:
            return Report(note="Stopped before an answer came. Is there a loop in your code that never ends?")
        except Exception as error:  # a mistake of ours must not look like one of the student's
            return Report(
                note=f"The check itself failed, which is our fault, not yours: {type(error).__name__}: {error}"
            )
        return Report(tuple(self._exercise(name, results) for name in names), to_read=note)

    def _read_by_a_person(self, exercise: Exercise) -> str:
        points = _count(self.rubric.points_of(exercise.name), "point")
        return f"“{exercise.title}” is answered in words: nothing checks it, and a person gives its {points}."

    def _exercise(self, name: str, results: tuple[TestResult, ...]) -> ExerciseResult:
        tests = tuple(result for result in results if result.exercise == name)
        exercise = self.rubric.exercises[name]
        return ExerciseResult(name=name, title=exercise.title, tests=tests, hidden_points=exercise.hidden_points)


def load_checks(blob: str, namespace: MutableMapping[str, Any]) -> Callable[..., Report]:
    """The `check` function of a released notebook.

    Args:
        blob: the text that `lecturelib release` packed
        namespace: where the student's answers are; the notebook's `globals()`
    """
    try:
        return Checker(unpack_rubric(blob), namespace)
    except Exception as error:  # never raise at the student, and say what to do instead
        note = f"The checks could not be loaded: {error} (pip install -U lecturelib may help.)"

        def unavailable(exercise: object = None) -> Report:
            return Report(note=note)

        print(note)
        return unavailable


def _headline(exercise: ExerciseResult) -> str:
    passed, total = sum(test.passed for test in exercise.tests), len(exercise.tests)
    title = exercise.title if exercise.title.endswith("?") else f"{exercise.title}:"
    if total and all(test.outcome == "missing" for test in exercise.tests):
        return f"{title} not started. {_start(exercise.tests[0])}"
    if not exercise.passed:
        said = f"{passed} of {_count(total, 'check')} {'passes' if total == 1 else 'pass'}"
    else:
        said = "the check passes" if total == 1 else f"all {total} checks pass"
    return f"{title} {said} ({_points(exercise.earned, exercise.points, exercise.hidden_points)})."


def _points(earned: float, points: float, hidden: float) -> str:
    return f"{earned:g} of {_count(points, 'point')} here" + (f", {hidden:g} more in grading" if hidden else "")


def _count(number: float, thing: str) -> str:
    return f"{number:g} {thing}{'' if number == 1 else 's'}"


def _total(exercises: tuple[ExerciseResult, ...]) -> str:
    """One line for several exercises together; nothing for one."""
    if len(exercises) < 2:
        return ""
    earned, points, hidden = (
        sum(getattr(exercise, name) for exercise in exercises) for name in ("earned", "points", "hidden_points")
    )
    return f"Together: {_points(earned, points, hidden)}."


def _start(test: TestResult) -> str:
    if "not written yet" in test.message:
        return f"{test.message} Replace its `raise NotImplementedError` line with your code and run the cell."
    return test.message


def _shown(exercise: ExerciseResult) -> list[tuple[TestResult, str]]:
    """The tests worth a line each, with what to say; an exercise that is not started needs none."""
    if all(test.outcome == "missing" for test in exercise.tests):
        return []
    return [(test, test.message) for test in exercise.tests]  # one that passed has a message where a metric decides


def _title(test: TestResult) -> str:
    return test.name.replace("_", " ")


def _exercise_text(exercise: ExerciseResult) -> str:
    lines = [_headline(exercise)]
    for test, message in _shown(exercise):
        lines.append(f"  {MARKS.get(test.outcome, FAILED_MARK)} {_title(test)}{': ' + message if message else ''}")
        if test.passed:
            continue
        if test.call:
            lines.append(f"    Called: {test.call}")
        if test.hint and test.outcome != "missing":
            lines.append(f"    {test.hint_label}: {test.hint}")
        if test.picture:
            lines.append(textwrap.indent(heatmap.text(test.picture), "    "))
    return "\n".join(lines)


def _exercise_html(exercise: ExerciseResult) -> str:
    items = []
    for test, message in _shown(exercise):
        mark = MARKS.get(test.outcome, FAILED_MARK)
        word = {"pass": "passes", "missing": "not written"}.get(test.outcome, "does not pass")
        line = f'<span role="img" aria-label="{word}">{mark}</span> {html.escape(_title(test))}'
        if message:
            line += f": {inline_html(message)}"
        if not test.passed:
            if test.call:
                line += f"<br>Called: <code>{html.escape(test.call)}</code>"
            if test.hint and test.outcome != "missing":
                line += f'<br><span class="hint"><strong>{test.hint_label}.</strong> {inline_html(test.hint)}</span>'
            if test.picture:
                caption = html.escape(heatmap.alt_text(test.picture))
                line += f"<figure>{heatmap.svg(test.picture)}<figcaption>{caption}</figcaption></figure>"
        items.append(f"<li>{line}</li>")
    state = " all-pass" if exercise.passed else ""
    listing = f"<ul>{''.join(items)}</ul>" if items else ""
    return (
        f'<div class="lecturelib-check{state}" role="status">'
        f"<p><strong>{inline_html(_headline(exercise))}</strong></p>{listing}</div>"
    )
