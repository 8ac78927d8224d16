"""What an honest submission, and an honest machine, may expect of the sandbox."""

import ast
import os
import re
import signal
import tempfile
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

import lecturelib.grading
from lecturelib.grading.notebook import Notebook
from lecturelib.grading.rubric.runner import run
from lecturelib.grading.rubric.submission import CallCrashed, CallTimeout, MissingName, StudentError
from lecturelib.grading.sandbox import callbacks
from lecturelib.grading.sandbox.folders import Folder
from lecturelib.grading.sandbox.limits import Limits
from lecturelib.grading.sandbox.sandbox import IMPORTS_BY_WORD, Sandbox
from lecturelib.grading.sandbox.tiers import Proof, SandboxFailed, TierError, require
from lecturelib.grading.sandbox.worker import processes
from lecturelib.grading.sandbox.worker.packages import not_there

GRADING = Path(lecturelib.grading.__file__).parent


def cells(*sources: str) -> Notebook:
    return Notebook(cells=tuple(enumerate(sources, start=1)))


def test_honest_submission_scores_everything(grade, honest):
    result = grade(honest)
    assert [test.message for test in result.tests if not test.passed] == []
    assert result.earned == 7


def test_weak_submission_scores_what_it_earned(grade, weak):
    assert grade(weak).earned == 4


def test_blank_submission_scores_nothing(grade):
    result = grade(["def softmax(x):\n    raise NotImplementedError", "# nothing else"])
    assert result.earned == 0
    assert {test.outcome for test in result.tests} == {"missing"}


def test_failing_magic_plotting_and_printing_cells_lose_nothing(grade, honest):
    extra = [
        "%matplotlib inline\n!pip install einops\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "print('hello')\nimport warnings\nwarnings.warn('careful')\ndisplay(3)",
        "1 / 0",
        "def broken(:",
        "import torch\n@torch.compile\ndef f(x):\n    return x + 1\nf(torch.ones(2))",
        "import asyncio\nawait asyncio.sleep(0)\nprint('awaited')",
        "from torch.utils.data import DataLoader as D\nprint([b.tolist() for b in D([1, 2], num_workers=2)])",
        "torch.set_num_threads(2)\ntorch.randn(300, 300).softmax(-1)",
        "torch.set_grad_enabled(False)\ntorch.set_default_dtype(torch.float64)",
    ]
    result = grade([*honest, *extra])
    assert result.earned == 7
    assert "hello" in result.reason
    assert "awaited\n[[1], [2]]" in result.reason
    assert any("!pip install einops" in note for note in result.notes)
    assert any("ZeroDivisionError" in note for note in result.notes)
    assert any("SyntaxError" in note for note in result.notes)
    assert sum("raised" in note for note in result.notes) == 2


RIGHT_ANSWERS = {
    "a lambda": "softmax = lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)",
    "a partial": "import functools\nsoftmax = functools.partial(torch.softmax, dim=-1)",
    "an object that is called": "class S:\n    def __call__(self, x):\n        return x.softmax(-1)\nsoftmax = S()",
    "a module": "softmax = nn.Softmax(dim=-1)",
    "compiled to TorchScript": "@torch.jit.script\ndef softmax(x):\n    return torch.softmax(x, -1)",
    "float64": "def softmax(x):\n    return torch.softmax(x.double(), -1)",
    "not contiguous": "def softmax(x):\n    return torch.softmax(x.movedim(-1, 0), 0).movedim(0, -1)",
    "expanded": "def softmax(x):\n    return torch.softmax(x, -1).unsqueeze(0).expand(3, *x.shape)[1]",
    "its input changed": "def softmax(x):\n    y = torch.softmax(x, -1)\n    x.data.zero_()\n    return y",
    "defined again": "def softmax(x):\n    return x\ndel softmax\ndef softmax(x):\n    return torch.softmax(x, -1)",
    "a module in float64 with a buffer": (
        "class Affine(nn.Module):\n"
        "    def __init__(self, d_model):\n"
        "        super().__init__()\n"
        "        self.linear = nn.Linear(d_model, d_model).double()\n"
        "        self.register_buffer('calls', torch.zeros(()))\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        return self.linear(x.double()) + x"
    ),
}


@pytest.mark.parametrize("name", RIGHT_ANSWERS)
def test_right_answer_of_any_kind_scores_everything(grade, honest, name):
    result = grade([*honest, RIGHT_ANSWERS[name]])
    assert [test.message for test in result.tests if not test.passed] == []


def test_wrong_upstream_function_is_replaced_for_tests_downstream(grade, honest):
    result = grade([*honest, "def softmax(x):\n    return x * 0"])
    assert result.earned == 5
    assert {test.replaced for test in result.tests if test.exercise == "attention"} == {("softmax",)}


def test_answer_that_never_came_gets_a_hint_about_that(grade, honest):
    hints = {
        test.exercise: test.hint for test in grade([*honest, "def softmax(x):\n    __import__('os')._exit(0)"]).tests
    }
    assert "ended the process" in hints["softmax"]
    assert hints["attention"] == ""


def test_values_of_every_kind_come_back(box):
    source = """
import numpy as np, torch
def kinds(x, *, flag):
    return {"tuple": (x, [1, 2.5, None]), "flag": flag, 3: "text", "array": np.arange(3.0), "nan": float("nan")}
def count(start):
    while True:
        yield start
        start += 1
def complains(x):
    raise ValueError(f"shape {tuple(x.shape)} is wrong")
def dtypes(x):
    return [x.to(d) for d in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.complex64)]
best = 0.25
"""
    with box.open(cells(source)) as submission:
        x = torch.tensor([[1.0, 0.0, 2.0]])
        value = submission.kinds(x, flag=True)
        assert list(value) == ["tuple", "flag", 3, "array", "nan"]
        assert torch.equal(value["tuple"][0], x)
        assert value["tuple"][1] == [1, 2.5, None]
        assert value["flag"] is True
        assert torch.equal(value["array"], torch.arange(3, dtype=torch.float64))
        assert value["nan"] != value["nan"]
        assert submission.count.take(3, 5) == [5, 6, 7]
        assert [t.dtype for t in submission.dtypes(x)][:3] == [torch.float64, torch.float16, torch.bfloat16]
        assert submission.dtypes(torch.empty(0, 4))[4].shape == (0, 4)
        assert submission.value("best") == 0.25
        with pytest.raises(StudentError, match=r"shape \(1, 3\) is wrong"):
            submission.complains(x)
        with pytest.raises(MissingName, match="absent"):
            submission.absent(x)


def test_each_call_starts_from_the_notebook_and_not_from_the_call_before(box):
    with box.open(cells("n = 0\ndef bump():\n    global n\n    n += 1\n    return n")) as submission:
        assert [submission.bump() for _ in range(3)] == [1, 1, 1]


def test_package_that_is_not_there_costs_only_what_uses_it(box):
    source = """
import torch, einops
from yaml import safe_load as load
def plain(x):
    return torch.ones(2) * x
def by_module(x):
    return einops.rearrange(x, "a b -> b a")
def by_name(x):
    return load(x)
"""
    with box.open(cells(source)) as submission:
        assert submission.plain(3).tolist() == [3, 3]
        for name, package in (("by_module", "einops"), ("by_name", "yaml")):
            with pytest.raises(StudentError, match=re.escape(not_there(package))):
                getattr(submission, name)(1)


def test_crash_costs_one_call(box):
    source = """
import os, signal
def die():
    os._exit(3)
def live():
    return 1
"""
    with box.open(cells(source)) as submission:
        for _ in range(2):
            with pytest.raises(CallCrashed):
                submission.die()
            assert submission.live() == 1


def test_hang_costs_one_call(box):
    with box.open(cells("def hang():\n    while True: pass\ndef live():\n    return 1")) as submission:
        with pytest.raises(CallTimeout, match="2 seconds"):
            submission.hang()
        assert submission.live() == 1


def test_waiting_for_others_does_not_count_and_sleeping_does(box, impatient):
    """The grader takes longer over a question than a call may compute: on a busy machine everything looks like that."""

    def slow(x):
        threading.Event().wait(2.5)
        return x + 1

    source = "import time\ndef ask(x):\n    return inner(x)\ndef sleep():\n    time.sleep(60)"
    with box.open(cells(source)) as submission:
        assert submission.with_replacements({"inner": slow}).ask(1) == 2
    with impatient(box), box.open(cells(source)) as submission, pytest.raises(CallTimeout, match="2 seconds"):
        submission.sleep()


class Reference(nn.Module):
    def __init__(self, width: int, scale: float = 2.0) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.register_buffer("scale", torch.tensor(scale))
        self.width = width

    def forward(self, x):
        return self.net(x) * self.scale

    def twice(self, x):
        return self(self(x))


class Tokenizer:
    def __init__(self, offset: int) -> None:
        self.offset = offset

    def encode(self, text: str) -> list[int]:
        return [ord(c) + self.offset for c in text]


def test_reference_modules_are_used_and_differentiated_from_outside(box):
    source = """
from torch import nn
class Part(nn.Module):
    pass
class Whole(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.part = Part(width, scale=3.0)
        self.out = nn.Linear(self.part.width, 1)
    def forward(self, x):
        return self.out(self.part(x) + self.part.twice(x))
"""

    class Whole(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.part = Reference(width, scale=3.0)
            self.out = nn.Linear(width, 1)

        def forward(self, x):
            return self.out(self.part(x) + self.part.twice(x))

    ours, x = Whole(3), torch.randn(5, 3)
    leaf = x.clone().requires_grad_()
    ours(leaf).sum().backward()
    with box.open(cells(source)) as submission:
        whole = submission.with_replacements({"Part": Reference}).Whole(3)
        whole.load_state_dict(ours.state_dict())
        got = whole.gradients(x)
    torch.testing.assert_close(got.value, ours(x).detach())
    torch.testing.assert_close(got.inputs[0], leaf.grad)
    assert set(got.parameters) == {name for name, _ in ours.named_parameters()}
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(got.parameters[name], parameter.grad)


def test_reference_objects_and_callables_among_arguments_are_asked(box):
    source = "def ids(text):\n    return Tok(1).encode(text)\ndef apply(f, x):\n    return f(f(x))"
    with box.open(cells(source)) as submission:
        assert submission.with_replacements({"Tok": Tokenizer}).ids("ab") == [98, 99]
        x = torch.randn(3)
        got = submission.apply.gradients(torch.sin, x)
        torch.testing.assert_close(got.value, x.sin().sin())
        torch.testing.assert_close(got.inputs[0], x.sin().cos() * x.cos())


def test_references_that_raise_are_seen_to_raise(box):
    def picky(x):
        raise ValueError(f"width {x.shape[-1]} is odd")

    source = (
        "def outer(x):\n    try:\n        return inner(x)\n    except ValueError as error:\n        return str(error)"
    )
    with box.open(cells(source)) as submission:
        assert submission.with_replacements({"inner": picky}).outer(torch.ones(3)) == "width 3 is odd"


def test_question_that_would_exhaust_the_grader_is_refused(box):
    with (
        box.open(cells("def greedy():\n    return mask(10**9)")) as submission,
        pytest.raises(CallCrashed, match="integer 1000000000"),
    ):
        submission.with_replacements({"mask": torch.ones}).greedy()


def test_reference_that_small_arguments_make_large_is_stopped(box, monkeypatch):
    def slow(n):
        while True:
            n += 1

    def large(n):
        return torch.ones(n, n, n)  # 2 GB for the 800 below

    with box.open(cells("def ask(n):\n    return inner(n)")) as submission:
        with monkeypatch.context() as patch:
            patch.setattr(callbacks, "MOST_SECONDS", 0.2)
            with pytest.raises(CallCrashed, match=r"longer than 0\.2 seconds"):
                submission.with_replacements({"inner": slow}).ask(3)
        with pytest.raises(StudentError, match="allocate memory"):
            submission.with_replacements({"inner": large}).ask(800)
        with pytest.raises(CallCrashed, match="more than 64 MB"):
            submission.with_replacements({"inner": large}).ask(300)
        assert submission.with_replacements({"inner": large}).ask(2).shape == (2, 2, 2)


def test_worker_imports_only_what_may_be_seen_inside():
    worker = "lecturelib.grading.sandbox.worker"
    files = list((GRADING / "sandbox" / "worker").glob("*.py"))
    assert len(files) > 10
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lecturelib"):
                assert node.module.startswith(worker), f"{path.name} imports {node.module}"


def test_what_takes_long_to_load_is_there_before_a_notebook_that_names_it(limits):
    with Sandbox(limits) as own:
        seen = []
        modules = dict.fromkeys(IMPORTS_BY_WORD.values())
        backwards = [module[::-1] for module in modules]  # so that asking does not name them
        for words in ("", "from torch.utils.checkpoint import checkpoint", "import matplotlib", ""):
            source = f"import sys\nloaded = [name[::-1] in sys.modules for name in {backwards}]\n{words}"
            with own.open(cells(source)) as submission:
                seen.append(submission.value("loaded"))
    assert seen == [[False, False], [False, True], [True, True], [True, True]]


def test_library_that_cannot_be_loaded_is_the_notebooks_to_find_out(limits, monkeypatch):
    monkeypatch.setitem(IMPORTS_BY_WORD, "windows", "asyncio.windows_events")  # refuses to be imported elsewhere
    with Sandbox(limits, imports=()) as own, own.open(cells("def ok():\n    return 1", "import windows")) as submission:
        assert submission.ok() == 1


def test_zygote_that_is_killed_is_nobodys_wrong_answer(limits, rubric, write_notebook, honest):
    with Sandbox(limits, imports=()) as own, own.open(write_notebook(honest)) as submission:
        for process in processes.descendants(own._process.pid):
            os.kill(process, signal.SIGKILL)
        with pytest.raises(SandboxFailed, match="process 1 of the submission is gone"):
            run(rubric, submission, seed=1)
        own._process.wait()
        with pytest.raises(SandboxFailed, match="forked from is gone"):
            own.open(write_notebook(honest))


def test_zygote_that_is_killed_while_it_starts_is_started_again_and_not_confined_less(limits):
    with Sandbox(limits) as own:
        tier = own.tier
        for process in processes.descendants(own._process.pid):
            os.kill(process, signal.SIGKILL)
        with own.open(cells("def ok():\n    return 1")) as submission:
            assert submission.ok() == 1
        assert own.tier == tier


def test_what_libraries_keep_without_namespaces_goes_with_the_sandbox(limits):
    with Sandbox(limits, "reduced", imports=()) as low:
        with low.open(cells("import os, matplotlib\nhere = os.getcwd()")) as submission:
            scratch = Path(submission.value("here"))
        home = scratch.parent
        assert list(home.glob("fontlist*"))
    assert not home.exists()


def test_tier_here_is_full_and_described(box):
    assert box.tier == "full"
    assert box.proof.describe() == "sandbox tier: full (namespaces, own user, Landlock, seccomp)"


@pytest.mark.parametrize("tier", ["reduced", "minimal"])
def test_lower_tiers_grade_the_same_and_are_refused_when_more_is_required(tier, limits, grade, honest, weak):
    with Sandbox(limits, tier, imports=()) as low:
        assert low.tier == tier
        assert f"sandbox tier: {tier}" in low.proof.describe()
        assert grade(honest, low).earned == 7
        assert grade(weak, low).earned == 4
        with pytest.raises(TierError, match=f"'full' is required, but this machine gives '{tier}'"):
            require(low.proof, "full")


def test_reduced_tier_without_namespaces_still_hides_files_and_processes(limits, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("canary")
    source = f"""
import contextlib, os, socket, lecturelib
def read(path):
    return open(path).read()
def look():
    return os.listdir({str(tmp_path)!r})
def call():
    socket.socket()
def leave():
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        while True: pass
    return 1
"""
    with Sandbox(limits, "reduced", imports=()) as low, low.open(cells(source)) as submission:
        for call in (lambda: submission.read(str(secret)), submission.look, submission.call):
            with pytest.raises(StudentError, match="PermissionError"):
                call()
        with pytest.raises(StudentError, match="PermissionError"):
            submission.read(str(GRADING / "rubric" / "rubric.py"))
        assert submission.leave() == 1


@pytest.mark.parametrize("child", ["return 2", "raise ValueError", "pass"])
def test_forks_do_not_answer_in_place_of_the_process_that_was_asked(box, child):
    """The parent waits until its fork has ended, so that an answer of the fork's would be the first."""
    source = f"""
import os
me = os.fork()
if me:
    os.waitpid(me, 0)
def call():
    if os.fork() == 0:
        {child}
    else:
        os.wait()
    return me > 0
"""
    with box.open(cells(source)) as submission:
        for _ in range(3):
            assert submission.call() is True


def test_required_tier_refuses_to_start(limits):
    with pytest.raises(TierError, match="'full' is required"):
        Sandbox(limits, "minimal", require_tier="full", imports=()).__enter__()


def test_proof_with_an_open_door_is_minimal():
    refused = {"read a file of the grader's": False, "open a socket": True}
    proof = Proof(namespaces=True, own_user=True, landlock=True, seccomp=True, refused=refused)
    assert proof.tier == "minimal"
    assert "a submission can read a file of the grader's" in proof.describe()


def test_limits_name_the_field_and_value():
    with pytest.raises(ValueError, match="memory_mb must be positive, got -1"):
        Limits(memory_mb=-1)


def test_folders_of_killed_graders_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    in_use, left, young, foreign = Folder(), Folder(), Folder(), tmp_path / "lecturelib-sandbox-link"
    (left.path / "home" / "scratch").mkdir(parents=True)
    left._lock.release()  # what the end of its process does, however it ends
    young._lock.release()
    foreign.symlink_to(in_use.path, target_is_directory=True)
    for one in (in_use, left):
        os.utime(one.path, (1e9, 1e9))
    with Sandbox(tier="minimal", imports=()) as box:
        assert sorted(tmp_path.iterdir()) == sorted([in_use.path, young.path, foreign, box._folder.path])
    in_use.remove()
    in_use.remove()
    assert sorted(tmp_path.iterdir()) == sorted([young.path, foreign])
