"""Checkpoints: whole or not there, and resuming as if nothing had happened."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from lecturelib.training import CheckpointError, TrainConfig, load_weights, read_history, train
from lecturelib.training.checkpoint import CheckpointFolder

Start = Callable[..., subprocess.Popen[str]]


def finish(process: subprocess.Popen[str], line: str | None = None) -> str:
    out, err = process.communicate(line, timeout=550)
    assert process.returncode == 0, err
    return out


def same(a: Path, b: Path) -> bool:
    left, right = load_file(a / "weights.safetensors"), load_file(b / "weights.safetensors")
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def without_time(folder: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in read_history(folder / "history.jsonl")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_run_equals_uninterrupted_run_bit_for_bit(tmp_path: Path, small_run: Start, seed: int) -> None:
    calm, torn = tmp_path / "calm", tmp_path / "torn"
    finish(small_run(calm))
    deaths = int(finish(small_run(torn, "--kill-often", seed)))
    assert deaths >= 5
    assert same(calm, torn)
    assert without_time(calm) == without_time(torn)


def test_ctrl_c_saves_and_exits_cleanly_and_resumes(tmp_path: Path, small_run: Start) -> None:
    calm, torn = tmp_path / "calm", tmp_path / "torn"
    finish(small_run(calm))
    process = small_run(torn, "--ask-for-ctrl-c", 13)
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    process.send_signal(signal.SIGINT)
    assert finish(process, "\n") == "interrupted 14\n"
    assert json.loads((torn / "last.json").read_text())["step"] == 14
    assert finish(small_run(torn, "--resume")) == "finished 30\n"
    assert same(calm, torn)
    assert without_time(calm) == without_time(torn)


def linear_run(folder: Path, steps: int, *, resume: bool = False, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)

    def loss(model: nn.Module, index: Tensor) -> Tensor:
        return (model(index) - 1).square().mean()

    config = TrainConfig(steps=steps, checkpoint_every=2, device="cpu", learning_rate=0.05, **changes)
    train(model, lambda i: torch.full((2, 3), i + 1.0), loss, config, folder=folder, resume=resume)
    return model


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    match how:
        case "truncated":
            path.write_bytes(content[: len(content) // 2])
        case "empty":
            path.write_bytes(b"")
        case "flipped":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "gone":
            path.unlink()
        case "other":
            path.write_bytes(b'{"step": 3}')


@pytest.mark.parametrize(
    ("file", "how"),
    [("last.json", how) for how in ("truncated", "empty", "gone", "other")]
    + [("step-00000006.safetensors", how) for how in ("truncated", "empty", "gone", "flipped")],
)
def test_damaged_checkpoint_falls_back_to_the_previous_in_one_line(tmp_path: Path, caplog, file: str, how: str) -> None:
    linear_run(tmp_path / "torn", 6)
    damage(tmp_path / "torn" / file, how)
    resumed = linear_run(tmp_path / "torn", 8, resume=True)
    said = [record.getMessage() for record in caplog.records]
    if (file, how) == ("last.json", "gone"):
        assert said == []
    else:
        (line,) = said
        assert "\n" not in line
        assert "going on from the previous checkpoint, of step 4" in line
    assert torch.equal(resumed.weight, linear_run(tmp_path / "calm", 8).weight)
    assert len(read_history(tmp_path / "torn" / "history.jsonl")) == 8


def test_two_damaged_checkpoints_are_an_error_that_names_them(tmp_path: Path) -> None:
    linear_run(tmp_path, 6)
    for file in tmp_path.glob("step-*.safetensors"):
        damage(file, "flipped")
    with pytest.raises(CheckpointError, match=r"step-00000006.*step-00000004"):
        linear_run(tmp_path, 8, resume=True)


def test_train_refuses_a_folder_with_another_run(tmp_path: Path) -> None:
    linear_run(tmp_path, 2)
    with pytest.raises(CheckpointError, match="resume=True"):
        linear_run(tmp_path, 2)


def test_load_weights_of_best_and_last_differ_as_they_should(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    seen: list[Tensor] = []

    def evaluate(model: nn.Module) -> float:
        seen.append(model.weight.detach().clone())
        return float(len(seen)) if len(seen) > 1 else 0.5  # the first is the best, by decree

    config = TrainConfig(steps=6, evaluate_every=2, device="cpu")
    train(model, [torch.ones(2, 3)], lambda m, x: m(x).square().mean(), config, evaluate=evaluate, folder=tmp_path)
    fresh = nn.Linear(3, 2)
    assert load_weights(fresh, tmp_path, "best") == 2
    assert torch.equal(fresh.weight, seen[0])
    assert load_weights(fresh, tmp_path, "last") == 6
    assert torch.equal(fresh.weight, model.weight)
    with pytest.raises(CheckpointError, match="do not fit"):
        load_weights(nn.Linear(4, 2), tmp_path)


def test_checkpoint_holds_any_plain_state_and_tied_tensors(tmp_path: Path) -> None:
    table = torch.randn(4, 3)
    state = {
        "a": {0: table, "tied": table, "slice": table[1:]},
        "b": [1, 2.5, None, True, ("x", -0.0)],
        "none": torch.ones(0),
    }
    CheckpointFolder(tmp_path).save_last(state, 1)
    back = CheckpointFolder(tmp_path).load_last()
    assert back is not None
    assert back["b"] == state["b"]
    assert isinstance(back["b"][4], tuple)
    for name, tensor in state["a"].items():  # type: ignore[union-attr]
        assert torch.equal(back["a"][name], tensor)
    assert len(load_file(tmp_path / "step-00000001.safetensors")) == 3
    with pytest.raises(TypeError, match="a\\.b is a set"):
        CheckpointFolder(tmp_path).save_last({"a": {"b": {1}}}, 2)
