"""One grading run from the folder of submissions to the folder of results."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lecturelib.grading.batch.grader import Grader
from lecturelib.grading.batch.intake import Found
from lecturelib.grading.batch.journal import Journal
from lecturelib.grading.batch.schedule import FaultTolerantPool, grade_all
from lecturelib.grading.reports.feedback import feedback_page, file_name
from lecturelib.grading.reports.gradebook import canvas_csv, grades_csv
from lecturelib.grading.reports.gradescope import results_json
from lecturelib.grading.reports.items import items_page
from lecturelib.grading.rubric.results import Graded
from lecturelib.grading.rubric.rubric import Rubric


def grade_batch(
    found: Iterable[Found],
    out: Path,
    grader: Grader,
    pool: FaultTolerantPool,
    journal: Journal,
    progress: Callable[[Graded], None],
) -> list[Graded]:
    """Grade everything; pages are written as results come, tables at the end. Rows are sorted by student."""
    rubric = grader.rubric
    for folder in ("feedback", "gradescope"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    rows = []
    for row in grade_all(found, journal, pool, rubric=rubric.name, seed=grader.seed):
        name = file_name(row.student)
        write(out / "feedback" / name, feedback_page(rubric, row))
        write((out / "gradescope" / name).with_suffix(".json"), results_json(rubric, row))
        rows.append(_without_pictures(row))
        progress(row)
    rows.sort(key=lambda row: row.student)
    write_tables(out, rubric, rows)
    return rows


def write_tables(out: Path, rubric: Rubric, rows: Sequence[Graded]) -> None:
    """The files about all students together."""
    write(out / "grades.csv", grades_csv(rubric, rows))
    write(out / "canvas.csv", canvas_csv(rubric, rows))
    write(out / "items.html", items_page(rubric, rows))


def write(path: Path, content: str) -> None:
    """Write a file whole or not at all, so that a crash leaves no half page."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(content, encoding="utf-8")
    os.replace(partial, path)


def _without_pictures(row: Graded) -> Graded:
    """Pictures are most of a result's size, and only the student's page shows them."""
    tests = tuple(replace(test, picture=None) for test in row.result.tests)
    return replace(row, result=replace(row.result, tests=tests))
