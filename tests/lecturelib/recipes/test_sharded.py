"""Every recipe trains on two processes, replicated and sharded: evaluate, checkpoint, kill -9, resume, all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lecturelib.recipes.recipe import RECIPES

PROGRAM = Path(__file__).with_name("sharded_runs.py")


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["replicate", "shard"])
def test_every_recipe_survives_a_kill_on_two_processes(tmp_path: Path, parallel: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), str(tmp_path), parallel, *RECIPES]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=580, check=False)
    assert ran.stdout.splitlines() == [f"{model} equal" for model in RECIPES], ran.stderr[-5000:]
