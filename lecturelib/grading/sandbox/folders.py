"""The small folder that a sandbox keeps in the temporary directory, and those that killed graders have left there."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

PREFIX = "lecturelib-sandbox-"
LOCK = "in-use"  # locked for as long as its grader lives, however that ends
OLD_SECONDS = 600.0  # a younger one may be about to be locked


class Folder:
    """A folder of its own for one sandbox, which others can see is in use."""

    def __init__(self) -> None:
        remove_left()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.path.chmod(0o755)
        self._lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # a file system without locks: then nobody removes what is left there
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove it; a second time does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_left() -> None:
    """Remove folders of ours that nobody uses any more: their grader was killed, so it could not."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in [entry for entry in entries if entry.name.startswith(PREFIX)]:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
                if is_ours and time.time() - found.st_mtime > OLD_SECONDS and not _is_in_use(entry.path):
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_in_use(path: str) -> bool:
    try:
        lock = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
