"""How long a computation takes, and how its cost grows with size."""

import math
import time
from collections.abc import Callable, Sequence

import torch


def seconds(run: Callable[[], object], *, repeats: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest of several runs, after one that does not count: what the work takes when nothing disturbs it.

    For work on the CPU in one thread, `clock=time.process_time` leaves out the time that other programs took.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    run()
    times = []
    for _ in range(repeats):
        _wait()
        start = clock()
        run()
        _wait()
        times.append(clock() - start)
    return min(times)


def fit_power_law(sizes: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Fit cost ≈ factor · size ** exponent by least squares in the logarithms; gives (factor, exponent)."""
    if len(sizes) != len(costs) or len(set(sizes)) < 2:
        raise ValueError(f"need two or more different sizes with a cost each, got {len(sizes)} and {len(costs)}")
    if min(*sizes, *costs) <= 0:
        raise ValueError("sizes and costs must be positive to be fitted by a power law")
    xs, ys = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    exponent = covariance / sum((x - x_mean) ** 2 for x in xs)
    return math.exp(y_mean - exponent * x_mean), exponent


def _wait() -> None:
    """Let an accelerator finish: it works on while Python has moved on."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()
