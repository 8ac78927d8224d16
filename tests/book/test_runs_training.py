"""The runs that chapter 11 shows: each says how it was made, and some of their numbers come out again."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.models import GPTConfig
from lecturelib.training import shipped_run

GRIDS = ("warmup_causes", "warmup_map", "large_batches", "norms")


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "training.py")


@pytest.mark.parametrize("name", [*GRIDS, "sharpness"])
def test_run_says_how_it_was_made(program, name):
    run, cases = shipped_run(name), program.CASES[name]()
    assert run.facts["command"] == program.command(name)
    assert GPTConfig(**run.facts["config"]) == program.config_of(cases[0])
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 300_000
    stored = [row["case"] for row in run.rows if row.get("step", 0) == 0]
    assert stored == [asdict(case) for case in cases]


def test_first_row_of_the_causes_comes_out_again(program):
    """Chance both times, on the way there: post-norm and Adam without a warm-up."""
    row = shipped_run("warmup_causes").rows[0]
    case = replace(program.Case(**row["case"]), steps=10)
    _, again = program.train_alone(case)
    together = program.train_together([case, replace(case, seed=1, learning_rate=0.1)])[0]
    assert again["losses"][:10] == pytest.approx(together["losses"][:10], abs=0.02)  # the two ways to train agree
    assert row["losses"][0] == pytest.approx(sum(again["losses"][:10]) / 10, abs=0.05)


def test_sharpness_is_the_largest_eigenvalue(program):
    case = program.Case(num_layers=1)
    model, tokens = program.build(case), program.texts(4, seed=1, step=0)
    torch.manual_seed(0)
    start = torch.randn(sum(weight.numel() for weight in model.parameters()))
    found, direction = program.sharpest(model, tokens, start, rounds=15)
    longer, _ = program.sharpest(model, tokens, start, rounds=40)
    assert found == pytest.approx(longer, rel=0.02)
    again, _ = program.sharpest(model, tokens, direction, rounds=1)
    assert again == pytest.approx(found, rel=0.02)
    along = program.slice_of(model, tokens, direction)
    middle = len(along) // 2
    step = program.DISTANCES[middle + 1]
    curvature = (along[middle + 1] - 2 * along[middle] + along[middle - 1]) / step**2
    assert curvature == pytest.approx(found, rel=0.3)


@pytest.mark.slow
def test_memory_of_two_processes_is_measured_again(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    program = root / "book" / "runs" / "zero_memory.py"
    done = subprocess.run([*command, program, "--folder", tmp_path], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    for row, stored in zip(
        shipped_run(str(tmp_path.name), tmp_path.parent).rows, shipped_run("zero_memory").rows, strict=True
    ):
        for name in ("weights", "gradients", "optimizer"):
            assert row[name] == stored[name]
        assert row["between_passes"] == pytest.approx(stored["between_passes"], rel=0.05)


def test_fine_tunings_are_those_of_their_program(load_script, root, monkeypatch):
    monkeypatch.syspath_prepend(root / "book" / "runs")
    program, run = load_script(root / "book" / "runs" / "few_labels.py"), shipped_run("few_labels")
    assert run.facts["config"]["ways"] == {name: asdict(way) for name, way in program.WAYS.items()}
    assert len(run.rows) == len(program.WAYS) * program.DRAWS
    learned = {row["way"]: row["learned"] for row in run.rows}
    assert learned["half frozen"] < learned["everything learns"] / 2
