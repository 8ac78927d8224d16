"""Learning-rate schedules: a schedule turns a step number (0, 1, 2 …) into a factor on `TrainConfig.learning_rate`.

Any function of the step will do; these are the ones the papers use. All of them warm up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Schedule = Callable[[int], float]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """Rise in a straight line for `warmup` steps, then stay.

    Differs: nothing; it is bookkeeping, not from a paper.
    """

    warmup: int = 0

    def __post_init__(self) -> None:
        _check(self, warmup=self.warmup)

    def __call__(self, step: int) -> float:
        return _rise(step, self.warmup)


@dataclass(frozen=True, kw_only=True)
class Linear:
    """Rise for `warmup` steps, then fall in a straight line to `floor` at `steps`.

    Paper: Devlin et al. 2019 [devlin2019bert], Appendix A.2.
    Differs: the floor is a choice; the paper falls to zero.
    """

    steps: int
    warmup: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        _check(self, steps=self.steps, warmup=self.warmup, floor=self.floor)

    def __call__(self, step: int) -> float:
        left = 1 - _progress(step, self.warmup, self.steps)
        return min(_rise(step, self.warmup), self.floor + (1 - self.floor) * left)


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """Rise for `warmup` steps, then fall along half a cosine to `floor` at `steps`.

    Paper: Loshchilov and Hutter 2017 [loshchilov2017sgdr], Equation 5.
    Differs: one period without restarts, after a warm-up.
    """

    steps: int
    warmup: int = 0
    floor: float = 0.1

    def __post_init__(self) -> None:
        _check(self, steps=self.steps, warmup=self.warmup, floor=self.floor)

    def __call__(self, step: int) -> float:
        wave = (1 + math.cos(math.pi * _progress(step, self.warmup, self.steps))) / 2
        return min(_rise(step, self.warmup), self.floor + (1 - self.floor) * wave)


@dataclass(frozen=True, kw_only=True)
class Noam:
    """Rise for `warmup` steps, then fall with the inverse square root of the step.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Equation 3, with `learning_rate=1.0`.
    Differs: our steps count from 0 and the paper's from 1, so factor(step) is the paper's rate at step + 1.
    """

    d_model: int
    warmup: int = 4000

    def __post_init__(self) -> None:
        if self.d_model < 1 or self.warmup < 1:
            raise ValueError(f"Noam: d_model={self.d_model} and warmup={self.warmup} must both be at least 1")

    def __call__(self, step: int) -> float:
        return self.d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * self.warmup**-1.5)


def _rise(step: int, warmup: int) -> float:
    """Go from 1/warmup at step 0 to 1 at step warmup - 1, so that no step is wasted at a rate of zero."""
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


def _progress(step: int, warmup: int, steps: int) -> float:
    """Say how far the fall has come: 0 at the end of the warm-up, 1 at the last step and after it."""
    return min(1.0, max(0.0, (step + 1 - warmup) / max(1, steps - warmup)))


def _check(schedule: object, *, warmup: int, steps: int | None = None, floor: float = 0.0) -> None:
    name = type(schedule).__name__
    if warmup < 0:
        raise ValueError(f"{name}: warmup={warmup} must be 0 or more steps")
    if steps is not None and steps <= warmup:
        raise ValueError(f"{name}: steps={steps} must be more than warmup={warmup}, or nothing is left for the fall")
    if not 0 <= floor <= 1:
        raise ValueError(f"{name}: floor={floor} is a factor on the learning rate and must lie between 0 and 1")
