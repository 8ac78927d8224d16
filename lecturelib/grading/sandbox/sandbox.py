"""Trusted side: starts the zygote, and runs one submission after another in it.

    with Sandbox(Limits(memory_mb=512), require_tier="full") as box:
        print(box.proof.describe())
        with box.open(read_notebook(path)) as submission:
            results = run(rubric, submission, seed=seed)

Threat model
============
The student writes every byte of the notebook, knows this code, and wants points, secrets, or damage. We hold tests,
references, expected values, seeds, other students' work, and the instructor's machine.

1. Secrets are not there. The zygote is a fresh `python -I` with an empty environment; of lecturelib it sees only
   `worker/`. Tests and references are in the grader's process: what crosses are inputs. In
   the full tier no other file of the machine exists in the submission's root directory. Inputs are random and fresh, so
   an answer that is right was computed, by whatever means, from the input.
2. The verdict is not there. Student code can patch anything in its own process; the comparison is done elsewhere, on
   plain numbers that were decoded from bytes (`wire`).
3. A forged reply gains nothing. The unit of trust is the submission: all its processes count as the student. Every
   call has a socket of its own, made after the notebook has finished and closed after the first answer, and a fresh
   nonce which that answer must repeat. So a reply cannot be written ahead of its call, kept for a later one, or meant
   for another submission. Whoever finds the socket and answers on it in the function's place has only answered the
   call: any value that can be forged so can be returned honestly. Of a reply only the value counts; none can say
   "passed".
4. A reference put in place of a wrong upstream function is a question sent to us, never code. It can be asked only
   during a call of a test in which that name is replaced, with inputs of exercise size (`callbacks`). The notebook runs
   anew for each set of references, so what one has answered is known only where it could be asked again.
5. Nobody else is there. Each submission has its own process, mount and IPC namespace, user, and scratch directory in
   memory; no network; limits that the kernel enforces. Process 1 of that namespace runs no student code, and when it
   ends the kernel kills the rest. It ends when our socket to it closes, also if the grader is killed.
6. What is left: a hole in the kernel that is reachable through the system calls we do not refuse; time: a submission
   can use all that `Limits` gives it, and can dimly observe how busy the machine is; one bit for each module of
   `IMPORTS_BY_WORD`: whether an earlier submission had a word for it; and from one plain call of a submission to its
   next a few bits, such as the code that a process ended with.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lecturelib.grading.notebook import Notebook, parse_notebook, read_notebook
from lecturelib.grading.sandbox.folders import Folder
from lecturelib.grading.sandbox.limits import Limits
from lecturelib.grading.sandbox.tiers import TIERS, Proof, SandboxFailed, Tier, TierError, check_platform, require
from lecturelib.machine.bf16 import CAP

if TYPE_CHECKING:  # it loads torch, which the zygote should be the first to do
    from lecturelib.grading.sandbox.remote import RemoteSubmission

_WORKER = Path(__file__).parent / "worker"
_START_SECONDS = 120.0
# user ids that no distribution hands out: above systemd's container range, below the sign bit
_FIRST_USER, _USERS = 1_879_048_192, 200_000_000
WARM_IMPORTS = ("torch.nn.functional", "numpy", "math", "dataclasses", "collections")
# Loaded for the first notebook that has such a word, because each of its calls would load it anew and take seconds; not
# before, because its memory makes every fork dearer.
_NEEDS_COMPILER = ("optim", "checkpoint", "compile", "torch.func", "profiler", "dispatch", "flop_", "flex_")
IMPORTS_BY_WORD = {"matplotlib": "matplotlib.pyplot", **dict.fromkeys(_NEEDS_COMPILER, "torch._dynamo")}


def imports_for(notebook: Notebook) -> tuple[str, ...]:
    """What the zygote should have loaded beside `WARM_IMPORTS` before this notebook runs."""
    text = "\n".join(source for _, source in notebook.cells)
    return tuple(dict.fromkeys(module for word, module in IMPORTS_BY_WORD.items() if word in text))


class Sandbox:
    """A torch-warm process to fork submissions from, confined as well as this machine allows. A context manager.

    Entering it starts the process and does not wait until it is warm: `wait_until_warm` does, and the first `open`.

    Args:
        limits: of each submission
        tier: use no more than this tier's measures, to see what a poorer machine does; the best there is when None
        require_tier: refuse to start below this tier
        imports: modules to load before any submission
    """

    def __init__(
        self,
        limits: Limits | None = None,
        tier: Tier | None = None,
        *,
        require_tier: Tier | None = None,
        imports: Sequence[str] = WARM_IMPORTS,
    ) -> None:
        if tier is not None and tier not in TIERS:
            raise ValueError(f"a tier is one of {', '.join(TIERS)}, got {tier!r}")
        self.limits = limits or Limits()
        self._most, self._required, self._imports = tier, require_tier, imports
        self._process: subprocess.Popen[bytes] | None = None
        self._warm, self._tries = False, 2
        self._lock = threading.Lock()

    def __enter__(self) -> "Sandbox":
        check_platform()
        self._folder = Folder()
        self._bait, self._home = self._folder.path / "bait", self._folder.path / "home"
        self._home.mkdir(mode=0o755)
        self._bait.write_text("readable by everybody, except from inside the sandbox")
        try:
            reason = "" if sys.platform == "linux" else "not Linux"
            if sys.platform == "linux" and self._most in (None, "full"):
                reason = self._start(namespaces=True, without="")
            if self._process is None:
                self._start_without_namespaces(reason)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def tier(self) -> Tier:
        return self.proof.tier

    def open(self, notebook: Notebook | bytes | str | os.PathLike[str]) -> "RemoteSubmission":
        """Run a notebook's cells in a new confined process; calls can then be made. A context manager.

        Takes a path, or the content of a file. What cannot be read raises `NotebookError`; a notebook that cannot be
        run does not: its calls say why.
        """
        if isinstance(notebook, bytes):
            notebook = parse_notebook(notebook)
        elif not isinstance(notebook, Notebook):
            notebook = read_notebook(notebook)
        from lecturelib.grading.sandbox.remote import RemoteSubmission, Running

        ends = time.monotonic() + self.limits.total_seconds
        return RemoteSubmission(
            partial(Running, partial(self.fork, imports_for(notebook)), notebook, self.limits, ends)
        )

    def fork(self, imports: Sequence[str] = ()) -> tuple[socket.socket, socket.socket]:
        """A new, empty submission: the socket to its process 1, and the one that takes its notebook.

        The zygote first loads what it has not yet of `imports`, and keeps it.
        """
        self.wait_until_warm()
        control, their_control = socket.socketpair()
        cells, their_cells = socket.socketpair()
        user = _FIRST_USER + secrets.randbelow(_USERS)
        job = json.dumps({"user": user, "limits": asdict(self.limits), "imports": list(imports)}).encode()
        with their_control, their_cells, self._lock:
            try:
                socket.send_fds(self._control, [job], [their_control.fileno(), their_cells.fileno()])
            except OSError as error:
                control.close()
                cells.close()
                raise SandboxFailed(f"the process that submissions are forked from is gone: {error}") from error
        return control, cells

    def wait_until_warm(self) -> None:
        """Wait until the zygote has loaded torch. If it cannot in its new root, one without namespaces is started."""
        if self._warm or self._process is None:
            return
        try:
            _told(self._control)
        except _Failed as failed:
            self._end()
            if not self.proof.namespaces:
                raise TierError(f"the worker does not start: {failed}") from None
            reason = self._start(namespaces=True, without="") if self._may_try_again(failed) else str(failed)
            if self._process is None:
                self._start_without_namespaces(reason)
            return self.wait_until_warm()
        self._control.settimeout(None)
        self._warm = True

    def close(self) -> None:
        """End the zygote and with it every submission."""
        self._end()
        self._folder.remove()

    def _end(self) -> None:
        if self._process is not None:
            self._control.close()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _may_try_again(self, failed: "_Failed") -> bool:
        """A process that was killed, once, does not show that this machine can only have a weaker tier."""
        self._tries -= 1
        return self._tries > 0 and isinstance(failed, _Killed)

    def _start_without_namespaces(self, reason: str) -> None:
        problem = self._start(namespaces=False, without=f"no namespaces ({reason})" if reason else "")
        if problem:
            raise TierError(f"the worker does not start: {problem}")

    def _start(self, *, namespaces: bool, without: str) -> str:
        """Start the zygote and hear how it is confined; the reason, if it could not be started as planned."""
        plan: dict[str, Any] = {
            "namespaces": namespaces,
            "unfenced": self._most == "minimal",
            "worker_files": [str(_WORKER)],
            "lecturelib": str(Path(__file__).parents[2]),
            "imports": list(self._imports),
            "bait": str(self._bait),
            "grader": os.getpid(),
            "home": str(self._home),
            "trial_user": _FIRST_USER + secrets.randbelow(_USERS),
        }
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-B",
                "-X",
                "utf8",
                str(_WORKER / "boot.py"),
                json.dumps(plan),
                str(theirs.fileno()),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=_environment("/scratch" if namespaces else str(self._home)),
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        ours.settimeout(_START_SECONDS)
        try:
            self.proof = Proof(**_told(ours), without=without)
            require(self.proof, self._required)
        except _Failed as failed:
            ours.close()
            process.wait()
            return self._start(namespaces=namespaces, without=without) if self._may_try_again(failed) else str(failed)
        except BaseException:
            ours.close()
            process.kill()
            process.wait()
            raise
        self._process, self._control = process, ours
        return ""


def _environment(home: str) -> dict[str, str]:
    cap, instructions = CAP[0], os.environ.get(CAP[0])  # where the processor needs it
    return ({} if instructions is None else {cap: instructions}) | {
        "HOME": home,
        "TMPDIR": home,
        "USER": "student",
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": home,
        "TORCHDYNAMO_DISABLE": "1",  # there is no compiler inside; torch.compile then runs the function as it is
        "CUDA_VISIBLE_DEVICES": "",
    }


class _Failed(Exception):
    """The zygote could not start as planned."""


class _Killed(_Failed):
    """It ended without saying why."""


def _told(connection: socket.socket) -> dict[str, Any]:
    """The next line from the zygote, byte by byte, so that nothing of the one after it is lost."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            raise _Killed("it ended without saying why")
        line += byte
    told = json.loads(line)
    if "failed" in told:
        raise _Failed(told["failed"])
    return told
