"""Grades as tables: `grades.csv` for people, and the file Canvas imports.

A spreadsheet runs a cell that begins with =, +, - or @. A student may choose such a name, so cells that would compute
are written with a leading apostrophe, which spreadsheets show as plain text. So is what follows a semicolon or a tab,
where many of them divide a line.
"""

import csv
import io
import re
from collections.abc import Sequence

from lecturelib.grading.reports.page import UNSEEN, number
from lecturelib.grading.rubric.results import Graded
from lecturelib.grading.rubric.rubric import Rubric

STARTS_A_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n", "|", "%")


def cell(value: object) -> str:
    """Text that a spreadsheet shows and does not compute."""
    shown = UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(value).replace("\r", " ").replace("\n", " "))
    shown = re.sub(r"([;\t] *)(?=[-=+@＝＋－＠|%])", r"\1'", shown)
    return f"'{shown}" if shown.lstrip(" ").startswith(STARTS_A_FORMULA) else shown


def grades_csv(rubric: Rubric, graded: Sequence[Graded]) -> str:
    """One row for each student: points in all and for each exercise, and the reason where there are none."""
    header = ["student", "name", "points", "out_of", *rubric.exercises, "late", "reason", "path", "note"]
    rows = []
    for row in graded:
        by_exercise = {exercise.name: exercise.earned for exercise in row.result.exercises()}
        points = [number(by_exercise.get(name, 0.0)) for name in rubric.exercises]
        late = "late" if row.late else ""
        total = [number(row.result.earned), number(rubric.points)]
        told = [cell(row.result.reason), cell(row.path), cell(row.note)]
        rows.append([cell(row.student), cell(row.name), *total, *points, late, *told])
    return _write([header, *rows])


def canvas_csv(rubric: Rubric, graded: Sequence[Graded]) -> str:
    """What Canvas's gradebook imports: its five columns, the assignment, and a first row of possible points.

    Canvas matches students by ID, the number in the names of its own download.
    """
    blank = ["", "", ""]
    rows = [["    Points Possible", "", *blank, number(rubric.points)]]
    rows += [[cell(row.name), cell(row.student), *blank, number(row.result.earned)] for row in graded]
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", cell(rubric.title)]
    return _write([header, *rows])


def _write(rows: list[list[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
