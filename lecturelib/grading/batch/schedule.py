"""Grade many submissions with any `concurrent.futures` executor, a few at a time, losing none.

Only a small window of notebooks is in memory at once. A worker that dies takes nothing with it: whatever was under way
is tried again, one submission at a time, so that the one which kills workers is found out and only it gets the blame.
"""

import hashlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_end
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from lecturelib.grading.batch.intake import Found
from lecturelib.grading.batch.journal import CHANGED, GRADER_FAILED, Journal
from lecturelib.grading.notebook import NotebookError
from lecturelib.grading.rubric.results import Graded, SubmissionResult

if TYPE_CHECKING:
    from distributed import Client

MAX_TRIES_ALONE = 2
SCHEDULER_SECONDS = 30.0  # for a scheduler to answer

GradeOne = Callable[[str, bytes], str]  # (student, notebook) -> a SubmissionResult as JSON; must be picklable
MakePool = Callable[[], AbstractContextManager[Executor]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One submission on its way through the pool."""

    found: Found
    key: str
    notebook: bytes


class FaultTolerantPool:
    """An executor that is replaced when it breaks.

    Args:
        grade_one: what the executor's processes run
        make_pool: makes an executor; called again when one breaks
        window: most tasks under way at one time
    """

    def __init__(self, grade_one: GradeOne, make_pool: MakePool, window: int) -> None:
        self._grade_one, self._make_pool, self._window = grade_one, make_pool, window
        self._backlog: deque[Task] = deque()
        self._suspects: deque[Task] = deque()  # under way when a worker died; each is tried again alone
        self._running: dict[Future[str], Task] = {}
        self._stack = ExitStack()
        self._executor = self._stack.enter_context(make_pool())

    @property
    def is_full(self) -> bool:
        return len(self) >= self._window

    def __len__(self) -> int:
        return len(self._backlog) + len(self._suspects) + len(self._running)

    def submit(self, task: Task) -> None:
        self._backlog.append(task)
        self._start()

    def _start(self) -> None:
        while self._backlog and not self._suspects and len(self._running) < self._window:
            task = self._backlog.popleft()
            self._running[self._send(task)] = task

    def _send(self, task: Task) -> Future[str]:
        try:
            return self._executor.submit(self._grade_one, task.found.source, task.notebook)
        except BrokenExecutor as error:  # a worker has just died: seen like any other failure, when it is waited for
            failed: Future[str] = Future()
            failed.set_exception(error)
            return failed

    def next_done(self) -> tuple[Task, str]:
        """Wait for one task: its result as JSON, or the reason why there will be none, as text."""
        while self._running:
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            future = done.pop()
            task = self._running.pop(future)
            error = future.exception()
            if error is None:
                self._start()
                return task, future.result()
            self._suspects.append(task)
            self._collect_survivors()
        task = self._suspects.popleft()
        answer = self._try_alone(task)
        self._start()
        return task, answer

    def _collect_survivors(self) -> None:
        """After a failure: keep what finished all the same, and suspect the rest."""
        wait(self._running, timeout=1)
        for future, task in list(self._running.items()):
            if not (future.done() and future.exception() is None):
                future.cancel()
                self._suspects.append(self._running.pop(future) or task)
        self._replace()

    def _try_alone(self, task: Task) -> str:
        error: BaseException | None = None
        for _ in range(MAX_TRIES_ALONE):
            future = self._send(task)
            error = future.exception()
            if error is None:
                return future.result()
            self._replace()
        return f"{GRADER_FAILED} ({type(error).__name__}: {error}); the same command tries again, or look at it by hand"

    def _replace(self) -> None:
        self._stack.close()
        self._stack = ExitStack()
        self._executor = self._stack.enter_context(self._make_pool())

    def ask(self, question: Callable[[], str]) -> Callable[[], str]:
        """Have one of the executor's processes answer a question, before there are tasks; call what this returns for
        the answer."""
        future = self._executor.submit(question)

        def answer() -> str:
            nonlocal future
            for _ in range(MAX_TRIES_ALONE):
                try:
                    return future.result()
                except BrokenExecutor:
                    self._replace()
                    future = self._executor.submit(question)
            return future.result()

        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def is_all_graded(found: Iterable[Found], journal: Journal) -> bool:
    """Whether the journal holds a result of everything that can be read: then there is nothing to start."""
    tasks = (_task(entry) for entry in found)
    return all(reason or journal.is_final(task.key) for task, reason in tasks)


def grade_all(
    found: Iterable[Found], journal: Journal, pool: FaultTolerantPool | None, *, rubric: str, seed: int
) -> Iterator[Graded]:
    """Yield one row for each submission as results come, each written to the journal first.

    What the journal already holds is not graded again; a notebook that changed since is. Where `is_all_graded`, no pool
    is needed.
    """

    def finish(task: Task, answer: str) -> Graded:
        if not answer.startswith("{"):
            answer = _without_tests(task.found, answer)
        journal.record(task.key, answer)
        return _row(task, answer)

    def _without_tests(entry: Found, reason: str) -> str:
        return SubmissionResult(submission=entry.source, rubric=rubric, seed=seed, reason=reason).to_json()

    for entry in found:
        task, reason = _task(entry)
        if journal.is_final(task.key):
            yield _row(task, journal.result(task.key))
        elif reason or pool is None:
            yield finish(task, reason or f"{CHANGED}; run the same command again")
        else:
            pool.submit(task)
        while pool is not None and pool.is_full:
            yield finish(*pool.next_done())
    while pool is not None and len(pool):
        yield finish(*pool.next_done())


def _task(entry: Found) -> tuple[Task, str]:
    """A submission as the journal knows it, and why it cannot be read, if it cannot."""
    try:
        notebook, reason = entry.load(), ""
    except NotebookError as error:
        notebook, reason = b"", str(error)
    digest = hashlib.sha256(notebook + reason.encode("utf-8", "replace")).hexdigest()[:16]
    return Task(found=entry, key=f"{entry.source}/{digest}", notebook=notebook), reason


def _row(task: Task, result: str) -> Graded:
    entry = task.found
    return Graded(
        student=entry.student,
        name=entry.name,
        path=entry.path,
        late=entry.late,
        result=SubmissionResult.from_json(result),
        note=entry.note,
        flag=entry.flag,
        key=task.key,
    )


@contextmanager
def local_pool(workers: int) -> Iterator[Executor]:
    """Processes of this machine. They start fresh (spawn) and end with this process, however it ends."""
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare_worker)
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def dask_pool(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster, which takes up the work of a worker that dies by itself."""
    with _dask_client(address) as client, client.get_executor(pure=False, retries=MAX_TRIES_ALONE) as executor:
        yield executor


def dask_size(address: str) -> int:
    """How many submissions a cluster grades side by side."""
    with _dask_client(address) as client:
        return sum(client.ncores().values()) or 1


def _dask_client(address: str) -> "Client":
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("--dask needs Dask: pip install 'lecturelib[grading]'") from error
    url = urlsplit(address if "://" in address else f"tcp://{address}")
    if url.scheme not in ("tcp", "tls") or not url.hostname or not url.port:
        raise ValueError(f"--dask takes the address of a scheduler, such as tcp://host:8786, got {address!r}")
    try:
        with socket.create_connection((url.hostname, url.port), timeout=SCHEDULER_SECONDS) as line:
            if url.scheme == "tcp" and not line.recv(1):  # a scheduler greets; for anything else Dask waits for ever
                raise OSError("what is there closes the connection")
        return Client(address, timeout="60s", set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error


def _prepare_worker() -> None:
    """Ctrl-C, which reaches the workers too, ends them without a word: the grader says what there is to say. A killed
    grader must not leave workers behind: they would wait for work for ever."""
    os.environ["OMP_NUM_THREADS"] = "1"  # each core has a process already, and idle threads of torch keep it busy
    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(128 + number))
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait_for_end([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
