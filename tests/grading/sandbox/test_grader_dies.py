"""When the grader is killed, nothing of a submission stays behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import lecturelib
from lecturelib.grading.sandbox.worker import processes

GRADER = """
import sys, time
from lecturelib.grading.notebook import Notebook
from lecturelib.grading.sandbox.sandbox import Sandbox
source = "import os\\nif os.fork() == 0:\\n    os.setsid()\\n    while True: pass\\ndef hang():\\n    while True: pass"
with Sandbox(imports=()) as box, box.open(Notebook(cells=((1, source),))) as submission:
    print("ready", flush=True)
    submission.hang()
"""


def test_killed_grader_takes_every_process_with_it():
    root = Path(lecturelib.__file__).parent.parent
    grader = subprocess.Popen(
        [sys.executable, "-c", GRADER], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}
    )
    with grader:
        assert grader.stdout is not None
        assert grader.stdout.readline() == b"ready\n"
        below = processes.descendants(grader.pid)
        assert len(below) >= 4  # the zygote and its outer half, process 1, the notebook's process
        grader.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 120
    while left := [process for process in below if is_alive(process)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        threading.Event().wait(0.05)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
