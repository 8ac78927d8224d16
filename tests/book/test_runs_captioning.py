"""The runs that chapter 7 shows: end points measured again from the weights, and the program run for a step."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.models import ConvEncoderConfig, ShowAttendTellConfig
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "captioning.py")


@pytest.fixture(scope="module")
def scenes() -> Run:
    return shipped_run("captioning")


@pytest.fixture(scope="module")
def animals() -> Run:
    return shipped_run("captioning_animals")


def config_of(run: Run) -> ShowAttendTellConfig:
    facts = run.facts["config"]
    image = {name: tuple(value) if isinstance(value, list) else value for name, value in facts["image"].items()}
    return ShowAttendTellConfig(**{**facts, "image": ConvEncoderConfig(**image)})


def test_scene_captioners_measure_again_what_they_say(scenes, program):
    models = scenes.load_into(program.captioners())
    for way, things, which in (("soft", 2, "train"), ("hardened", 1, "held_out"), ("one_vector", 3, "train")):
        said = scenes.facts["results"][way][which][str(things)]
        again = program.score(models[way], things, which)
        assert again["exact"] == pytest.approx(said["exact"], abs=0.02), (way, things, which)
        assert again["bleu"] == pytest.approx(said["bleu"], abs=1.5), (way, things, which)


def test_animal_captioners_measure_again_what_they_say(animals, program):
    models = animals.load_into(program.animal_captioners())
    for name in program.SHARES:
        for usual, said in animals.facts["results"][name].items():
            again = program.animal_accuracy(models[name], float(usual), 200)
            assert again == pytest.approx(said, abs=0.02), (name, usual)


def test_captioning_runs_have_the_configs_of_their_program_and_are_small(scenes, animals, program):
    assert config_of(scenes) == program.SCENE_CONFIG
    assert config_of(animals) == program.ANIMAL_CONFIG
    assert animals.facts["usual"] == program.SHARES
    for run in (scenes, animals):
        assert sum(path.stat().st_size for path in run.folder.iterdir()) < 3_000_000
        for name in {row["model"] for row in run.rows} - {"hardened"}:  # which starts where the soft one ends
            losses = [row["loss"] for row in run.rows if row["model"] == name]
            assert losses[-1] < losses[0] / 2, name


def test_captioners_start_from_the_same_eyes_and_decoder(program):
    models = program.captioners()
    for way in program.WAYS:
        for name, weight in models[way].encoder.state_dict().items():
            assert weight.shape == models["eyes"].state_dict()[name].shape
    biased, mended = program.animal_captioners().values()
    for (name, one), (_, other) in zip(biased.named_parameters(), mended.named_parameters(), strict=True):
        assert torch.equal(one, other), name


def test_captioning_runs_can_be_started_again(program, monkeypatch, tmp_path, capsys):
    """A step of every stage: the program writes all that the chapter reads, and goes on where it was."""
    threads = torch.get_num_threads()
    for what in (["scenes", "--stages", "eyes", "soft"], ["scenes", "--stages", "hardened"], ["animals"]):
        options = ["--steps", "1", "--seeing", "1", "--count", "2", "--runs", str(tmp_path)]
        monkeypatch.setattr("sys.argv", ["captioning.py", *what, *options])
        program.main()
    torch.set_num_threads(threads)
    written = shipped_run("captioning", tmp_path)
    assert set(written.facts["results"]) == {"eyes", "soft", "hardened"}
    written.load_into(program.captioners())
    assert set(shipped_run("captioning_animals", tmp_path).facts["results"]) == {"eyes", *program.SHARES}
    assert "hardened" in capsys.readouterr().out
