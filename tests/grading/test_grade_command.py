"""`lecturelib grade` as an instructor runs it: a process of its own, on a folder of good, bad and hostile notebooks."""

import csv
import errno
import io
import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lecturelib
from lecturelib.cli import main
from lecturelib.cli.grade import likely_imports
from lecturelib.grading.batch.grader import seed_for
from lecturelib.grading.batch.intake import find_submissions
from lecturelib.grading.batch.journal import Journal, held_run
from lecturelib.grading.reports.gradescope import autograder_zip
from lecturelib.grading.sandbox.worker import kernel, seccomp

ROOT = Path(lecturelib.__file__).parent.parent
RUBRICS = Path(__file__).parent / "rubrics"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

SETUP = "import math, torch\nfrom torch import nn"
SOFTMAX = "def softmax(x):\n    return torch.softmax(x, -1)"
ATTENTION = "def attention(q, k, v):\n    return softmax(q @ k.mT / math.sqrt(q.shape[-1])) @ v"
LAYER = """
class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)
    def forward(self, x):
        return torch.tanh(self.linear(x))
"""
STACK = """
class Stack(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.first, self.second = Layer(d_model), Layer(d_model)
    def forward(self, x):
        return self.second(self.first(x))
"""
RIGHT = (SETUP, SOFTMAX, ATTENTION, LAYER, STACK)
HONEST = {  # cells, points of 7
    "ada": (RIGHT, 7),
    "bo": ((*RIGHT, "1 / 0", "print('hello')"), 7),
    "cy": ((*RIGHT, "def softmax(x):\n    return x.exp()"), 6),  # attention is tested with the reference's softmax
    "di": ((*RIGHT, LAYER.replace("torch.tanh", "")), 6),  # Stack is tested with the reference's Layer
    "ed": ((SETUP, "class Layer:\n    pass", STACK), 3),  # not even a module
    "fay": ((SETUP,), 0),
    "gus": ((SETUP, SOFTMAX, "def attention(q, k, v):\n    return v"), 1),
    "hal": ((*RIGHT, "def attention(q, k, v):\n    return None"), 5),
}
EVIL = {
    "eve": ((SETUP, "import os, signal\nos.kill(-1, signal.SIGKILL)"), 0),
    "ivan": ((*RIGHT, "def attention(q, k, v):\n    import os\n    os.kill(os.getppid(), 9)\n    os._exit(0)"), 5),
    "=mallory()": ((*RIGHT, "torch.allclose = lambda *a, **k: True\ndef softmax(x):\n    return x"), 6),
    "yan": ((*RIGHT, "!ls \ud800", "raise type('E' * 10**6, (Exception,), {})('\ud800')"), 7),
    "zoe": ((SETUP, "kept = bytearray(8 << 30)"), 0),
}


def notebook(cells: tuple[str, ...]) -> str:
    made = [
        {"cell_type": "code", "id": f"c{i}", "source": s, "metadata": {}, "outputs": [], "execution_count": None}
        for i, s in enumerate(cells)
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made})


def command(source: Path, out: Path, *options: str, exercise: str = "small") -> list[str]:
    asked = ["grade", str(source), "--out", str(out), "--rubrics", str(RUBRICS), "--exercise", exercise]
    return [sys.executable, "-m", "lecturelib.cli", *asked, "--workers", "2", *options]


def grade(source: Path, out: Path, *options: str, exercise: str = "small") -> subprocess.CompletedProcess[str]:
    asked = command(source, out, *options, exercise=exercise)
    return subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True, timeout=500)


def start(source: Path, out: Path, *options: str, exercise: str = "small") -> subprocess.Popen[str]:
    """The command in a process group of its own, as a shell would start it."""
    asked = command(source, out, *options, exercise=exercise)
    nothing = subprocess.DEVNULL
    return subprocess.Popen(
        asked, env=ENVIRONMENT, text=True, stdout=nothing, stderr=subprocess.PIPE, start_new_session=True
    )


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 500
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        threading.Event().wait(0.01)


def wait_for_results(grader: subprocess.Popen[str], out: Path, count: int) -> None:
    wait_until(lambda: len(journal(out)) >= count or grader.poll() is not None)


def journal_lines(out: Path) -> bytes:
    """The whole lines of a journal; none when the grader has not come so far."""
    path = out / "journal.jsonl"
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def journal(out: Path) -> list[dict]:
    """The results in a journal."""
    return [entry for line in journal_lines(out).splitlines() if "key" in (entry := json.loads(line))]


def verdicts(out: Path) -> dict[str, object]:
    """All that a result says about a submission, except how long it took, and in which words a crash is told."""
    found = {}
    for entry in journal(out):
        result = entry["result"]
        tests = [
            {key: v for key, v in test.items() if key != "seconds" and (key, test["outcome"]) != ("message", "crash")}
            for test in result["tests"]
        ]
        assert result["submission"] not in found, "graded twice"
        found[result["submission"]] = (tests, result["notes"], result["reason"], result["seed"])
    return found


def points(out: Path) -> dict[str, float]:
    with open(out / "grades.csv", newline="") as file:
        return {row["student"]: float(row["points"]) for row in csv.DictReader(file)}


def reports(out: Path) -> dict[str, str]:
    names = ("grades.csv", "canvas.csv", *(str(p.relative_to(out)) for p in sorted(out.glob("feedback/*"))))
    return {name: (out / name).read_text() for name in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Honest submissions, hostile ones, one that is no notebook, and a link to somebody else's."""
    made = tmp_path_factory.mktemp("submissions")
    for student, (cells, _) in {**HONEST, **EVIL}.items():
        (made / f"{student}.ipynb").write_text(notebook(cells))
    (made / "jo.ipynb").write_text('{"cells": [[[[')
    (made / "kim.ipynb").symlink_to(made / "ada.ipynb")
    return made


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one uninterrupted run."""
    out = tmp_path_factory.mktemp("whole")
    done = grade(folder, out, "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"15 submissions graded with seed 5, 2 of them unreadable; see {out}\n"
    assert "sandbox tier: " in done.stderr
    return out


def test_every_submission_gets_what_it_deserves(whole):
    expected = {student.replace("=", "'="): float(score) for student, (_, score) in {**HONEST, **EVIL}.items()}
    assert points(whole) == {**expected, "jo": 0, "kim": 0}
    reasons = {entry["result"]["submission"]: entry["result"]["reason"] for entry in journal(whole)}
    assert "not JSON" in reasons["jo"]
    assert "symbolic link" in reasons["kim"]
    for name in ("feedback", "gradescope"):
        assert len(list((whole / name).iterdir())) == 15
    assert (whole / "items.html").stat().st_size > 1000


def test_wrong_upstream_function_or_class_is_the_references_downstream(whole):
    found = verdicts(whole)
    for student, name, test in (("cy", "softmax", 1), ("di", "Layer", 3), ("ed", "Layer", 3)):
        result = found[student][0][test]
        assert (result["outcome"], result["replaced"]) == ("pass", [name]), result
    assert found["cy"][0][0]["mistake"] == "unnormalised"


def test_hostile_neighbours_change_nothing_for_honest_students(folder, whole, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    for student in HONEST:
        (alone / f"{student}.ipynb").write_bytes((folder / f"{student}.ipynb").read_bytes())
    assert grade(alone, tmp_path / "out", "--seed", "5").returncode == 0
    among = verdicts(whole)
    assert verdicts(tmp_path / "out") == {student: among[student] for student in HONEST}


def test_killed_at_any_moment_the_same_command_completes(folder, whole, tmp_path):
    """Killed three times, at moments drawn anew each time; what was graded stays as it is, to the byte."""
    out = tmp_path / "out"
    for part in range(3):
        before = journal_lines(out)
        grader = start(folder, out, "--seed", "5")
        wait_for_results(grader, out, min(5 * part + random.randint(0, 5), 14))
        threading.Event().wait(random.random() / 4)
        grader.kill()
        grader.communicate()
        assert journal_lines(out).startswith(before)
    held = journal(out)
    again = grade(folder, out, "--seed", "5")
    assert again.returncode == 0, again.stderr
    assert journal(out)[: len(held)] == held
    assert verdicts(out) == verdicts(whole)
    assert reports(out) == reports(whole)


def test_sandbox_that_is_killed_costs_nobody_a_point(tmp_path):
    """The rubric does it, once, in the middle of a submission: it runs where the grader runs, and may."""
    rubrics, source, out = tmp_path / "rubrics", tmp_path / "in", tmp_path / "out"
    rubrics.mkdir()
    source.mkdir()
    strike = f"""
    import os
    from lecturelib.grading.sandbox.worker.processes import descendants
    try:
        os.mkdir({str(tmp_path / "done")!r})
    except FileExistsError:
        pass
    else:
        for process in descendants(os.getpid()):
            os.kill(process, 9)
"""
    name = "def doubles(submission, rng):\n"
    (rubrics / "trivial.py").write_text((RUBRICS / "trivial.py").read_text().replace(name, name + strike))
    for student in ("ada", "bo", "cy"):
        (source / f"{student}.ipynb").write_text(notebook(("def double(x):\n    return 2 * x",)))
    done = grade(source, out, "--rubrics", str(rubrics), exercise="trivial")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "done").exists()
    assert points(out) == {"ada": 1, "bo": 1, "cy": 1}
    assert len(verdicts(out)) == 3


def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    endless = (*RIGHT, "def attention(q, k, v):\n    while True: pass")
    slow = {"aa": 5, "zz": 5}  # the first keeps one worker busy while the other answers, the last is still to do then
    for student, (cells, _) in {**dict.fromkeys(slow, (endless, 5)), **HONEST}.items():
        (source / f"{student}.ipynb").write_text(notebook(cells))
    grader = start(source, out, "--timeout", "4")  # without a seed: the drawn one is kept
    wait_for_results(grader, out, 1)
    os.killpg(grader.pid, signal.SIGINT)
    _, said = grader.communicate(timeout=300)
    assert grader.returncode == 130, said
    assert "the same command goes on" in said
    assert "Traceback" not in said
    again = grade(source, out, "--timeout", "4")
    assert again.returncode == 0, again.stderr
    assert points(out) == {**slow, **{student: score for student, (_, score) in HONEST.items()}}
    assert {student: seed for student, (*_, seed) in verdicts(out).items()} == {
        student: seed_for(held_run(out).seed, student, (source / f"{student}.ipynb").read_bytes())
        for student in verdicts(out)
    }


def test_two_graders_on_one_folder_keep_out_of_each_others_way(folder, whole, tmp_path):
    out = tmp_path / "out"
    first = start(folder, out, "--seed", "5")
    wait_for_results(first, out, 1)
    first.send_signal(signal.SIGSTOP)  # alive for as long as it takes the second to start, on whatever machine
    second = grade(folder, out, "--seed", "5")
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=300)
    assert (first.returncode, second.returncode) == (0, 4)
    assert "another grader is at work" in second.stderr
    assert verdicts(out) == verdicts(whole)
    other = grade(folder, out, "--seed", "6")
    assert other.returncode == 4
    assert "seed 5, not 6" in other.stderr
    assert verdicts(out) == verdicts(whole)


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("absent", (), "there is nothing at"),
        (".", (), "no notebook"),
        ("some", ("--exercise", "large"), "no rubric for 'large'"),
        ("some", ("--workers", "0"), "--workers must be at least 1, got 0"),
        ("some", ("--memory", "-1"), "--memory is in MB and must be at least 1, got -1"),
        ("some", ("--timeout", "nan"), "--timeout is in seconds and must be more than 0, got nan"),
        ("some", ("--out", "some/ada.ipynb"), "the results cannot go to some/ada.ipynb: File exists"),
        ("some", ("--gradescope-zip", "absent/x.zip"), "No such file or directory: 'absent/x.zip'"),
        ("some", ("--rubrics", "absent"), "no rubrics in absent"),
        ("some", ("--dask", "tcp://127.0.0.1:9"), "no Dask scheduler answers"),
        ("some", ("--dask", "nonsense"), "such as tcp://host:8786, got 'nonsense'"),
    ],
)
def test_mistakes_of_the_user_are_one_line_and_exit_code_2(tmp_path, monkeypatch, source, options, said):
    (tmp_path / "some").mkdir()
    if source == "some":
        (tmp_path / "some" / "ada.ipynb").write_text(notebook(RIGHT))
    monkeypatch.chdir(tmp_path)
    done = grade(tmp_path / source, tmp_path / "out", *options)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists() or not journal(tmp_path / "out")


def test_test_that_the_reference_itself_fails_is_named(tmp_path):
    source = """
from lecturelib.grading import Rubric
rubric = Rubric("broken", title="Broken")
rubric.exercise("double", title="Double", minutes=1, difficulty=1)
@rubric.reference
def double(x):
    return 2 * x
@rubric.test("double", points=1, visible=True)
def stumbles(submission, rng):
    assert submission.double(3) == forgotten(3)
@rubric.test("double", points=1, visible=True)
def stands(submission, rng):
    assert submission.double(3) == 6
"""
    (tmp_path / "rubrics").mkdir()
    (tmp_path / "rubrics" / "broken.py").write_text(source)
    (tmp_path / "ada.ipynb").write_text(notebook(("def double(x):\n    return x",)))
    options = ("--rubrics", str(tmp_path / "rubrics"))
    done = grade(tmp_path / "ada.ipynb", tmp_path / "out", *options, exercise="broken")
    assert done.returncode == 0, done.stderr
    assert "nobody passes double/stumbles, and neither does the rubric's own reference" in done.stderr
    assert "'forgotten' is not defined" in done.stderr
    assert "stands" not in done.stderr
    (tmp_path / "rubrics" / "broken.py").write_text(source.replace('"double", points=1', '"triple", points=1'))
    done = grade(tmp_path / "ada.ipynb", tmp_path / "other", *options, exercise="broken")
    assert done.returncode == 2
    assert (
        "the rubric does not load: broken.py, line 8: ValueError: rubric broken has no exercise 'triple'" in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_full_disk_is_exit_code_5_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for i in range(4):
        (source / f"s{i}.ipynb").write_text(notebook(("def double(x):\n    return 2 * x",)))
    asked = command(source, out, "--seed", "5", exercise="trivial")[3:]
    record = Journal.record

    def full_after_two(self, key, result):
        if len(self) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        record(self, key, result)

    monkeypatch.setattr(Journal, "record", full_after_two)
    assert main(asked) == 5
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "the same command goes on" in said
    held = journal(out)
    monkeypatch.setattr(Journal, "record", record)
    assert main(asked) == 0
    assert journal(out)[:2] == held
    assert len(verdicts(out)) == 4


def without_namespaces() -> None:
    """Make this process and its children a poorer machine: one whose kernel refuses `unshare`."""
    number = seccomp.REFUSED["unshare"][list(seccomp.ARCHITECTURES).index(kernel.MACHINE)]
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000)]
    seccomp.install(b"".join(struct.pack("HBBI", *step) for step in steps))


def test_required_tier_that_the_machine_cannot_give_is_exit_code_3(folder, tmp_path):
    options = ("--require-tier", "full")
    poor = subprocess.run(
        command(folder, tmp_path / "out", *options),
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        preexec_fn=without_namespaces,
    )
    assert poor.returncode == 3, poor.stderr
    assert "tier 'full' is required, but this machine gives 'reduced'" in poor.stderr
    assert "Traceback" not in poor.stderr
    assert journal(tmp_path / "out") == []


def test_canvas_zip_is_graded_under_the_platforms_ids(tmp_path):
    names = {
        "adalovelace_10_77_small.ipynb": "ada",
        "bo_LATE_20_78_small-1.ipynb": "gus",
        "bo_LATE_20_99_small-2.ipynb": "cy",  # the later upload counts
    }
    with zipfile.ZipFile(tmp_path / "submissions.zip", "w") as archive:
        for name, student in names.items():
            archive.writestr(name, notebook(HONEST[student][0]))
        archive.writestr("__MACOSX/._adalovelace_10_77_small.ipynb", "noise")
    done = grade(tmp_path / "submissions.zip", tmp_path / "out", "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert points(tmp_path / "out") == {"10": 7, "20": 6}
    with open(tmp_path / "out" / "canvas.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert [(row[1], row[-1]) for row in rows[2:]] == [("10", "7"), ("20", "6")]
    assert "handed in late" in next((tmp_path / "out" / "feedback").glob("20-*")).read_text()


def test_sandboxes_start_with_what_the_first_readable_notebook_needs(tmp_path):
    sources = {"ada": "not JSON", "bo": notebook(("import matplotlib",)), "cy": notebook(("import torch.optim",))}
    for student, text in sources.items():
        (tmp_path / f"{student}.ipynb").write_text(text)
    assert likely_imports(find_submissions(tmp_path)) == ("matplotlib.pyplot",)
    (tmp_path / "bo.ipynb").unlink()
    assert likely_imports(find_submissions(tmp_path)) == ("torch._dynamo",)
    (tmp_path / "cy.ipynb").unlink()
    assert likely_imports(find_submissions(tmp_path)) == ()


def test_gradescopes_script_writes_one_results_json(tmp_path):
    """As in Gradescope's container, but for the place where it all lies."""
    home = tmp_path / "autograder"
    (home / "submission").mkdir(parents=True)
    for name, student in {"a_1_2_small.ipynb": "cy", "b_3_4_scratch.ipynb": "ada"}.items():
        (home / "submission" / name).write_text(notebook(HONEST[student][0]))
    with zipfile.ZipFile(io.BytesIO(autograder_zip(RUBRICS / "small.py"))) as archive:
        archive.extractall(home / "source")
    (home / "venv" / "bin").mkdir(parents=True)
    (home / "venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (home / "venv" / "bin" / "python").chmod(0o755)
    script = (home / "source" / "run_autograder").read_text().replace("/autograder", str(home))
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"} | {
        "TMPDIR": str(tmp_path)
    }
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    results = json.loads((home / "results" / "results.json").read_text())
    assert (results["score"], results["extra_data"]["out_of"]) == (6, 7)
    assert sum(test["score"] for test in results["tests"]) == 6
    for path in (home / "submission").iterdir():
        path.unlink()
    subprocess.run(["bash", "-c", script], env=environment, check=True, timeout=500)
    results = json.loads((home / "results" / "results.json").read_text())
    assert results == {"score": 0, "output": "Nothing was handed in: there is no notebook (.ipynb)."}


@pytest.fixture
def cluster() -> Iterator[object]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made:
        yield made


def test_dask_cluster_grades_the_same_and_loses_nothing_with_a_worker(folder, whole, tmp_path, cluster):
    out = tmp_path / "out"
    grader = start(folder, out, "--seed", "5", "--dask", cluster.scheduler_address)
    wait_for_results(grader, out, 2)
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    _, said = grader.communicate(timeout=400)
    assert grader.returncode == 0, said
    assert verdicts(out) == verdicts(whole)
    assert reports(out) == reports(whole)


def own_mb(process: int) -> float:
    """Memory of a process that no file holds. What files hold grows while it ends: torch's build for CUDA, which loads
    hundreds of megabytes of libraries, reads 150 MB of them again to unload them."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in status if line.startswith("RssAnon:")) / 1024


def test_many_submissions_need_no_more_memory_than_a_few(tmp_path):
    """What the grader holds for one submission more: were it 20 KB, 5,000 would add 100 MB."""
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for i in range(300):
            archive.writestr(f"s{i:04}.ipynb", notebook((f"def double(x):\n    return x + {21 if i % 3 else 20}",)))
    out = tmp_path / "out"
    grader = start(tmp_path / "many.zip", out, "--seed", "5", exercise="trivial")
    seen = []  # how many results there were, and how much memory

    def is_done() -> bool:
        seen.append((len(journal(out)), own_mb(grader.pid)))
        return grader.poll() is not None

    wait_until(is_done)
    _, said = grader.communicate()
    assert grader.returncode == 0, said
    assert len(verdicts(out)) == 300
    assert sum(points(out).values()) == 200
    held = [(count, mb) for count, mb in seen if count >= 60 and mb]  # none when it has just ended
    (first, mb_then), (last, mb_now) = held[0], held[-1]
    assert last - first > 100, "it was not seen at work"
    each_kb = 1024 * (mb_now - mb_then) / (last - first)
    assert each_kb < 20, f"{each_kb:.1f} KB for each submission"
