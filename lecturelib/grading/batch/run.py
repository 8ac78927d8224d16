"""One grading run from the folder of submissions to the folder of results."""

import csv
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lecturelib.grading.batch.intake import Found, Intake
from lecturelib.grading.batch.journal import Journal
from lecturelib.grading.batch.late import LatePolicy
from lecturelib.grading.batch.record import FILE_NAME, Record, best, decided
from lecturelib.grading.batch.schedule import FaultTolerantPool, grade_all
from lecturelib.grading.reports.feedback import feedback_page, file_name
from lecturelib.grading.reports.gradebook import canvas_csv, cell, grades_csv, leaderboard_csv, moodle_csv
from lecturelib.grading.reports.gradescope import results_json
from lecturelib.grading.reports.items import items_page
from lecturelib.grading.rubric.outline import Outline
from lecturelib.grading.rubric.results import Graded


class RowsDiffer(RuntimeError):
    """The rows that came out are not the people who went in; the message names them."""


def grade_batch(
    intake: Intake,
    out: Path,
    record: Record,
    pool: FaultTolerantPool | None,
    journal: Journal,
    *,
    seed: int,
    late: LatePolicy | None = None,
    roster: dict[str, dict[str, str]] | None = None,
    progress: Callable[[Graded], None] = lambda row: None,
) -> list[Graded]:
    """Grade everything; pages are written as results come, tables at the end. Rows are sorted by student.

    Args:
        intake: what was handed in
        out: where the results go
        record: the rubric's outline and the name of the assignment
        pool: None where the journal holds everything already
        journal: of this run
        seed: the run's secret
        late: the rules for what comes late; without them late is only said
        roster: each student's line of the roster
        progress: called with each row as it comes
    """
    outline = record.outline
    for folder in ("feedback", "gradescope"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    by_source = {(one.source, one.path): (index, one) for index, one in enumerate(intake.found)}
    expected = Counter(one.student for one in intake.found)
    attempts: dict[str, list[tuple[int, Graded]]] = {}
    rows = []
    for raw in grade_all(intake.found, journal, pool, rubric=outline.name, seed=seed):
        row = decided(outline, raw, journal.decisions.get(raw.key, {}))
        index, found = by_source[raw.key.rpartition("/")[0], raw.path]
        row = _with_lateness(row, found, late, outline)
        progress(row)
        tried = attempts.setdefault(row.student, [])
        tried.append((index, row))
        if len(tried) == expected[row.student]:
            in_order = [one for _, one in sorted(attempts.pop(row.student), key=lambda pair: pair[0])]
            chosen = replace(best(in_order), roster=(roster or {}).get(row.student, {}))
            write_pages(out, outline, chosen)
            rows.append(slim(chosen))
    rows.sort(key=lambda row: row.student)
    _remove_strangers_pages(out, intake.people)
    write_tables(out, replace(record, rows=tuple(rows)))
    require_everybody(out, intake.people)
    return rows


def _with_lateness(row: Graded, found: Found, late: LatePolicy | None, outline: Outline) -> Graded:
    if late is None or not found.path:
        return row
    judged = late.judge(found, outline.points)
    return replace(row, late=judged.is_late, lateness=judged.told, penalty=judged.penalty)


def write_pages(out: Path, outline: Outline, row: Graded) -> None:
    """The files about one student."""
    name = file_name(row.student)
    write(out / "feedback" / name, feedback_page(outline, row))
    write((out / "gradescope" / name).with_suffix(".json"), results_json(outline, row))


def write_tables(out: Path, record: Record) -> None:
    """The files about all students together."""
    write(out / "grades.csv", grades_csv(record.outline, record.rows))
    write(out / "canvas.csv", canvas_csv(record.outline, record.rows, record.column))
    write(out / "moodle.csv", moodle_csv(record.outline, record.rows))
    if ranked := leaderboard_csv(record.rows):
        write(out / "leaderboard.csv", ranked)
    else:
        (out / "leaderboard.csv").unlink(missing_ok=True)  # of an earlier run
    write(out / "items.html", items_page(record.outline, record.rows))
    write(out / FILE_NAME, record.to_json())


def _remove_strangers_pages(out: Path, people: Sequence[str]) -> None:
    """Pages of an earlier run under ids that are nobody's now, such as before there was a roster."""
    kept = {Path(file_name(one)).stem for one in people}
    for folder in ("feedback", "gradescope"):
        for path in (out / folder).iterdir():
            if re.fullmatch(r".*-[0-9a-f]{8}", path.stem) and path.stem not in kept:
                path.unlink()


def require_everybody(out: Path, people: Sequence[str]) -> None:
    """Read back what was written: everybody who went in has one row and one page, and nobody else has."""
    wanted = Counter(cell(one) for one in people)
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        there = Counter(row["student"] for row in csv.DictReader(file))
    lost, gained = wanted - there, there - wanted
    pages = {file_name(one): one for one in people}
    unwritten = [one for name, one in pages.items() if not (out / "feedback" / name).is_file()]
    if not (lost or gained or unwritten):
        return
    kinds = {"no row for": list(lost), "a row too many for": list(gained), "no page for": unwritten}
    told = [f"{said} {', '.join(sorted(names))}" for said, names in kinds.items() if names]
    raise RowsDiffer(f"{len(people)} people went in and {there.total()} rows came out; {'; '.join(told)}")


def write(path: Path, content: str) -> None:
    """Write a file whole or not at all, so that a crash leaves no half page."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(content, encoding="utf-8", newline="")
    os.replace(partial, path)


def slim(row: Graded) -> Graded:
    """A row for the tables: pictures and answers are most of a result's size, and only a student's page shows them."""
    tests = tuple(replace(test, picture=None) for test in row.result.tests)
    return replace(row, result=replace(row.result, tests=tests, answers=()))
