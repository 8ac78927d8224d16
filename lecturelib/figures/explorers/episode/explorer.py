"""Episodes of a decision transformer, step by step: where it stands, what is asked for, and what it attended to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack

KINDS = ("return-to-go", "state", "action")


@dataclass(frozen=True)
class EpisodeExample:
    """One episode of T steps on a grid.

    Args:
        name: what to call it, such as "asked for 0.6"
        cells: (T, 2) row and column before each action
        notes: for each step a few words on what the cell does not say, such as "with the key"; may be empty
        asked: (T,) return-to-go shown to the model
        actions: the name of each action taken
        chances: (T, A) what the model gave each action, in the order of the explorer's `actions`
        weights: (L, T, 3, T) attention of the state token of step t, by layer, to the return-to-go, state and action of
            each step; zero where it may not look
        earned: the return in the end
    """

    name: str
    cells: ArrayLike
    notes: Sequence[str]
    asked: ArrayLike
    actions: Sequence[str]
    chances: ArrayLike
    weights: ArrayLike
    earned: float


class EpisodeExplorer(Explorer):
    """Walk through an episode: the grid with the agent, and the attention behind the action of each step.

    Args:
        examples: at least one
        grid: rows of marks, one for each cell: `#` is a wall, any other letter is written into its cell, `.` is not
        actions: names of the actions
        start: example and step (from 0) shown first
    """

    title = "What did it look at before it acted?"
    hint = "play the episode, then ask for another return."

    def __init__(
        self,
        examples: Sequence[EpisodeExample],
        *,
        grid: Sequence[str],
        actions: Sequence[str],
        start: tuple[int, int] = (0, 0),
    ) -> None:
        if not examples:
            raise ValueError("EpisodeExplorer: give at least one EpisodeExample, got none")
        self.examples, self.grid, self.actions = list(examples), list(grid), list(actions)
        self.layers = int(np.shape(examples[0].weights)[0])
        for number, example in enumerate(self.examples):
            self._check(number, example)
        if not (0 <= start[0] < len(examples) and 0 <= start[1] < len(examples[start[0]].actions)):
            raise ValueError(f"start={start} is outside the {len(examples)} episodes and their steps")
        self.start = start

    def _check(self, number: int, example: EpisodeExample) -> None:
        steps = len(example.actions)
        wanted = {
            "cells": (steps, 2),
            "notes": (steps,),
            "asked": (steps,),
            "chances": (steps, len(self.actions)),
            "weights": (self.layers, steps, len(KINDS), steps),
        }
        for name, shape in wanted.items():
            given = (len(example.notes),) if name == "notes" else np.shape(getattr(example, name))
            if given != shape or steps == 0:
                raise ValueError(f"episode {number} has {steps} steps, so {name} must be {shape}, got {given}")
        if unknown := set(example.actions) - set(self.actions):
            raise ValueError(f"episode {number} has actions {sorted(unknown)}; known are {self.actions}")
        for row, column in np.asarray(example.cells).tolist():
            if not (0 <= row < len(self.grid) and 0 <= column < len(self.grid[0])) or self.grid[row][column] == "#":
                raise ValueError(f"episode {number} stands at ({row}, {column}), which is no free cell of the grid")

    def data(self) -> dict[str, object]:
        return {
            "grid": self.grid,
            "actions": self.actions,
            "kinds": list(KINDS),
            "layers": self.layers,
            "start": list(self.start),
            "examples": [
                {
                    "name": example.name,
                    "cells": np.asarray(example.cells).astype(int).tolist(),
                    "notes": list(example.notes),
                    "asked": [round(float(value), 3) for value in np.asarray(example.asked)],
                    "taken": [self.actions.index(action) for action in example.actions],
                    "chances": pack(example.chances),
                    "weights": pack(example.weights),
                    "earned": round(float(example.earned), 3),
                }
                for example in self.examples
            ],
        }

    def text(self) -> str:
        ends = [f"“{one.name}”: {len(one.actions)} steps, earned {one.earned:.2f}" for one in self.examples]
        example, step = self.examples[self.start[0]], self.start[1]
        weights = np.asarray(example.weights)[-1, step]  # (3, T)
        kind, when = np.unravel_index(int(weights.argmax()), weights.shape)
        return (
            f"{'; '.join(ends)}. In “{example.name}”, before step {step + 1} ({example.actions[step]}), the last layer "
            f"looks most at the {KINDS[kind]} of step {int(when) + 1}."
        )
