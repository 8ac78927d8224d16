"""The pages of `lecturelib review`: everybody in the class, and one student's answers with a field for each score.

The same look and the same care as every page: what a student wrote reaches it escaped, and it can run nothing. The one
thing it may do is send its form back to where it came from.
"""

from collections.abc import Mapping, Sequence

from lecturelib.grading.reports.feedback import SAID, heading
from lecturelib.grading.reports.page import POLICY, number, page, table, text
from lecturelib.grading.rubric.outline import Outline
from lecturelib.grading.rubric.results import Graded, TestResult

POLICY_WITH_FORM = POLICY.replace("form-action 'none'", "form-action 'self'")
LONGEST_COMMENT = 4_000


def class_page(outline: Outline, rows: Sequence[Graded], links: Mapping[str, str]) -> str:
    """Everybody, with what is still to be read first."""
    waiting = sum(row.waits > 0 for row in rows)
    lines = [
        [
            f'<a href="{text(links[row.student])}">{text(row.name, 80)}</a>',
            text(row.student, 80),
            number(row.points),
            str(row.waits or ""),
            text("; ".join(part for part in (row.flag, row.lateness, row.result.reason) if part), 300),
        ]
        for row in sorted(rows, key=lambda row: (row.waits == 0, row.student))
    ]
    columns = ["name", "student", f"points of {number(outline.points)}", "to read", "remarks"]
    body = [
        f"<h1>{text(outline.title)}: review</h1>",
        f"<p>{len(rows)} students, {waiting} with answers to read. Every score can be changed, and nothing is lost: "
        "what you save is in the journal, and in all files of results.</p>",
        table("Everybody in the class", columns, lines, frozenset({2, 3})),
    ]
    return page(f"{outline.title}: review", "\n".join(body), POLICY_WITH_FORM)


def student_page(
    outline: Outline,
    row: Graded,
    *,
    fields: Mapping[str, str],
    next_link: str,
    token: str,
    version: str,
    said: str = "",
) -> str:
    """One student: each test and item with its score, a field to change it, and one for a comment.

    Args:
        outline: what was asked
        row: the student and the result
        fields: the name in the form of each score, by what it is about
        next_link: the next student with something to read, or the class
        token: goes back with the form, to show that it is ours
        version: goes back too, to show which scores were on the page
        said: what became of the last one
    """
    answers = dict(row.result.answers)
    parts = [
        '<p><a href="./">all students</a></p>',
        f"<h1>{text(row.name, 200)}</h1>",
        f"<p>{text(outline.title)}: <strong>{number(row.points)} of {number(outline.points)} points</strong>. "
        f"{text(_remarks(row), 2000)}</p>",
        f'<p role="status">{text(said)}</p>' if said else "",
        f'<form method="post"><input type="hidden" name="token" value="{text(token)}">'
        f'<input type="hidden" name="version" value="{text(version)}">',
    ]
    for exercise in row.result.exercises({one.name: one.title for one in outline.exercises.values()}):
        parts.append(heading(exercise))
        if outline.exercises[exercise.name].items:
            answer = answers.get(exercise.name)
            parts.append(f"<pre>{text(answer, 20_000)}</pre>" if answer else "<p>There is no answer in its cell.</p>")
        parts += [_score(test, fields[f"{test.exercise}/{test.name}"]) for test in exercise.tests]
    parts += [
        "<h2>The whole</h2>",
        _fields("the points in all", fields["total"], row.total, row.comment, None),
        '<p><button type="submit">Save</button></p></form>',
        f'<p><a href="{text(next_link)}">next</a></p>',
    ]
    return page(f"{row.name}: review", "\n".join(parts), POLICY_WITH_FORM)


def _remarks(row: Graded) -> str:
    said = (row.flag, row.lateness, row.result.reason, f"File: {row.path}" if row.path else "", row.note)
    return ". ".join(part for part in said if part)


def _score(test: TestResult, field: str) -> str:
    title = test.name if test.outcome == "written" else test.name.replace("_", " ")
    found = "" if test.outcome == "written" else f": {SAID[test.outcome]}"
    told = f"<pre>{text(test.message)}</pre>" if test.message else ""
    hidden = "" if test.visible else ", hidden from the student"
    return (
        f"<fieldset><legend>{text(title)}{found}{hidden}</legend>{told}"
        f"{_fields(title, field, test.awarded, test.comment, test.points)}</fieldset>"
    )


def _fields(title: str, field: str, points: float | None, comment: str, most: float | None) -> str:
    limit = f' max="{most:.12g}"' if most is not None else ""
    shown = f"points of {number(most)}" if most is not None else "points in all, set by hand"
    value = "" if points is None else f"{points:.12g}"  # as it was given: it comes back with the form
    return (
        f'<label>{shown} <input type="number" name="{field}" value="{value}" min="0"{limit} step="any" '
        f'aria-label="points: {text(title)}"></label>'
        f'<label>comment <textarea name="{field}c" rows="2" maxlength="{LONGEST_COMMENT}" '
        f'aria-label="comment: {text(title)}">{text(comment)}</textarea></label>'
    )
