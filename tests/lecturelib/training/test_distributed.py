"""Two processes under torchrun compute what one process computes."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lecturelib.training import read_history

Start = Callable[..., subprocess.Popen[str]]


def finish(process: subprocess.Popen[str]) -> None:
    _, err = process.communicate(timeout=550)
    assert process.returncode == 0, err


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["replicate", "shard"])
def test_two_processes_equal_one_on_the_same_batches(tmp_path: Path, small_run: Start, parallel: str) -> None:
    finish(small_run(tmp_path / "one", "--accumulate", 4, "--steps", 7))
    finish(small_run(tmp_path / "two", "--accumulate", 4, "--steps", 5, "--parallel", parallel, processes=2))
    finish(
        small_run(tmp_path / "two", "--accumulate", 4, "--steps", 7, "--parallel", parallel, "--resume", processes=2)
    )
    one, two = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-4, atol=1e-6)
    columns = [
        [(row["loss"], row["grad_norm"]) for row in read_history(tmp_path / name / "history.jsonl")]
        for name in ("one", "two")
    ]
    torch.testing.assert_close(torch.tensor(columns[1]), torch.tensor(columns[0]), rtol=1e-5, atol=1e-7)


def test_two_processes_can_not_share_one_batch(tmp_path: Path, small_run: Start) -> None:
    process = small_run(tmp_path, "--accumulate", 1, processes=2)
    _, err = process.communicate(timeout=550)
    assert process.returncode != 0
    assert "accumulate=1 batches a step can't be shared evenly by 2 processes" in err
