"""The run that chapter 16 shows: its end point measured again from its weights, and its program run for a step."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.data.sets.images import fashion_mnist
from lecturelib.data.store.splits import Splits
from lecturelib.models.swin import SwinConfig
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def run() -> Run:
    return shipped_run("swin_shift")


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "swin_shift.py")


def test_shift_run_measures_again_what_it_says(run, program):
    models = run.load_into(program.models(run.facts["seed"]))
    test = fashion_mnist().test
    for name in ("shifted_0", "still_0", "shifted_2"):
        assert program.accuracy(models[name], test) == pytest.approx(run.facts["results"][name], abs=2e-3), name


def test_shift_run_has_the_config_and_the_pairs_of_its_program(run, program):
    stored = {name: tuple(v) if isinstance(v, list) else v for name, v in run.facts["config"].items()}
    assert SwinConfig(**stored) == program.CONFIG
    assert set(run.facts["results"]) == {f"{way}_{seed}" for way in program.WAYS for seed in run.facts["seed"]}
    assert len(run.facts["seed"]) >= 3
    shifted, still = (program.build(way, 0) for way in program.WAYS)
    for (name, one), (_, other) in zip(shifted.named_parameters(), still.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    images = torch.randn(1, 1, 32, 32)
    assert not torch.equal(shifted(images), still(images))


def test_shift_run_is_small_and_learned_something(run):
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 3_000_000
    for name in run.facts["results"]:
        losses = [row["loss"] for row in run.rows if row["model"] == name]
        assert losses[-1] < losses[0] / 2
    assert min(run.facts["results"].values()) > 0.75


def test_shift_run_can_be_started_again(program, monkeypatch, tmp_path, capsys):
    """One step of the same program on a few pictures: it writes everything that the chapter reads."""
    data = fashion_mnist()
    few = torch.arange(0, 10_000, 50)
    small = Splits(data.train[few], data.validation[:1], data.test[few])
    monkeypatch.setattr(program, "fashion_mnist", lambda: small)
    folder = tmp_path / "run"
    monkeypatch.setattr("sys.argv", ["swin_shift.py", "--steps", "1", "--seeds", "3", "--folder", str(folder)])
    threads = torch.get_num_threads()
    program.main()
    torch.set_num_threads(threads)
    written = shipped_run("run", tmp_path)
    assert written.facts["seed"] == [3]
    assert written.facts["config"]["d_model"] == dataclasses.asdict(program.CONFIG)["d_model"]
    models = written.load_into(program.models([3]))
    for way in program.WAYS:
        again = program.accuracy(models[f"{way}_3"], small.test)
        assert again == pytest.approx(written.facts["results"][f"{way}_3"], abs=1e-6)
    assert "still_3" in capsys.readouterr().out
