"""Use a run again: find it, build its model, load its weights."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lecturelib.recipes.recipe import Recipe, find_recipe

if TYPE_CHECKING:
    from torch import nn

    from lecturelib.training import Run

VERBS = {"language": "`lecturelib sample`", "pairs": "`lecturelib translate`", "masked": "Python"}


def recipe_of(run: "Run") -> Recipe:
    """The recipe that a run was made by."""
    path = run.folder / "run.json"
    if "model" not in run.facts:
        raise ValueError(f"{path} names no model, so only Python can use this run (`lecturelib.training.find_run`)")
    try:
        return find_recipe(run.facts["model"])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def load_model(run: "Run", kind: str, device: str) -> "nn.Module":
    """Build the model of a run that must be of this kind, with its weights, in eval mode."""
    from lecturelib.training import choose_device

    recipe = recipe_of(run)
    if recipe.kind != kind:
        raise ValueError(f"{run.folder} holds a {run.facts['model']}; use {VERBS[recipe.kind]} with it")
    try:
        model = recipe.rebuild(run.facts["config"])
    except TypeError as error:
        raise ValueError(f"the config in {run.folder / 'run.json'} is not one of a {recipe.model}: {error}") from error
    return run.load_into(model).to(choose_device(device))


def newest_run(kind: str, runs: Path = Path("runs")) -> "Run":
    """The run of this kind that was trained last, for those who name none; a folder that is no run is passed over."""
    from lecturelib.training import read_run

    found = []
    for folder in sorted(runs.iterdir()) if runs.is_dir() else []:
        if not folder.is_dir():
            continue
        try:
            run = read_run(folder)
            is_wanted = recipe_of(run).kind == kind
        except ValueError as error:
            print(f"lecturelib: passing over {' '.join(str(error).split())}", file=sys.stderr)
            continue
        if is_wanted:
            found.append(run)
    if not found:
        example = {"language": "gpt --data shakespeare", "pairs": "seq2seq --data dates"}[kind]
        ready = {"language": "lecturelib sample gpt_shakespeare", "pairs": "lecturelib translate transformer_greek"}
        raise ValueError(
            f"there is no run in {runs}/ yet; train one with `lecturelib train {example}`, "
            f"or use one that came with lecturelib: `{ready[kind]}`"
        )
    return max(found, key=lambda run: (run.folder / "run.json").stat().st_mtime)
