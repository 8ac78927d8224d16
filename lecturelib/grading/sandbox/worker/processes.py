"""What the system says about processes. /proc is read as bytes: a process may give itself any name."""

import contextlib
import os
import signal
import subprocess

from lecturelib.grading.sandbox.worker import kernel


def others() -> set[int]:
    """Every living process but this one: the submission's, seen from process 1 of its namespace."""
    return {process for process, _ in _living()} - {os.getpid()}


def descendants(ancestor: int) -> set[int]:
    """The living processes started by `ancestor`, or by those, and so on."""
    children: dict[int, list[int]] = {}
    for process, parent in _living():
        children.setdefault(parent, []).append(process)
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        new = children.get(waiting.pop(), [])
        found.update(new)
        waiting += new
    return found


def _living() -> list[tuple[int, int]]:
    """Each process that has not ended, and its parent."""
    if not kernel.LINUX:
        told = subprocess.run(["ps", "-axo", "pid=,ppid=,state="], capture_output=True, check=True).stdout.split()
        rows = zip(told[::3], told[1::3], told[2::3], strict=False)
        return [(int(process), int(parent)) for process, parent, state in rows if not state.startswith(b"Z")]
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = _stat(int(name))
            if fields and fields[0] not in b"ZX":
                found.append((int(name), int(fields[1])))
    return found


def children() -> set[int]:
    """The living children of this process."""
    return {process for process, parent in _living() if parent == os.getpid()}


def kill(processes: set[int], number: int = signal.SIGKILL) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def state(process: int) -> str:
    """The letter of its state, such as S for asleep; X if it is gone."""
    return (_stat(process) or [b"X"])[0].decode()


def cpu_seconds(process: int) -> float:
    """What a process has computed so far, with those of its children that it waited for; 0 if it is gone."""
    return sum(map(int, _stat(process)[11:15])) / os.sysconf("SC_CLK_TCK")


def private_mb(process: int) -> float:
    """Memory of a process that is not backed by a file, in megabytes; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/statm", "rb") as stream:
            resident, shared = map(int, stream.read().split()[1:3])
    except (OSError, ValueError):
        return 0.0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 2**20


def holdings(process: int) -> tuple[int, list[str]]:
    """How many threads a process has, and what it holds open, as far as we are allowed to see that."""
    fields, names = _stat(process), []
    with contextlib.suppress(OSError):
        folder = f"/proc/{process}/fd"
        for name in os.listdir(folder):
            names.append(os.readlink(f"{folder}/{name}"))
    return int(fields[17]) if fields else 0, names


def _stat(process: int) -> list[bytes]:
    """The fields of /proc/N/stat from the state on; none if it is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()
    except OSError:
        return []
