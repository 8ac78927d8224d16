"""What can be had elsewhere than on Linux: a sentence about tiers, never a traceback on import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lecturelib

ROOT = Path(lecturelib.__file__).parent.parent
WINDOWS = """
import sys, os, types, importlib.abc, pathlib, tempfile, subprocess, asyncio, multiprocessing.connection
import concurrent.futures.process, filelock, zoneinfo  # what Python itself and a library need, while it is Linux
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fcntl", "resource", "pwd", "grp", "termios", "torch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=lambda descriptor, mode, size: None)
for name in ("fork", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
    delattr(os, name)
sys.platform = "win32"
"""


def run_there(system: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", system + code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.fixture
def notebook(tmp_path) -> Path:
    (tmp_path / "ada.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}')
    return tmp_path / "ada.ipynb"


def test_windows_is_told_that_there_is_no_tier(tmp_path, notebook):
    asked = ["grade", str(notebook), "--out", str(tmp_path / "out"), "--exercise", "08_attention_layer"]
    done = run_there(WINDOWS, f"from lecturelib.cli import main\nsys.exit(main({asked!r}))")
    assert done.returncode == 3, done.stderr
    assert "it offers no tier" in done.stderr
    assert "WSL 2" in done.stderr
    assert "Traceback" not in done.stderr


def test_windows_can_take_in_journal_review_and_compare(tmp_path, notebook):
    code = f"""
from pathlib import Path
from lecturelib.grading.batch.intake import take_in
from lecturelib.grading.batch.journal import Journal, Run
import lecturelib.grading.batch.desk, lecturelib.grading.batch.grader, lecturelib.cli
(found,) = take_in(Path({str(notebook)!r})).found
assert found.load().startswith(b"{{")
with Journal(Path({str(tmp_path / "out")!r}), Run(exercise="e", rubric="r", seed=1, timeout=1, memory=1)) as journal:
    journal.record("ada", "{{}}")
sys.exit(lecturelib.cli.main(["similarity", {str(notebook)!r}, "--out", {str(tmp_path / "s.html")!r}]))
"""
    done = run_there(WINDOWS, code)
    assert done.returncode == 0, done.stderr


def test_macos_imports_all_that_grading_needs():
    code = """
import sys, subprocess, asyncio, zoneinfo  # what Python itself needs, while it is Linux
sys.platform = "darwin"
import lecturelib.grading.batch.desk, lecturelib.grading.batch.grader, lecturelib.cli.grade
from lecturelib.grading.sandbox.sandbox import Sandbox
"""
    done = run_there("", code)
    assert done.returncode == 0, done.stderr
