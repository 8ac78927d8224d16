"""Trusted side: a submission whose every call is made in a fresh fork of its confined process.

`Running` is the process; it is started again when a call has killed it. `RemoteSubmission` is what a test sees. What
comes back is believed only as a value: it is decoded, checked, and handed to the test, which compares.
"""

import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from torch import Tensor

from lecturelib.grading.notebook import Notebook
from lecturelib.grading.rubric.submission import CallCrashed, CallTimeout, Submission, SubmissionError
from lecturelib.grading.sandbox.callbacks import References
from lecturelib.grading.sandbox.limits import Allowance, Limits
from lecturelib.grading.sandbox.tiers import SandboxFailed
from lecturelib.grading.sandbox.worker import wire
from lecturelib.grading.sandbox.worker.calls import Call, Gradients, Opaque, Raised, Reply

_STATUS_SECONDS = 60.0  # for process 1, which is ours, to answer on a busy machine


class Running:
    """One submission's processes, from the moment it is opened until it is closed; all its seconds end at `ends`."""

    def __init__(
        self, fork: Callable[[], tuple[socket.socket, socket.socket]], notebook: Notebook, limits: Limits, ends: float
    ) -> None:
        self._fork, self._notebook, self.limits = fork, notebook, limits
        self._control: socket.socket | None = None
        self._lost: SubmissionError | None = None  # why no call can be made any more
        self._ends = ends
        self._starts = 0
        self._computed = 0.0  # seconds of computing by its processes, when process 1 last said so
        self.notes: tuple[str, ...] = notebook.notes
        self.output = ""
        self.peak_mb = 0.0
        self._start()

    def call(self, call: Call, replacements: Mapping[str, Callable[..., Any]]) -> Reply:
        """Make one call; start the notebook's process again first, if the call before has killed it."""
        for _ in range(2):
            try:
                return self._call(call, replacements)
            except _NotStarted:  # it was still dying of the call before, which is not this one's fault
                self.close()
        raise CallCrashed("the notebook's process does not take calls")

    def _call(self, call: Call, replacements: Mapping[str, Callable[..., Any]]) -> Reply:
        connection = self._connect()
        allowance = self._allow(self.limits.call_seconds)
        try:
            _hear_of_its_start(connection, allowance.left)
            self._ask("hold")  # from here on only the call's own process can learn what is asked
            return _converse(connection, call, replacements, self.limits, allowance.left)
        except TimeoutError:
            raise CallTimeout(f"no answer within {self.limits.call_seconds:g} seconds") from None
        except wire.Closed:
            raise CallCrashed(self._ask("sweep")["reason"] or "the call's process ended without an answer") from None
        except wire.Malformed as error:
            raise CallCrashed(f"the answer was not one we accept: {error}") from None
        finally:
            connection.close()
            if not self._ask("sweep").get("clean", True):  # a note may have been left: the next call starts afresh
                self.close()
                self._starts -= 1

    def close(self) -> None:
        """End every process of the submission."""
        if self._control is not None:
            self._control.close()  # process 1 ends, and the kernel ends the rest
            self._control = None

    def _connect(self) -> socket.socket:
        """A socket of which the other end is in a new fork of the notebook's process."""
        for _ in range(2):
            if self._control is None:
                self._start()
            if self._lost is not None:
                raise self._lost
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    status = self._ask("call", theirs.fileno())
                except SandboxFailed:
                    ours.close()
                    raise
            if status["alive"]:
                return ours
            ours.close()
            self.close()
        raise CallCrashed(status["reason"] or "the notebook's process does not stay alive")

    def _start(self) -> None:
        if self._lost is not None:
            return
        left = self._ends - time.monotonic()
        if left <= 0:
            self._lost = CallTimeout(f"the submission has used its {self.limits.total_seconds:g} seconds")
            return
        if self._starts > self.limits.restarts:
            self._lost = CallCrashed(f"calls have killed the notebook's process {self._starts} times; no more are made")
            return
        self._starts += 1
        self._control, cells = self._fork()
        self._computed = 0.0
        allowance = self._allow(self.limits.notebook_seconds)
        try:
            with cells:
                wire.send(cells, wire.encode(list(self._notebook.cells)), allowance.left)
                caps = wire.Caps(header_bytes=1 << 20, buffer_bytes=0)
                report = wire.Decoder(caps).decode(*wire.receive(cells, caps, allowance.left))
                notes, output = _report(report, self.limits, self._notebook.ungraded)
        except TimeoutError:
            self._give_up(CallTimeout(f"the notebook did not finish within {self.limits.notebook_seconds:g} seconds"))
        except wire.Closed:
            reason = self._ask("end")["reason"] or "its process ended"
            self._give_up(CallCrashed(f"the notebook did not run to its end: {reason}"))
        except wire.Malformed as error:
            self._give_up(CallCrashed(f"the notebook's process did not say what it should: {error}"))
        else:
            self._ask("sweep")  # what the cells left running would only take from the calls, or watch them
            if self._starts == 1:
                self.notes, self.output = (*self.notes, *notes), output

    def _allow(self, seconds: float) -> Allowance:
        """Time for what begins now."""
        before = self._computed

        def since() -> float:
            self._ask("status")
            return self._computed - before

        return Allowance(seconds, self.limits.patience, self._ends, since)

    def _give_up(self, reason: SubmissionError) -> None:
        self._lost = reason
        self.notes = (*self.notes, str(reason))
        self.close()

    def _ask(self, what: str, descriptor: int | None = None) -> dict[str, Any]:
        """Tell process 1 to pass a call on or to clean up; its status. It runs our code, so its word is good."""
        if self._control is None:
            return {"alive": False, "reason": ""}
        self._control.settimeout(_STATUS_SECONDS)
        message = json.dumps({"do": what}).encode()
        try:
            socket.send_fds(self._control, [message], [] if descriptor is None else [descriptor])
            line = b""
            while not line.endswith(b"\n"):
                chunk = self._control.recv(4096)
                if not chunk:
                    raise ConnectionResetError
                line += chunk
        except TimeoutError as error:
            self.close()
            said = f"process 1 of the submission, which is ours, did not answer within {_STATUS_SECONDS:g} seconds"
            raise SandboxFailed(said) from error
        except OSError as error:
            self.close()
            raise SandboxFailed(f"process 1 of the submission is gone: {error or type(error).__name__}") from error
        status = json.loads(line)
        self.peak_mb = max(self.peak_mb, status["peak_mb"])
        self._computed = status.get("cpu_seconds", self._computed)
        return status


class RemoteSubmission(Submission):
    """A submission in the sandbox. A context manager: leaving it ends every process of the submission.

    The notebook runs once for each set of references that calls are given in place of its names. So what a reference
    has answered can be known only where the same reference could be asked again, whatever a call may have found to
    leave notes in.
    """

    def __init__(
        self,
        start: Callable[[], Running],
        runs: dict[frozenset[str], Running] | None = None,
        replacements: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._start, self._replacements = start, dict(replacements or {})
        self._runs = {frozenset(): start()} if runs is None else runs

    def __enter__(self) -> "RemoteSubmission":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for running in self._runs.values():
            running.close()

    @property
    def _running(self) -> Running:
        return self._runs[frozenset()]

    @property
    def notes(self) -> tuple[str, ...]:
        """Things worth telling the student that cost nothing: a cell that failed, a magic that was skipped."""
        return self._running.notes

    @property
    def output(self) -> str:
        """What the notebook printed, cut. The student's text: escape it wherever it is shown."""
        return self._running.output

    @property
    def peak_mb(self) -> float:
        """The most memory that its processes were seen to use together, in megabytes."""
        return max(running.peak_mb for running in self._runs.values())

    def perform(self, call: Call) -> Reply:
        at_hand = frozenset(self._replacements)
        if at_hand not in self._runs:
            self._runs[at_hand] = self._start()
        return self._runs[at_hand].call(call, self._replacements)

    def with_replacements(self, references: Mapping[str, Callable[..., Any]]) -> "RemoteSubmission":
        return RemoteSubmission(self._start, self._runs, {**self._replacements, **references})


def _converse(
    connection: socket.socket,
    call: Call,
    replacements: Mapping[str, Callable[..., Any]],
    limits: Limits,
    left: wire.Left,
) -> Reply:
    """Send the call, answer its questions to references, and return its reply."""
    nonce = secrets.token_hex(16)
    references = References()
    request = {"nonce": nonce, "call": call, "replace": dict(replacements)}
    decoder = wire.Decoder(wire.Caps(buffer_bytes=limits.frame_mb << 20), (Reply, Gradients, Raised, Opaque))
    wire.send(connection, wire.encode(request, references.register), left)
    try:
        while True:
            kind, content = _read(connection, decoder, nonce, "reply or ask", left)
            if kind == "reply":
                return _checked(content)
            wire.send(connection, wire.encode(references.answer(content)), left)
    finally:
        references.forget()


def _hear_of_its_start(connection: socket.socket, left: wire.Left) -> None:
    """A fork for the call is there."""
    caps = wire.Caps(header_bytes=1 << 10, buffer_bytes=0)
    try:
        if wire.Decoder(caps).decode(*wire.receive(connection, caps, left)) != {"started": True}:
            raise wire.Malformed("it does not say that it has started")
    except wire.Closed:
        raise _NotStarted from None


class _NotStarted(Exception):
    """The other end hung up before the call had begun."""


def _read(
    connection: socket.socket, decoder: wire.Decoder, nonce: str, wanted: str, left: wire.Left
) -> tuple[str, Any]:
    """The next message of this call: what it is, and its content."""
    message = decoder.decode(*wire.receive(connection, decoder.caps, left))
    if not isinstance(message, dict) or len(message) != 2 or message.pop("nonce", None) != nonce:
        raise wire.Malformed("it does not belong to this call")
    ((kind, content),) = message.items()
    if kind not in wanted.split(" or "):
        raise wire.Malformed(f"{wanted} was to come")
    return kind, content


def _checked(reply: Any) -> Reply:
    """The reply, if every field is of its kind; the dataclasses themselves do not check."""
    if not isinstance(reply, Reply) or type(reply.missing) is not bool:
        raise wire.Malformed("it is not a reply")
    raised = reply.raised
    if raised is not None and not (
        isinstance(raised, Raised)
        and isinstance(raised.types, tuple)
        and 0 < len(raised.types) < 50
        and all(isinstance(text, str) and len(text) <= 200 for text in raised.types)
        and isinstance(raised.message, str)
        and isinstance(raised.where, str)
    ):
        raise wire.Malformed("its exception is not one")
    if raised is not None:
        raised = Raised(types=raised.types, message=raised.message[:2000], where=raised.where[:400])
    if isinstance(reply.value, Gradients):
        value = reply.value
        _plain(value.value)
        if not isinstance(value.inputs, tuple) or not isinstance(value.parameters, dict):
            raise wire.Malformed("its gradients are not such")
        for gradient in (*value.inputs, *value.parameters.values()):
            if gradient is not None and not isinstance(gradient, Tensor | Opaque):
                raise wire.Malformed("a gradient is not a tensor")
    else:
        _plain(reply.value)
    return Reply(value=reply.value, raised=raised, missing=reply.missing)


def _plain(value: Any) -> None:
    """Records may only be where they mean something: an `Opaque` anywhere, the others nowhere inside a value."""
    if isinstance(value, list | tuple):
        for item in value:
            _plain(item)
    elif isinstance(value, dict):
        for item in value.values():
            _plain(item)
    elif isinstance(value, Opaque):
        if not isinstance(value.type, str):
            raise wire.Malformed("an object without the name of its type")
    elif isinstance(value, Reply | Gradients | Raised):
        raise wire.Malformed("a record inside a value")


def _report(report: Any, limits: Limits, ungraded: frozenset[int] = frozenset()) -> tuple[list[str], str]:
    """Notes and printed text from what the notebook's process says about its run. Told by the student: only shown."""
    if isinstance(report, dict) and isinstance(report.get("not confined"), str):
        raise wire.Malformed(f"it could not be confined ({report['not confined'][:200]})")
    try:
        errors, output = report["errors"], report["output"]
        notes = [
            f"cell {error['cell']} raised {error['raised']['type']}: {error['raised']['message']}"
            + (f" ({error['raised']['where']})" if error["raised"]["where"] else "")
            for error in errors[:20]
            if error["cell"] not in ungraded
        ]
        if not isinstance(output, str):
            raise TypeError("output")
    except (KeyError, TypeError, IndexError):
        raise wire.Malformed("its report of the run is not one") from None
    return [note[:600] for note in notes], output[: limits.output_chars]
