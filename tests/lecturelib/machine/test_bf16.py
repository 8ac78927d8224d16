"""bf16 is tried once, in a process that may die; then it works, or a cap helps, or it is refused in a line."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import lecturelib.cli
from lecturelib.machine import bf16
from lecturelib.machine.bf16 import CAP, TRIAL, bf16_refusal, settle_bf16

ROOT = Path(__file__).parents[3]
FAILURES = {
    "dies": ("os.kill(os.getpid(), signal.SIGILL)", "it dies of signal Illegal instruction"),
    "raises": ("raise RuntimeError('could not create a primitive')", "RuntimeError: could not create a primitive"),
    "hangs": ("signal.pause()", "no answer after"),
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """Nothing found out yet, and an environment that is put back afterwards."""
    for name in (CAP[0], bf16.VERDICT, bf16.REASON):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("LECTURELIB_CACHE", str(tmp_path / "cache"))


def trial(failure: str, *, capped: str = "") -> tuple[str, str, str]:
    """A trial that fails in this way, unless the cap is set; then it does what `capped` says."""
    program = f"""
        import os, signal
        print("ready", flush=True)
        if {CAP[0]!r} not in os.environ:
            {failure}
        {capped}
    """
    return sys.executable, "-c", textwrap.dedent(program)


@pytest.mark.parametrize("how", FAILURES)
def test_cap_is_set_where_it_helps_and_said_in_one_line(how, capsys):
    assert settle_bf16(trial(FAILURES[how][0]), patience=5) == "capped"
    assert os.environ[CAP[0]] == CAP[1]
    assert bf16_refusal() is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert FAILURES[how][1] in said
    assert "=".join(CAP) in said


@pytest.mark.parametrize("how", FAILURES)
def test_bf16_is_refused_where_no_cap_helps(how, capsys):
    failure, reason = FAILURES[how]
    assert settle_bf16(trial(failure, capped=failure), patience=5) == "broken"
    assert CAP[0] not in os.environ
    assert reason in (bf16_refusal() or "")
    assert capsys.readouterr().err.count("\n") == 1
    assert lecturelib.cli.main(["train", "gpt", "--precision", "bf16", "--device", "cpu"]) == 2
    refused = capsys.readouterr().err
    assert refused.count("\n") == 1
    assert "precision bf16 does not work on this machine" in refused
    assert reason in refused


def test_answer_is_found_once_for_a_machine_and_a_torch(tmp_path, capsys, monkeypatch):
    counting = f"open({str(tmp_path / 'asked')!r}, 'a').write('x'); {FAILURES['dies'][0]}"
    for _ in range(3):
        assert settle_bf16(trial(counting)) == "capped"
        for name in (CAP[0], bf16.VERDICT):  # as in a new process
            monkeypatch.delenv(name)
    assert (tmp_path / "asked").read_text() == "x"
    monkeypatch.setattr("importlib.metadata.version", lambda name: "99.0")
    settle_bf16(trial(counting))
    assert (tmp_path / "asked").read_text() == "xx"
    assert capsys.readouterr().err.count("\n") == 4  # it is said every time


def test_children_are_told_and_ask_nothing(monkeypatch, capsys):
    monkeypatch.setenv(bf16.VERDICT, "capped")
    assert settle_bf16((sys.executable, "-c", "raise SystemExit('asked again')")) == "capped"
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("content", ["{", "[]", '{"x": 3}'])
def test_damaged_or_unwritable_memory_only_costs_the_trial(content, tmp_path):
    (tmp_path / "answers.json").write_text(content)
    assert settle_bf16((sys.executable, "-c", "pass"), remember=tmp_path / "answers.json") == "works"
    os.environ.pop(bf16.VERDICT)
    assert settle_bf16((sys.executable, "-c", "pass"), remember=tmp_path / "answers.json" / "below") == "works"


def test_without_torch_nothing_is_concluded(tmp_path):
    assert settle_bf16((sys.executable, "-c", "import no_such_torch"), remember=tmp_path / "answers.json") == "unknown"
    assert not (tmp_path / "answers.json").exists()
    assert bf16_refusal() is None


def test_real_trial_gives_a_verdict_here(tmp_path):
    verdict = settle_bf16(remember=tmp_path / "answers.json")
    assert verdict in ("works", "capped", "broken")
    (answer,) = json.loads((tmp_path / "answers.json").read_text()).values()
    assert answer["verdict"] == verdict
    assert "LSTM" in TRIAL


def test_probe_comes_before_torch_and_imports_nothing_heavy():
    program = "import sys, lecturelib.cli, lecturelib.machine.bf16; print('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout == "False\n"


def test_tests_in_bf16_skip_with_the_reason_where_it_is_broken(tmp_path):
    environment = os.environ | {bf16.VERDICT: "broken", bf16.REASON: "it dies of boredom", "OMP_NUM_THREADS": "1"}
    chosen = ["tests/lecturelib/training/test_loop.py", "-k", "mixed_precision"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed, 1 skipped" in ran.stdout, ran.stdout
    assert "bf16 does not work on this processor: it dies of boredom" in ran.stdout


@pytest.mark.slow
def test_killed_worker_costs_one_test(tmp_path):
    """Thirty tests on two workers as `make test` starts them, of which one dies: the others pass."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_thirty.py").write_text(
        "import os, signal, pytest\n"
        "@pytest.mark.parametrize('number', range(30))\n"
        "def test_one(number):\n"
        "    if number == 7: os.kill(os.getpid(), signal.SIGILL)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 29 passed" in ran.stdout, ran.stdout
