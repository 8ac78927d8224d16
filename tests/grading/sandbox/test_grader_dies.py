"""When the grader is killed, or process 1, nothing of a submission stays behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lecturelib
from lecturelib.grading.notebook import Notebook
from lecturelib.grading.sandbox.sandbox import Sandbox
from lecturelib.grading.sandbox.tiers import SandboxFailed
from lecturelib.grading.sandbox.worker import processes

# A name that is not text and looks like the fields after it; processes that never stay, because each starts the next
NAME = b"\xff\xfe) R 1"
SOURCE = r"""
import ctypes, os
ctypes.CDLL(None).prctl(15, b"\xff\xfe) R 1")
def start():
    for chain in (True, False):
        if os.fork() == 0:
            try:
                os.setsid()
            except OSError:
                pass
            while True:
                if chain and os.fork():
                    os._exit(0)
def hang():
    start()
    while True: pass
"""
GRADER = """
import sys
from lecturelib.grading.notebook import Notebook
from lecturelib.grading.sandbox.sandbox import Sandbox
with Sandbox(tier=sys.argv[1], imports=()) as box, box.open(Notebook(cells=((1, sys.argv[2]),))) as submission:
    print("ready", flush=True)
    submission.hang()
"""


@pytest.mark.parametrize("tier", ["full", "reduced"])
def test_killed_grader_takes_every_process_with_it(tier):
    root = Path(lecturelib.__file__).parent.parent
    asked = [sys.executable, "-c", GRADER, tier, SOURCE]
    grader = subprocess.Popen(asked, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)})
    with grader:
        assert grader.stdout is not None
        assert grader.stdout.readline() == b"ready\n"
        until(lambda: len(named()) >= 3)  # the notebook's process, the call's, and what that has started
        below = processes.descendants(grader.pid)
        grader.send_signal(signal.SIGKILL)
    until(lambda: not named() and not below & processes.descendants(1))


def test_killed_process_1_takes_every_process_with_it_without_namespaces():
    with Sandbox(tier="reduced", imports=()) as box:
        assert box._process is not None
        zygote = box._process.pid
        submission = box.open(Notebook(cells=((1, SOURCE),)))
        threading.Thread(target=ask, args=(submission.hang,)).start()
        until(lambda: len(named()) >= 3)
        (first,) = (process for process in processes.descendants(zygote) if parent(process) == zygote)
        os.kill(first, signal.SIGKILL)
        until(lambda: not named() and not processes.descendants(zygote))
        with box.open(Notebook(cells=((1, "def ok():\n    return 1"),))) as other:
            assert other.ok() == 1


def ask(function: Callable[[], object]) -> None:
    with pytest.raises(SandboxFailed, match="process 1 of the submission is gone"):
        function()


def named() -> list[int]:
    """The submission's processes, wherever they have gone: they keep its name."""
    found = []
    for process in processes.descendants(1):
        try:
            found += [process] * (Path(f"/proc/{process}/comm").read_bytes().strip() == NAME)
        except OSError:
            continue
    return found


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"still there: {named()}"
        threading.Event().wait(0.05)
