"""The run that draws in chapter 17: measured again from its weights, and its program run for a step."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from lecturelib.data import place_caption, quarters
from lecturelib.data.sets.scenes import HELD_OUT
from lecturelib.evaluation import Sampler
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "text_to_image.py")


@pytest.fixture(scope="module")
def run() -> Run:
    return shipped_run("text_to_image")


@pytest.fixture(scope="module")
def models(run: Run, program: ModuleType) -> nn.ModuleDict:
    return run.load_into(program.build())


@pytest.fixture(scope="module")
def count(run: Run) -> int:
    return int(run.facts["data"].split("; ")[1].split()[0])


@pytest.mark.parametrize("stage", ["reader", "tokenizer", "without_restarts"])
def test_stages_measure_again_what_they_say(run, models, program, count, stage):
    again, said = program.measure(stage, models, count), run.facts["results"][stage]
    for which in ("train", "held_out"):
        assert again[which]["follows"] == pytest.approx(said[which]["follows"], abs=0.015), which
        if stage != "reader":
            assert again[which]["error"] == pytest.approx(said[which]["error"], rel=0.02), which
            assert again[which]["codes"] == pytest.approx(said[which]["codes"], abs=2), which


@pytest.mark.parametrize(("which", "temperature"), [("train", "0.5"), ("held_out", "1.0")])
def test_drawn_images_measure_again_what_they_say(run, models, program, count, which, temperature):
    """Draws depend on the last digits of the logits, so another machine may draw a few other images."""
    _, captions = program.for_testing(which, count)
    sampler = Sampler(temperature=float(temperature), generator=torch.Generator().manual_seed(0))
    found = program.said(models["reader"], program.draw(models, program.written(captions), sampler))
    said = run.facts["results"]["drawer"][which][temperature]
    assert program.agreement(found, captions) == pytest.approx(said["follows"], abs=0.06)
    kinds = HELD_OUT if which == "held_out" else program.KINDS
    for part, share in program.parts(found, captions, kinds).items():
        assert share == pytest.approx(said[part], abs=0.06), part


def test_run_has_the_config_of_its_program_and_is_small(run, program):
    configs = {name: asdict(config) for name, config in (("tokenizer", program.TOKENIZER), ("drawer", program.DRAWER))}
    assert {name: run.facts["config"][name] for name in configs} == configs
    for stage in program.STAGES:
        losses = [row["loss"] for row in run.rows if row["model"] == stage]
        assert losses[-1] < losses[0], stage
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 3_000_000


def test_drawer_never_sees_held_out_kinds_and_the_others_do(program):
    seen = [quarters(scene) for step in range(20) for scene in program.draw_placed(program.BATCH, seed=step)]
    assert not {kind for held in seen for kind in held} & set(HELD_OUT)
    for kinds in (program.all_kinds(3), program.all_kinds(4)):
        assert {kind for scene in kinds for kind in quarters(scene)} & set(HELD_OUT)
    tested, captions = program.for_testing("held_out", 20)
    assert all(any(kind in HELD_OUT for kind in quarters(scene)) for scene in tested)
    assert captions == [place_caption(scene, seed=-1) for scene in tested]


def test_restarts_use_codes_that_were_not_used(program):
    """The two tokenizers start alike; a restart moves the unused codes and no others."""
    models = program.build()
    images = program.scaled(program.all_kinds(0))
    with_restarts, without = models["tokenizer"], models["without_restarts"]
    assert torch.equal(with_restarts.quantizer.codebook, without.quantizer.codebook)
    used = with_restarts.encode(images).unique()
    moved = with_restarts.quantizer.restart(with_restarts.features(images), torch.Generator().manual_seed(0))
    assert moved == program.TOKENIZER.num_codes - len(used) > 0
    assert torch.equal(with_restarts.quantizer.codebook[used], without.quantizer.codebook[used])
    assert len(with_restarts.encode(images).unique()) > len(used)


def test_text_to_image_run_can_be_started_again(program, monkeypatch, tmp_path, capsys):
    """A step of every model, in two calls: the program writes all that the chapter reads, and keeps what was there."""
    threads = torch.get_num_threads()
    for stages in (["reader", "tokenizer"], ["without_restarts", "drawer"]):
        options = ["--steps", "1", "--count", "4", "--run", str(tmp_path / "text_to_image"), "--stages", *stages]
        monkeypatch.setattr("sys.argv", ["text_to_image.py", *options])
        program.main()
    torch.set_num_threads(threads)
    written = shipped_run("text_to_image", tmp_path)
    assert set(written.facts["results"]) == set(program.STAGES)
    models = written.load_into(program.build())
    assert program.measure("tokenizer", models, 4) == written.facts["results"]["tokenizer"]
    assert "drawer" in capsys.readouterr().out
