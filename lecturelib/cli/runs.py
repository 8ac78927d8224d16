"""The folder of a training run: what was trained on what, so that it can be used, and gone on with, by its name."""

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lecturelib.cli.recipes import find_recipe

if TYPE_CHECKING:
    from torch import nn

    from lecturelib.cli.tasks import PairTask, Task, TextTask


def write_run(folder: Path, task: "Task", facts: dict[str, Any], config: Any) -> None:
    """Write what `load_run` reads: tokens, then run.json."""
    folder.mkdir(parents=True, exist_ok=True)
    task.save(folder)
    text = json.dumps(facts | {"config": dataclasses.asdict(config)}, indent=2)
    fresh = folder / "run.json.tmp"
    fresh.write_text(text + "\n", encoding="utf-8")
    os.replace(fresh, folder / "run.json")


def read_facts(folder: Path) -> dict[str, Any]:
    """Read run.json: model, data, preset, config."""
    path = folder / "run.json"
    if not path.exists():
        raise ValueError(f"{folder} is not the folder of a run (it has no run.json); train one with `lecturelib train`")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not (isinstance(facts, dict) and {"model", "data", "preset", "config"} <= facts.keys()):
        raise ValueError(f"{path} is damaged: it must name model, data, preset and config")
    return facts


def load_run(folder: Path, kind: str, device: str) -> "tuple[nn.Module, TextTask | PairTask]":
    """Load the best weights of a run (the last ones, where none was evaluated yet), in eval mode."""
    from lecturelib.cli.tasks import WORDS, PairTask, TextTask
    from lecturelib.training import choose_device, load_weights

    facts = read_facts(folder)
    recipe = find_recipe(facts["model"])
    if recipe.kind != kind:
        verb = {"language": "`lecturelib sample`", "pairs": "`lecturelib translate`"}[recipe.kind]
        raise ValueError(f"{folder} holds a {facts['model']}; use {verb} with it")
    try:
        model = recipe.rebuild(facts["config"])
    except TypeError as error:
        raise ValueError(f"the config in {folder / 'run.json'} is not one of a {recipe.model}: {error}") from error
    load_weights(model, folder, "best" if (folder / "best.json").exists() else "last")
    task = TextTask.load(folder) if kind == "language" else PairTask.load(folder, words=facts["data"] in WORDS)
    return model.to(choose_device(device)).eval(), task


def newest_run(kind: str, runs: Path = Path("runs")) -> Path:
    """The run of this kind that was trained last, for those who name none."""
    found = [
        path.parent for path in runs.glob("*/run.json") if find_recipe(read_facts(path.parent)["model"]).kind == kind
    ]
    if not found:
        example = {"language": "gpt --data shakespeare", "pairs": "seq2seq --data dates"}[kind]
        raise ValueError(f"there is no run in {runs}/ yet; train one with `lecturelib train {example}`")
    return max(found, key=lambda folder: (folder / "run.json").stat().st_mtime)
