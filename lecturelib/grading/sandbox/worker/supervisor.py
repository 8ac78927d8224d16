"""Process 1 of one submission. It runs no student code; it starts the process that does, watches it, and cleans up.

The grader talks to it over a socket that the student's process never has, one JSON line each way: "call", with a socket
to make it on; "status", how it stands; "sweep", to end all that a call has left behind; "end", to end everything and
say how it went. When that socket closes, for whatever reason, this process ends; being process 1 of its namespace, it
takes every process of the submission with it.
"""

import contextlib
import json
import os
import select
import signal
import socket
from typing import Any

from lecturelib.grading.sandbox.worker import confinement, kernel, student, wire

_LOOK_EVERY_MS = 50


def main(grader: socket.socket, notebook: socket.socket, fence: confinement.Fence, job: dict[str, Any]) -> None:
    """Set the submission up, then serve the grader until it hangs up. Never returns."""
    confinement.separate(fence, job["limits"]["scratch_mb"])
    if confinement.LINUX:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # not before: an ordinary user's /proc/self then is closed to him too
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # orphans come to us also without a process namespace
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        os.setsid()
        grader.close()
        ours.close()
        try:
            confinement.confine(fence, job["user"], job["limits"])
        except OSError as error:  # the machine's fault, not the student's: say so
            wire.send(notebook, wire.encode({"not confined": str(error)}))
            os._exit(1)
        student.main(notebook, theirs, job["limits"])
        os._exit(0)
    notebook.close()
    theirs.close()
    Supervisor(grader, ours, child, job["limits"]["memory_mb"]).serve()


class Supervisor:
    """Keeps the one process that ran the notebook, `student`, from which every call is forked."""

    def __init__(self, grader: socket.socket, calls: socket.socket, student: int, memory_mb: int) -> None:
        self.grader, self.calls, self.student, self.memory_mb = grader, calls, student, memory_mb
        self.alive, self.reason, self.peak_mb = True, "", 0.0
        self.empty_mb = private_mb(os.getpid())
        calls.setblocking(False)

    def serve(self) -> None:
        poller = select.poll()
        poller.register(self.grader, select.POLLIN)
        while True:
            ready = poller.poll(_LOOK_EVERY_MS)
            self.reap()
            self.watch_memory()
            if not ready:
                continue
            line, descriptors, _, _ = socket.recv_fds(self.grader, 1024, 1)
            if not line:
                self.kill(descendants(os.getpid()))
                os._exit(0)
            self.answer(json.loads(line), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def answer(self, request: dict[str, Any], descriptors: list[int]) -> None:
        if request["do"] == "call" and self.alive:
            try:
                socket.send_fds(self.calls, [b"c"], descriptors)
            except (BlockingIOError, BrokenPipeError):
                self.stop("the notebook's process no longer takes calls")
        elif request["do"] == "sweep":
            self.kill_all_but({self.student} if self.alive else set())
        elif request["do"] == "end":
            self.kill_all_but(set())
            self.reap(wait=True)
        computed = sum(cpu_seconds(process) for process in descendants(os.getpid()))
        status = {
            "alive": self.alive,
            "reason": self.reason,
            "peak_mb": round(self.peak_mb, 1),
            "cpu_seconds": round(computed, 2),
        }
        with contextlib.suppress(BrokenPipeError):
            self.grader.sendall(json.dumps(status).encode() + b"\n")

    def stop(self, reason: str) -> None:
        """End the whole submission, for a reason that the report will give."""
        if self.alive:
            self.alive, self.reason = False, reason
        self.kill_all_but(set())

    def kill_all_but(self, spared: set[int]) -> None:
        """A process that has been sent SIGKILL forks no more, so this ends when a look finds nobody new."""
        doomed: set[int] = set()
        while new := descendants(os.getpid()) - spared - doomed:
            self.kill(new)
            doomed |= new
        self.reap()

    @staticmethod
    def kill(processes: set[int]) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)

    def reap(self, wait: bool = False) -> None:
        """Take leave of processes that have ended, and note how the student's own did; or wait until it has."""
        while True:
            try:
                process, status = os.waitpid(-1, 0 if wait and self.alive else os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            if process == self.student and self.alive:
                self.alive = False
                code = os.waitstatus_to_exitcode(status)
                how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended itself with code {code}"
                self.reason = f"the notebook's process {how}"

    def watch_memory(self) -> None:
        if not confinement.LINUX:
            return
        used = sum(max(0.0, private_mb(process) - self.empty_mb) for process in descendants(os.getpid()))
        self.peak_mb = max(self.peak_mb, used)
        if used > self.memory_mb:
            self.stop(f"its processes together used {used:.0f} MB of memory, more than the {self.memory_mb} MB allowed")


def descendants(ancestor: int) -> set[int]:
    """The living processes started by `ancestor`, or by those, and so on."""
    if not confinement.LINUX:
        return set()
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as stream:
                state, parent = stream.read().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    children.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        new = children.get(waiting.pop(), [])
        found.update(new)
        waiting += new
    return found


def cpu_seconds(process: int) -> float:
    """What a process has computed so far, with those of its children that it waited for; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/stat") as stream:
            ticks = stream.read().rpartition(")")[2].split()[11:15]
    except OSError:
        return 0.0
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def private_mb(process: int) -> float:
    """Memory of a process that is not backed by a file, in megabytes; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/statm") as stream:
            resident, shared = map(int, stream.read().split()[1:3])
    except OSError:
        return 0.0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 2**20
