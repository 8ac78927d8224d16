"""Scaling laws: how loss falls with parameters, data and compute, fitted, drawn again, and inverted.

Symbols are those of the papers: N parameters (embeddings left out), D tokens read in training, C operations in all.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]
Row = TypeVar("Row")
Fit = TypeVar("Fit")
PF_DAY = 1e15 * 24 * 3600  # a petaflop/s for a day, in operations
EXPONENTS = (0.02, 1.5)  # where fits look for exponents


class Optimum(NamedTuple):
    """How to spend a budget: parameters, tokens, and the loss that this gives."""

    parameters: float
    tokens: float
    loss: float


@dataclass(frozen=True, kw_only=True)
class DecayLaw:
    """A loss that falls to a floor as one thing grows: floor + factor / x ** exponent.

    Paper: Hoffmann et al. 2022 [hoffmann2022training]; with floor 0, Kaplan et al. 2020 [kaplan2020scaling].
    Differs: nothing.
    """

    floor: float
    factor: float
    exponent: float

    def __call__(self, x: float) -> float:
        return self.floor + self.factor / x**self.exponent


@dataclass(frozen=True, kw_only=True)
class LossLaw:
    """The loss of N parameters that have read D tokens: E + A / N^α + B / D^β.

    Paper: Hoffmann et al. 2022 [hoffmann2022training], Equation 2.
    Differs: nothing.

    Args:
        floor: E, what no model of any size gets below
        size_factor: A
        size_exponent: α
        data_factor: B
        data_exponent: β
    """

    floor: float
    size_factor: float
    size_exponent: float
    data_factor: float
    data_exponent: float

    def __call__(self, parameters: float, tokens: float) -> float:
        return self.of_size(parameters) + self.data_factor / tokens**self.data_exponent

    @property
    def of_size(self) -> DecayLaw:
        """L(N), the loss with as much data as one likes."""
        return DecayLaw(floor=self.floor, factor=self.size_factor, exponent=self.size_exponent)

    @property
    def of_data(self) -> DecayLaw:
        """L(D), the loss of as large a model as one likes."""
        return DecayLaw(floor=self.floor, factor=self.data_factor, exponent=self.data_exponent)

    @property
    def growth(self) -> float:
        """The exponent a of N ∝ C^a along the best way to spend compute, where C = 6 N D."""
        return self.data_exponent / (self.size_exponent + self.data_exponent)

    def optimum(self, flops: float, *, flops_per_token: Callable[[float], float] | None = None) -> Optimum:
        """Spend a budget best.

        Args:
            flops: C, all operations of the training
            flops_per_token: operations that a model of N parameters needs to learn from one token; 6 N when left out,
                which has a closed form (the paper's Equation 4). Any other is searched.
        """
        if flops <= 0:
            raise ValueError(f"flops={flops} must be a positive number of operations")
        if flops_per_token is None:
            ratio = self.size_exponent * self.size_factor / (self.data_exponent * self.data_factor)
            parameters = ratio ** (1 / (self.size_exponent + self.data_exponent)) * (flops / 6) ** self.growth
            tokens = flops / 6 / parameters
        else:
            sizes = [flops ** (place / 4000) for place in range(40, 4000)]
            parameters = min(sizes, key=lambda size: self(size, flops / flops_per_token(size)))
            tokens = flops / flops_per_token(parameters)
        return Optimum(parameters, tokens, self(parameters, tokens))


CHINCHILLA = LossLaw(floor=1.69, size_factor=406.4, size_exponent=0.34, data_factor=410.7, data_exponent=0.28)
# Besiroglu et al. 2024 [besiroglu2024chinchilla] fitted the same points again, and found the first fit not converged.
CHINCHILLA_REFITTED = LossLaw(
    floor=1.8172, size_factor=482.01, size_exponent=0.3478, data_factor=2085.43, data_exponent=0.3658
)
KAPLAN_OF_SIZE = DecayLaw(floor=0.0, factor=8.8e13**0.076, exponent=0.076)
KAPLAN_OF_DATA = DecayLaw(floor=0.0, factor=5.4e13**0.095, exponent=0.095)
KAPLAN_OF_COMPUTE = DecayLaw(floor=0.0, factor=(3.1e8 * PF_DAY) ** 0.050, exponent=0.050)


def kaplan_optimum(flops: float) -> Optimum:
    """Spend a budget as advised in 2020: almost all of its growth goes into the model.

    Paper: Kaplan et al. 2020 [kaplan2020scaling], Table 6 and Equation 1.3.
    Differs: nothing; tokens are what C = 6 N D leaves. Their budgets are those at a small batch.
    """
    parameters = 1.3e9 * (flops / PF_DAY) ** 0.73
    return Optimum(parameters, flops / 6 / parameters, KAPLAN_OF_COMPUTE(flops))


def fit_decay(x: Numbers, losses: Numbers) -> DecayLaw:
    """Fit loss ≈ floor + factor / x ** exponent: least squares of the relative errors.

    For a given exponent the rest is linear, so only the exponent is searched, over `EXPONENTS`.
    """
    (exponent,), (floor, factor) = _fit([x], losses)
    return DecayLaw(floor=floor, factor=factor, exponent=exponent)


def fit_loss_law(parameters: Numbers, tokens: Numbers, losses: Numbers) -> LossLaw:
    """Fit E, A, α, B and β to trainings of many sizes on many amounts of text.

    Paper: Hoffmann et al. 2022 [hoffmann2022training], Section 3.3 (approach 3).
    Differs: least squares of the relative errors instead of a Huber loss on logarithms. For given exponents the rest
    is linear, so only α and β are searched, over `EXPONENTS`, and no start can be a wrong one.
    """
    (alpha, beta), (floor, size, data) = _fit([parameters, tokens], losses)
    return LossLaw(floor=floor, size_factor=size, size_exponent=alpha, data_factor=data, data_exponent=beta)


def iso_flop_minimum(parameters: Numbers, losses: Numbers) -> tuple[float, float]:
    """The best size of one budget, and its loss: the lowest point of a parabola in log N through the trainings.

    Paper: Hoffmann et al. 2022 [hoffmann2022training], Section 3.2 (approach 2).
    Differs: nothing.
    """
    if len(set(parameters)) < 3 or len(parameters) != len(losses):
        raise ValueError(
            f"a parabola needs three different sizes or more with a loss each, got {len(set(parameters))} sizes "
            f"and {len(losses)} losses"
        )
    logs = np.log(np.asarray(parameters, dtype=np.float64))
    middle = logs.mean()
    bend, slope, height = np.polyfit(logs - middle, np.asarray(losses, dtype=np.float64), 2)
    if bend <= 0:
        raise ValueError("the losses of this budget bend downwards, so no size is the best: train more sizes on it")
    return float(np.exp(middle - slope / (2 * bend))), float(height - slope**2 / (4 * bend))


def bootstrap(rows: Sequence[Row], fit: Callable[[list[Row]], Fit], *, draws: int = 200, seed: int = 0) -> list[Fit]:
    """Fit again and again to as many rows, drawn with replacement: how far the fits differ is how sure one can be.

    A draw that can't be fitted (ValueError: too few different ones) is drawn anew.

    Paper: Efron 1979 [efron1979bootstrap].
    Differs: nothing.
    """
    chance, found = np.random.default_rng(seed), []
    for _ in range(20 * draws):
        try:
            found.append(fit([rows[int(index)] for index in chance.integers(len(rows), size=len(rows))]))
        except ValueError:
            continue
        if len(found) == draws:
            return found
    raise ValueError(f"only {len(found)} of {20 * draws} draws of these {len(rows)} rows could be fitted")


def interval(values: Numbers, *, inside: float = 0.9) -> tuple[float, float]:
    """The range that holds this part of the values, as many left out below as above."""
    if not 0 < inside < 1:
        raise ValueError(f"inside={inside} is a part of the values, and must lie between 0 and 1")
    low, high = np.quantile(np.asarray(values, dtype=np.float64), [(1 - inside) / 2, (1 + inside) / 2])
    return float(low), float(high)


def _fit(inputs: list[Numbers], losses: Numbers) -> tuple[list[float], list[float]]:
    """Find exponents and non-negative coefficients of 1 and of each x ** -exponent: -> exponents, coefficients."""
    y = np.asarray(losses, dtype=np.float64)
    logs = [np.log(np.asarray(x, dtype=np.float64)) for x in inputs]
    if any(len(log) != len(y) for log in logs) or len(y) < 2 * len(logs) + 1:
        raise ValueError(
            f"{2 * len(logs) + 1} or more losses, with an x each, are needed to fit as many constants; got {len(y)}"
        )
    if not (np.isfinite(y).all() and (y > 0).all() and all(np.isfinite(log).all() for log in logs)):
        raise ValueError("sizes and losses must be positive numbers")
    if any(np.ptp(log) == 0 for log in logs):
        raise ValueError("two or more different sizes are needed to see how the loss falls with them")
    low, high = np.full(len(logs), math.log(EXPONENTS[0])), np.full(len(logs), math.log(EXPONENTS[1]))
    for _ in range(9):  # ever finer grids around the best
        axes = [np.exp(np.linspace(a, b, 13)) for a, b in zip(low, high, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(logs))  # (G, inputs)
        errors, coefficients = _linear(grid, logs, y)
        best = int(errors.argmin())
        if not np.isfinite(errors[best]):
            raise ValueError("no falling law fits these losses: do they fall as the sizes grow?")
        width = (high - low) / 6
        low, high = np.log(grid[best]) - width, np.log(grid[best]) + width
        low, high = np.maximum(low, math.log(EXPONENTS[0])), np.minimum(high, math.log(EXPONENTS[1]))
    return grid[best].tolist(), coefficients[best].tolist()


def _linear(
    grid: NDArray[np.float64], logs: list[NDArray[np.float64]], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted least squares for each choice of exponents: -> errors (G,), infinite where one is negative, and all."""
    centres = [log.mean() for log in logs]
    columns = [np.ones((len(grid), len(y)))]
    for place, (log, centre) in enumerate(zip(logs, centres, strict=True)):
        columns.append(np.exp(-grid[:, place, None] * (log - centre)))
    design = np.stack(columns, axis=-1) / y[:, None]  # (G, rows, 1 + inputs): relative errors
    gram = design.swapaxes(1, 2) @ design + 1e-12 * np.eye(len(columns))
    solution = np.linalg.solve(gram, design.sum(axis=1)[..., None])[..., 0]  # (G, 1 + inputs)
    errors = np.square((design @ solution[..., None])[..., 0] - 1).sum(axis=1)
    errors = np.where((solution < 0).any(axis=1), np.inf, errors)
    scale = np.exp(grid * np.array(centres))  # what centring the logarithms left out
    return errors, np.concatenate([solution[:, :1], solution[:, 1:] * scale], axis=1)
