"""The root directory that submissions see: Python, some packages and the system's libraries, read-only, no more.

No home directories, no /etc but what the loader needs, no programs, no lecturelib: a file that is not here cannot be
read, whoever asks. Where mount namespaces are missing, the same list is what Landlock allows.
"""

import contextlib
import os
import socket

from lecturelib.grading.sandbox.worker import kernel, packages

_SYSTEM = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime")
_SAFE_DEVICES = ("/dev/random", "/dev/urandom")
_DEVICES = ("null", "full", "random", "urandom")  # not zero: mapped and shared, it is memory that no limit counts
SCRATCH = "/scratch"  # of the new root; also its /tmp, unless Python itself lives below that
_MOUNT_POINT = "/tmp"  # of the old one; any directory that exists everywhere


def visible() -> list[str]:
    """Everything that a submission may read, where `enter` has already left out the rest."""
    return [*_SYSTEM, *_SYSTEM_FILES, *_SAFE_DEVICES, *packages.python_directories(), *packages.directories()]


def visible_without_a_root() -> tuple[list[str], list[str]]:
    """The same where nothing could be left out: paths to read, and directories of which only the names can be seen."""
    folders = [path for path in (*_SYSTEM, *packages.python_directories()) if os.path.isdir(path)]
    listed = [os.path.realpath(folder) for folder in packages.directories()]
    shown = [os.path.join(folder, name) for folder in listed for name in packages.shown(folder)]
    around = _around(folders, [*listed, *packages.foreign_directories(folders)])
    return [*around, *shown, *_SYSTEM_FILES, *_SAFE_DEVICES], [*listed, *packages.python_directories()]


def _around(paths: list[str], left_out: list[str]) -> list[str]:
    """The paths, each replaced by its entries as long as it holds a directory that is to be left out."""
    found = []
    for path in map(os.path.realpath, paths):
        if path in left_out:
            continue
        if any(inside(path, folder) for folder in left_out):
            found += _around([os.path.join(path, name) for name in sorted(os.listdir(path))], left_out)
        else:
            found.append(path)
    return found


def open_to_all() -> bool:
    """Whether any user may reach this Python's files; not so when it was installed in a private home directory."""
    folders = [os.path.realpath(path) for path in (*packages.python_directories(), *packages.directories())]
    above = {
        os.path.join("/", *folder.split("/")[:depth]) for folder in folders for depth in range(folder.count("/") + 2)
    }
    return all(os.stat(folder).st_mode & 0o001 for folder in above)


def inside(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def unshare() -> bool:
    """Leave the grader's namespaces; an ordinary user needs a user namespace for it. Returns whether that was so."""
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            kernel.unshare(flags)
            return False
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(flags | kernel.CLONE_NEWUSER)
    become_nobody(user, group)
    return True


def become_nobody(user: int, group: int) -> None:
    """In a user namespace just made: be 65534 inside, whoever one is outside."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"65534 {user} 1"), ("gid_map", f"65534 {group} 1")):
        with open(f"/proc/self/{name}", "w") as stream:
            stream.write(text)


def enter(worker_files: list[str], lecturelib: str) -> None:
    """Build the new root and move into it; of the directory `lecturelib` only `worker_files` are shown."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    python = packages.python_directories()
    wanted = [*_SYSTEM, *_SYSTEM_FILES, *python, *map(os.path.realpath, python)]
    sources = [path for path in dict.fromkeys(wanted) if os.path.exists(path)]
    folders = packages.directories()
    folders = list(dict.fromkeys([*folders, *map(os.path.realpath, folders)]))
    shown = [os.path.join(folder, name) for folder in folders for name in packages.shown(folder)]
    covered = [*packages.foreign_directories(sources), *folders]
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in [*sources, *shown, *worker_files]}
    devices = {f"/dev/{name}": os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC) for name in _DEVICES}
    links = {path: os.readlink(path) for path in sources if path.count("/") == 1 and os.path.islink(path)}
    kernel.mount("root", _MOUNT_POINT, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=755")
    for path in sorted(sources, key=len):
        if path in links:
            os.symlink(links[path], _MOUNT_POINT + path)
        else:
            _bind(opened[path], path)
    for folder in covered:
        if folder in folders:
            os.makedirs(_MOUNT_POINT + folder, mode=0o755, exist_ok=True)
        _cover(folder)
    _cover(lecturelib)
    for path in (*shown, *worker_files):
        _bind(opened[path], path)
    for path, descriptor in devices.items():
        _bind(descriptor, path)
    if not os.path.exists(_MOUNT_POINT + "/tmp"):
        os.symlink(SCRATCH, _MOUNT_POINT + "/tmp")
    for path in (SCRATCH, "/dev/shm", "/proc"):
        os.makedirs(_MOUNT_POINT + path, mode=0o755, exist_ok=True)
    kernel.mount("proc", _MOUNT_POINT + "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    for descriptor in (*opened.values(), *devices.values()):
        os.close(descriptor)
    kernel.pivot_root(_MOUNT_POINT)
    socket.sethostname("sandbox")  # the machine's own is nobody's business
    _freeze()
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("warm", SCRATCH, "tmpfs", flags, "size=64m,mode=755")  # each submission mounts its own over it


def _cover(folder: str) -> None:
    """Put an empty directory over one that is there."""
    if os.path.isdir(_MOUNT_POINT + folder):
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount("nothing", _MOUNT_POINT + folder, "tmpfs", flags, "size=256k,mode=755")


def _bind(descriptor: int, path: str) -> None:
    target = _MOUNT_POINT + path
    if os.path.isdir(f"/proc/self/fd/{descriptor}"):
        os.makedirs(target, mode=0o755, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    kernel.mount(f"/proc/self/fd/{descriptor}", target, None, kernel.MS_BIND | kernel.MS_REC)


def _freeze() -> None:
    """Everything read-only and without devices, except that /proc can be remounted. /dev's four can be read and written
    all the same, but nobody can set their times, which everybody could read."""
    with open("/proc/self/mountinfo") as stream:
        points = [line.split()[4] for line in stream]
    for point in points:
        if point != "/proc":
            kernel.read_only(point, device=inside("/dev", point))
