"""On Windows and macOS everything of grading imports, and the command says what it can offer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lecturelib.grading.sandbox.tiers import TierError, check_platform

RUBRICS = Path(__file__).parent.parent / "rubrics"
# What other systems lack goes away once the standard library, which has its own ways there, is loaded
ELSEWHERE = """
import asyncio, http.server, importlib, multiprocessing.connection, os, pkgutil, signal, socket, subprocess, sys
import tempfile, types, webbrowser, zipfile
import filelock, numpy, torch, torch._dynamo, tqdm
platform, *command = sys.argv[1:]
missing = {"win32": ("fcntl", "resource", "termios", "pwd", "grp"), "darwin": ()}[platform]
sys.modules.update(dict.fromkeys(missing))
for module, names in ((os, ("fork", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "uname", "geteuid", "getuid")),
                      (signal, ("SIGKILL", "SIGVTALRM", "SIGALRM", "SIGPROF", "setitimer", "ITIMER_VIRTUAL")),
                      (socket, ("send_fds", "recv_fds", "AF_UNIX"))):
    for name in names if missing else ():
        delattr(module, name)
sys.modules["msvcrt"] = types.SimpleNamespace(locking=lambda *a: None, LK_NBLCK=2, LK_UNLCK=0)
sys.platform = platform
import lecturelib.grading
for found in pkgutil.walk_packages(lecturelib.grading.__path__, "lecturelib.grading."):
    if ".worker." not in found.name or found.name.endswith((".calls", ".wire")):
        importlib.import_module(found.name)
for name in lecturelib.grading.__all__:
    getattr(lecturelib.grading, name)
from lecturelib.cli import main
sys.exit(main(command) if command else 0)
"""


def elsewhere(platform: str, *command: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-W", "ignore", "-c", ELSEWHERE, platform, *command]
    return subprocess.run(asked, capture_output=True, text=True)


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_grading_imports_on_other_systems(platform):
    done = elsewhere(platform)
    assert done.returncode == 0, done.stderr


def test_command_says_on_windows_that_it_can_offer_no_tier(tmp_path):
    cell = {"cell_type": "code", "source": "def double(x):\n    return 2 * x", "metadata": {}, "outputs": []}
    (tmp_path / "ada.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": [cell]}))
    asked = ["grade", str(tmp_path / "ada.ipynb"), "--out", str(tmp_path / "out"), "--rubrics", str(RUBRICS)]
    done = elsewhere("win32", *asked, "--exercise", "trivial")
    assert done.returncode == 3, done.stderr
    assert "it offers no tier" in done.stderr
    assert "Traceback" not in done.stderr


def test_platforms_that_fork_are_tried():
    check_platform("linux")
    check_platform("darwin")
    with pytest.raises(TierError, match="WSL 2"):
        check_platform("win32")
