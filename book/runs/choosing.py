"""Train one skeleton with convolution, recurrence, attention and a pair of them, as chapter 21 compares them.

    python book/runs/choosing.py mixer_rates          # which learning rate suits which mixer, on all rules mixed
    python book/runs/choosing.py mixer_rules          # three rules, as the training set grows
    python book/runs/choosing.py mixer_patience       # recall with ten times the steps, of those that did not learn it
    python book/runs/choosing.py mixer_shakespeare    # the next letter of Shakespeare

Each writes lecturelib/runs/NAME, a row of history for every model trained. What is in the history already is not
trained again, so an interrupted run goes on where it stopped. All together take about a quarter of an hour of one core.

Two layers, as wide as sequences are long, and convolutions over six tokens: then a layer of each kind needs the same
number of operations for a sequence, and equal steps are equal operations.
"""

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data import RULES, SequenceBatch, Splits, mixed_rules, shakespeare
from lecturelib.models import LabellerConfig, SequenceLabeller
from lecturelib.tokens import CharTokenizer
from lecturelib.training import Cosine, TrainConfig, save_run, seed_everything, shipped_run, train
from lecturelib.training.runs import RUNS

STACKS = {
    "convolution": ("convolution", "convolution"),
    "recurrence": ("recurrence", "recurrence"),
    "attention": ("attention", "attention"),
    "pair": ("convolution", "attention"),
}
TASKS: dict[str, Callable[..., SequenceBatch]] = {**RULES, "mixed": mixed_rules}
SIZES, SEEDS, RATES = (16, 64, 256, 1024), (0, 1, 2), (3e-3, 1e-2, 3e-2)
LENGTH, LETTERS = 32, 300_000
BATCH, CLASSES, TEST, WEIGHT_DECAY = 16, 8, 600, 0.01
CHOSEN = {"convolution": 3e-2, "recurrence": 1e-2, "attention": 1e-2, "pair": 1e-2}  # by mixer_rates


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training: which stack learns what, from how many sequences (or letters), for how long."""

    stack: str
    task: str
    examples: int
    steps: int
    learning_rate: float
    seed: int


@cache
def text() -> Splits[str]:
    return shakespeare()


@cache
def letters() -> CharTokenizer:
    return CharTokenizer.train(text().train)


def sequences(case: Case) -> SequenceBatch:
    """What a case learns from: the first of an endless row that only the seed decides."""
    return TASKS[case.task](case.examples, length=LENGTH, seed=case.seed)


def excerpts(split: str, starts: Tensor) -> SequenceBatch:
    """Pieces of Shakespeare, and the letter after each letter."""
    ids = _ids(split)
    pieces = ids[starts[:, None] + torch.arange(LENGTH + 1)]  # (B, T + 1)
    return SequenceBatch(pieces[:, :-1], pieces[:, 1:], letters().vocab_size)


@cache
def _ids(split: str) -> Tensor:
    return torch.tensor(letters().encode(getattr(text(), split)))


def config_of(case: Case) -> LabellerConfig:
    mixers = STACKS[case.stack]
    if case.task == "shakespeare":
        return LabellerConfig(vocab_size=letters().vocab_size, num_classes=letters().vocab_size, mixers=mixers)
    vocab_size = TASKS[case.task](3, length=LENGTH).vocab_size
    return LabellerConfig(vocab_size=vocab_size, num_classes=CLASSES, mixers=mixers)


def batches(case: Case) -> Callable[[int], SequenceBatch]:
    """Batch i of a case, drawn anew from its training set."""
    data = None if case.task == "shakespeare" else sequences(case)

    def batch(step: int) -> SequenceBatch:
        generator = torch.Generator().manual_seed(1_000_003 * case.seed + step)
        if data is None:
            return excerpts("train", torch.randint(case.examples - LENGTH, (BATCH,), generator=generator))
        chosen = torch.randint(case.examples, (BATCH,), generator=generator)
        return SequenceBatch(data.inputs[chosen], data.targets[chosen], data.vocab_size)

    return batch


def held_out(case: Case) -> SequenceBatch:
    """Sequences that no training meets: of a seed of their own, or plays that are held out."""
    if case.task == "shakespeare":
        return excerpts("test", torch.arange(TEST // 2) * 2 * LENGTH)
    return TASKS[case.task](TEST, length=LENGTH, seed=-1)


def loss_of(model: nn.Module, batch: SequenceBatch) -> Tensor:
    return F.cross_entropy(model(batch.inputs).flatten(0, 1), batch.targets.flatten())


@torch.no_grad()
def judge(model: nn.Module, data: SequenceBatch) -> dict[str, float]:
    """The share of what is asked that the model answers as wanted, and its loss on it."""
    model.eval()
    logits = torch.cat([model(part) for part in data.inputs.split(100)])
    asked = data.targets >= 0
    right = (logits.argmax(dim=-1) == data.targets)[asked].double().mean()
    return {"accuracy": float(right), "loss": float(F.cross_entropy(logits[asked], data.targets[asked]))}


def learn(case: Case) -> tuple[SequenceLabeller, dict[str, Any]]:
    """Train one case; the model and its row."""
    seed_everything(case.seed)
    model, started = SequenceLabeller(config_of(case)), time.process_time()
    schedule = Cosine(steps=case.steps, warmup=case.steps // 10, floor=0.0)
    options = {"weight_decay": WEIGHT_DECAY, "seed": case.seed, "device": "cpu", "progress": False}
    config = TrainConfig(steps=case.steps, learning_rate=case.learning_rate, schedule=schedule, **options)
    losses = train(model, batches(case), loss_of, config)["loss"]
    row = {"case": asdict(case), **judge(model, held_out(case))}
    if case.task == "mixed":
        row["by_rule"] = {name: judge(model, part)["accuracy"] for name, part in by_rule(held_out(case)).items()}
    row["train_loss"] = sum(losses[-25:]) / 25
    return model, row | {"cpu_seconds": round(time.process_time() - started, 1)}


def by_rule(data: SequenceBatch) -> dict[str, SequenceBatch]:
    """The sequences of a mixture, rule by rule: they come in turn."""
    count = len(RULES)
    return {
        name: SequenceBatch(data.inputs[first::count], data.targets[first::count], data.vocab_size)
        for first, name in enumerate(RULES)
    }


def cases_of(name: str) -> list[Case]:
    """Every case of a run, seed by seed."""
    if name == "mixer_rates":
        make = partial(Case, task="mixed", examples=1024, steps=600, seed=0)
        return [make(stack=stack, learning_rate=rate) for stack in STACKS for rate in RATES]
    if name == "mixer_patience":
        make = partial(Case, task="recalling", examples=max(SIZES), steps=2400, seed=0)
        return [make(stack=stack, learning_rate=CHOSEN[stack]) for stack in ("convolution", "recurrence")]
    found = []
    for seed in SEEDS:
        for stack, rate in CHOSEN.items():
            make = partial(Case, stack=stack, learning_rate=rate, seed=seed)
            if name == "mixer_rules":
                asked = ("recalling",) if stack == "pair" else RULES
                found += [make(task=task, examples=n, steps=240) for task in asked for n in SIZES]
            else:
                found.append(make(task="shakespeare", examples=LETTERS, steps=300))
    return found


def label(case: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in case.items())


def command(name: str) -> str:
    return f"python book/runs/choosing.py {name}"


def run(name: str) -> None:
    """Train what is not in the history yet, and write it down after each."""
    stored = shipped_run(name).rows if (RUNS / name / "run.json").exists() else []
    rows = {label(row["case"]): row for row in stored}
    cases = cases_of(name)
    for case in cases:
        if label(asdict(case)) in rows:
            continue
        model, row = learn(case)
        if name == "mixer_rates":  # chosen on sequences that are neither trained on nor tested with
            row["validation"] = judge(model, TASKS[case.task](TEST, length=LENGTH, seed=-2))["accuracy"]
        rows[label(asdict(case))] = row
        print(f"{label(asdict(case))}: {row['accuracy']:.3f} {row['loss']:.3f} {row['cpu_seconds']} s", flush=True)
        kept = [rows[label(asdict(one))] for one in cases if label(asdict(one)) in rows]
        facts = {
            "command": command(name),
            "seed": sorted({one["case"]["seed"] for one in kept}),
            "config": {stack: asdict(config_of(replace(cases[0], stack=stack))) for stack in STACKS},
            "results": {label(one["case"]): one["accuracy"] for one in kept},
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
        }
        save_run(RUNS / name, facts, kept)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=("mixer_rates", "mixer_rules", "mixer_patience", "mixer_shakespeare"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    run(given.name)
