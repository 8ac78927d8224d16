"""Where fetched files live, and how one is put there: whole, checked, and by one process at a time."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock

_verified: set[tuple[str, int, int, str]] = set()  # (path, size, mtime, hash) of files this process has hashed


def offline_folder() -> Path | None:
    """The folder LECTURELIB_DATA points at, filled beforehand for a classroom without a network; None if unset."""
    chosen = os.environ.get("LECTURELIB_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise NotADirectoryError(f"LECTURELIB_DATA is set to {chosen!r}, which is not a folder. Correct or unset it.")
    return folder


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_intact(path: Path, sha256: str) -> bool:
    """Whether the file has that hash. Each state of a file is hashed once in a process."""
    status = path.stat()
    state = (str(path.resolve()), status.st_size, status.st_mtime_ns, sha256)
    if state not in _verified:
        if sha256_of(path) != sha256:
            return False
        _verified.add(state)
    return True


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> OSError:
    return OSError(
        f"cannot write to the folder {folder} ({error.strerror or error}). "
        "Set LECTURELIB_CACHE to a folder that you may write to."
    )


@contextlib.contextmanager
def working_folder(folder: Path, name: str) -> Iterator[Path]:
    """A private folder inside `folder` (so that a move out of it is atomic), gone afterwards whatever happens."""
    _make(folder)
    try:
        temporary = tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    with temporary as path:
        yield Path(path)


@contextlib.contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """Let one process (or thread) at a time through, so that two fetches of a set do the work once.

    The lock goes when its process does, even by `kill -9`; what a killed process left of its working folder is cleared
    by the next one in. Files arrive by atomic move all the same, so that two fetches at once would be wasteful, never
    harmful.
    """
    _make(folder)
    lock = filelock.FileLock(folder / f".{name}.lock")
    try:
        lock.acquire()
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        for leftover in folder.glob(f".{name}-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield
    finally:
        lock.release()
