"""The task that goes with a recipe: data, tokens, batches, loss and evaluation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from lecturelib.recipes import pairs, texts
from lecturelib.recipes.masked import MaskedTask
from lecturelib.recipes.recipe import Recipe


class Trainable(Protocol):
    """What training needs to know of a task; `monitor` names the number that decides on the best weights."""

    monitor: str
    higher_is_better: bool

    @property
    def sizes(self) -> dict[str, int]:
        """The fields of the model's config that the data decides."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Any: ...

    def batches(self, batch_size: int, seed: int) -> Callable[[int], Any]: ...

    def evaluate(self, model: nn.Module) -> dict[str, float]: ...

    def show(self, model: nn.Module) -> str:
        """A few lines that let a reader see what the model can do."""
        ...

    def final(self, model: nn.Module) -> tuple[str, dict[str, float]]:
        """One line on held-out data that nothing was chosen by, and its numbers."""
        ...

    def save(self, folder: Path) -> None: ...


def make_task(recipe: Recipe, data: str, preset: str) -> tuple[Trainable, Any]:
    """Load the data, and make the config that fits it."""
    known = pairs.PAIRS if recipe.kind == "pairs" else texts.TEXTS
    if data not in known:
        raise ValueError(f"--data {data} is not for {recipe.model}; choose one of {', '.join(known)}")
    task: Trainable
    if recipe.kind == "pairs":
        task = pairs.PairTask.from_data(data, shared=recipe.shared_vocabulary)
    else:
        length = getattr(recipe.configure(preset, vocab_size=1), "max_len", 64)
        kind = texts.TextTask if recipe.kind == "language" else MaskedTask
        task = kind.from_data(data, length)
    return task, recipe.configure(preset, **task.sizes)
