"""Runs that ship with the package: what takes longer to train than a reader wants to wait, kept small, and repeatable.

The folder lecturelib/runs/NAME/ holds

    run.json             what was trained, and how to train it again: command, seed, config, results
    history.jsonl        one row a step, an evaluation or a setting, as the run measured it
    weights.safetensors  the trained weights, where something is shown of them

and whatever else the model needs to be used, such as its vocabulary.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from lecturelib.training.checkpoint import CheckpointError, replace_text, settle

RUNS = Path(__file__).resolve().parents[1] / "runs"
Model = TypeVar("Model", bound=nn.Module)
REQUIRED_FACTS = ("command", "seed", "config", "results")


@dataclass(frozen=True)
class ShippedRun:
    """One run that was made before: `facts` says how, `rows` is its history, `load_into` gives a model its weights."""

    folder: Path
    facts: dict[str, Any]
    rows: list[dict[str, Any]]

    def load_into(self, model: Model) -> Model:
        """Put the run's weights into a model of the same shape, in the model's own precision, and set it to eval."""
        path = self.folder / "weights.safetensors"
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{path} can't be loaded: {error}") from error
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise CheckpointError(
                f"the weights of the run {self.folder.name} do not fit this model: {error}"
            ) from error
        return model.eval()


def shipped_run(name: str, runs: Path = RUNS) -> ShippedRun:
    """Read one of the runs that came with the package."""
    folder = runs / name
    if not (folder / "run.json").exists():
        known = ", ".join(sorted(path.parent.name for path in runs.glob("*/run.json"))) or "none"
        raise ValueError(f"no run {name!r} came with lecturelib; there are: {known}")
    try:
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        lines = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
        return ShippedRun(folder, facts, [json.loads(line) for line in lines])
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"the run in {folder} is damaged: {error}; install lecturelib again") from error


def save_shipped_run(
    folder: Path | str,
    facts: dict[str, Any],
    rows: list[dict[str, Any]],
    model: nn.Module | None = None,
    *,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write a run as `shipped_run` reads it; weights, if any, first, so that a run.json never stands alone.

    Args:
        folder: lecturelib/runs/NAME
        facts: at least command, seed, config and results; all must be plain values
        rows: the history
        model: whose weights to keep; none when left out
        dtype: how to store floating-point weights; half precision halves what every reader downloads
    """
    missing = [name for name in REQUIRED_FACTS if name not in facts]
    if missing:
        raise ValueError(f"facts must say {', '.join(REQUIRED_FACTS)}; missing: {', '.join(missing)}")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if model is not None:
        weights = {
            name: tensor.detach()
            .to("cpu", dtype if tensor.is_floating_point() else tensor.dtype, copy=True)
            .contiguous()
            for name, tensor in model.state_dict().items()
        }
        fresh = target / "weights.safetensors.tmp"
        save_file(weights, fresh)
        settle(fresh, target / "weights.safetensors")
    replace_text(target / "history.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    replace_text(target / "run.json", json.dumps(facts, indent=2) + "\n")
