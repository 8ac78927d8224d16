"""Where fetched files live, and how one is put there: whole, checked, and by one process at a time."""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_verified: set[tuple[str, int, int, str]] = set()  # (path, size, mtime, hash) of files this process has hashed


def cache_folder() -> Path:
    """The folder for fetched files: LECTURELIB_CACHE, or the platform's place for caches."""
    if chosen := os.environ.get("LECTURELIB_CACHE"):
        return Path(chosen).expanduser()
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen).expanduser() / "lecturelib"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "lecturelib" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lecturelib"
    return Path.home() / ".cache" / "lecturelib"


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

    The lock belongs to an open file and goes when its process does, even by `kill -9`; what a killed process left of
    its working folder is cleared by the next one in. Where a file system has no locks we go on without: files arrive
    by atomic move, so that two fetches at once are wasteful, never harmful.
    """
    _make(folder)
    try:
        file = (folder / f".{name}.lock").open("a+b")
    except OSError as error:
        raise _unwritable(folder, error) from error
    with file:
        if _lock(file):
            for leftover in folder.glob(f".{name}-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        yield


def _lock(file: BinaryIO) -> bool:
    """Wait for the lock of an open file; False where the file system has none."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        return False
    return True
