"""How to spend a budget of compute: choose one, and see the size, the data and the loss that each law advises."""

import math
from collections.abc import Callable, Mapping, Sequence

from lecturelib.evaluation.laws import Optimum
from lecturelib.figures.explorers.explorer import Explorer

PER_DECADE = 4
"""Budgets in each factor of ten that the slider stops at."""


class BudgetExplorer(Explorer):
    """The best size, data and loss of every budget, by several laws side by side.

    Args:
        laws: by name, what gives the `Optimum` of a budget in operations, such as `CHINCHILLA.optimum`
        measured: (operations, parameters, tokens, loss) of budgets that were tried; drawn as points
        lowest: power of ten of the smallest budget
        highest: power of ten of the largest
        start: power of ten to open on
    """

    title = "How large a model, for this much compute?"
    hint = "move the budget up to 10²³ and compare the advice of 2020 with that of 2022."

    def __init__(
        self,
        laws: Mapping[str, Callable[[float], Optimum]],
        measured: Sequence[tuple[float, float, float, float]] = (),
        *,
        lowest: int = 10,
        highest: int = 26,
        start: int = 13,
    ) -> None:
        if not laws or not lowest <= start <= highest or lowest == highest:
            raise ValueError(
                f"BudgetExplorer needs a law or more, got {len(laws)}, and lowest={lowest} <= start={start} <= "
                f"highest={highest}, not all the same"
            )
        self.laws, self.measured = dict(laws), list(measured)
        self.lowest, self.highest, self.start = lowest, highest, start

    @property
    def powers(self) -> list[float]:
        """The powers of ten that the slider stops at."""
        return [self.lowest + stop / PER_DECADE for stop in range((self.highest - self.lowest) * PER_DECADE + 1)]

    def data(self) -> dict[str, object]:
        found = {name: [law(10**power) for power in self.powers] for name, law in self.laws.items()}
        return {
            "powers": self.powers,
            "start": (self.start - self.lowest) * PER_DECADE,
            "laws": [
                {"name": name, "values": [[_short(number) for number in optimum] for optimum in optima]}
                for name, optima in found.items()
            ],
            "measured": [[_short(number) for number in point] for point in self.measured],
        }

    def text(self) -> str:
        flops = 10.0**self.start
        parts = []
        for name, law in self.laws.items():
            best = law(flops)
            parts.append(
                f"{name}: {best.parameters:.3g} parameters and {best.tokens:.3g} tokens, for a loss of {best.loss:.2f}"
            )
        return f"With 10^{self.start} operations. " + "; ".join(parts) + "."


def _short(number: float) -> float:
    """Five digits, which is more than a line on a screen shows."""
    return float(f"{number:.5g}") if math.isfinite(number) else 0.0
