"""The directory that a submission may write to. What its notebook left there, each call finds; what a call left, none.

Kept by process 1, which runs no student code. Names are looked up below open directories and links are never followed,
because a student's process may exchange a directory for a link at any moment.
"""

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass

MOST_FILES = 4096


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """A file, directory (no content) or link as the notebook left it, by its path below the scratch directory."""

    path: str
    mode: int
    content: bytes | None = None
    link: str | None = None


class Scratch:
    """One submission's scratch directory.

    Args:
        path: of the directory, which exists
        megabytes: the most that may be in it
        own_disk: whether it is a file system of its own, which then counts what is in it
        user: who owns what is in it; None for whoever this process is
    """

    def __init__(self, path: str, megabytes: int, *, own_disk: bool, user: int | None) -> None:
        self.path, self.user, self._own_disk, self._most = path, user, own_disk, megabytes << 20
        self._kept: list[_Kept] = []
        self._times = (0, 0)
        self._empty = self._inodes()

    def remember(self) -> None:
        """What is here now will be here at the start of every call."""
        own = os.stat(self.path)
        self._kept, self._times, size = [], (own.st_atime_ns, own.st_mtime_ns), 0
        for folder, directories, files, descriptor in os.fwalk(self.path):
            below = os.path.relpath(folder, self.path)
            for name in (*directories, *files):
                with contextlib.suppress(OSError):  # gone meanwhile, or not to be read: it is not kept
                    found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    path = os.path.normpath(os.path.join(below, name))
                    kept = _keep(path, name, found, descriptor, self._most - size)
                    if kept is not None and len(self._kept) < MOST_FILES:
                        size += len(kept.content or b"")
                        self._kept.append(kept)

    def renew(self) -> bool:
        """Put everything back. False if something of a call is left all the same, such as a file that is held open."""
        if self._kept or os.listdir(self.path):
            self._clear()
        if os.listdir(self.path) or self._inodes() != self._empty:
            return False
        for kept in self._kept:
            self._restore(kept)
        os.utime(self.path, ns=self._times)
        return True

    def excess(self) -> str:
        """What is wrong with the directory's size, where no file system of its own bounds it; else nothing."""
        if self._own_disk:
            return ""
        size = count = 0
        for _, directories, files, descriptor in os.fwalk(self.path):
            for name in (*directories, *files):
                with contextlib.suppress(OSError):
                    size += 512 * os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_blocks
                count += 1
            if size > self._most or count > MOST_FILES:
                allowed = f"{self._most >> 20} MB and {MOST_FILES} files"
                return f"it wrote {size >> 20} MB in {count} files, more than the {allowed} allowed"
        return ""

    def remove(self) -> None:
        if not self._own_disk:
            shutil.rmtree(self.path, ignore_errors=True)

    def _inodes(self) -> int:
        """How many files the file system holds, those without a name included; 0 where it is not ours alone."""
        if not self._own_disk:
            return 0
        counted = os.statvfs(self.path)
        return counted.f_files - counted.f_ffree

    def _clear(self) -> None:
        for _, directories, files, descriptor in os.fwalk(self.path, topdown=False):
            for name in files:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=descriptor)
            for name in directories:
                try:
                    os.rmdir(name, dir_fd=descriptor)
                except NotADirectoryError:  # a link to one
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=descriptor)
                except OSError:
                    continue  # `renew` finds that it is still there

    def _restore(self, kept: _Kept) -> None:
        path = os.path.join(self.path, kept.path)
        if kept.link is not None:
            os.symlink(kept.link, path)
        elif kept.content is None:
            os.mkdir(path)
        else:
            with open(path, "xb") as stream:
                stream.write(kept.content)
        if self.user is not None:
            os.chown(path, self.user, self.user, follow_symlinks=False)
        if kept.link is None:
            os.chmod(path, kept.mode)


def _keep(path: str, name: str, found: os.stat_result, directory: int, most: int) -> _Kept | None:
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISDIR(found.st_mode):
        return _Kept(path=path, mode=mode | 0o700)
    if stat.S_ISLNK(found.st_mode):
        return _Kept(path=path, mode=mode, link=os.readlink(name, dir_fd=directory))
    if not stat.S_ISREG(found.st_mode) or found.st_size > most:  # one with holes may say any size
        return None
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    with open(descriptor, "rb") as stream:
        content = stream.read(most + 1)
    return _Kept(path=path, mode=mode, content=content) if len(content) <= most else None
