"""The runs that chapter 17 shows of captions and pixels: measured again from the weights, and run for a step."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.evaluation import count_flops
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root / "book" / "runs")  # the scenes come from captioning.py beside it
        yield load_script(root / "book" / "runs" / "caption_transformers.py")


@pytest.fixture(scope="module")
def captions() -> Run:
    return shipped_run("caption_transformers")


@pytest.fixture(scope="module")
def pixels() -> Run:
    return shipped_run("pixels")


def test_captioners_measure_again_what_they_say(captions, program):
    models = captions.load_into(program.stored())
    for way, things, which in (("convolution", 3, "train"), ("patches", 2, "train"), ("patches", 1, "held_out")):
        said = captions.facts["results"][way]["0"][which][str(things)]
        again = program.score(models[way], things, which, 200)
        for name, value in again.items():
            assert value == pytest.approx(said[name], abs=0.03), (way, things, which, name)


def test_readers_of_pixels_measure_again_what_they_say(pixels, program):
    models = pixels.load_into(program.readers())
    for name in models:
        said = next(row for row in pixels.rows if row["reader"] == name and row["seed"] == 0)
        again = program.read_right(models[name], 400)
        assert {key: said[key] for key in again} == pytest.approx(again, abs=0.02), name
    costs = {row["reader"]: row["flops"] for row in pixels.rows}
    assert max(costs.values()) < 1.02 * min(costs.values()), "they cost the same"
    assert costs["vit"] == count_flops(models["vit"], torch.zeros(1, 3, program.SIDE, program.SIDE))


def test_runs_are_small(captions, pixels):
    for run, most in ((captions, 1_100_000), (pixels, 400_000)):
        assert sum(path.stat().st_size for path in run.folder.iterdir()) < most


def test_runs_can_be_started_again(program, monkeypatch, tmp_path, capsys):
    """A step of everything: the program writes all that the chapter reads, and goes on where it was."""
    threads = torch.get_num_threads()
    for what in (["captions", "--ways", "convolution"], ["captions", "--ways", "soft", "patches"], ["pixels"]):
        options = ["--steps", "1", "--seeing", "1", "--count", "2", "--seeds", "0", "--runs", str(tmp_path)]
        monkeypatch.setattr("sys.argv", ["caption_transformers.py", *what, *options])
        program.main()
    torch.set_num_threads(threads)
    written = shipped_run("caption_transformers", tmp_path)
    assert all(set(written.facts["results"][way]) == {"0"} for way in program.WAYS)
    written.load_into(program.stored())
    assert [row["reader"] for row in shipped_run("pixels", tmp_path).rows] == list(program.READERS)
    assert "perceiver" in capsys.readouterr().out
