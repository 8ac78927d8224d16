"""The journal of a grading run: each result is on disk before the next is counted.

One line of JSON for each graded submission, behind a line that says which run it belongs to, and one for whatever a
reviewer decides. Nothing is ever overwritten: a run with a new seed begins with another such line, and results before
it no longer count, while what a reviewer decided does. After a crash at any moment the same command reads it back:
whole lines are kept, a half-written last one is cut off. A lock keeps a second grader out of the folder for as long as
the first one lives, and dies with it.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

if sys.platform == "win32":  # where a class can be reviewed, though not graded
    import msvcrt
else:
    import fcntl

FILE_NAME = "journal.jsonl"
# How a reason begins that says nothing about the submission
GRADER_FAILED, CHANGED = "the grader itself failed on this submission", "it changed while it was graded"


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


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a reviewer decided about one score, or about the whole: points instead of ours, if any, and a comment."""

    points: float | None = None
    comment: str = ""


class Journal:
    """Open the journal in `folder` for one run, alone.

    Args:
        folder: made when missing
        run: must agree with the run that the folder already holds, if it holds one
        anew: where it does not agree, begin this run behind the other
    """

    def __init__(self, folder: Path, run: Run, *, anew: bool = False) -> None:
        self.path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "a+b")  # noqa: SIM115 - held open, and with it the lock, until close
        except OSError as error:
            raise OSError(f"the results cannot go to {folder}: {error.strerror}; give another --out") from error
        try:
            _lock(self._file)
        except BlockingIOError:
            self._file.close()
            raise JournalError(f"another grader is at work in {folder}: wait for it, or give another --out") from None
        self.decisions: dict[str, dict[str, Decision]] = {}  # of each result, by what they are about
        self._not_final: set[str] = set()
        try:
            self._offsets = self._recover(run, anew)
        except JournalError:
            self._file.close()
            raise

    def _recover(self, run: Run, anew: bool) -> dict[str, int]:
        """Cut off what is not whole, and return where each result begins; the results themselves stay on disk."""
        self._file.seek(0)
        offsets: dict[str, int] = {}
        held, whole = None, 0
        for line in self._file:
            entry = _entry(line)
            if entry is None:
                break
            if "run" in entry or held is None:
                held, offsets = entry, {}
                self._not_final.clear()
            elif "key" in entry:
                offsets[entry["key"]] = whole
                self._note(entry["key"], entry.get("result", {}))
            elif "decided" in entry:
                decided = Decision(points=entry["points"], comment=entry["comment"])
                self.decisions.setdefault(entry["decided"], {})[entry["about"]] = decided
            whole += len(line)
        self._file.truncate(whole)
        if held is None or (anew and held != {"run": asdict(run)}):
            self._write(json.dumps({"run": asdict(run)}))
            return {}
        if held != {"run": asdict(run)}:
            raise JournalError(self._disagreement(held.get("run", {}), asdict(run)))
        return offsets

    def decide(self, key: str, about: str, decision: Decision) -> None:
        """Keep what a reviewer decided about a score of a result; when this returns, no crash can lose it."""
        self._file.seek(0, os.SEEK_END)
        self._write(json.dumps({"decided": key, "about": about, **asdict(decision)}))
        self.decisions.setdefault(key, {})[about] = decision

    def _disagreement(self, held: dict[str, Any], wanted: dict[str, Any]) -> str:
        differing = [name for name in wanted if held.get(name) != wanted[name]]
        shown = ", ".join(f"{name} {held.get(name)!r}, not {wanted[name]!r}" for name in differing)
        return f"{self.path.parent} holds the results of another run ({shown}): give another --out, or --new-seed"

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
        told = json.loads(result)
        self._write(f'{{"key": {json.dumps(key)}, "result": {json.dumps(told)}}}')
        self._offsets[key] = offset
        self._note(key, told)

    def is_final(self, key: str) -> bool:
        """Whether there is a result that says something about the submission: else it is to be graded again."""
        return key in self._offsets and key not in self._not_final

    def _note(self, key: str, result: dict[str, Any]) -> None:
        if str(result.get("reason", "")).startswith((GRADER_FAILED, CHANGED)):
            self._not_final.add(key)
        else:
            self._not_final.discard(key)

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
    """The run that a folder's journal holds, if it has one: a run without `--seed` goes on with its seed."""
    held = None
    try:
        with open(folder / FILE_NAME, "rb") as file:
            for line in file:
                if line.startswith(b'{"run"') and line.endswith(b"\n"):
                    held = Run(**json.loads(line)["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return held


def _lock(file: IO[bytes]) -> None:
    """Raise BlockingIOError if another process has locked the file; the lock ends with the process."""
    if sys.platform == "win32":
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(*error.args) from error
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
