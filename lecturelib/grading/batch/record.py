"""What a run leaves beside its journal, so that reports can be written again: whose results these are.

`class.json` in the folder of results. It needs neither the submissions nor the rubric, and no torch: a second run with
nothing to do, and `lecturelib review`, read it and the journal.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lecturelib.grading.batch.journal import Decision, Journal
from lecturelib.grading.rubric.outline import Outline
from lecturelib.grading.rubric.results import Graded, SubmissionResult, TestResult

FILE_NAME = "class.json"
WHOLE = "total"  # what a decision is about that is about no single score


@dataclass(frozen=True, kw_only=True)
class Record:
    """One class and its results.

    Args:
        rubric: SHA-256 of the rubric's source
        outline: what the rubric asks
        column: what the assignment is called where the gradebook goes
        rows: everybody, sorted by student; results without their tests, which the journal holds
    """

    rubric: str
    outline: Outline
    column: str = ""
    rows: tuple[Graded, ...] = ()

    def to_json(self) -> str:
        rows = [{name: value for name, value in asdict(row).items() if name != "result"} for row in self.rows]
        kept = {"rubric": self.rubric, "outline": self.outline.to_dict(), "column": self.column, "rows": rows}
        return json.dumps(kept, ensure_ascii=False, indent=1)

    def row(self, row: Graded, journal: Journal) -> Graded:
        """A row with its result, and with what a reviewer decided."""
        result = SubmissionResult.from_json(journal.result(row.key))
        return decided(self.outline, replace(row, result=result), journal.decisions.get(row.key, {}))


def read_record(folder: Path) -> Record | None:
    """The record in a folder of results; None if there is none that can be read."""
    try:
        raw = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        nothing = SubmissionResult(submission="", rubric="", seed=0)
        rows = tuple(Graded(**row, result=nothing) for row in raw["rows"])
        return Record(rubric=raw["rubric"], outline=Outline.from_dict(raw["outline"]), column=raw["column"], rows=rows)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def decided(outline: Outline, row: Graded, decisions: Mapping[str, Decision]) -> Graded:
    """A row as it counts: with the items of written answers, and with what a reviewer decided."""
    result = row.result
    tests = list(result.tests)
    if tests or not result.reason:
        tests += [
            TestResult(name=item.name, exercise=exercise.name, points=item.points, outcome="written", visible=True)
            for exercise in outline.exercises.values()
            for item in exercise.items
        ]
    order = list(outline.exercises)
    tests.sort(key=lambda test: order.index(test.exercise) if test.exercise in order else len(order))
    final = tuple(_decided(test, decisions.get(about(test.exercise, test.name))) for test in tests)
    whole = decisions.get(WHOLE, Decision())
    return replace(row, result=replace(result, tests=final), total=whole.points, comment=whole.comment)


def _decided(test: TestResult, decision: Decision | None) -> TestResult:
    return replace(test, awarded=decision.points, comment=decision.comment) if decision else test


def about(exercise: str, name: str) -> str:
    """What a decision on one score is filed under."""
    return f"{exercise}/{name}"


def best(attempts: Sequence[Graded]) -> Graded:
    """The attempt whose points a reviewer has set, else the one that counts most; of equals the first."""
    chosen = max(attempts, key=lambda row: (row.total is not None, row.points))
    if len(attempts) == 1:
        return chosen
    note = f"the best of {len(attempts)} attempts"
    return replace(chosen, note=f"{note}; {chosen.note}" if chosen.note else note)
