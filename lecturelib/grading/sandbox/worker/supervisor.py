"""Process 1 of one submission. It runs no student code; it starts the process that does, watches it, and cleans up.

The grader talks to it over a socket that the student's process never has, one JSON line each way: "call", with a socket
to make it on; "hold", to stop the notebook's process while the call runs in its fork; "status", how it stands; "sweep",
to end all that a call has left behind; "end", to end everything and say how it went. When that socket closes, or
anything goes wrong here, this process first ends every process of the submission, then itself.

All processes of the submission can be signalled at once, however fast they fork: they are everybody else in their
process namespace or, without one, a process group, which the filter of system calls does not let them leave. How many
they are is bounded by the kernel where they have a user of their own, and in any case counted here.
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any, NoReturn

from lecturelib.grading.sandbox.worker import confinement, kernel, processes, student, wire
from lecturelib.grading.sandbox.worker.scratch import Scratch

_LOOK_EVERY_MS = 50
_HOLD_SECONDS = 5.0
_PRIORITY = -10  # so that the submission's own processes, however many, leave this one its turn
_MOST_LOOKS = 20  # for processes that a call has left; more than one finds new ones only if they have ways to go on


def main(grader: socket.socket, notebook: socket.socket, fence: confinement.Fence, job: dict[str, Any]) -> NoReturn:
    """Set the submission up, then serve the grader until it hangs up. Never returns."""
    scratch = confinement.separate(fence, job["user"], job["limits"]["scratch_mb"])
    if confinement.LINUX:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # not before: an ordinary user's /proc/self then is closed to him too
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # orphans come to us also without a process namespace
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            grader.close()
            ours.close()
            try:
                confinement.confine(fence, job["user"], job["limits"], scratch.path)
            except OSError as error:  # the machine's fault, not the student's: say so
                wire.send(notebook, wire.encode({"not confined": str(error)}))
                os._exit(1)
            student.main(notebook, theirs, job["limits"])
        finally:
            os._exit(0)
    everybody = -1 if fence.namespaces else -child
    with contextlib.suppress(PermissionError):  # an ordinary user's
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)

    def leave(*_: object) -> NoReturn:
        end_all(everybody)
        scratch.remove()
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    if confinement.LINUX:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)  # also when the process that forked us is gone
    try:
        socket_name = os.readlink(f"/proc/self/fd/{theirs.fileno()}") if confinement.LINUX else ""
        notebook.close()
        theirs.close()
        Supervisor(grader, ours, child, job["limits"], scratch, socket_name, everybody).serve()
    finally:
        leave()


def end_all(everybody: int) -> None:
    """End every process of the submission; until there is none, because one may not have joined its group yet."""
    while True:
        processes.kill({everybody, *others(everybody)})
        processes.wait_for_ended()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:  # whoever descends from this process has an ancestor among its children
            return
        time.sleep(0.001)


def others(everybody: int) -> set[int]:
    """The processes of the submission, this one left out."""
    return processes.others() if everybody == -1 else processes.descendants(os.getpid(), group=-everybody)


class Supervisor:
    """Keeps the one process that ran the notebook, `student`, from which every call is forked."""

    def __init__(
        self,
        grader: socket.socket,
        calls: socket.socket,
        student: int,
        limits: dict[str, Any],
        scratch: Scratch,
        socket_name: str,
        everybody: int,
    ) -> None:
        self.grader, self.calls, self.student = grader, calls, student
        self.memory_mb, self.processes = limits["memory_mb"], limits["processes"]
        self.scratch, self.allowed = scratch, {"/dev/null", socket_name}
        self.alive, self.reason, self.peak_mb = True, "", 0.0
        self.empty_mb = processes.private_mb(os.getpid())
        self.everybody = everybody  # the number that stands for all processes of the submission
        self.remembered, self.clean = False, True
        calls.setblocking(False)

    def serve(self) -> None:
        poller = select.poll()
        poller.register(self.grader, select.POLLIN)
        looked = time.monotonic()
        while True:
            ready = poller.poll(_LOOK_EVERY_MS)
            self.reap()
            if (now := time.monotonic()) - looked > _LOOK_EVERY_MS / 1000:  # also while we are asked all the time
                self.watch()
                looked = now
            if not ready:
                continue
            line, descriptors, _, _ = socket.recv_fds(self.grader, 1024, 1)
            if not line:
                return
            self.answer(json.loads(line), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def answer(self, request: dict[str, Any], descriptors: list[int]) -> None:
        status: dict[str, Any] = {}
        if request["do"] == "call" and self.alive:
            try:
                socket.send_fds(self.calls, [b"c"], descriptors)
            except (BlockingIOError, BrokenPipeError):
                self.stop("the notebook's process no longer takes calls")
        elif request["do"] == "hold" and self.alive:
            self.hold()
        elif request["do"] == "sweep":
            self.watch()
            self.sweep()
        elif request["do"] == "end":
            self.end_everybody()
            while self.alive:  # until it is known how it ended, which may have been before
                time.sleep(0.001)
                self.end_everybody()
        if request["do"] not in ("call", "hold"):
            status["cpu_seconds"] = round(sum(map(processes.cpu_seconds, self.others())), 2)
        status |= {"alive": self.alive, "reason": self.reason, "clean": self.clean, "peak_mb": round(self.peak_mb, 1)}
        with contextlib.suppress(BrokenPipeError):
            self.grader.sendall(json.dumps(status).encode() + b"\n")

    def hold(self) -> None:
        """Stop the notebook's process, so that it learns nothing of the call that its fork is about to make."""
        processes.kill({self.student}, signal.SIGSTOP)
        deadline = time.monotonic() + _HOLD_SECONDS
        while processes.state(self.student) in "RSD":
            if time.monotonic() > deadline:
                self.stop("the notebook's process could not be stopped")
                return

    def sweep(self) -> None:
        """End all that a call has left behind, processes and files, before the notebook's process goes on."""
        (self.end_others if self.alive else self.end_everybody)()
        if not self.alive:
            return
        if not self.remembered:
            self.without_threads()
            self.scratch.remember()
            self.remembered = True
        self.clean = self.scratch.renew() and not self.held()
        with contextlib.suppress(BlockingIOError):
            while self.calls.recv(4096):
                pass
        processes.kill({self.student}, signal.SIGCONT)

    def without_threads(self) -> None:
        """Have the notebook's process go on in a fork if its cells have left threads, which could watch the calls."""
        before, deadline = self.student, time.monotonic() + _HOLD_SECONDS
        if processes.holdings(before)[0] > 1:
            processes.kill({before}, signal.SIGCONT)
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                self.calls.send(b"f")
            while self.alive and self.student == before and time.monotonic() < deadline:
                time.sleep(0.001)
                self.reap()

    def held(self) -> bool:
        """Whether the notebook's process has threads, or holds something open: of any file a call can move the place
        that it is read from, and so leave a note."""
        threads, names = processes.holdings(self.student)
        return threads > 1 or any(name not in self.allowed for name in names)

    def stop(self, reason: str) -> None:
        """End the whole submission, for a reason that the report will give."""
        if self.alive:
            self.alive, self.reason = False, reason
        self.end_everybody()

    def others(self) -> set[int]:
        return others(self.everybody)

    def end_everybody(self) -> None:
        processes.kill({self.everybody, *self.others()})
        self.reap()

    def end_others(self) -> None:
        """End all but the notebook's process. Everybody is stopped first, so that nobody forks while one looks."""
        known = {self.student}
        for _ in range(_MOST_LOOKS):
            processes.kill({self.everybody}, signal.SIGSTOP)
            new = self.others() - known
            if not new:
                break
            processes.kill(new)
            known |= new
        else:
            self.stop("its processes started others faster than they could be ended")
        self.reap()

    def reap(self) -> None:
        """Take leave of processes that have ended, and note how the student's own did."""
        for process, code in processes.wait_for_ended().items():
            if process == self.student and self.alive:
                self.ended(code)

    def ended(self, code: int) -> None:
        """The notebook's process has ended: for good, or to leave its threads behind and go on in its fork."""
        heirs = self.others()
        if code == 0 and not self.remembered and len(heirs) == 1:
            (self.student,) = heirs
            return
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended itself with code {code}"
        self.alive, self.reason = False, f"the notebook's process {how}"

    def watch(self) -> None:
        if not confinement.LINUX:
            return
        others = self.others()
        used = sum(max(0.0, processes.private_mb(process) - self.empty_mb) for process in others)
        self.peak_mb = max(self.peak_mb, used)
        count = sum(map(processes.threads, others))
        if count > self.processes:
            self.stop(f"it ran {count} processes and threads at one time, more than the {self.processes} allowed")
        elif used > self.memory_mb:
            self.stop(f"its processes together used {used:.0f} MB of memory, more than the {self.memory_mb} MB allowed")
        elif excess := self.scratch.excess():
            self.stop(excess)
