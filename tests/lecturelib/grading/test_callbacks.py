"""References that answer for a student work within bounds, and leave the grader's own limits as they were."""

import resource
import sys
import threading

import pytest
import torch

from lecturelib.grading import callbacks
from lecturelib.grading.callbacks import References
from lecturelib.grading.wire import Malformed

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded by /proc and RLIMIT_AS")


def ask(function, *args):
    references = References()
    number, _ = references.register(function)
    return references.answer({"do": "call", "callable": number, "args": args, "kwargs": {}})


def test_reference_answers():
    assert ask(lambda a, b: a + b, 2, 3) == {"answer": {"value": 5, "graph": -1}, "error": None}


def test_reference_that_works_for_ever_is_stopped(monkeypatch):
    monkeypatch.setattr(callbacks, "MOST_SECONDS", 0.1)

    def endless():
        while True:
            pass

    with pytest.raises(Malformed, match=r"longer than 0\.1 seconds"):
        ask(endless)


@only_linux
def test_reference_that_allocates_too_much_fails_and_the_limit_is_lifted(monkeypatch):
    monkeypatch.setattr(callbacks, "MOST_MEMORY", 64 << 20)
    before = resource.getrlimit(resource.RLIMIT_AS)
    assert ask(lambda: torch.zeros(1 << 28, dtype=torch.uint8).sum())["error"] is not None
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert torch.zeros(1 << 28, dtype=torch.uint8).numel() == 1 << 28


def test_answer_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(callbacks, "MOST_BYTES", 1 << 20)
    assert ask(lambda: torch.zeros(1 << 18))["error"] is None
    with pytest.raises(Malformed, match="more than 1 MB"):
        ask(lambda: torch.zeros((1 << 18) + 1))


@only_linux
def test_references_in_several_threads_leave_the_limits_as_they_were():
    """A Dask worker grades in threads, and limits are the process's: who began second must not undo last."""
    before, seen = resource.getrlimit(resource.RLIMIT_AS), []
    begun, may_end = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]

    def slow(which):
        begun[which].set()
        assert may_end[which].wait(60)

    threads = [threading.Thread(target=lambda which=which: seen.append(ask(slow, which))) for which in (0, 1)]
    threads[0].start()
    assert begun[0].wait(60)
    threads[1].start()
    begun[1].wait(0.5)  # in vain, if they take turns
    for which, thread in enumerate(threads):
        may_end[which].set()
        thread.join(60)
    assert [answer["error"] for answer in seen] == [None, None]
    assert resource.getrlimit(resource.RLIMIT_AS) == before
