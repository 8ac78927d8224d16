"""Train a small GPT many times, as chapter 11 shows: with and without warm-up, at many rates, in large batches.

    python book/runs/warmup.py --run warmup_causes

The runs are `warmup_causes` (wiring × optimizer × warm-up), `warmup_map` (learning rate × warm-up), `large_batches`
(AdamW and LAMB, batch by batch, at equal data), and `norms` (what stands in place of the layer norm). Each takes two to
five minutes on one core, and goes to `lecturelib/runs/NAME`, a row for each training.
"""

import argparse
import itertools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lecturelib.data import shakespeare
from lecturelib.evaluation import mean_loss
from lecturelib.layers import AdaNorm, PowerNorm, initialise_deep_norm
from lecturelib.layers.block import Wiring
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import CharTokenizer, ContiguousWindows, RandomWindows
from lecturelib.training import (
    LAMB,
    Constant,
    Linear,
    NonFiniteError,
    RAdam,
    TrainConfig,
    decay_groups,
    next_token_loss,
    save_run,
    seed_everything,
    train,
)
from lecturelib.training.runs import RUNS

LENGTH, WIDTH, HEADS, DEPTH, BATCH, STEPS = 32, 32, 4, 12, 16, 200
CHARACTERS = 400_000
BETAS = (0.9, 0.98)  # those of the transformer of 2017
SEEDS = (0, 1, 2)
NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "ada": AdaNorm, "power": PowerNorm}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training: what is trained, and how."""

    wiring: str = "post_norm"
    num_layers: int = DEPTH
    norm: str = "layer"
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    warmup: int = 0
    steps: int = STEPS
    batch: int = BATCH
    falls: bool = False  # whether the rate falls to zero after the warm-up
    seed: int = 0


@cache
def text() -> tuple[CharTokenizer, torch.Tensor, torch.Tensor]:
    """The alphabet, and the first characters of Shakespeare's works to train on and to test on."""
    works = shakespeare()
    tokenizer = CharTokenizer.train(works.train + works.validation)
    train_ids, held_out = (
        torch.tensor(tokenizer.encode(part[:count]))
        for part, count in ((works.train, CHARACTERS), (works.validation, 16_384))
    )
    return tokenizer, train_ids, held_out


def config_of(case: Case) -> GPTConfig:
    return GPTConfig(
        vocab_size=text()[0].vocab_size,
        max_len=LENGTH,
        d_model=WIDTH,
        num_heads=HEADS,
        num_layers=case.num_layers,
        dropout=0.0,
        wiring=case.wiring,
    )


def build(case: Case) -> GPT:
    """A GPT whose matrices start Xavier-normal under every wiring, as the papers on deep post-norm stacks have it."""
    seed_everything(case.seed)
    model = GPT(config_of(case))
    if case.wiring != "deep_norm":  # which starts so by itself, but smaller
        initialise_deep_norm(model.blocks, beta=1.0)
    if case.norm != "layer":
        for part in model.modules():
            if isinstance(part, Wiring):
                part.norm = NORMS[case.norm](WIDTH)  # type: ignore[assignment]
    return model


def optimizer_of(case: Case) -> Callable[[nn.Module], Optimizer]:
    """A maker of the optimizer; all have the same weight decay on the same weights."""

    def make(model: nn.Module) -> Optimizer:
        groups = decay_groups(model, 0.01)
        if case.optimizer == "adam":
            return torch.optim.AdamW(groups, lr=case.learning_rate, betas=BETAS, fused=True)
        kind = {"radam": RAdam, "lamb": LAMB}[case.optimizer]
        return kind(groups, lr=case.learning_rate, betas=BETAS)

    return make


def held_out_loss(model: nn.Module) -> float:
    """Mean surprise in nats per character over the held-out text."""
    windows = ContiguousWindows(text()[2], batch_size=64, length=LENGTH)
    return mean_loss(model, (windows(step) for step in range(windows.steps_per_pass)), next_token_loss)


def trained(case: Case) -> tuple[GPT, dict[str, Any]]:
    """Train a case; its row has the held-out loss, and the loss of the training batches, some of them averaged."""
    model = build(case)
    rises_only = Constant(warmup=case.warmup)
    schedule = Linear(steps=max(case.steps, case.warmup + 1), warmup=case.warmup) if case.falls else rises_only
    config = TrainConfig(
        steps=case.steps, learning_rate=case.learning_rate, schedule=schedule, clip=None, seed=case.seed, device="cpu"
    )
    batches = RandomWindows(text()[1], batch_size=case.batch, length=LENGTH, seed=case.seed)
    losses: list[float] = []
    try:
        losses = train(model, batches, next_token_loss, config, optimizer=optimizer_of(case))["loss"]
        found = held_out_loss(model.eval())
    except NonFiniteError:
        found = math.nan
    every = max(1, case.steps // 20)
    means = [sum(losses[i : i + every]) / len(losses[i : i + every]) for i in range(0, len(losses), every)]
    return model, {"case": asdict(case), "held_out": found, "losses": [round(mean, 4) for mean in means]}


def cause_cases() -> list[Case]:
    """Three wirings, two optimizers, with and without warm-up, at the same rate."""
    return [
        Case(wiring=wiring, optimizer=optimizer, warmup=warmup, learning_rate=CAUSE_RATE, seed=seed)
        for wiring, optimizer, warmup, seed in itertools.product(
            ("post_norm", "pre_norm", "deep_norm"), ("adam", "radam"), (0, WARMUP), SEEDS
        )
    ]


def map_cases() -> list[Case]:
    """Learning rates and warm-ups, for both wirings."""
    return [
        Case(wiring=wiring, learning_rate=rate, warmup=warmup, num_layers=6, steps=MAP_STEPS)
        for wiring, rate, warmup in itertools.product(("post_norm", "pre_norm"), MAP_RATES, MAP_WARMUPS)
    ]


def batch_cases() -> list[Case]:
    """Both optimizers in batches of each size, over the same number of texts, at several rates."""
    return [
        Case(
            wiring="pre_norm",
            num_layers=2,
            optimizer=optimizer,
            learning_rate=rate,
            batch=batch,
            steps=TEXTS // batch,
            warmup=TEXTS // batch // 10,
            falls=True,
        )
        for batch in BATCHES
        for optimizer, rates in RATES.items()
        for rate in rates
    ]


def norm_cases() -> list[Case]:
    return [
        Case(wiring=wiring, norm=norm, num_layers=6, learning_rate=3e-3, warmup=WARMUP, seed=seed)
        for wiring, norm, seed in itertools.product(("post_norm", "pre_norm"), NORMS, SEEDS)
    ]


WARMUP, CAUSE_RATE = 50, 3e-3
MAP_STEPS, MAP_RATES, MAP_WARMUPS = 150, (3e-4, 1e-3, 3e-3, 1e-2, 3e-2), (0, 5, 15, 50, 100)
TEXTS, BATCHES = 16_384, (16, 64, 256, 1024)
RATES = {"adam": (1e-3, 3e-3, 1e-2, 3e-2), "lamb": (3e-3, 1e-2, 3e-2, 1e-1)}
CASES: dict[str, Callable[[], list[Case]]] = {
    "warmup_causes": cause_cases,
    "warmup_map": map_cases,
    "large_batches": batch_cases,
    "norms": norm_cases,
}


def command(name: str) -> str:
    return f"python book/runs/warmup.py --run {name}"


def name_of(case: Case) -> str:
    return ", ".join(f"{key} {value}" for key, value in asdict(case).items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=sorted(CASES), required=True)
    parser.add_argument("--folder", type=Path, help="where to write; lecturelib/runs/NAME when left out")
    parser.add_argument("--first", type=int, help="only so many of the cases")
    parser.add_argument("--steps", type=int, help="other than a case says")
    given = parser.parse_args()
    cases, rows = CASES[given.run]()[: given.first], []
    for case in cases:
        _, row = trained(case if given.steps is None else replace(case, steps=given.steps))
        rows.append(row)
        print(f"{row['held_out']:.3f}  {name_of(case)}", flush=True)
    facts = {
        "command": command(given.run),
        "seed": sorted({case.seed for case in cases}),
        "config": asdict(config_of(cases[0])) | {"characters": CHARACTERS},
        "results": {name_of(case): row["held_out"] for case, row in zip(cases, rows, strict=True)},
    }
    save_run(given.folder or RUNS / given.run, facts, rows)


if __name__ == "__main__":
    main()
