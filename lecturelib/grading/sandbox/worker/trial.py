"""A confined process that tries what a submission must not be able to do. What it reports decides the tier's name.

Whatever should succeed after all changes nothing: a limit or a priority is set to what it is, and what was made goes.
"""

import contextlib
import os
import resource
import socket
from collections.abc import Callable, Iterator
from typing import Any

from lecturelib.grading.sandbox.worker import confinement, kernel

_SCRATCH_MB = 1
_TRIAL_LIMITS = {"total_seconds": 10, "file_mb": 1, "open_files": 64, "processes": 16, "memory_mb": 256}
_PRIVATE, _CREATE, _REMOVE = 0, 0o1600, 0  # of System V's shared memory, semaphores and queues


def attempt(fence: confinement.Fence, plan: dict[str, Any]) -> dict[str, bool]:
    """Confine this process as a submission is confined; for each attempt, whether it was refused."""
    scratch = confinement.separate(fence, plan["trial_user"], _SCRATCH_MB)
    confinement.confine(fence, plan["trial_user"], _TRIAL_LIMITS, scratch.path)
    attempts: dict[str, Callable[[], Any]] = {
        "read a file of the grader's": lambda: open(plan["bait"]).close(),
        "write beside it": lambda: open(plan["bait"] + ".written", "w").close(),
        "change the mode of a file of the grader's": lambda: os.chmod(plan["bait"], 0o644),
        "cut off a file of the grader's": lambda: os.truncate(plan["bait"], os.stat(plan["bait"]).st_size),
        "open a socket": lambda: socket.socket().close(),
        "run a program": lambda: os.execv("/bin/true", ["true"]),
        "signal the grader": lambda: os.kill(plan["grader"], 0),
        "be root": lambda: os.setuid(0),
    }
    refused = {name: _refused(action) for name, action in attempts.items()}
    if kernel.LINUX:
        with _somebody() as other:
            refused |= {name: _refused(action) for name, action in _on_linux(other).items()}
    return refused


def _on_linux(other: int) -> dict[str, Callable[[], Any]]:
    """What a filter of system calls refuses, with `other` another process of the same user."""
    libc, limit = kernel.libc, resource.RLIMIT_CORE
    return {
        "signal another process": lambda: os.kill(other, 0),
        "limit another process": lambda: resource.prlimit(other, limit, resource.getrlimit(limit)),
        "slow another process": lambda: os.setpriority(os.PRIO_PROCESS, other, os.getpriority(os.PRIO_PROCESS, 0)),
        "schedule another process": lambda: os.sched_setaffinity(other, os.sched_getaffinity(0)),
        "share memory (System V)": lambda: libc.shmctl(_made(libc.shmget(_PRIVATE, 4096, _CREATE)), _REMOVE, 0),
        "share semaphores (System V)": lambda: libc.semctl(_made(libc.semget(_PRIVATE, 1, _CREATE)), 0, _REMOVE),
        "share messages (System V)": lambda: libc.msgctl(_made(libc.msgget(_PRIVATE, _CREATE)), _REMOVE, 0),
        "share memory (POSIX)": lambda: _create_and_remove("/dev/shm/lecturelib-trial"),
        "share messages (POSIX)": lambda: _made(libc.mq_open(b"/lecturelib-trial", os.O_CREAT, 0o600, None)),
        "leave its session": os.setsid,
        "leave its process group": lambda: os.setpgid(0, 0),
    }


def _made(result: int) -> int:
    return kernel.check(result, "made")


def _create_and_remove(path: str) -> None:
    open(path, "x").close()
    os.unlink(path)


@contextlib.contextmanager
def _somebody() -> Iterator[int]:
    """A process that waits until we are done with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    try:
        yield child
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def _refused(action: Callable[[], Any]) -> bool:
    try:
        action()
    except OSError:
        return True
    return False
