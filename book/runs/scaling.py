"""Train one GPT in many sizes on many budgets, and measure the scaling law of chapter 13.

    python book/runs/scaling.py --work runs/scaling

About an hour and a half on one core. It may be stopped, even killed, and started again: a training goes on where it
was, and each finished one is a row in `lecturelib/runs/scaling/history.jsonl` at once. The smallest budgets come first,
so the rows that are there at any time are a smaller study of the same kind.

Within a budget all trainings cost the same number of operations (IsoFLOP): a small model reads much text, a large one
little. The learning rate of each size is the best of a sweep by factors of two, chosen on validation text; losses are
reported on test text. When the grid is whole, the loss of a larger training is predicted and written down; then it is
trained. The text is the film reviews of chapter 12, a token a character, cut into windows that no
training sees twice within a pass.
"""

import argparse
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lecturelib.data import movie_reviews
from lecturelib.evaluation import (
    LossLaw,
    bootstrap,
    count_parameters,
    decoder_flops,
    fit_loss_law,
    fit_power_law,
    imagined,
    interval,
    mean_loss,
)
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import CharTokenizer, LanguageBatch, StepBatches
from lecturelib.training import Cosine, History, TrainConfig, next_token_loss, save_run, train
from lecturelib.training.history import read_history
from lecturelib.training.runs import RUNS

LENGTH, BATCH, JUDGED = 64, 8, 4096  # tokens a window, windows a step, windows of held-out text
HEADS = {8: 1, 16: 1, 24: 2, 32: 2, 48: 3, 64: 4, 96: 6, 128: 8, 160: 10}  # by width
SIZES = ((8, 1), (16, 1), (24, 1), (24, 2), (32, 2), (48, 2), (64, 3), (96, 3), (128, 3))  # width and layers
BUDGETS = {  # operations of each training, and the sizes that get them
    1e11: SIZES[:5],
    3e11: SIZES[1:6],
    1e12: SIZES[2:7],
    3e12: SIZES[4:],
    1e13: SIZES[5:],
}
SWEEPS = dict(zip(SIZES, (1e11, 1e11, 1e11, 1e11, 1e11, 3e11, 3e11, 1e12, 1e12), strict=True))
FIRST_RATE = 32e-3  # where the sweep of the smallest size starts; the next starts where the one before ended
TRIALS = (("seed", (48, 2), 1e12), ("rate", (96, 3), 3e12))  # what else could matter
HELD_OUT = ((160, 4), 3e13)  # larger than all, and trained last, when its loss has been predicted
COMMAND = "python book/runs/scaling.py --work runs/scaling"

Size = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training; `stage` says what for: sweep, grid, seed, rate or held_out."""

    stage: str
    d_model: int
    num_layers: int
    budget: float
    rate: float
    seed: int = 0

    @property
    def name(self) -> str:
        """The same for the same training, whatever it is for."""
        return f"{self.d_model}x{self.num_layers}_{self.budget:g}_{self.rate:g}_{self.seed}"


@dataclass(frozen=True)
class Texts:
    """Windows of text, (windows, LENGTH + 1) each."""

    train: Tensor
    validation: Tensor
    test: Tensor
    vocab_size: int
    alphabet: str = ""  # the character of each token


def cut(text: str, tokenizer: CharTokenizer) -> Tensor:
    """Windows side by side, each with the character after it; bytes, for there are many."""
    ids = torch.tensor(tokenizer.encode(text), dtype=torch.uint8)
    return ids.unfold(0, LENGTH + 1, LENGTH).contiguous()  # (windows, LENGTH + 1)


def read_texts() -> Texts:
    """The reviews by split, with an empty line between two, in plain ASCII: the few other characters are dropped."""
    splits = movie_reviews("imdb")
    plain = {
        name: "\n\n".join(review.text for review in splits[name]).encode("ascii", "ignore").decode()
        for name in ("train", "validation", "test")
    }
    tokenizer = CharTokenizer(sorted(set("".join(plain.values()))))
    windows = {name: cut(text, tokenizer) for name, text in plain.items()}
    for name in ("validation", "test"):  # reviews are sorted by their verdicts, so a part is taken by lot
        order = torch.randperm(len(windows[name]), generator=torch.Generator().manual_seed(0))
        windows[name] = windows[name][order[:JUDGED]]
    alphabet = tokenizer.decode(range(tokenizer.vocab_size))
    return Texts(**windows, vocab_size=tokenizer.vocab_size, alphabet=alphabet)


def batch_of(rows: list[Tensor]) -> LanguageBatch:
    windows = torch.stack(rows).long()  # (B, LENGTH + 1)
    return LanguageBatch(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())


def config_of(size: Size, vocab_size: int) -> GPTConfig:
    width, layers = size
    sizes = {"vocab_size": vocab_size, "max_len": LENGTH, "d_model": width, "num_layers": layers}
    return GPTConfig(**sizes, num_heads=HEADS[width], dropout=0.0)


def step_flops(config: GPTConfig) -> int:
    """The operations of one training step: forward, and twice that backward."""
    sizes = {"vocab_size": config.vocab_size, "d_model": config.d_model, "num_layers": config.num_layers}
    return 3 * decoder_flops(**sizes, batch=BATCH, length=LENGTH)


def steps_of(budget: float, config: GPTConfig) -> int:
    return max(10, round(budget / step_flops(config)))


def held_out(model: GPT, windows: Tensor) -> float:
    parts = windows.split(128)
    return mean_loss(model, (batch_of(list(part)) for part in parts), next_token_loss)


def curve_of(history: History, points: int = 40) -> list[list[float]]:
    """Training loss against tokens read: means over parts of the run that grow as the steps do, [tokens, loss]."""
    losses = torch.tensor(history["loss"])
    ends = sorted({round(len(losses) ** (point / points)) for point in range(1, points + 1)})
    starts = [0, *ends[:-1]]
    return [
        [end * BATCH * LENGTH, round(float(losses[start:end].mean()), 4)]
        for start, end in zip(starts, ends, strict=True)
    ]


def train_case(case: Case, texts: Texts, work: Path) -> dict[str, Any]:
    """Train one case to its end, and give its row; what a killed training left in `work` is gone on with."""
    config = config_of((case.d_model, case.num_layers), texts.vocab_size)
    steps = steps_of(case.budget, config)
    torch.manual_seed(case.seed)
    model = GPT(config)
    plan = TrainConfig(
        steps=steps,
        learning_rate=case.rate,
        schedule=Cosine(steps=steps, warmup=steps // 10, floor=0.0),
        seed=case.seed,
        checkpoint_every=1000,
        device="cpu",
        progress=False,
    )
    batches = StepBatches(texts.train, batch_of, batch_size=BATCH, seed=case.seed)
    started = time.process_time()
    history = train(model, batches, next_token_loss, plan, folder=work / case.name, resume=True)
    if history.stop != "finished":
        raise SystemExit(f"stopped at step {len(history)} of {steps}; the same command goes on from there")
    model.eval()
    with torch.inference_mode():
        losses = {name: held_out(model, getattr(texts, name)) for name in ("validation", "test")}
    return {
        **asdict(case),
        "parameters": count_parameters(model.blocks),
        "embedding_parameters": count_parameters(model.token_embedding) + count_parameters(model.positions),
        "steps": steps,
        "tokens": steps * BATCH * LENGTH,
        "flops": steps * step_flops(config),
        "passes": steps * BATCH / len(texts.train),
        "validation_loss": losses["validation"],
        "test_loss": losses["test"],
        "cpu_seconds": time.process_time() - started,  # of this process: less than all, where it was stopped
        "curve": curve_of(history),
    }


Train = Callable[[Case], dict[str, Any]]


def sweep(size: Size, start: float, do: Train) -> float:
    """The best rate by factors of two, from a start: both its neighbours are worse."""
    tried: dict[float, float] = {}

    def loss(rate: float) -> float:
        if rate not in tried:
            case = Case(stage="sweep", d_model=size[0], num_layers=size[1], budget=SWEEPS[size], rate=rate)
            found = do(case)["validation_loss"]
            tried[rate] = found if math.isfinite(found) else math.inf
        return tried[rate]

    best = start
    while min(loss(best / 2), loss(2 * best)) < loss(best):
        best = best / 2 if loss(best / 2) < loss(2 * best) else 2 * best
    return best


def study(do: Train) -> Iterator[Case]:
    """Every training of the grid, in order; `do` is asked for what the order depends on, the sweeps."""
    rates: dict[Size, float] = {}
    for budget, sizes in BUDGETS.items():
        for size in sizes:
            if size not in rates:
                rates[size] = sweep(size, list(rates.values())[-1] if rates else FIRST_RATE, do)
            yield Case(stage="grid", d_model=size[0], num_layers=size[1], budget=budget, rate=rates[size])
        for stage, size, at in TRIALS:
            if at == budget:
                case = Case(stage=stage, d_model=size[0], num_layers=size[1], budget=at, rate=rates[size])
                if stage == "seed":
                    yield from (replace(case, seed=seed) for seed in (1, 2))
                else:
                    yield from (replace(case, rate=factor * case.rate) for factor in (0.5, 2.0))


def law_of(rows: list[dict[str, Any]]) -> LossLaw:
    """Fit E + A / N^α + B / D^β to rows of the grid."""
    return fit_loss_law(*([row[name] for row in rows] for name in ("parameters", "tokens", "test_loss")))


def prediction(rows: list[dict[str, Any]], vocab_size: int) -> dict[str, Any]:
    """What the grid says of a training larger than all of it: its rate, and its loss with an interval."""
    (width, layers), budget = HELD_OUT
    grid = [row for row in rows if row["stage"] == "grid"]
    rates = {row["parameters"]: row["rate"] for row in grid}
    factor, exponent = fit_power_law(list(rates), list(rates.values()))
    config = config_of((width, layers), vocab_size)
    with imagined():
        parameters = count_parameters(GPT(config).blocks)
    tokens = steps_of(budget, config) * BATCH * LENGTH
    low, high = interval([law(parameters, tokens) for law in bootstrap(grid, law_of)])
    return {
        "stage": "prediction",
        "d_model": width,
        "num_layers": layers,
        "budget": budget,
        "parameters": parameters,
        "tokens": tokens,
        "rate": factor * parameters**exponent,
        "test_loss": law_of(grid)(parameters, tokens),
        "low": low,
        "high": high,
        "law": asdict(law_of(grid)),
    }


class Study:
    """What has been trained, in a folder that is brought up to date after each training."""

    def __init__(self, folder: Path, work: Path, texts: Texts) -> None:
        self.folder, self.work, self.texts = folder, work, texts
        path = folder / "history.jsonl"
        self.rows: list[dict[str, Any]] = list(read_history(path)) if path.exists() else []

    def do(self, case: Case) -> dict[str, Any]:
        """Give the row of a case: as it was found before, or else train it."""
        trained = [row for row in self.rows if row["stage"] != "prediction"]
        same = [row for row in trained if Case(**{key: row[key] for key in asdict(case)}).name == case.name]
        for row in same:
            if row["stage"] == case.stage:
                return row
        row = same[0] if same else train_case(case, self.texts, self.work)  # one training may serve two stages
        row = {**row, "stage": case.stage}
        self.rows.append(row)
        self.save()
        shutil.rmtree(self.work / case.name, ignore_errors=True)
        print(f"{case.stage:6} {case.name:28} {row['steps']:6} steps  {row['test_loss']:.4f}", flush=True)
        return row

    def save(self) -> None:
        grid = [row for row in self.rows if row["stage"] == "grid"]
        best = {}
        for row in grid:
            key = f"{row['budget']:.0e}"
            best[key] = min(best.get(key, math.inf), row["test_loss"])
        facts = {
            "command": COMMAND,
            "seed": 0,
            "config": asdict(config_of(SIZES[0], self.texts.vocab_size)) | {"sizes": SIZES, "heads": HEADS},
            "data": "movie_reviews, imdb alone, one token a character",
            "training": {"batch_size": BATCH, "length": LENGTH, "schedule": "cosine to 0 after a tenth of warm-up"},
            "results": {"trainings": len(grid), "best_test_loss": best},
            "versions": {"torch": torch.__version__.partition("+")[0]},
        }
        save_run(self.folder, facts, self.rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where checkpoints go while it runs")
    parser.add_argument("--out", type=Path, default=RUNS / "scaling")
    given = parser.parse_args()
    torch.set_num_threads(1)  # the numbers then do not depend on how many cores there are
    trained = Study(given.out, given.work, read_texts())
    for case in study(trained.do):
        trained.do(case)
    if not any(row["stage"] == "prediction" for row in trained.rows):
        trained.rows.append(prediction(trained.rows, trained.texts.vocab_size))
        trained.save()
    (predicted,) = (row for row in trained.rows if row["stage"] == "prediction")
    same = {name: predicted[name] for name in ("d_model", "num_layers", "budget", "rate")}
    trained.do(Case(stage="held_out", **same))


if __name__ == "__main__":
    main()
