"""Runs that ship with the package: what is written is read back, and damage is named."""

from pathlib import Path

import pytest
import torch
from torch import nn

from lecturelib.training import CheckpointError, find_run, read_run, save_run, shipped_run
from lecturelib.training.runs import RUNS

FACTS = {"command": "python make.py", "seed": 3, "config": {"width": 5}, "results": {"loss": 0.25}}
ROWS = [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25, "setting": "wide"}]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("count", torch.tensor(11))


def test_shipped_run_is_what_was_saved(tmp_path: Path) -> None:
    model = Tied()
    save_run(tmp_path / "small", FACTS, ROWS, model)
    run = shipped_run("small", tmp_path)
    assert (run.facts, run.rows) == (FACTS, ROWS)
    loaded = run.load_into(Tied())
    assert not loaded.training
    assert loaded.head.weight is loaded.embedding.weight
    assert loaded.embedding.weight.dtype == torch.float32
    assert loaded.count == 11
    torch.testing.assert_close(loaded.embedding.weight, model.embedding.weight, atol=2e-3, rtol=1e-3)
    assert model.embedding.weight.dtype == torch.float32


def test_shipped_run_keeps_full_precision_when_asked(tmp_path: Path) -> None:
    model = Tied()
    save_run(tmp_path / "small", FACTS, ROWS, model, dtype=torch.float32)
    assert torch.equal(shipped_run("small", tmp_path).load_into(Tied()).embedding.weight, model.embedding.weight)


def test_shipped_run_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    save_run(tmp_path / "small", FACTS, ROWS)
    with pytest.raises(ValueError, match=r"no run 'large'.*there are: small"):
        shipped_run("large", tmp_path)


def test_run_that_is_cut_short_says_so(tmp_path: Path, caplog) -> None:
    save_run(tmp_path, FACTS, ROWS)
    path = tmp_path / "history.jsonl"
    path.write_text(path.read_text()[:-5])
    assert read_run(tmp_path).rows == ROWS[:1]
    assert "line 2, the last, was cut short" in caplog.text
    path.write_text("{\n" + path.read_text())
    with pytest.raises(CheckpointError, match=r"history\.jsonl is damaged in line 1"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text((tmp_path / "run.json").read_text()[:-5])
    with pytest.raises(CheckpointError, match=r"run\.json is damaged"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text('{"command": "make", "seed": 1}')
    with pytest.raises(CheckpointError, match="says nothing of config, results"):
        read_run(tmp_path)


def test_find_run_takes_a_folder_or_a_name(tmp_path: Path, monkeypatch) -> None:
    save_run(tmp_path / "shipped" / "small", FACTS, ROWS)
    save_run(tmp_path / "mine", FACTS | {"seed": 7}, ROWS)
    monkeypatch.chdir(tmp_path)
    shipped = tmp_path / "shipped"
    assert find_run("small", shipped).facts["seed"] == 3
    assert find_run("mine", shipped).facts["seed"] == find_run(tmp_path / "mine", shipped).facts["seed"] == 7
    with pytest.raises(
        ValueError, match=r"gone is not the folder of a run, nor one that came with lecturelib \(small\)"
    ):
        find_run("gone", shipped)
    with pytest.raises(CheckpointError, match=r"shipped is not the folder of a run: it has no run\.json"):
        find_run("shipped", shipped)


def test_weights_with_a_flipped_bit_are_noticed(tmp_path: Path) -> None:
    save_run(tmp_path, FACTS, ROWS, Tied())
    path = tmp_path / "weights.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="damaged: its weights are not those that were written"):
        read_run(tmp_path).load_into(Tied())


def test_shipped_weights_that_are_damaged_or_foreign_say_so(tmp_path: Path) -> None:
    save_run(tmp_path / "small", FACTS, ROWS, Tied())
    run = shipped_run("small", tmp_path)
    with pytest.raises(CheckpointError, match="do not fit"):
        run.load_into(nn.Linear(2, 3))
    path = tmp_path / "small" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CheckpointError, match="can't be loaded"):
        run.load_into(Tied())


def test_save_run_wants_to_know_how_it_was_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="missing: seed"):
        save_run(tmp_path / "small", {key: FACTS[key] for key in FACTS if key != "seed"}, ROWS)
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("folder", sorted(path.parent for path in RUNS.glob("*/run.json")), ids=lambda path: path.name)
def test_every_shipped_run_is_small_and_says_how_it_was_made(folder: Path) -> None:
    facts = shipped_run(folder.name).facts
    assert {"command", "seed", "config", "results"} <= set(facts)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 3e6
    assert facts["results"], "a run that says nothing of what came out is of no use"
