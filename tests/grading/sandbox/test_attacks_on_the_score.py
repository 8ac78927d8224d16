"""Attacks that want points: every one is added to a submission worth 4 of 7, and must end with 4 or fewer."""

from textwrap import dedent

import pytest

PATCHES = {
    "torch comparisons": """
        import torch
        for name in ("allclose", "isclose", "equal", "eq"):
            setattr(torch, name, lambda *a, **k: True)
        torch.testing.assert_close = lambda *a, **k: None
        torch.Tensor.allclose = torch.Tensor.equal = lambda *a, **k: True
        torch.Tensor.__eq__ = lambda *a: torch.ones(1, dtype=torch.bool)
    """,
    "numpy comparisons": """
        import numpy as np
        np.allclose = np.array_equal = np.isclose = lambda *a, **k: True
        np.testing.assert_allclose = np.testing.assert_array_equal = lambda *a, **k: None
    """,
    "the grading library": """
        import lecturelib.grading, lecturelib.grading.rubric.compare, lecturelib.grading.rubric.runner
        lecturelib.grading.assert_close = lecturelib.grading.rubric.compare.assert_close = lambda *a, **k: None
        lecturelib.grading.rubric.runner.run = lambda *a, **k: "all passed"
    """,
    "the switches of torch": """
        import torch
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.inference_mode().__enter__()
        torch.set_num_threads(4)
        torch.manual_seed(7)
    """,
    "what functions return": """
        import sys
        def trace(frame, event, arg):
            if event == "return" and frame.f_code.co_name == "perform":
                object.__setattr__(arg, "value", True)
            return trace
        def attention(q, k, v):
            frame = sys._getframe()
            while frame:
                frame.f_trace = trace
                frame = frame.f_back
            sys.settrace(trace)
            return v
    """,
    "the unit test runner": """
        import sys, types
        sys.modules["pytest"] = types.ModuleType("pytest")
        sys.modules["__main__"].rubric = sys.modules["__main__"].submission = object()
    """,
}
BREAKING_PATCHES = {
    "builtins": """
        import builtins
        builtins.isinstance = lambda *a: True
        builtins.abs = builtins.max = builtins.sum = lambda *a, **k: 0
        builtins.all = builtins.any = lambda *a: True
    """,
    "the worker's own modules": """
        import gc, types
        for module in gc.get_objects():
            if isinstance(module, types.ModuleType) and module.__name__ == "lecturelib.grading.sandbox.worker.calls":
                module.perform = lambda namespace, call: module.Reply(value="passed")
    """,
    "fork": "import os\nos.fork = lambda: 0",
    "json": "import json\njson.dumps = lambda *a, **k: '{\"passed\": true}'",
    "socket": "import socket\nsocket.socket.sendall = lambda *a: None",
    "tensor to bytes": "import torch\ntorch.Tensor.numpy = lambda self: __import__('numpy').zeros(1)",
}
ANSWERS = {
    "always equal": ("class A:\n    __eq__ = lambda *a: True\n    __bool__ = lambda s: True\n", "A()"),
    "always equal in a list": ("class A(list):\n    __eq__ = lambda *a: True\n", "A([1])"),
    "always equal number": ("class A(float):\n    __eq__ = lambda *a: True\n    __sub__ = lambda *a: 0.0\n", "A(0.5)"),
    "lying tensor subclass": (
        "class A(torch.Tensor):\n"
        "    __eq__ = allclose = equal = lambda *a, **k: True\n"
        "    @property\n"
        "    def shape(self):\n        return torch.Size([2, 4, 3])\n",
        "torch.zeros(1).as_subclass(A)",
    ),
    "torch function override": (
        "class A(torch.Tensor):\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
        "        return True if f is torch.equal else super().__torch_function__(f, types, args, {})\n",
        "v.as_subclass(A)",
    ),
    "duck with a torch function": (
        "class A:\n    @classmethod\n    def __torch_function__(cls, *a, **k):\n        return True\n",
        "A()",
    ),
    "not a number": ("", "torch.full((2, 4, 3), float('nan'))"),
    "infinite": ("", "torch.full((2, 4, 3), float('inf'))"),
    "the word passed": ("", "{'outcome': 'pass', 'earned': 3, 'passed': True}"),
    "nothing": ("", "None"),
    "a module": ("", "Affine(3)"),
    "a meta tensor": ("", "torch.empty(2, 4, 3, device='meta')"),
    "broadcastable": ("", "torch.zeros(1)"),
    "half a surrogate": ("", "'\\ud800'"),
    "a very large integer": ("", "10 ** 5000"),
    "a deep list": ("", "__import__('functools').reduce(lambda a, _: [a], range(500), [])"),
    "a list of itself": ("loop = []\nloop.append(loop)\n", "loop"),
    "a pickle bomb": (
        "import pickle, os\nclass A:\n    def __reduce__(self):\n        return os._exit, (0,)\n",
        "pickle.dumps(A())",
    ),
    "an object that pickles badly": ("class A:\n    def __reduce__(self):\n        raise SystemExit\n", "A()"),
}


@pytest.mark.parametrize("name", PATCHES)
def test_patched_comparison_gains_nothing(attack, name):
    attack(dedent(PATCHES[name]))


@pytest.mark.parametrize("name", BREAKING_PATCHES)
def test_patched_process_gains_nothing_and_may_lose(attack, name):
    attack(dedent(BREAKING_PATCHES[name]), score=None, sleeps=name == "fork")


@pytest.mark.parametrize("name", ANSWERS)
def test_dishonest_answer_gains_nothing(attack, name):
    setup, answer = ANSWERS[name]
    attack(f"{setup}\ndef attention(q, k, v):\n    return {answer}")


def test_state_kept_between_calls_gains_nothing(attack):
    """What the reference answered in one test cannot be carried to the test of the function it replaces."""
    attack(
        dedent("""
        import os, torch
        def softmax(x):
            return torch.load("kept.pt") if os.path.exists("kept.pt") else x
        def attention(q, k, v):
            torch.save(softmax(q), "kept.pt")
            return v
        """),
        score=2,
    )


def test_reference_is_not_at_hand_outside_its_test(attack):
    """An upstream reference stays in place only during the call of the test that needs it."""
    attack(
        dedent("""
        kept = []
        def attention(q, k, v):
            kept.append(softmax)
            return v
        def softmax(x):
            return kept[0](x)
        """),
        score=2,
        reason="IndexError",
    )
