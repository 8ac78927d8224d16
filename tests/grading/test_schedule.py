"""However workers die, every submission gets exactly one result, and a run that was cut short goes on."""

import os
import signal
import socket
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from lecturelib.grading.batch import schedule
from lecturelib.grading.batch.intake import Found
from lecturelib.grading.batch.journal import Journal, Run
from lecturelib.grading.batch.schedule import (
    FaultTolerantPool,
    dask_pool,
    dask_size,
    grade_all,
    is_all_graded,
    local_pool,
)
from lecturelib.grading.notebook import NotebookError
from lecturelib.grading.rubric.results import SubmissionResult

RUN = Run(exercise="e", rubric="r", seed=1, timeout=10, memory=1024)


def fake_grade(student: str, notebook: bytes) -> str:
    """Stands for grading: answers, raises, or kills its process, as the notebook says."""
    if notebook == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if notebook.startswith(b"kill once "):
        flag = Path(notebook.removeprefix(b"kill once ").decode())
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if notebook == b"raise":
        raise RuntimeError("a bug of ours")
    notes = (notebook.decode(),)
    return SubmissionResult(submission=student, rubric="e", seed=1, notes=notes).to_json()


def submissions(**notebooks: bytes | None) -> list[Found]:
    def load(data: bytes | None) -> bytes:
        if data is None:
            raise NotebookError("it is a symbolic link")
        return data

    return [Found(student=s, name=s, path=s, load=lambda data=d: load(data)) for s, d in notebooks.items()]


def grade(found: list[Found], folder: Path, make_pool, window: int = 3) -> dict[str, SubmissionResult]:
    with Journal(folder, RUN) as journal, FaultTolerantPool(fake_grade, make_pool, window) as pool:
        rows = list(grade_all(found, journal, pool, rubric="e", seed=1))
    assert len({row.student for row in rows}) == len(rows)
    return {row.student: row.result for row in rows}


def test_every_submission_gets_one_result_whatever_its_worker_does(tmp_path):
    good = {f"good{i}": f"answer {i}".encode() for i in range(8)}
    found = submissions(**good, bad=b"kill", ugly=b"raise", link=None, once=f"kill once {tmp_path / 'flag'}".encode())
    results = grade(found, tmp_path / "out", lambda: local_pool(2))
    assert {s: r.notes for s, r in results.items() if s in good} == {s: (d.decode(),) for s, d in good.items()}
    assert "the grader itself failed" in results["bad"].reason
    assert "a bug of ours" in results["ugly"].reason
    assert results["link"].reason == "it is a symbolic link"
    assert results["once"].reason == ""
    assert len(results) == len(found)


def die_once(flag: Path) -> str:
    return str(len(fake_grade("", f"kill once {flag}".encode())) > 0)


def test_question_is_answered_though_a_worker_dies_of_it(tmp_path):
    with FaultTolerantPool(fake_grade, lambda: local_pool(1), 1) as pool:
        assert pool.ask(partial(die_once, tmp_path / "flag"))() == "True"
    assert (tmp_path / "flag").exists()


def threads_of_torch() -> int:
    import torch

    return torch.get_num_threads()


def test_workers_compute_with_one_thread_each(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with local_pool(1) as pool:
        assert pool.submit(threads_of_torch).result() == 1


def test_second_run_grades_only_what_is_new_or_changed(tmp_path):
    calls = []

    class Counting:
        """An executor of this very process that notes what it was asked."""

        def submit(self, function, student, notebook):
            calls.append(student)
            future = Future()
            future.set_result(function(student, notebook))
            return future

    first = submissions(ada=b"1", bo=b"2", cy=None)
    before = grade(first, tmp_path, lambda: nullcontext(Counting()))
    again = grade(first, tmp_path, lambda: nullcontext(Counting()))
    assert calls == ["ada", "bo"]
    assert again == before
    changed = grade(submissions(ada=b"1", bo=b"2 mended", cy=None), tmp_path, lambda: nullcontext(Counting()))
    assert calls == ["ada", "bo", "bo"]
    assert changed["bo"].notes == ("2 mended",)


def test_result_that_says_nothing_about_the_submission_is_graded_again(tmp_path):
    """A grader that failed, on a machine that was too busy, must not be what counts for ever."""
    flag = tmp_path / "mended"

    def fails_at_first(student, notebook):
        if not flag.exists():
            raise RuntimeError("process 1 of the submission did not answer")
        return fake_grade(student, notebook)

    class Here:
        def submit(self, function, *arguments):
            future = Future()
            try:
                future.set_result(function(*arguments))
            except RuntimeError as error:
                future.set_exception(error)
            return future

    def run() -> SubmissionResult:
        with Journal(tmp_path, RUN) as journal:
            assert not is_all_graded(submissions(ada=b"1"), journal)
            with FaultTolerantPool(fails_at_first, lambda: nullcontext(Here()), 1) as pool:
                (row,) = grade_all(submissions(ada=b"1"), journal, pool, rubric="e", seed=1)
        return row.result

    assert "the grader itself failed" in run().reason
    flag.touch()
    assert run().notes == ("1",)
    with Journal(tmp_path, RUN) as journal:
        assert is_all_graded(submissions(ada=b"1"), journal)


def test_executor_that_breaks_between_two_submissions_loses_neither(tmp_path):
    executors = []

    class BreaksAtTheSecond:
        """Works once, then says what `ProcessPoolExecutor` says when a worker has died meanwhile."""

        def __init__(self):
            self.submitted = 0
            executors.append(self)

        def submit(self, function, student, notebook):
            self.submitted += 1
            if len(executors) == 1 and self.submitted == 2:
                raise BrokenProcessPool("a worker died")
            future = Future()
            future.set_result(function(student, notebook))
            return future

    results = grade(submissions(ada=b"1", bo=b"2", cy=b"3"), tmp_path, lambda: nullcontext(BreaksAtTheSecond()))
    assert {student: result.notes for student, result in results.items()} == {"ada": ("1",), "bo": ("2",), "cy": ("3",)}
    assert len(executors) == 2


def test_only_a_window_of_notebooks_is_read_ahead(tmp_path):
    loaded, finished = [], []

    def load(index: int) -> bytes:
        loaded.append(index)
        assert len(loaded) - len(finished) <= 4
        return str(index).encode()

    found = [Found(student=f"s{i:03}", name="", path="", load=lambda i=i: load(i)) for i in range(60)]
    pool = FaultTolerantPool(fake_grade, lambda: local_pool(2), window=3)
    with Journal(tmp_path, RUN) as journal, pool:
        for row in grade_all(found, journal, pool, rubric="e", seed=1):
            finished.append(row.student)
    assert len(finished) == 60


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made:
        yield made


def test_dask_gives_the_same_results_and_survives_a_killed_worker(tmp_path, cluster):
    found = submissions(
        **{f"s{i}": str(i).encode() for i in range(12)}, once=f"kill once {tmp_path / 'flag'}".encode(), link=None
    )
    remote = grade(found, tmp_path / "dask", lambda: dask_pool(cluster.scheduler_address))
    assert (tmp_path / "flag").exists()
    assert dask_size(cluster.scheduler_address) >= 1  # two, or one while the other starts again
    local = grade(found, tmp_path / "local", lambda: local_pool(2))
    assert remote == local


def test_dask_at_a_port_where_something_else_listens_says_so(monkeypatch):
    monkeypatch.setattr(schedule, "SCHEDULER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"no Dask scheduler answers at {address}"), dask_pool(address):
            pass


def test_dask_without_a_scheduler_says_so():
    with pytest.raises(ValueError, match="no Dask scheduler answers"), dask_pool("tcp://127.0.0.1:9"):
        pass
