"""The committed runs of chapter 15: weights still give their numbers, and the smallest points come out again."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

from lecturelib.models.vit import ViT, ViTConfig
from lecturelib.training import shipped_run

NAMES = ("vit_rates", "vit_small", "vit_data_growth", "vit_recipe", "vit_patience", "vit_distillation")
AGAIN = 0.04  # another processor rounds otherwise, and training spreads that
patient = pytest.mark.timeout(1200)  # a dozen seconds of training, on a machine that may have much else to do


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "vision_transformers.py")


@pytest.mark.parametrize("name", NAMES)
def test_run_says_how_it_was_made(program, name):
    run = shipped_run(name)
    assert run.facts["command"] == program.command(name, run.facts["seed"])
    assert run.facts["seed"] == sorted({row["case"]["seed"] for row in run.rows})
    assert sorted(run.facts["results"].values()) == sorted(row["test_accuracy"] for row in run.rows)
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 3_000_000


def test_runs_trained_the_models_that_the_program_names(program):
    for name in NAMES:
        config = shipped_run(name).facts["config"]
        for stored, named in (("vit", program.VIT), ("resnet", program.RESNET), ("small vit", program.SMALL)):
            assert type(named)(**config[stored]) == named
        assert config["learning_rates"] == program.RATES or name == "vit_rates"


def test_rates_are_the_best_on_validation_pictures(program):
    rows = shipped_run("vit_rates").rows
    for model, rate in program.RATES.items():
        best = max((row for row in rows if row["case"]["model"] == model), key=lambda row: row["validation_accuracy"])
        assert best["case"]["learning_rate"] == rate


def test_small_vit_reaches_its_accuracy_with_its_weights(program):
    run = shipped_run("vit_small")
    model = run.load_into(ViT(ViTConfig(**run.facts["config"]["small vit"])))
    (stored,) = run.facts["results"].values()
    assert program.right(model, program.pictures().test[::4]) == pytest.approx(stored, abs=0.003)


def stored_row(name, case):
    return next(row for row in shipped_run(name).rows if row["case"] == asdict(case))


def assert_comes_out_again(program, name, case):
    stored = stored_row(name, case)
    _, row = program.Runner("nothing is known of this run").train(case)
    assert row["test_accuracy"] == pytest.approx(stored["test_accuracy"], abs=AGAIN)
    assert row["losses"][0] == pytest.approx(stored["losses"][0], rel=0.02)


@patient
def test_smallest_point_of_the_growth_comes_out_again(program):
    assert_comes_out_again(program, "vit_data_growth", program.Case(name="vit", seed=0, examples=250, steps=400))


@patient
def test_first_row_of_the_recipe_comes_out_again(program):
    assert_comes_out_again(program, "vit_recipe", program.recipe_cases(0)[0])


@patient
def test_student_alone_comes_out_again(program):
    case = program.Case(name="alone", seed=0, examples=4000, steps=400, flips_and_shifts=True)
    assert_comes_out_again(program, "vit_distillation", case)


def test_recipe_has_every_ingredient_for_each_seed(program):
    rows = shipped_run("vit_recipe").rows
    for seed in shipped_run("vit_recipe").facts["seed"]:
        cases = [asdict(case) for case in program.recipe_cases(seed)]
        assert [row["case"] for row in rows if row["case"]["seed"] == seed] == cases
