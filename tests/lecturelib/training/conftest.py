"""Starting the small run of this folder as a program."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("small_run.py")


@pytest.fixture
def small_run() -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts small_run.py with some arguments, under torchrun when processes > 1."""

    def start(*arguments: object, processes: int = 1) -> subprocess.Popen[str]:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        command = [sys.executable, *(launcher if processes > 1 else []), str(PROGRAM), *map(str, arguments)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[3])}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)

    return start
