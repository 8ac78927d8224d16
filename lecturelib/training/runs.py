"""Runs: one folder for what was trained, the same for those that ship with the package and those that you train.

    run.json             what was trained, and how to train it again: command, seed, config, results
    history.jsonl        one row a step, an evaluation or a setting, as the run measured it
    weights.safetensors  the trained weights, where something is shown of them

and, where text is read or written, tokens.json (or source.json and target.json). A run that `lecturelib train` is
still at work on has its checkpoints beside these. What ships is in lecturelib/runs/NAME.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from lecturelib.training.checkpoint import WEIGHTS, CheckpointError, load_weights, replace_text, save_weights
from lecturelib.training.history import json_line, read_history

RUNS = Path(__file__).resolve().parents[1] / "runs"
Model = TypeVar("Model", bound=nn.Module)
REQUIRED_FACTS = ("command", "seed", "config", "results")


@dataclass(frozen=True)
class Run:
    """One run that was made before: `facts` says how, `rows` is its history, `load_into` gives a model its weights."""

    folder: Path
    facts: dict[str, Any]
    rows: list[dict[str, Any]]

    def load_into(self, model: Model) -> Model:
        """Put the run's weights into a model of the same shape, in the model's own precision, and set it to eval.

        Those are its best; the last ones, where nothing was evaluated yet.
        """
        load_weights(model, self.folder, "best" if (self.folder / WEIGHTS).exists() else "last")
        return model.eval()


def read_run(folder: Path | str) -> Run:
    """Read the run in a folder; a folder that is none, or damaged, is an error that says so."""
    folder = Path(folder)
    path = folder / "run.json"
    if not path.exists():
        raise CheckpointError(f"{folder} is not the folder of a run: it has no run.json")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    missing = [name for name in REQUIRED_FACTS if not isinstance(facts, dict) or name not in facts]
    if missing:
        raise CheckpointError(f"{path} is damaged, or no run of ours: it says nothing of {', '.join(missing)}")
    rows = read_history(folder / "history.jsonl") if (folder / "history.jsonl").exists() else []
    return Run(folder, facts, rows)


def find_run(name: Path | str, runs: Path = RUNS) -> Run:
    """Read a run by the path of its folder or, where there is no such folder, by its name among those that ship."""
    if not (Path(name) / "run.json").exists() and (runs / name / "run.json").exists():
        return read_run(runs / name)
    if not Path(name).exists():
        raise ValueError(f"{name} is not the folder of a run, nor one that came with lecturelib ({_known(runs)})")
    return read_run(name)


def shipped_run(name: str, runs: Path = RUNS) -> Run:
    """Read one of the runs that came with the package."""
    if not (runs / name / "run.json").exists():
        raise ValueError(f"no run {name!r} came with lecturelib; there are: {_known(runs)}")
    return read_run(runs / name)


def save_run(
    folder: Path | str,
    facts: dict[str, Any],
    rows: list[dict[str, Any]] | None = None,
    model: nn.Module | None = None,
    *,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write a run as `read_run` reads it; weights, if any, first, so that a run.json never stands alone.

    Args:
        folder: where; lecturelib/runs/NAME for one that is to ship
        facts: at least command, seed, config and results; all must be plain values
        rows: the history; left out, the history.jsonl that training wrote stays as it is
        model: whose weights to keep; left out, those that training wrote stay as they are
        dtype: how to store floating-point weights; half precision halves what every reader downloads
    """
    missing = [name for name in REQUIRED_FACTS if name not in facts]
    if missing:
        raise ValueError(f"facts must say {', '.join(REQUIRED_FACTS)}; missing: {', '.join(missing)}")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if model is not None:
        save_weights(target / WEIGHTS, model.state_dict(), dtype=dtype)
    if rows is not None:
        replace_text(target / "history.jsonl", "".join(map(json_line, rows)))
    replace_text(target / "run.json", json.dumps(facts, indent=2) + "\n")


def _known(runs: Path) -> str:
    return ", ".join(sorted(path.parent.name for path in runs.glob("*/run.json"))) or "none"
