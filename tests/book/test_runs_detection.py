"""The run of chapter 17's detectors: end points measured again from the weights, and the program run for a step."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.models import ConvEncoderConfig, DETRConfig
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "detection.py")


@pytest.fixture(scope="module")
def run() -> Run:
    return shipped_run("detection")


def test_detectors_measure_again_what_they_say(run, program):
    models, test = run.load_into(program.detectors()), program.scenes_batch(500, seed=-1)
    assert set(run.facts["results"]) == set(program.LOSSES)
    for name, model in models.items():
        said, again = run.facts["results"][name]["3"], program.score(model, test)
        for what, value in said.items():
            assert again[what] == pytest.approx(value, abs=0.02), (name, what)


def test_detection_run_has_the_config_of_its_program_and_is_small(run, program):
    facts = run.facts["config"]
    image = {name: tuple(value) if isinstance(value, list) else value for name, value in facts["image"].items()}
    assert DETRConfig(**{**facts, "image": ConvEncoderConfig(**image)}) == program.CONFIG
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 3_000_000
    steps = {name: [row["step"] for row in run.rows if row["model"] == name] for name in program.LOSSES}
    assert len(set(map(tuple, steps.values()))) == 1  # all for as long
    for name in program.LOSSES:
        losses = [row["loss"] for row in run.rows if row["model"] == name]
        assert losses[-1] < losses[0], name


def test_detectors_start_alike_and_see_the_same_scenes(program):
    one, other = program.build_detector(), program.build_detector()
    for (name, first), (_, second) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(first, second), name
    assert torch.equal(program.scenes_batch(3, 7).images, program.scenes_batch(3, 7).images)
    assert not torch.equal(program.scenes_batch(3, 7).images, program.scenes_batch(3, 8).images)


def test_detection_run_can_be_started_again(program, monkeypatch, tmp_path, capsys):
    """A step of two detectors, one after the other: the program writes all that the chapter reads, and keeps both."""
    threads = torch.get_num_threads()
    for names in (["set", "order"], ["overlap"]):
        options = ["--steps", "1", "--count", "3", "--runs", str(tmp_path), "--names", *names]
        monkeypatch.setattr("sys.argv", ["detection.py", *options])
        program.main()
    torch.set_num_threads(threads)
    written = shipped_run("detection", tmp_path)
    assert set(written.facts["results"]) == {"set", "order", "overlap"}
    written.load_into(program.detectors())
    assert "overlap" in capsys.readouterr().out
