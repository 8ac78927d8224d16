"""How curved the loss is along training: walk through the steps of two runs, and look along the sharpest direction."""

from collections.abc import Mapping, Sequence
from typing import Any

from lecturelib.figures.explorers.explorer import Explorer, pack


class SharpnessExplorer(Explorer):
    """The sharpness (largest curvature) of the loss at steps of several runs, and the loss along that direction.

    Args:
        runs: by name, the steps that were looked at, each with "step", "loss", "sharpness", and "slice", the loss at
            the places `distances` along the sharpest direction
        distances: from the weights, in weights' units, evenly spaced and with 0 in the middle
    """

    title = "How curved is the ground?"
    hint = "play the run without warm-up, then the one with it."

    def __init__(self, runs: Mapping[str, Sequence[Mapping[str, Any]]], distances: Sequence[float]) -> None:
        lengths = {name: len(points) for name, points in runs.items()}
        if not runs or len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise ValueError(f"SharpnessExplorer: each run needs the same number of steps, at least one; got {lengths}")
        self.runs, self.distances = runs, list(distances)
        for name, points in runs.items():
            for point in points:
                if len(point["slice"]) != len(self.distances):
                    raise ValueError(
                        f"SharpnessExplorer: {name!r} at step {point['step']} has {len(point['slice'])} losses for "
                        f"{len(self.distances)} distances"
                    )

    def _table(self, column: str) -> list[list[Any]]:
        return [[point[column] for point in points] for points in self.runs.values()]

    def data(self) -> dict[str, object]:
        return {
            "names": list(self.runs),
            "steps": self._table("step")[0],
            "losses": pack(self._table("loss")),
            "sharpness": pack(self._table("sharpness")),
            "slices": pack(self._table("slice")),
            "distances": self.distances,
        }

    def text(self) -> str:
        peaks = ", ".join(
            f"{name}: {max(found):.3g} at most, {found[-1]:.3g} at the end"
            for name, found in zip(self.runs, self._table("sharpness"), strict=True)
        )
        return f"Largest curvature of the loss along training. {peaks}."
