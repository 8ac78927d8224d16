"""The runs that chapter 21 shows: each says how it was made, and one of their trainings comes out again."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

from lecturelib.models import LabellerConfig
from lecturelib.training import shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "choosing.py")


@pytest.mark.parametrize("name", ["mixer_rates", "mixer_rules", "mixer_patience", "mixer_shakespeare"])
def test_run_says_how_it_was_made(program, name):
    run, cases = shipped_run(name), program.cases_of(name)
    assert run.facts["command"] == program.command(name)
    assert [row["case"] for row in run.rows] == [asdict(case) for case in cases]
    for stack, config in run.facts["config"].items():
        assert LabellerConfig(**{**config, "mixers": tuple(config["mixers"])}).mixers == program.STACKS[stack]
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 100_000


def test_rates_are_those_that_validation_chose(program):
    rows = shipped_run("mixer_rates").rows
    for stack, rate in program.CHOSEN.items():
        best = max((row for row in rows if row["case"]["stack"] == stack), key=lambda row: row["validation"])
        assert best["case"]["learning_rate"] == rate


def test_one_training_of_the_rules_comes_out_again(program):
    row = next(row for row in shipped_run("mixer_rules").rows if row["case"]["task"] == "neighbouring")
    _, again = program.learn(program.Case(**row["case"]))
    assert again["accuracy"] == pytest.approx(row["accuracy"], abs=0.02)
