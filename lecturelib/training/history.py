"""What happened in a run, a row a step, in memory and as JSON lines on disk.

The lines are strict JSON, which has no infinity and no not-a-number: those are written as null, and null is read as
not-a-number.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from lecturelib.training.checkpoint import CheckpointError, replace_text

_log = logging.getLogger(__name__)

Row = dict[str, float]
Stop = Literal["finished", "early stop", "interrupted"]


class History:
    """The rows of a run: step, loss, learning_rate, grad_norm, seconds, and `eval_*` where it was evaluated.

    `history["loss"]` is that column as a list; a column that only some rows have (an evaluation) is the list of
    those, and `history.steps_of("eval_loss")` says at which steps. `history.stop` says why the run ended.
    """

    def __init__(self, path: Path | None = None, rows: list[Row] | None = None) -> None:
        self.rows: list[Row] = rows or []
        self.stop: Stop = "finished"
        self._path = path

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if self._path is not None:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json_line(row))
            except OSError as error:
                raise CheckpointError(f"{self._path} can't be written: {error}") from error

    def steps_of(self, name: str) -> list[int]:
        return [int(row["step"]) for row in self._with(name)]

    def __getitem__(self, name: str) -> list[float]:
        return [row[name] for row in self._with(name)]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        if not self.rows:
            return "History(no steps yet)"
        return f"History({len(self)} steps, loss {self.rows[0]['loss']:.3f} → {self.rows[-1]['loss']:.3f}, {self.stop})"

    def _with(self, name: str) -> list[Row]:
        chosen = [row for row in self.rows if name in row]
        if self.rows and not chosen:
            known = sorted({key for row in self.rows for key in row})
            raise KeyError(f"the history has no column {name!r}; it has {', '.join(known)}")
        return chosen


def json_line(row: Mapping[str, Any]) -> str:
    """A row as one line of strict JSON."""
    strict = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()
    }
    return json.dumps(strict, allow_nan=False) + "\n"


def read_history(path: Path | str, *, up_to: int | None = None) -> list[Row]:
    """Read the rows of a JSON lines history; a last line cut short by a crash is reported and left out.

    Args:
        up_to: keep only the rows of steps before this one
    """
    rows: list[Row] = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(keepends=True), start=1):
        if not line.endswith("\n"):
            _log.warning(
                "%s: line %d, the last, was cut short, by a crash or a full disk; it is left out", path, number
            )
            break
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise CheckpointError(f"{path} is damaged in line {number}: {error}") from error
        rows.append({key: math.nan if value is None else value for key, value in row.items()})
    return [row for row in rows if up_to is None or row["step"] < up_to]


def continue_history(path: Path, step: int) -> History:
    """Reopen a history at a step: what a killed run wrote after its last checkpoint will be written again."""
    rows = read_history(path, up_to=step) if path.exists() else []
    replace_text(path, "".join(map(json_line, rows)))
    return History(path, rows)
