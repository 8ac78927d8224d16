"""The settings of a run: what was asked for, what the run in its folder was made with, and defaults for the rest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lecturelib.recipes.recipe import Recipe

STEPS = {"language": 2400, "pairs": 2000, "masked": 2400}
BATCH_SIZES = {"language": 8, "pairs": 64, "masked": 16}
DATA = {"language": "shakespeare", "pairs": "dates", "masked": "shakespeare"}
LARGEST_SEED = 2**63 - 1


def check_settings(asked: Mapping[str, Any]) -> None:
    """Refuse a number that can't be meant, by the name of its option, before any work is done."""
    seed = asked.get("seed")
    if seed is not None and not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"--seed {seed} must be a whole number from 0 to {LARGEST_SEED}")
    for option in ("steps", "batch_size", "evaluate_every", "learning_rate"):
        if (value := asked.get(option)) is not None and not 0 < value < float("inf"):
            raise ValueError(f"--{option.replace('_', '-')} {value} must be more than 0")
    if (ema := asked.get("ema")) is not None and not 0 < ema < 1:
        raise ValueError(f"--ema {ema} must be between 0 and 1, such as 0.999")


def new_settings(recipe: Recipe, asked: Mapping[str, Any], processes: int) -> dict[str, Any]:
    """Fill in what was not asked for; `accumulate` is how many batches the processes make of a step's examples."""
    given = {name: value for name, value in asked.items() if value is not None}
    steps = given.get("steps", STEPS[recipe.kind])
    defaults = {
        "steps": steps,
        "batch_size": BATCH_SIZES[recipe.kind],
        "learning_rate": 3e-4 if given["preset"] in recipe.papers else recipe.learning_rate,
        "evaluate_every": max(1, steps // 10),
        "precision": "fp32",
        "ema": None,
        "seed": 0,
        "accumulate": processes,
    }
    settings = defaults | given
    if settings["batch_size"] % processes:
        raise ValueError(f"--batch-size {settings['batch_size']} can't be shared evenly by {processes} processes")
    return settings


def old_settings(folder: Path, facts: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the run in a folder; whoever asks for others is told which they are.

    What may change from one resume to the next is where it runs: --device, --parallel and the number of processes.
    """
    settings = dict(facts["training"]) | {name: facts[name] for name in ("model", "data", "preset", "seed")}
    others = [
        f"{name.replace('_', ' ')} {settings.get(name)}, not {value}"
        for name, value in asked.items()
        if value is not None and settings.get(name) != value
    ]
    if others:
        raise ValueError(
            f"{folder} holds a run with {'; '.join(others)}. Leave that out to go on with it as it is "
            "(only --device and --parallel may change), or say --out for another folder"
        )
    return settings
