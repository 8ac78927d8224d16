"""The run of images and statements in chapter 17: measured again from its weights, and its program run for a step."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from lecturelib.data.sets.scene_statements import draw_statements
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "two_streams.py")


@pytest.fixture(scope="module")
def run() -> Run:
    return shipped_run("two_streams")


@pytest.fixture(scope="module")
def models(run: Run, program: ModuleType) -> nn.ModuleDict:
    return run.load_into(program.models())


@pytest.fixture(scope="module")
def count(run: Run) -> int:
    return int(run.facts["data"].split("; ")[1].split()[0])


@pytest.mark.parametrize(("fact", "which"), [("binding", "train"), ("number", "train"), ("binding", "held_out")])
def test_matching_measures_again_what_the_run_says(run, models, program, count, fact, which):
    encoder = program.eyes()
    for way in program.WAYS:
        again = program.matching(models[way.replace(" ", "_")], fact, encoder, which, count)
        assert again == pytest.approx(run.facts["results"][way]["0"]["matching"][which][fact], abs=0.015), way


def test_gaps_and_dark_regions_measure_again_what_the_run_says(run, models, program, count):
    encoder = program.eyes()
    assert program.best_gap_filling(count) == run.facts["best_gaps"]
    for way in program.WAYS:
        model, said = models[way.replace(" ", "_")], run.facts["results"][way]["0"]
        for key, blind in (("gaps", False), ("gaps_blind", True)):
            assert program.gap_filling(model, encoder, count, blind=blind) == pytest.approx(said[key], abs=0.015), way
        assert program.dark_regions(model, encoder, count) == pytest.approx(said["dark_regions"], abs=0.015), way


def test_run_has_the_config_of_its_program_and_every_seed_of_every_way(run, program):
    configs = {"two streams": asdict(program.TWO), "one stream": asdict(program.ONE), "apart": asdict(program.TWO)}
    assert run.facts["config"] == configs
    seeds = {str(seed) for seed in run.facts["seed"]}
    assert len(seeds) == 3
    for way in program.WAYS:
        assert set(run.facts["results"][way]) == seeds
        for seed in seeds:
            losses = [row["loss"] for row in run.rows if row["model"] == way and str(row["seed"]) == seed]
            assert losses[-1] < 0.8 * losses[0], (way, seed)
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 1_000_000


def test_ways_cost_about_the_same(run, program):
    """Within a twentieth; the single stream has about half the weights, because words and regions share them."""
    costs = {way: program.flops(model) for way, model in ((way, program.build(way)) for way in program.WAYS)}
    assert costs == run.facts["flops"]
    assert max(costs.values()) < 1.05 * min(costs.values())
    sizes = run.facts["parameters"]
    assert sizes["two streams"] == sizes["apart"] > sizes["one stream"]


def test_gaps_hide_words_and_features_and_nothing_else(program):
    pool = program.examples(draw_statements(40, seed=7), program.eyes(), seed=7)
    batch = program.with_gaps(pool, torch.Generator().manual_seed(5))
    right, wrong, gaps = batch.tokens.split(40)
    assert torch.equal(right, pool.right)
    assert torch.equal(wrong, pool.wrong)
    changed = gaps != pool.right
    assert changed.any()
    assert not (changed & ~batch.chosen_words).any()
    assert not changed[:, [0, -1]].any()
    seen, shown = batch.regions[80:], pool.regions
    assert torch.equal(seen[..., -5:], shown[..., -5:]), "a dark region keeps its place"
    dark = (seen[..., :-5] == 0).all(dim=-1) & ~(shown[..., :-5] == 0).all(dim=-1)  # (B, 1 + K)
    assert dark.any()
    assert not (dark[:, 1:] & ~batch.chosen_regions).any()
    assert not dark[:, 0].any()
    assert torch.equal(seen[~dark], shown[~dark])


def test_two_streams_run_can_be_started_again(program, monkeypatch, tmp_path, capsys):
    """Two steps of every model: the program writes all that the chapter reads, and goes on where it was."""
    threads = torch.get_num_threads()
    for seeds in (["0"], ["0", "4"]):
        options = ["--steps", "2", "--scenes", "64", "--count", "8", "--seeds", *seeds, "--runs", str(tmp_path)]
        monkeypatch.setattr("sys.argv", ["two_streams.py", *options])
        program.main()
        said = capsys.readouterr().out
        assert f"apart {seeds[-1]}" in said
    assert "apart 0" not in said, "it was there already"
    torch.set_num_threads(threads)
    written = shipped_run("two_streams", tmp_path)
    assert all(set(written.facts["results"][way]) == {"0", "4"} for way in program.WAYS)
    models = written.load_into(program.models())
    again = program.score(models["one_stream"], program.eyes(), 8)
    assert again == written.facts["results"]["one stream"]["0"], "the weights kept are those of seed 0"
