"""What happened in a run, a row a step, in memory and as JSON lines on disk."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

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
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

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


def read_history(path: Path | str, *, up_to: int | None = None) -> list[Row]:
    """Read the rows of a JSON lines history; a last line cut short by a crash is left out.

    Args:
        up_to: keep only the rows of steps before this one
    """
    rows: list[Row] = []
    for line in Path(path).read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        rows.append(json.loads(line))
    return [row for row in rows if up_to is None or row["step"] < up_to]


def continue_history(path: Path, step: int) -> History:
    """Reopen a history at a step: what a killed run wrote after its last checkpoint will be written again."""
    rows = read_history(path, up_to=step) if path.exists() else []
    fresh = path.with_name(path.name + ".tmp")
    fresh.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.replace(fresh, path)
    return History(path, rows)
