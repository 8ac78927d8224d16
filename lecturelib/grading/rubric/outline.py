"""What a rubric asks, without its tests: enough for every report, and plain data that needs no torch.

A grading run keeps it beside its results, so that reports can be written again and answers reviewed without running
the rubric.
"""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing a written answer is read for, worth points. A reader decides, not a test."""

    name: str
    points: float


@dataclass(frozen=True, kw_only=True)
class OutlinedExercise:
    """An exercise by name; `items` are what a written one is graded by, empty for one that tests grade."""

    name: str
    title: str
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OutlinedTest:
    """A test by name."""

    name: str
    exercise: str
    points: float
    visible: bool


@dataclass(frozen=True, kw_only=True)
class Outline:
    """A rubric's exercises and tests, in its order."""

    name: str
    title: str
    exercises: dict[str, OutlinedExercise]
    tests: tuple[OutlinedTest, ...]

    @cached_property
    def points(self) -> float:
        return sum(map(self.points_of, self.exercises))

    def points_of(self, exercise: str) -> float:
        tested = sum(test.points for test in self.tests if test.exercise == exercise)
        return tested + sum(item.points for item in self.exercises[exercise].items)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "Outline":
        """The inverse of `to_dict`; ValueError for anything that is not one."""
        try:
            exercises = {
                name: OutlinedExercise(**{**one, "items": tuple(Item(**item) for item in one["items"])})
                for name, one in raw["exercises"].items()
            }
            tests = tuple(OutlinedTest(**test) for test in raw["tests"])
            return cls(name=raw["name"], title=raw["title"], exercises=exercises, tests=tests)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not an outline of a rubric: {json.dumps(str(error))}") from error
