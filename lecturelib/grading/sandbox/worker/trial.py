"""A confined process that tries what a submission must not be able to do. What it reports decides the tier's name."""

import os
import socket
from collections.abc import Callable
from typing import Any

from lecturelib.grading.sandbox.worker import confinement

_SCRATCH_MB = 1
_TRIAL_LIMITS = {"total_seconds": 10, "file_mb": 1, "open_files": 64, "processes": 16, "memory_mb": 256}


def attempt(fence: confinement.Fence, plan: dict[str, Any]) -> dict[str, bool]:
    """Confine this process as a submission is confined; for each attempt, whether it was refused."""
    confinement.separate(fence, _SCRATCH_MB)
    confinement.confine(fence, plan["trial_user"], _TRIAL_LIMITS)
    return {
        "read a file of the grader's": _refused(lambda: open(plan["bait"]).close()),
        "write beside it": _refused(lambda: open(plan["bait"] + ".written", "w").close()),
        "open a socket": _refused(lambda: socket.socket().close()),
        "run a program": _refused(lambda: os.execv("/bin/true", ["true"])),
        "signal the grader": _refused(lambda: os.kill(plan["grader"], 0)),
        "be root": _refused(lambda: os.setuid(0)),
    }


def _refused(action: Callable[[], Any]) -> bool:
    try:
        action()
    except OSError:
        return True
    return False
