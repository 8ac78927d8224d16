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
    """What makes two results comparable: the same exercise, the same tests, the same inputs, the same limits."""

    exercise: str
    rubric: str  # SHA-256 of the rubric's source
    seed: int
    timeout: float
    memory: int


class Journal:
    """Open the journal in `folder` for one run, alone.

    Args:
        folder: made when missing
        run: must agree with the run that the folder already holds, if it holds one
    """

    def __init__(self, folder: Path, run: Run) -> None:
        self.path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b")  # noqa: SIM115 - held open, and with it the lock, until close
        except OSError as error:
            raise OSError(f"the results cannot go to {folder}: {error.strerror}; give another --out") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise JournalError(f"another grader is at work in {folder}: wait for it, or give another --out") from None
        try:
            self._offsets = self._recover(run)
        except JournalError:
            self._file.close()
            raise

    def _recover(self, run: Run) -> dict[str, int]:
        """Cut off what is not whole, and return where each result begins; the results themselves stay on disk."""
        self._file.seek(0)
        offsets: dict[str, int] = {}
        held, whole = None, 0
        for line in self._file:
            entry = _entry(line)
            if entry is None:
                break
            if held is None:
                held = entry
            elif "key" in entry:
                offsets[entry["key"]] = whole
            whole += len(line)
        self._file.truncate(whole)
        if held is None:
            self._write(json.dumps({"run": asdict(run)}))
        elif held != {"run": asdict(run)}:
            raise JournalError(self._disagreement(held.get("run", {}), asdict(run)))
        return offsets

    def _disagreement(self, held: dict[str, Any], wanted: dict[str, Any]) -> str:
        differing = [name for name in wanted if held.get(name) != wanted[name]]
        shown = ", ".join(f"{name} {held.get(name)!r}, not {wanted[name]!r}" for name in differing)
        return f"{self.path.parent} holds the results of another run ({shown}): give another --out, or empty the folder"

    def __contains__(self, key: str) -> bool:
        return key in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def result(self, key: str) -> str:
        """A recorded result, as the JSON it was given as."""
        self._file.seek(self._offsets[key])
        return json.dumps(json.loads(self._file.readline())["result"])

    def record(self, key: str, result: str) -> None:
        """Write one result, given as JSON, through to the disk; when this returns, no crash can lose it."""
        self._file.seek(0, os.SEEK_END)
        offset = self._file.tell()
        self._write(f'{{"key": {json.dumps(key)}, "result": {json.dumps(json.loads(result))}}}')
        self._offsets[key] = offset

    def _write(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
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


def _entry(line: bytes) -> dict[str, Any] | None:
    """A whole line of the journal, or None for one that a crash cut short."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if line.endswith(b"\n") and isinstance(entry, dict) else None


def held_run(folder: Path) -> Run | None:
    """The run a folder's journal was begun with, if it has one: a run without `--seed` goes on with its seed."""
    try:
        with open(folder / FILE_NAME, "rb") as file:
            return Run(**json.loads(file.readline())["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
