"""The journal of a grading run: each result is on disk before the next is counted.

One line of JSON for each graded submission, behind a first line that says which run it belongs to. After a crash at any
moment the same command reads it back: whole lines are kept, a half-written last one is cut off. A lock keeps a second
grader out of the folder for as long as the first one lives, and dies with it.
"""

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FILE_NAME = "journal.jsonl"


class JournalError(RuntimeError):
    """The folder cannot take this run; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What makes two results comparable: the same exercise, the same tests, the same inputs."""

    exercise: str
    rubric: str  # SHA-256 of the rubric's source
    seed: int
    tier: str


class Journal:
    """Open the journal in `folder` for one run, alone.

    Args:
        folder: made when missing
        run: must agree with the run that the folder already holds, if it holds one
    """

    def __init__(self, folder: Path, run: Run) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME
        self._file = open(self.path, "a+b")  # noqa: SIM115 - held open, and with it the lock, until close
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise JournalError(f"another grader is at work in {folder}: wait for it, or give another --out") from None
        try:
            self.results = self._recover(run)
        except JournalError:
            self._file.close()
            raise

    def _recover(self, run: Run) -> dict[str, dict[str, Any]]:
        """Read what is whole, cut off what is not, and return the results by key."""
        self._file.seek(0)
        lines, whole = [], 0
        for line in self._file:
            try:
                entry = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n") or not isinstance(entry, dict):
                break
            lines.append(entry)
            whole += len(line)
        self._file.truncate(whole)
        if not lines:
            self._write({"run": asdict(run)})
            return {}
        if lines[0] != {"run": asdict(run)}:
            raise JournalError(self._disagreement(lines[0].get("run", {}), asdict(run)))
        return {entry["key"]: entry["result"] for entry in lines[1:] if "key" in entry and "result" in entry}

    def _disagreement(self, held: dict[str, Any], wanted: dict[str, Any]) -> str:
        differing = [name for name in wanted if held.get(name) != wanted[name]]
        shown = ", ".join(f"{name} {held.get(name)!r}, not {wanted[name]!r}" for name in differing)
        return f"{self.path.parent} holds the results of another run ({shown}): give another --out, or empty the folder"

    def record(self, key: str, result: dict[str, Any]) -> None:
        """Write one result through to the disk; when this returns, no crash can lose it."""
        self._write({"key": key, "result": result})
        self.results[key] = result

    def _write(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let the next grader in."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def held_run(folder: Path) -> Run | None:
    """The run a folder's journal was begun with, if it has one: a run without `--seed` goes on with its seed."""
    try:
        with open(folder / FILE_NAME, "rb") as file:
            return Run(**json.loads(file.readline())["run"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
