"""Measure how time and memory of every mixer grow with the length, as chapter 14 shows.

    python book/runs/efficient_growth.py

One layer, one sequence, one thread, to N = 16,384, where attention with all its weights stored takes about 3 GB while
it works. The time is that of the processor, so that other programs disturb it little, and the shortest of a few tries.
Memory is counted, not sampled: the bytes that a forward pass keeps for its backward pass. The run goes to
lecturelib/runs/efficient_growth, a row for every mixer and length; what is there already is not measured again (delete
the folder to do so).
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.evaluation import count_activation_bytes, count_parameters, imagined
from lecturelib.layers import (
    AdaptiveSpan,
    BigBird,
    Block,
    FeedForward,
    FourierMixing,
    LatentMixing,
    Linformer,
    LocalAttention,
    MultiHeadAttention,
    Performer,
    PreNorm,
    Reformer,
    SharedWorkspace,
    TiledAttention,
    TokenMixing,
    UniversalTransformer,
)
from lecturelib.training import read_run, save_run
from lecturelib.training.runs import RUNS

WIDTH, HEADS = 32, 1
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
STORED = "exact, weights stored"
TRIES, ENOUGH = 5, 0.5  # at most so many, and no more once they took so many seconds together


class WithWeights(nn.Module):
    """Attention as it is written down: all scores, all weights."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(WIDTH, HEADS)

    def forward(self, x: Tensor) -> Tensor:
        """Shapes: (B, T, D) -> (B, T, D)"""
        return self.attention(x, need_weights=True)[0]


def universal(_: int) -> nn.Module:
    block = Block(
        MultiHeadAttention(WIDTH, HEADS), FeedForward(WIDTH, 4 * WIDTH, activation=F.gelu), partial(PreNorm, WIDTH)
    )
    return UniversalTransformer(block, WIDTH, max_steps=2)


MIXERS: dict[str, Callable[[int], nn.Module]] = {  # each is given the length
    STORED: lambda _: WithWeights(),
    "exact, fused": lambda _: MultiHeadAttention(WIDTH, HEADS),
    "exact, tiled": lambda _: TiledAttention(WIDTH, HEADS, tile=256),
    "local": lambda _: LocalAttention(WIDTH, HEADS, window=32),
    "local + memory": lambda _: LocalAttention(WIDTH, HEADS, window=32, num_memory=16),
    "Big Bird": lambda length: BigBird(WIDTH, HEADS, max_len=length, block=32, num_random=2),
    "Reformer": lambda length: Reformer(WIDTH, HEADS, num_buckets=length // 32, chunk=32, num_hashes=2),
    "Linformer": lambda length: Linformer(WIDTH, HEADS, max_len=length, k=64),
    "Performer": lambda _: Performer(WIDTH, HEADS, num_features=64),
    "Perceiver": lambda _: LatentMixing(WIDTH, HEADS, num_latents=64),
    "Shared Workspace": lambda _: SharedWorkspace(WIDTH, HEADS, num_slots=8, num_writers=32),
    "adaptive span": lambda _: AdaptiveSpan(WIDTH, HEADS, max_span=32, ramp=32, start=16.0),
    "Universal Transformer": universal,
    "FNet": lambda _: FourierMixing(),
    "MLP-Mixer": lambda length: TokenMixing(length, 256),
}


def milliseconds(run: Callable[[], object]) -> float:
    """The shortest of a few tries, in the processor's time, after one that warms up where that is cheap."""
    times: list[float] = []
    while len(times) < TRIES and sum(times) < ENOUGH:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return round(1000 * min(times), 4)


def measured(mixer: str, length: int) -> dict[str, Any]:
    """Time of a forward pass, and of one with its backward pass; bytes kept between them."""
    torch.manual_seed(0)
    layer = MIXERS[mixer](length)
    x = torch.randn(1, length, WIDTH, requires_grad=True)

    def reading() -> None:
        with torch.inference_mode():
            layer(x)

    def learning() -> None:
        layer(x).square().mean().backward()

    with imagined():
        kept = count_activation_bytes(MIXERS[mixer](length), torch.zeros(1, length, WIDTH, requires_grad=True))
    return {
        "parameters": count_parameters(layer),
        "kept_bytes": kept,
        "forward_ms": milliseconds(reading),
        "both_ms": milliseconds(learning),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="lengths (default 256 to 16,384)")
    parser.add_argument("--folder", type=Path, default=RUNS / "efficient_growth")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = {"d_model": WIDTH, "num_heads": HEADS, "mixers": list(MIXERS), "sizes": arguments.sizes}
    facts = {"command": "python book/runs/efficient_growth.py", "seed": 0, "config": config, "torch": torch.__version__}
    rows = read_run(arguments.folder).rows if (arguments.folder / "run.json").exists() else []
    for length in sorted(arguments.sizes):
        for mixer in MIXERS:
            case = {"mixer": mixer, "length": length}
            if any(row["case"] == case for row in rows):
                continue
            rows.append({"case": case} | measured(mixer, length))
            print(rows[-1], flush=True)
            save_run(arguments.folder, facts | {"results": {"measured": len(rows)}}, rows)


if __name__ == "__main__":
    main()
