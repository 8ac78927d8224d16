"""The small folder that a sandbox keeps in the temporary directory, and those that killed graders have left there."""

import contextlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

import filelock

PREFIX = "lecturelib-sandbox-"
LOCK = "in-use"  # locked for as long as its grader lives, however that ends
OLD_SECONDS = 600.0  # a younger one may be about to be locked


class Folder:
    """A folder of its own for one sandbox, which others can see is in use."""

    def __init__(self) -> None:
        remove_left()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.path.chmod(0o755)
        self._lock = filelock.FileLock(self.path / LOCK, mode=0o600)
        with contextlib.suppress(OSError):  # a file system without locks: then nobody removes what is left there
            self._lock.acquire()

    def remove(self) -> None:
        """Remove it; a second time does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


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
        with filelock.FileLock(os.path.join(path, LOCK), blocking=False):
            return False
    except filelock.Timeout:
        return True
