"""The run of segmenters that chapter 17 shows: measured again from the weights, and the program run for a step."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.data import draw_clicks, draw_nested
from lecturelib.models import ConvEncoderConfig, PromptableSegmenterConfig
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "segmentation.py")


@pytest.fixture(scope="module")
def run() -> Run:
    return shipped_run("segmentation")


def test_segmenters_measure_again_what_they_say(run, program):
    models = run.load_into(program.segmenters())
    for way in program.WAYS:
        said, again = run.facts["results"][way], program.score(models[way])
        for name in ("click_best", "click_first", "box_first", "covered", "ranked_best", "quality_error"):
            assert again[name] == pytest.approx(said[name], abs=0.01), (way, name)
        assert again["clicks"] == pytest.approx(said["clicks"], abs=0.015), way
        for zone, want in zip(again["zones"], said["zones"], strict=True):
            assert zone == pytest.approx(want, abs=0.01), way


def test_segmentation_run_has_the_config_of_its_program_and_is_small(run, program):
    facts = run.facts["config"]
    image = {name: tuple(value) if isinstance(value, list) else value for name, value in facts["image"].items()}
    assert PromptableSegmenterConfig(**{**facts, "image": ConvEncoderConfig(**image)}) == program.CONFIG
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 1_500_000
    for way in program.WAYS:
        losses = [row["loss"] for row in run.rows if row["model"] == way]
        assert losses[-1] < losses[0] / 2, way
    assert run.facts["prompts"] == int(run.facts["command"].split()[-1]) * program.IMAGES * program.QUESTIONS


def test_segmenters_start_with_the_same_encoder_and_see_the_same_prompts(program):
    models = program.segmenters()
    for way in program.WAYS:
        for name, weight in models[way].encoder.state_dict().items():
            assert torch.equal(weight, models["three"].encoder.state_dict()[name]), (way, name)
    assert program.WAYS["three"][0] == program.WAYS["alike"][0] == 4 > program.WAYS["one"][0]
    assert torch.equal(program.batch(5).points, program.batch(5).points)
    counts = {program.batch(step).kinds.shape[2] for step in range(8)}
    assert counts == {2, 3, 4, 5}  # clicks and a NOTHING, or two corners


def test_next_click_lies_deepest_in_what_is_wrong(program):
    targets, found = torch.zeros(2, 48, 48, dtype=torch.bool), torch.zeros(2, 48, 48, dtype=torch.bool)
    targets[0, 10:21, 10:21] = targets[0, 40, 2] = True  # missed: a large square and a pixel
    found[1, 30:35, 5:10] = True  # too much
    points, kinds = program.next_click(found, targets)
    assert points.tolist() == [[[15, 15]], [[7, 32]]]
    assert kinds.tolist() == [[1], [0]]


def test_ranked_is_the_mask_of_the_highest_quality(program):
    model = program.build("three").eval()
    asked = draw_clicks(draw_nested(4, seed=9), seed=9)
    masks = program.answer(model, asked)
    best = program.ranked(masks)
    for row in range(4):
        assert torch.equal(best[row], masks.logits[row, int(masks.quality[row].argmax())] > 0)
    assert replace(program.CONFIG, num_masks=1) == program.build("one").config


def test_segmentation_run_can_be_started_again(program, monkeypatch, tmp_path, capsys):
    threads = torch.get_num_threads()
    for ways in (["one"], ["three", "alike"]):
        options = ["--steps", "1", "--count", "30", "--runs", str(tmp_path), "--ways", *ways]
        monkeypatch.setattr("sys.argv", ["segmentation.py", *options])
        program.main()
    torch.set_num_threads(threads)
    written = shipped_run("segmentation", tmp_path)
    assert set(written.facts["results"]) == set(program.WAYS)
    written.load_into(program.segmenters())
    assert "alike" in capsys.readouterr().out
