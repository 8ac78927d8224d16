"""References that answer for a student leave the grader's own limits as they were; test_sandbox.py tests the bounds."""

import resource
import sys
import threading

import pytest

from lecturelib.grading.callbacks import References


def ask(function, *args):
    references = References()
    number, _ = references.register(function)
    return references.answer({"do": "call", "callable": number, "args": args, "kwargs": {}})


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded by /proc and RLIMIT_AS")
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
