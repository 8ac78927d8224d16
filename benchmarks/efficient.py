"""Mixers below quadratic cost against the libraries that have them, one layer: `python benchmarks/efficient.py`."""

import argparse
import warnings
from collections.abc import Callable

import torch
from measure import Comparison, compare, report
from torch import Tensor, nn

from lecturelib.layers import Linformer, MultiHeadAttention, Performer, Reformer, TiledAttention

with warnings.catch_warnings():  # performer-pytorch asks distutils for torch's version, which warns
    warnings.simplefilter("ignore")
    from linformer import LinformerSelfAttention
    from performer_pytorch import SelfAttention
    from reformer_pytorch import LSHSelfAttention

WIDTH, HEADS = 256, 4
MIXTURES, FEATURES, CHUNK, HASHES = 256, 266, 64, 8  # the peers' own defaults; features are Dh · ln Dh


def pairs(length: int) -> dict[str, dict[str, nn.Module]]:
    """The same layer twice, ours and the peer's, of equal sizes; only which projections have a bias differs."""
    buckets = length // CHUNK
    return {
        "Performer": {
            "lecturelib": Performer(WIDTH, HEADS, num_features=FEATURES),
            "performer-pytorch": SelfAttention(WIDTH, heads=HEADS, dim_head=WIDTH // HEADS, nb_features=FEATURES),
        },
        "Linformer": {
            "lecturelib": Linformer(WIDTH, HEADS, max_len=length, k=MIXTURES),
            "linformer": LinformerSelfAttention(WIDTH, seq_len=length, k=MIXTURES, heads=HEADS),
        },
        "Reformer": {
            "lecturelib": Reformer(WIDTH, HEADS, num_buckets=buckets, chunk=CHUNK, num_hashes=HASHES),
            "reformer-pytorch": LSHSelfAttention(WIDTH, heads=HEADS, bucket_size=CHUNK, n_hashes=HASHES),
        },
        "exact": {
            "fused": MultiHeadAttention(WIDTH, HEADS),
            "lecturelib": TiledAttention(WIDTH, HEADS),
        },
    }


def reading(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    def once() -> object:
        with torch.inference_mode():
            return layer(x)

    return once


def learning(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    def once() -> object:
        layer.zero_grad(set_to_none=True)
        return layer(x).square().mean().backward()

    return once


def comparisons(length: int, batch: int, rounds: int, only: list[str] | None) -> list[Comparison]:
    """Forward alone, and forward with backward, of every pair."""
    found = []
    torch.manual_seed(0)
    for name, ways in pairs(length).items():
        if only and name not in only:
            continue
        x = torch.randn(batch, length, WIDTH)
        for work, way in (("forward", reading), ("forward and backward", learning)):
            runs = {peer: way(layer.train(way is learning), x) for peer, layer in ways.items()}
            title = f"{name}, N = {length}, {work}"
            found.append(compare(title, runs, baseline="lecturelib", rounds=rounds, warmup=1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns each way gets (default 7)")
    parser.add_argument("--length", type=int, default=8192, help="tokens (default 8,192)")
    parser.add_argument("--batch", type=int, default=1, help="sequences (default 1)")
    parser.add_argument("--only", nargs="+", help="Performer, Linformer, Reformer or exact")
    arguments = parser.parse_args()
    print(report("efficient", comparisons(arguments.length, arguments.batch, arguments.rounds, arguments.only)))


if __name__ == "__main__":
    main()
