"""The runs that chapter 14 shows: they say how they were made, their budgets are equal, and their programs run."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.training import shipped_run

NAMES = ("efficient_adding", "efficient_recall", "efficient_spans", "efficient_ponder")


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "efficient_attention.py")


@pytest.fixture(scope="module")
def growth(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "efficient_growth.py")


@pytest.fixture(autouse=True)
def keep_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", NAMES)
def test_run_says_how_it_was_made_and_has_a_row_for_each_training(program, name):
    run, seeds = shipped_run(name), len(shipped_run(name).facts["seed"])
    plan = program.PROGRAMS[name]
    steps = run.facts["config"]["steps"]
    assert run.facts["command"] == f"python book/runs/efficient_attention.py {name} --steps {steps} --seeds {seeds}"
    assert run.facts["config"] == plan.config | {"steps": plan.steps}
    assert [row["case"] for row in run.rows] == [case for case, _ in plan.cases(1, range(seeds))]
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 1_000_000


@pytest.mark.parametrize("name", ["efficient_adding", "efficient_recall"])
def test_operations_are_equal_among_all_mixers(program, name):
    rows = shipped_run(name).rows
    assert {row["case"]["mixer"] for row in rows} == set(program.MIXERS)
    assert max(row["flops"] for row in rows) < 1.001 * min(row["flops"] for row in rows)
    make = program.far_sums if name == "efficient_adding" else program.recall
    for row in rows[:3]:
        assert program.equal_width(row["case"]["mixer"], make(1, seed=0).vocab_size) == (row["d_ff"], row["flops"])


@pytest.mark.parametrize(
    ("name", "mixer"), [("efficient_adding", "local + memory"), ("efficient_recall", "exact attention")]
)
def test_training_again_gives_what_the_run_says(program, name, mixer):
    """One training of each task from the start: its weights do not ship, so this is the way to measure it again."""
    plan, case = program.PROGRAMS[name], {"mixer": mixer, "seed": 0}
    said = next(row for row in shipped_run(name).rows if row["case"] == case)
    torch.set_num_threads(1)
    again, _ = next(work for found, work in plan.cases(plan.steps, range(1)) if found == case)()
    assert again.pop("right") == pytest.approx(said["right"], abs=0.02)
    assert {"case": case, "right": said["right"]} | again == said


def test_ponder_run_measures_again_what_it_says(program):
    run = shipped_run("efficient_ponder")
    again = program.pondered(run.load_into(program.Thinker()))
    said = run.rows[0]
    assert said["case"]["price"] == program.PRICES[0]
    for what in ("right", "steps"):
        assert again[what] == pytest.approx(said[what], abs=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_run_can_be_started_again(program, name, monkeypatch, tmp_path, capsys):
    """One step of the same program, of one seed: it writes all that the chapter reads, and reuses it."""
    monkeypatch.setattr(program, "TESTED", 4)
    command = ["efficient_attention.py", name, "--steps", "1", "--seeds", "1", "--runs", str(tmp_path)]
    monkeypatch.setattr("sys.argv", command)
    program.main()
    first = capsys.readouterr().out
    written, shipped = shipped_run(name, tmp_path), shipped_run(name)
    assert set(written.rows[-1]) == set(shipped.rows[-1])
    monkeypatch.setattr(program, "fit", None)  # nothing is trained a second time
    program.main()
    assert capsys.readouterr().out == first


def test_growth_has_every_mixer_at_every_length(growth):
    run = shipped_run("efficient_growth")
    cases = {(row["case"]["mixer"], row["case"]["length"]) for row in run.rows}
    assert cases == {(mixer, length) for mixer in growth.MIXERS for length in growth.SIZES}
    assert len(run.rows) == len(cases) == run.facts["results"]["measured"]
    assert all(row["forward_ms"] > 0 and row["both_ms"] > 0 for row in run.rows)


def test_growth_measures_memory_as_it_said(growth, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["efficient_growth.py", "--sizes", "256", "--folder", str(tmp_path)])
    monkeypatch.setattr(growth, "TRIES", 1)
    growth.main()
    said = {row["case"]["mixer"]: row for row in shipped_run("efficient_growth").rows if row["case"]["length"] == 256}
    for row in shipped_run(tmp_path.name, tmp_path.parent).rows:
        there = said[row["case"]["mixer"]]
        assert (row["kept_bytes"], row["parameters"]) == (there["kept_bytes"], there["parameters"])
