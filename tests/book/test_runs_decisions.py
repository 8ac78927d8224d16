"""The runs that chapter 19 shows: each says how it was made, and some of their numbers come out again."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from lecturelib.models import DecisionTransformer, DecisionTransformerConfig, best_actions, solve
from lecturelib.training import shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "decisions.py")


@pytest.mark.parametrize("name", ["decisions", "decisions_memory"])
def test_run_says_how_it_was_made_and_is_small(program, name):
    run = shipped_run(name)
    assert run.facts["command"] == program.command(name)
    assert run.facts["seed"] == list(program.SEEDS)
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 600_000


def test_runs_have_a_row_for_every_case_and_the_configs_of_their_program(program):
    run, memory = shipped_run("decisions"), shipped_run("decisions_memory")
    for name, (world, _) in program.DATA.items():
        rows = [row for row in run.rows if row["data"] == name]
        assert [row["seed"] for row in rows] == list(program.SEEDS)
        assert all(tuple(row["asked"]) == program.ASKED[name] for row in rows)
        assert run.facts["config"][name] == asdict(program.config_of(world()))
    assert (run.facts["config"]["context"], run.facts["config"]["steps"]) == (program.CONTEXT, program.STEPS)
    cases = [(row["context"], row["seed"]) for row in memory.rows]
    assert cases == [(context, seed) for context in program.MEMORY_CONTEXTS for seed in program.SEEDS]


def test_what_the_tables_earn_comes_out_again(program):
    row = shipped_run("decisions").rows[0]
    world, episodes = program.DATA["mixed"][0](), program.DATA["mixed"][1](0)
    assert row["episodes"]["mean"] == pytest.approx(episodes.returns.mean(), abs=1e-4)
    for name, table in program.tables(world, episodes).items():
        assert row["others"][name] == program.earned(world, table, seed=0)
        assert row["others_likeliest"][name] == program.earned(world, best_actions(table), seed=0)


def test_shipped_weights_still_earn_what_the_run_says(program):
    """The weights are stored in half precision, and other machines round otherwise: a few episodes may differ."""
    run = shipped_run("decisions")
    configs = {name: DecisionTransformerConfig(**run.facts["config"][name]) for name in program.DATA}
    kept = run.load_into(nn.ModuleDict({name: DecisionTransformer(config) for name, config in configs.items()}))
    row = next(row for row in run.rows if row["data"] == "mixed")
    again = program.achieved(kept["mixed"], program.key_to_door(), (0.2, 0.5), context=program.CONTEXT, seed=0)
    stored = [row["achieved"][row["asked"].index(asked)] for asked in (0.2, 0.5)]
    assert again == pytest.approx(stored, abs=0.1)


def test_no_trip_goes_from_the_start_to_the_door(program):
    world, episodes = program.key_to_door(), program.trips(3)
    from_start = episodes.seen[:, 0] == int(world.starts.argmax())
    assert from_start.sum() == 200
    assert not episodes.returns[from_start].any()
    assert (episodes.seen[~from_start, 0] % 2 == 1).all()  # the others hold the key
    assert episodes.returns[~from_start].mean() > 0.5
    assert (episodes.seen[from_start] % 2 == 1).any(axis=1).mean() > 0.9  # and most of these fetch it


@pytest.mark.parametrize("seed", [0, 7])
def test_strolls_are_half_of_what_begins_at_the_start_and_earn_nothing_either(program, seed):
    world, episodes = program.key_to_door(), program.strolls(seed)
    start = int(world.starts.argmax())
    from_start = episodes.seen[:, 0] == start
    assert (len(episodes), from_start.sum()) == (400, 200)
    assert not episodes.returns[from_start].any()
    assert (episodes.seen[from_start] % 2 == 1).any(axis=1).mean() == pytest.approx(0.5, abs=0.05)
    there = episodes.actions[(episodes.seen == start) & episodes.real]
    assert np.bincount(there, minlength=4).argmax() == 1  # down, where the edge is
    assert solve(world)[start].argmax() != 1


def test_lake_is_walked_in_haste(program):
    """The favourite step of every state is the best on firm ice, and few of the walks arrive."""
    episodes = program.lake(2)
    firm = solve(program.frozen_lake(is_slippery=False)).argmax(axis=1)
    taken = episodes.actions[episodes.real] == firm[episodes.seen[episodes.real]]
    assert taken.mean() == pytest.approx(0.7, abs=0.02)
    assert 0 < episodes.returns.mean() < 0.1


def test_walks_take_the_door_of_the_key_in_three_of_four_episodes(program):
    episodes = program.walks(1, count=2000)
    assert episodes.lengths.tolist() == [program.CORRIDOR + 1] * 2000
    assert episodes.returns.mean() == pytest.approx(0.75, abs=0.04)


def test_training_is_the_same_for_the_same_seed(program):
    world, episodes = program.DATA["mixed"][0](), program.DATA["mixed"][1](0)
    first, again, other = (
        program.learned(world, episodes, context=2, steps=3, seed=seed, rate=1e-3).state_dict() for seed in (0, 0, 1)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert np.isfinite([float(weight.abs().max()) for weight in first.values()]).all()
