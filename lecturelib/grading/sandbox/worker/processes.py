"""What the system says about processes. /proc is read as bytes: a process may give itself any name."""

import contextlib
import os
import signal
import subprocess

from lecturelib.grading.sandbox.worker import kernel


def others() -> set[int]:
    """Every living process but this one: the submission's, seen from process 1 of its namespace."""
    return {process for process, _, _ in _living()} - {os.getpid()}


def descendants(ancestor: int, group: int | None = None) -> set[int]:
    """The living processes started by `ancestor`, or by those, and so on; and whoever else is in a process group."""
    children: dict[int, list[int]] = {}
    found: set[int] = set()
    for process, parent, its_group in _living():
        children.setdefault(parent, []).append(process)
        if its_group == group:
            found.add(process)
    waiting = [ancestor]
    while waiting:
        new = children.get(waiting.pop(), [])
        found.update(new)
        waiting += new
    return found


def _living() -> list[tuple[int, int, int]]:
    """Each process that has not ended, its parent and its process group."""
    return [row for row, state in _all() if state not in b"ZX"]


def _all() -> list[tuple[tuple[int, int, int], bytes]]:
    """The same of every process, also of one that has ended and was not waited for; and the letter of its state."""
    if not kernel.LINUX:
        asked = ["ps", "-axo", "pid=,ppid=,pgid=,state="]
        told = subprocess.run(asked, capture_output=True, check=True).stdout.split()
        rows = zip(told[::4], told[1::4], told[2::4], told[3::4], strict=False)
        return [((int(one), int(parent), int(group)), state[:1]) for one, parent, group, state in rows]
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and (fields := _stat(int(name))):
            found.append(((int(name), int(fields[1]), int(fields[2])), fields[0]))
    return found


def orphans(known: set[int]) -> set[int]:
    """Whom to kill so that nothing is left of children that we do not know: those, their descendants, their groups.

    Children that have ended count too, until they are waited for: they still tell their group. So nobody is missed by
    having started the next and ended while one looks.
    """
    ours, found = os.getpgrp(), set()
    for (process, parent, group), _ in _all():
        if parent == os.getpid() and process not in known:
            found |= {process, *descendants(process)} | ({-group} if group != ours else set())
    return found


def wait_for_ended() -> dict[int, int]:
    """Take leave of the children that have ended: how each did."""
    ended = {}
    with contextlib.suppress(ChildProcessError):
        while (told := os.waitpid(-1, os.WNOHANG))[0]:
            ended[told[0]] = os.waitstatus_to_exitcode(told[1])
    return ended


def kill(processes: set[int], number: int = signal.SIGKILL) -> None:
    """Signal each process. A negative number is a whole group, or -1 everybody: at once, so that no fork gets away."""
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


def threads(process: int) -> int:
    """How many threads a process has; 0 if it is gone."""
    fields = _stat(process)
    return int(fields[17]) if fields else 0


def holdings(process: int) -> tuple[int, list[str]]:
    """How many threads a process has, and what it holds open, as far as we are allowed to see that."""
    names = []
    with contextlib.suppress(OSError):
        folder = f"/proc/{process}/fd"
        for name in os.listdir(folder):
            names.append(os.readlink(f"{folder}/{name}"))
    return threads(process), names


def _stat(process: int) -> list[bytes]:
    """The fields of /proc/N/stat from the state on; none if it is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()
    except OSError:
        return []
