"""The student's process: runs the cells of the notebook, then forks once for every call that the grader makes.

From the first cell on, everything in this process belongs to the student: any object here can be replaced, any socket
found. So nothing here is worth finding, and nothing that comes out of here is believed: it is only decoded.
"""

import ast
import asyncio
import builtins
import gc
import importlib.util
import inspect
import io
import linecache
import os
import signal
import socket
import sys
import types
from typing import Any

import torch

from lecturelib.grading.sandbox.worker import packages, references, stand_in, wire
from lecturelib.grading.sandbox.worker.calls import Call, Raised, Reply, Step, describe, perform

_REQUESTS = wire.Caps(buffer_bytes=256 << 20)


class TookTooLong(BaseException):
    """Raised inside a cell that has used half of the time for all cells, so that the others still run."""


class CappedText(io.TextIOBase):
    """Standard output: the first `limit` characters are kept, the rest is counted and forgotten."""

    def __init__(self, limit: int) -> None:
        self.limit, self.length = limit, 0
        self.kept: list[str] = []

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.length < self.limit:
            self.kept.append(text[: self.limit - self.length])
        self.length += len(text)
        return len(text)

    def text(self) -> str:
        return "".join(self.kept)


def main(notebook: socket.socket, calls: socket.socket, limits: dict[str, Any]) -> None:
    """Run the notebook that arrives on one socket, then serve the calls that arrive on the other."""
    cells = wire.Decoder(_REQUESTS).decode(*wire.receive(notebook, _REQUESTS))
    stand_in.install()
    out = CappedText(limits["output_chars"])
    sys.stdout = sys.stderr = out
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    namespace = module.__dict__
    builtins.__dict__.update(display=stand_in.Inert(), get_ipython=stand_in.Inert())
    ours = os.getpid()
    errors = run_cells(cells, namespace, limits["notebook_seconds"] / 2, limits["patience"])
    if os.getpid() != ours:  # a fork that a cell has made and not ended: the notebook is the process that was given it
        os._exit(0)
    report = {"errors": errors, "output": out.text(), "output_chars": out.length}
    wire.send(notebook, wire.encode(report))
    notebook.close()
    gc.freeze()
    serve(calls, namespace, limits["frame_mb"] << 20)


def run_cells(
    cells: list[tuple[int, str]], namespace: dict[str, Any], seconds: float, patience: float
) -> list[dict[str, Any]]:
    """Run (number, source) one after the other; one that fails is noted, and the next one runs all the same.

    A cell may compute for `seconds`, and take `patience` times as long by the clock.
    """

    def interrupt(number: int, frame: Any) -> None:
        while frame is not None:
            if frame.f_code is execute.__code__ or frame.f_code.co_filename.startswith("cell "):
                raise TookTooLong(f"the cell took longer than {seconds:g} seconds and was interrupted")
            frame = frame.f_back  # no student code on the way: the cell is over, and this alarm came too late

    timers = {signal.ITIMER_PROF: seconds, signal.ITIMER_REAL: seconds * patience}
    for alarm in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(alarm, interrupt)
    errors = []
    for number, source in cells:
        name = f"cell {number}"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        try:
            for timer, value in timers.items():
                signal.setitimer(timer, value, 0.5)
            execute(source, name, namespace)
        except BaseException as error:
            errors.append({"cell": number, "raised": shorten(describe(error))})
        finally:
            for timer in timers:
                signal.setitimer(timer, 0)
    return errors


def execute(source: str, name: str, namespace: dict[str, Any]) -> None:
    """Run one cell, which may `await` at top level, as in Jupyter.

    An import of a package that is not there is left out, so that it costs only what uses it; then the cell is over and
    the error is raised.
    """
    tree = ast.parse(source, name)
    missing = leave_out_imports(tree, namespace)
    code = compile(tree, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ran = eval(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(ran)
    if missing:
        raise ModuleNotFoundError(packages.not_there(missing[0]))


def leave_out_imports(tree: ast.Module, namespace: dict[str, Any]) -> list[str]:
    """Take imports of packages that are not there out of a cell; their names say so when used. Those packages."""
    missing = []
    for place, statement in enumerate(tree.body):
        if isinstance(statement, ast.Import):
            roots = {alias: alias.name.partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            roots = dict.fromkeys(statement.names, statement.module.partition(".")[0])
        else:
            continue
        gone = [alias for alias, root in roots.items() if not is_there(root)]
        for alias in gone:
            missing.append(roots[alias])
            name = alias.asname or (alias.name.partition(".")[0] if isinstance(statement, ast.Import) else alias.name)
            namespace[name] = stand_in.NotThere(roots[alias])  # a star stands for names that nobody knows
        statement.names = [alias for alias in statement.names if alias not in gone]
        if not statement.names:
            tree.body[place] = ast.copy_location(ast.Pass(), statement)
    return missing


def is_there(package: str) -> bool:
    return package in sys.modules or importlib.util.find_spec(package) is not None


def shorten(raised: Raised) -> dict[str, Any]:
    return {"type": raised.types[0], "message": raised.message[:300], "where": raised.where[:200]}


def serve(calls: socket.socket, namespace: dict[str, Any], most_bytes: int) -> None:
    """Fork for each socket that arrives; the fork answers one call on it and ends.

    A word without a socket asks this process to go on in a fork, which has none of the threads that cells have started.
    """
    for alarm in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(alarm, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that end are not waited for
    while True:
        calls.settimeout(None)
        word, descriptors, _, _ = socket.recv_fds(calls, 1, 1)
        if not word:
            os._exit(0)
        if not descriptors:
            if os.fork():
                os._exit(0)
            continue
        reading, writing = os.pipe()
        if os.fork() == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                calls.close()
                os.close(writing)
                os.read(reading, 1)  # until the other process, soon to be held, has let go of the socket
                os.close(reading)
                answer(socket.socket(fileno=descriptors[0]), namespace, most_bytes)
            finally:
                os._exit(0)
        for descriptor in (descriptors[0], reading, writing):
            os.close(descriptor)


def answer(connection: socket.socket, namespace: dict[str, Any], most_bytes: int) -> None:
    """Make one call and send what came of it, together with the call's nonce; from this process, not from its forks."""
    asked = os.getpid()
    torch.set_num_threads(1)  # a fork has none of the threads that the notebook's process may have started
    wire.send(connection, wire.encode({"started": True}))
    header, buffers = wire.receive(connection, _REQUESTS)
    grader = references.Grader(connection, "")
    request = wire.Decoder(_REQUESTS, (Call, Step), grader.proxy).decode(header, buffers)
    grader.nonce = request["nonce"]
    namespace.update(request["replace"])
    stand_in.Inert.refuses = True
    try:
        reply = perform(namespace, request["call"])
        frame = wire.encode({"nonce": request["nonce"], "reply": reply})
        if len(frame) > most_bytes:
            raise ValueError(f"the answer has {len(frame) >> 20} MB, more than the {most_bytes >> 20} MB allowed")
    except BaseException as error:
        frame = wire.encode({"nonce": request["nonce"], "reply": Reply(raised=describe(error))})
    if os.getpid() == asked:
        wire.send(connection, frame)
