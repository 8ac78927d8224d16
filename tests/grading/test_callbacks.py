"""References that answer for a student leave the grader's own limits as they were; test_sandbox.py tests the bounds."""

import resource
import sys
import threading
import weakref

import pytest
import torch
from torch import nn

from lecturelib.grading.sandbox import callbacks
from lecturelib.grading.sandbox.callbacks import References
from lecturelib.grading.sandbox.worker.wire import Malformed


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


def apply(module, x):
    return module(x)


def test_references_take_a_module_of_theirs_in_the_students_state_and_return_its_gradients():
    references, weight = References(), torch.randn(2, 3, requires_grad=True)
    (build, _), (call, _) = references.register(nn.Linear), references.register(apply)
    made = references.answer({"do": "build", "callable": build, "args": (3, 2), "kwargs": {"bias": False}})["answer"]
    assert made["parts"] == {"": ("Linear", 3, 2, False)}
    given, x = {"reference object": made["object"], "state": {"weight": weight}}, torch.randn(5, 3)
    answer = references.answer({"do": "call", "callable": call, "args": (given, x), "kwargs": {}})["answer"]
    torch.testing.assert_close(answer["value"], x @ weight.T)
    upstream = torch.randn(5, 2)
    back = references.answer({"do": "backward", "graph": answer["graph"], "gradients": [upstream]})["answer"]
    torch.testing.assert_close(back["value"][0], upstream.T @ x)


def test_references_take_a_function_of_theirs_and_no_class_for_one():
    references, x = References(), torch.randn(5, 3)
    (double, _), (linear, _), (call, _) = (references.register(made) for made in (lambda x: 2 * x, nn.Linear, apply))
    question = {"do": "call", "callable": call, "args": ({"reference function": double}, x), "kwargs": {}}
    torch.testing.assert_close(references.answer(question)["answer"]["value"], 2 * x)
    for number in (linear, 3, "0", None):
        with pytest.raises(Malformed, match="function"):
            references.answer({**question, "args": ({"reference function": number}, x)})


@pytest.mark.parametrize("state", [{}, {"weight": torch.ones(3, 2)}, {"weight": None}, {"bias": torch.ones(2, 3)}, []])
def test_references_refuse_a_module_whose_state_does_not_fit(state):
    references = References()
    (build, _), (call, _) = references.register(nn.Linear), references.register(apply)
    references.answer({"do": "build", "callable": build, "args": (3, 2), "kwargs": {"bias": False}})
    given = {"reference object": 0, "state": state}
    with pytest.raises(Malformed, match="state"):
        references.answer({"do": "call", "callable": call, "args": (given, torch.ones(3)), "kwargs": {}})


def test_references_give_the_gradient_by_an_output_that_another_was_computed_from():
    def cell(x):
        memory = 3 * x
        return memory.sin(), memory

    references, x = References(), torch.randn(4, requires_grad=True)
    number, _ = references.register(cell)
    answer = references.answer({"do": "call", "callable": number, "args": (x,), "kwargs": {}})["answer"]
    assert answer["link"] == (0, 1)
    across = references.answer({"do": "across", "graph": answer["graph"], "gradient": torch.ones(4)})["answer"]
    torch.testing.assert_close(across["value"], (3 * x).cos().detach())
    number, _ = references.register(torch.sin)
    answer = references.answer({"do": "call", "callable": number, "args": (x,), "kwargs": {}})["answer"]
    with pytest.raises(Malformed, match="no link"):
        references.answer({"do": "across", "graph": answer["graph"], "gradient": torch.ones(4)})


def ask_often(references: References, question: dict[str, object]) -> int:
    """Ask until it is refused; how often it was answered."""
    for count in range(100):
        try:
            if references.answer(question)["error"]:
                return count
        except Malformed:
            return count
    return 100


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded by /proc and RLIMIT_AS")
def test_references_keep_no_more_than_a_call_may_have_and_let_go_of_it(monkeypatch):
    """Graphs that wait for their way back held 3.8 GB, one small question after the other."""
    monkeypatch.setattr(callbacks, "MOST_MEMORY", 1 << 28)
    references, x = References(), torch.randn(8, requires_grad=True)
    number, _ = references.register(lambda x: x.expand(1 << 20, 8).exp().sum())  # 32 MB that the graph holds
    asked = ask_often(references, {"do": "call", "callable": number, "args": (x,), "kwargs": {}})
    assert 2 <= asked <= 16  # 8 fit; memory that earlier tests gave back but the process still holds serves a few more
    held = weakref.ref(references._graphs[0][1][0])
    references.forget()
    assert held() is None


@pytest.mark.parametrize(("do", "function", "args"), [("build", nn.Linear, (20, 30)), ("call", torch.sin, None)])
def test_references_count_what_they_build_and_what_graphs_begin_and_end_with(monkeypatch, do, function, args):
    monkeypatch.setattr(callbacks, "MOST_KEPT_BYTES", 10_000)
    references = References()
    number, _ = references.register(function)
    args = args or (torch.randn(16, 20, requires_grad=True),)
    assert 1 <= ask_often(references, {"do": do, "callable": number, "args": args, "kwargs": {}}) <= 6
