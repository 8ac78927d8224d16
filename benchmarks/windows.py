"""Attention in windows against global attention as pictures grow, memory and time: `python benchmarks/windows.py`."""

import argparse
import json
import multiprocessing
import resource
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from measure import RESULTS, compare, machine
from torch import Tensor, nn

from lecturelib.evaluation import count_activation_bytes, fit_power_law
from lecturelib.layers import MultiHeadAttention, WindowAttention

WIDTH, HEADS, WINDOW, PATCH = 96, 3, 7, 4  # the first stage of Swin-T
WAYS = ("windows", "global, fused", "global, weights stored")


@dataclass(frozen=True)
class Row:
    """One way at one size of picture: megabytes kept for the backward pass, the process's peak growth, and time."""

    way: str
    pixels: int
    patches: int
    kept_megabytes: float
    peak_megabytes: float
    milliseconds: float
    kept_ratio: float  # relative to windows, in the same run
    peak_ratio: float
    time_ratio: float


class Layer(nn.Module):
    """One attention layer over a grid of patches."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way = way
        self.attention = MultiHeadAttention(WIDTH, HEADS)
        self.windows = WindowAttention(self.attention, (WINDOW, WINDOW))

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "windows":
            return self.windows(x)
        if self.way == "global, fused":
            return self.attention(x.flatten(1, 2))
        return self.attention(x.flatten(1, 2), need_weights=True)[0]


def grid(pixels: int) -> Tensor:
    """The patches of one picture."""
    return torch.randn(1, pixels // PATCH, pixels // PATCH, WIDTH, requires_grad=True)


def step(layer: Layer, x: Tensor) -> Callable[[], None]:
    def once() -> None:
        layer(x).sum().backward()

    return once


def peak_megabytes(way: str, sides: list[int]) -> list[float]:
    """How far forward and backward passes over growing pictures raise the peak of a fresh process's memory."""
    torch.set_num_threads(1)
    layer, peaks = Layer(way), []
    step(layer, grid(2 * WINDOW * PATCH))()  # what the first pass of all needs is no part of it
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for pixels in sides:
        step(layer, grid(pixels))()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peaks.append((after - before) / (2**20 if sys.platform == "darwin" else 2**10))
    return peaks


def measure_peaks(sides: list[int]) -> dict[str, dict[int, float]]:
    """Way -> side of the picture -> megabytes, each way in a process of its own."""
    peaks = {}
    for way in WAYS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            peaks[way] = dict(zip(sides, pool.apply(peak_megabytes, (way, sides)), strict=True))
    return peaks


def rows_for(pixels: int, peaks: dict[str, dict[int, float]], rounds: int) -> list[Row]:
    """All ways at one size, timed in turns."""
    ways = {way: Layer(way) for way in WAYS}
    kept = {way: count_activation_bytes(layer, grid(pixels)) / 2**20 for way, layer in ways.items()}
    peak = {way: peaks[way][pixels] for way in WAYS}
    x = grid(pixels)
    runs = {way: step(layer, x) for way, layer in ways.items()}
    comparison = compare(f"{pixels} pixels", runs, baseline="windows", rounds=rounds, warmup=1)
    return [
        Row(
            way=way,
            pixels=pixels,
            patches=(pixels // PATCH) ** 2,
            kept_megabytes=kept[way],
            peak_megabytes=peak[way],
            milliseconds=1e3 * comparison.timings[way].median,
            kept_ratio=kept[way] / kept["windows"],
            peak_ratio=peak[way] / max(peak["windows"], 1e-9),
            time_ratio=comparison.ratios[way],
        )
        for way in WAYS
    ]


def exponents(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Fit cost ≈ c · patches ** p to what is kept and to the time, for every way."""
    fits: dict[str, dict[str, float]] = {}
    for way in WAYS:
        mine = [row for row in rows if row.way == way]
        patches = [row.patches for row in mine]
        fits[way] = {
            "kept": fit_power_law(patches, [row.kept_megabytes for row in mine])[1],
            "time": fit_power_law(patches, [row.milliseconds for row in mine])[1],
        }
    return fits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns each way gets (default 5)")
    parser.add_argument("--pixels", type=int, nargs="+", default=[84, 112, 168, 224], help="sides of the pictures")
    arguments = parser.parse_args()
    sides = sorted(arguments.pixels)
    peaks = measure_peaks(sides)
    rows = [row for pixels in sides for row in rows_for(pixels, peaks, arguments.rounds)]
    fits = exponents(rows)
    RESULTS.mkdir(exist_ok=True)
    content = {"name": "windows", "machine": machine(), "rows": [asdict(row) for row in rows], "exponents": fits}
    (RESULTS / "windows.json").write_text(json.dumps(content, indent=2) + "\n")
    print("| picture | patches | way | kept MB | peak MB | ms | kept, peak, time relative to windows |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for row in rows:
        relative = f"{row.kept_ratio:.2f} · {row.peak_ratio:.2f} · {row.time_ratio:.2f}"
        sizes = f"{row.kept_megabytes:.1f} | {row.peak_megabytes:.1f} | {row.milliseconds:.1f}"
        print(f"| {row.pixels} | {row.patches} | {row.way} | {sizes} | {relative} |")
    for way, fit in fits.items():
        print(f"{way}: kept ~ N^{fit['kept']:.2f}, time ~ N^{fit['time']:.2f}")


if __name__ == "__main__":
    main()
