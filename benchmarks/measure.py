"""Time several ways of doing the same work fairly: warmed up, taking turns, medians; as JSON and as a table."""

import importlib.util
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


def prepare_torchvision() -> torch.library.Library | None:
    """Let timm, vit-pytorch and transformers import a torchvision that was built for another torch.

    Where its compiled operators cannot be loaded, it still looks two of them up by name when it is imported. The models
    need neither, so a declaration will do. The library must be kept: the declarations live as long as it does.
    """
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    try:
        torch.ops.load_library(next(Path(found.origin).parent.glob("_C*.so")))
    except (OSError, StopIteration):
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


TORCHVISION = prepare_torchvision()  # here, because every benchmark imports this file before its peers


@dataclass(frozen=True)
class Timing:
    """How long one way took: the median and the quartiles over all rounds, in seconds a call."""

    median: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Comparison:
    """One piece of work, done in several ways in turns.

    `ratios[name]` is the median over rounds of (time of name / time of the baseline in the same round): a slow spell
    of the machine hits both and cancels.
    """

    work: str
    baseline: str
    timings: dict[str, Timing]
    ratios: dict[str, float]


def compare(
    work: str,
    ways: Mapping[str, Callable[[], object]],
    *,
    baseline: str,
    rounds: int = 15,
    warmup: int = 3,
    calls: int = 1,
) -> Comparison:
    """Time each way `calls` times a round, taking turns, in an order that is drawn anew each round.

    Args:
        work: what is being done, for the table
        ways: name -> function without arguments
        baseline: the name that ratios are relative to
        rounds: how many turns each way gets
        warmup: turns of each that are not counted
        calls: calls in one turn; more for work of a few microseconds
    """
    if baseline not in ways:
        raise ValueError(f"the baseline {baseline!r} is not among the ways {[*ways]}")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    names, order = [*ways], random.Random(0)
    for turn in range(-warmup, rounds):
        order.shuffle(names)  # what ran just before leaves its traces in the caches: let it be another each time
        for name in names:
            begin = time.perf_counter()
            for _ in range(calls):
                ways[name]()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn >= 0:
                seconds[name].append((time.perf_counter() - begin) / calls)
    ratios = {
        name: statistics.median(a / b for a, b in zip(times, seconds[baseline], strict=True))
        for name, times in seconds.items()
    }
    return Comparison(work, baseline, {name: _summary(times) for name, times in seconds.items()}, ratios)


def report(name: str, comparisons: list[Comparison]) -> str:
    """Write benchmarks/results/<name>.json, and return the same numbers as a Markdown table."""
    RESULTS.mkdir(exist_ok=True)
    content = {"name": name, "machine": machine(), "comparisons": [asdict(comparison) for comparison in comparisons]}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")
    lines = ["| work | way | median ms | quartiles ms | time relative to |", "|---|---|---:|---:|---:|"]
    for comparison in comparisons:
        for way, timing in comparison.timings.items():
            quartiles = f"{1e3 * timing.low:.2f} – {1e3 * timing.high:.2f}"
            relative = f"{comparison.ratios[way]:.3f} × {comparison.baseline}"
            lines.append(f"| {comparison.work} | {way} | {1e3 * timing.median:.2f} | {quartiles} | {relative} |")
    return "\n".join(lines)


def machine() -> dict[str, object]:
    """What the numbers depend on, without naming the machine."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _summary(times: list[float]) -> Timing:
    low, median, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return Timing(median=median, low=low, high=high, rounds=len(times))
