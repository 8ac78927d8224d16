"""The programs behind chapter 13: stopped and resumed they give the same rows, and they predict before they train."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.evaluation import LossLaw, count_flops
from lecturelib.models import GPT
from lecturelib.training.history import read_history

LAW = LossLaw(floor=0.7, size_factor=9.0, size_exponent=0.3, data_factor=80.0, data_exponent=0.4)


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "scaling.py")


@pytest.fixture
def small(program, monkeypatch):
    """A study of two sizes and two budgets, on random text."""
    sizes = ((16, 1), (24, 1))
    monkeypatch.setattr(program, "SIZES", sizes)
    monkeypatch.setattr(program, "BUDGETS", {2.5e8: sizes, 4e8: sizes[1:]})
    monkeypatch.setattr(program, "SWEEPS", dict.fromkeys(sizes, 2.5e8))
    monkeypatch.setattr(program, "TRIALS", (("seed", (24, 1), 4e8),))
    generator = torch.Generator().manual_seed(0)
    windows = torch.randint(7, (300, program.LENGTH + 1), generator=generator).to(torch.uint8)
    return program.Texts(windows[:200], windows[200:250], windows[250:], vocab_size=7)


def run_all(program, study):
    for case in program.study(study.do):
        study.do(case)
    return study.rows


def without_clock(rows):
    return [{name: value for name, value in row.items() if name != "cpu_seconds"} for row in rows]


def test_study_stopped_anywhere_gives_the_same_rows(program, small, tmp_path, monkeypatch):
    whole = run_all(program, program.Study(tmp_path / "whole", tmp_path / "work", small))
    assert [row["stage"] for row in whole].count("grid") == 3
    assert [row["seed"] for row in whole if row["stage"] == "seed"] == [1, 2]
    assert without_clock(read_history(tmp_path / "whole" / "history.jsonl")) == without_clock(whole)

    monkeypatch.setattr(program, "train", stopping(program.train, after=4))
    stops = 0
    while True:
        try:
            study = program.Study(tmp_path / "parts", tmp_path / "other", small)
            rows = run_all(program, study)
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops >= 3
    assert without_clock(rows) == without_clock(whole)
    assert not list((tmp_path / "other").iterdir())  # checkpoints of what is done are gone


def stopping(train, after):
    """A train that dies in the middle of each fourth call, when it has kept a checkpoint."""
    calls = 0

    def stopped(model, batches, loss, plan, **given):
        nonlocal calls
        calls += 1
        if calls % after:
            return train(model, batches, loss, plan, **given)

        def dying(step):
            if step == 7:
                raise KeyboardInterrupt
            return batches(step)

        return train(model, dying, loss, replace(plan, checkpoint_every=3), **given)

    return stopped


def test_sweep_ends_between_two_worse_rates(program):
    losses = {4e-3: 2.0, 8e-3: 1.5, 16e-3: 1.4, 32e-3: 1.6, 64e-3: float("nan")}
    asked = []

    def do(case):
        asked.append(case.rate)
        return {"validation_loss": losses[case.rate]}

    size = program.SIZES[0]
    assert program.sweep(size, 8e-3, do) == 16e-3
    assert program.sweep(size, 32e-3, do) == 16e-3
    assert len(asked) <= 8  # none twice within a sweep


def test_step_flops_are_those_counted(program):
    config = program.config_of((24, 2), 98)
    tokens = torch.zeros(program.BATCH, program.LENGTH, dtype=torch.int64)
    assert program.step_flops(config) == 3 * count_flops(GPT(config), tokens)


def test_prediction_follows_the_grid(program):
    rows = []
    for budget, sizes in program.BUDGETS.items():
        for width, layers in sizes:
            parameters = 12 * layers * width**2
            tokens = budget / (6 * parameters)
            row = {"stage": "grid", "parameters": parameters, "tokens": tokens, "rate": 0.5 * parameters**-0.4}
            rows.append(row | {"test_loss": LAW(parameters, tokens)})
    found = program.prediction(rows, 98)
    assert found["test_loss"] == pytest.approx(LAW(found["parameters"], found["tokens"]), rel=1e-3)
    assert found["rate"] == pytest.approx(0.5 * found["parameters"] ** -0.4)
    assert found["low"] <= found["test_loss"] * 1.001
    assert found["high"] >= found["test_loss"] * 0.999


def test_grid_is_as_large_as_promised(program):
    grid = [(size, budget) for budget, sizes in program.BUDGETS.items() for size in sizes]
    assert len(grid) >= 24
    assert len({size for size, _ in grid}) >= 6
    counts = [12 * layers * width**2 for (width, layers), _ in grid]
    assert max(counts) > 100 * min(counts)
    assert program.HELD_OUT[1] > max(program.BUDGETS)
    assert program.HELD_OUT[0] not in program.SIZES


@pytest.fixture
def switch(load_script, root, monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(root / "book" / "runs")
    return load_script(root / "book" / "runs" / "switch.py")


def test_switch_and_dense_cost_the_same_but_for_the_router(switch):
    tokens = torch.zeros(2, switch.LENGTH, dtype=torch.int64)
    dense, sparse = (count_flops(switch.build(way, 98).eval(), tokens) for way in ("dense", "switch"))
    assert dense < sparse < 1.02 * dense


@torch.no_grad()
def test_balance_is_part_of_the_loss_of_one_way_alone(switch):
    model = switch.build("switch", 7).eval()
    batch = switch.batch_of(list(torch.randint(7, (3, switch.LENGTH + 1))))
    plain, balanced = (float(switch.loss_of(way)(model, batch)[0]) for way in ("unbalanced", "switch"))
    assert balanced - plain >= switch.BALANCE * switch.SIZES["num_layers"] * 0.99  # every layer gives at least 1
    assert float(switch.loss_of("dense")(model, batch)[0]) == plain


def test_expert_use_counts_every_token_once(switch):
    windows = torch.randint(7, (5, switch.LENGTH + 1))
    use = switch.expert_use(switch.build("switch", 7).eval(), windows, 7)
    assert list(use) == [f"blocks.{layer}.feed_forward" for layer in range(switch.SIZES["num_layers"])]
    kinds = torch.bincount(windows[:, :-1].flatten(), minlength=7)
    for layer in use.values():
        assert torch.tensor(layer["counts"]).sum(dim=1).equal(kinds)
        assert sum(layer["shares"]) == pytest.approx(1)
        assert 0 <= layer["dropped"] < 1


def test_parallel_run_times_steps_that_do_the_same_work(load_script, root, monkeypatch):
    program = load_script(root / "book" / "runs" / "parallel.py")
    monkeypatch.setattr(program, "CONFIG", replace(program.CONFIG, d_model=16, num_heads=2, num_layers=1))
    row = program.measured("one process", 3)
    assert row["tokens_per_step"] == 2 * program.BATCH * program.CONFIG.max_len
    assert row["seconds"] == min(row["all_seconds"][1:])
    again = program.measured("one process", 3)
    assert again["losses"] == row["losses"]
    best = program.best_of([row, again])
    assert best["seconds"] == min(row["seconds"], again["seconds"])
    assert best["all_seconds"] == [row["all_seconds"], again["all_seconds"]]
    with pytest.raises(SystemExit, match="different losses"):
        program.best_of([row, again | {"losses": [0.0]}])
