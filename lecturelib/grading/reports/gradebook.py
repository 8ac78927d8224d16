"""Grades as tables: `grades.csv` for people, a leaderboard, and the files that Canvas and Moodle import.

A spreadsheet runs a cell that begins with =, +, - or @. A student may choose such a name, so cells that would compute
are written with a leading apostrophe, which spreadsheets show as plain text. So is what follows a semicolon or a tab,
where many of them divide a line, with or without a quotation mark. No cell is longer than a spreadsheet takes.
"""

import csv
import io
import re
from collections.abc import Sequence

from lecturelib.grading.reports.page import UNSEEN, number
from lecturelib.grading.rubric.outline import Outline
from lecturelib.grading.rubric.results import Graded

STARTS_A_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n", "|", "%")
LONGEST_CELL = 30_000  # of the 32,767 characters that a spreadsheet takes; a file in a zip may have a name of 65,535


def cell(value: object) -> str:
    """Text that a spreadsheet shows and does not compute."""
    shown = UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(value).replace("\r", " ").replace("\n", " "))
    shown = shown if len(shown) <= LONGEST_CELL else f"{shown[:LONGEST_CELL]}…"
    shown = re.sub(r"([;\t][ \"']*)(?=[-=+@＝＋－＠|%])", r"\1'", shown)
    return f"'{shown}" if shown.lstrip(" ").startswith(STARTS_A_FORMULA) else shown


def grades_csv(outline: Outline, graded: Sequence[Graded]) -> str:
    """One row for each student: points in all and for each exercise, and the reason where there are none.

    `earned - deducted` are the points, unless a reviewer has set them; `to_review` counts what nobody has read yet.
    """
    told = ["earned", "late", "lateness", "deducted", "to_review", "flag", "reason", "comment", "path", "note"]
    rows = []
    for row in graded:
        by_exercise = {exercise.name: exercise.earned for exercise in row.result.exercises()}
        points = [number(by_exercise.get(name, 0.0)) for name in outline.exercises]
        late = ["late" if row.late else "", cell(row.lateness), number(row.deducted), str(row.waits or "")]
        comments = [row.comment, *(f"{test.name}: {test.comment}" for test in row.result.tests if test.comment)]
        said = [row.flag, row.result.reason, "; ".join(filter(None, comments)), row.path, row.note]
        total = [number(row.points), number(outline.points)]
        earned = number(row.result.earned)
        rows.append([cell(row.student), cell(row.name), *total, *points, earned, *late, *map(cell, said)])
    return _write([["student", "name", "points", "out_of", *outline.exercises, *told], *rows])


def leaderboard_csv(graded: Sequence[Graded]) -> str:
    """Where a metric decides: who reached most, on data that nobody has seen, and of equals who needed least.

    Nobody is on it whose submission broke a limit or reached no mark. "" if no test of this set measures.
    """
    found = [
        (row, test.measured)
        for row in graded
        for test in [test for test in row.result.tests if test.measured and not test.visible][:1]
    ]
    if not found:
        return ""
    found.sort(key=lambda pair: _place(pair[1]))
    places = [_place(measured) for _, measured in found]
    names = [name for name, _ in found[0][1]]
    rows = [
        [str(1 + places.index(_place(measured))), cell(row.student), cell(row.name)]
        + [f"{value:.10g}" for _, value in measured]
        + [number(row.points), "late" if row.late else ""]
        for row, measured in found
    ]
    return _write([["rank", "student", "name", *names, "points", "late"], *rows])


def _place(measured: Sequence[tuple[str, float]]) -> tuple[float, ...]:
    """What to sort by: much of the metric, then little of each cost, the last first."""
    (_, metric), *costs = measured
    return -metric, *(value for _, value in reversed(costs))


def canvas_csv(outline: Outline, graded: Sequence[Graded], column: str = "") -> str:
    """What Canvas's gradebook imports: its five columns, the assignment, and a first row of possible points.

    Canvas matches students by ID, the number in the names of its own download, else by the SIS ids, else by name. It
    matches the assignment by its whole title, or by the number behind it: `The attention layer (4711)`. The order of
    the columns, Section as the last before the assignment, and the row of points are what its importer asks for
    (canvas-lms/lib/gradebook_importer.rb).
    """
    rows = [["    Points Possible", "", "", "", "", number(outline.points)]]
    for row in graded:
        kept = [cell(row.roster.get(name, "")) for name in ("SIS User ID", "SIS Login ID", "Section")]
        rows.append([cell(row.name), cell(row.student), *kept, number(row.points)])
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", cell(column or outline.title)]
    return _write([header, *rows])


def moodle_csv(outline: Outline, graded: Sequence[Graded]) -> str:
    """What Moodle imports, in two places: as a grading worksheet of the assignment, and as CSV in the gradebook.

    The worksheet's importer finds people by Identifier, the number in the names of its own download behind the word
    "Participant", and wants Grade and Last modified (grade) (moodle/mod/assign/feedback/offline/importgradeslib.php).
    The gradebook's asks which column is whose: Email address or ID number. Where the roster is a worksheet its
    identifiers are kept, and points are scaled to its maximum grade. Headings are English, as an English Moodle's.
    """
    most = {maximum for row in graded if (maximum := _maximum(row.roster))}
    scale = most.pop() / outline.points if len(most) == 1 and outline.points else 1.0
    header = ["Identifier", "Full name", "ID number", "Email address", "Grade", "Maximum grade"]
    rows = []
    for row in graded:
        known = {heading.casefold(): value for heading, value in row.roster.items()}
        identifier = known.get("identifier") or (f"Participant {row.student}" if row.student.isdigit() else row.student)
        who = [identifier, row.name, known.get("id number", ""), known.get("email address", "")]
        grades = [number(row.points * scale), number(outline.points * scale)]
        changed = known.get("last modified (grade)") or "-"
        rows.append([*map(cell, who), *grades, changed, cell(_remark(row))])
    return _write([[*header, "Last modified (grade)", "Feedback comments"], *rows])


def _maximum(roster: dict[str, str]) -> float | None:
    text = next((value for heading, value in roster.items() if heading.casefold() == "maximum grade"), "")
    try:
        return float(text.replace(",", ".")) or None
    except ValueError:
        return None


def _remark(row: Graded) -> str:
    return "; ".join(part for part in (row.comment, row.lateness, row.result.reason) if part)


def _write(rows: list[list[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
