"""Train small deep transformers many times, as chapter 11 shows: with and without warm-up, at many rates.

    python book/runs/training.py --run warmup_causes

The runs are `warmup_causes` (wiring × optimizer × warm-up), `warmup_map` (learning rate × warm-up), `large_batches`
(AdamW and LAMB at equal data), `norms` (what stands in place of the layer norm) and `sharpness` (how curved the loss is
along training). Each takes one to three minutes on one core, and goes to `lecturelib/runs/NAME`, a row for each case.

The task is to name the token before each token: easy, but the answer must be carried through every layer.
"""

import argparse
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim import AdamW, Optimizer, RAdam

from lecturelib.layers import AdaNorm, PowerNorm, Wiring, initialise_deep_norm, use_deep_norm
from lecturelib.models import GPT, GPTConfig
from lecturelib.training import LAMB, Constant, Linear, decay_groups, save_run, seed_everything
from lecturelib.training.runs import RUNS

SYMBOLS, LENGTH, WIDTH, BATCH, STEPS, WARMUP = 16, 8, 16, 16, 200, 150
BETAS = (0.9, 0.98)  # those of the transformer of 2017
SEEDS = (0, 1, 2)
CHANCE = math.log(SYMBOLS)  # what a training that diverged counts as
NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "ada": AdaNorm, "power": PowerNorm}
MAP_RATES, MAP_WARMUPS = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1), (0, 20, 60, 150)
TEXTS, BATCHES = 8_192, (64, 128, 256, 512, 1024)
BATCH_RATES = {"adam": (3e-3, 1e-2, 3e-2, 1e-1), "lamb": (1e-2, 3e-2, 1e-1, 3e-1)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training: what is trained, and how."""

    wiring: str = "post_norm"
    num_layers: int = 8
    norm: str = "layer"
    optimizer: str = "adam"
    learning_rate: float = 1e-2
    warmup: int = 0
    steps: int = STEPS
    batch: int = BATCH
    falls: bool = False  # whether the rate falls to zero after the warm-up
    seed: int = 0


def config_of(case: Case) -> GPTConfig:
    sizes = {"vocab_size": SYMBOLS, "max_len": LENGTH, "d_model": WIDTH, "num_heads": 2, "num_layers": case.num_layers}
    wiring = "post_norm" if case.wiring == "deep_norm" else case.wiring  # DeepNorm is put in by `build`
    return GPTConfig(**sizes, dropout=0.0, wiring=wiring)


def build(case: Case) -> GPT:
    """A GPT whose matrices start Xavier-normal, as in the papers on deep post-norm stacks."""
    seed_everything(case.seed)
    model = GPT(config_of(case))
    if case.wiring == "deep_norm":
        use_deep_norm(model.blocks)  # which starts them so too, but smaller
    else:
        initialise_deep_norm(model.blocks, beta=1.0)
    for table in (model.token_embedding, model.positions):
        nn.init.normal_(table.weight, std=WIDTH**-0.5)  # type: ignore[union-attr, arg-type]
    if case.norm != "layer":
        for part in model.modules():
            if isinstance(part, Wiring):
                part.norm = NORMS[case.norm](WIDTH)
    return model


def optimizer_of(case: Case, model: nn.Module) -> Optimizer:
    """All have the same betas, and the same weight decay on the same weights."""
    groups = decay_groups(model, 0.01)
    if case.optimizer in ("adam", "adam_waits"):
        return AdamW(groups, lr=case.learning_rate, betas=BETAS, fused=True)
    if case.optimizer == "radam":  # torch's, which lecturelib's equals, takes the steps of all weights at once
        return RAdam(groups, lr=case.learning_rate, betas=BETAS, decoupled_weight_decay=True, foreach=True)
    return LAMB(groups, lr=case.learning_rate, betas=BETAS)


def factor_of(case: Case, step: int) -> float:
    if case.optimizer == "adam_waits":  # it gathers its means for WARMUP steps before it moves
        return float(step >= WARMUP)
    if not case.falls:
        return Constant(warmup=case.warmup)(step)
    return Linear(steps=max(case.steps, case.warmup + 1), warmup=case.warmup)(step)


def texts(count: int, seed: int, step: int) -> Tensor:
    """Texts of random symbols (count, LENGTH), the same for the same numbers."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + step)
    return torch.randint(SYMBOLS, (count, LENGTH), generator=generator)


def loss_of(model: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """Cross-entropy of the token before each token; the first has none."""
    return F.cross_entropy(model(tokens)[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())


def held_out(model: nn.Module) -> float:
    with torch.no_grad():
        found = float(loss_of(model.eval(), texts(256, seed=99, step=0)))
    return found if math.isfinite(found) else CHANCE


class Together:
    """Models of one shape whose gradients are computed at once, and which step by themselves.

    A small model spends its time on starting operations; thirty together need hardly more of them than one.
    """

    def __init__(self, models: Sequence[nn.Module], optimizers: Callable[[int, nn.Module], Optimizer]) -> None:
        self.models = list(models)
        stacked, _ = stack_module_state(self.models)
        self.weights = {name: weight.detach() for name, weight in stacked.items()}
        for number, model in enumerate(self.models):
            for name, weight in model.named_parameters():
                weight.data = self.weights[name][number]  # so that a step of one is seen by all
        self.optimizers = [optimizers(number, model) for number, model in enumerate(self.models)]

    def step(self, tokens: Tensor, rates: Sequence[float]) -> Tensor:
        """One step of each on texts of its own (models, B, T), at its own rate; -> losses (models,)."""

        def one(weights: dict[str, Tensor], batch: Tensor) -> Tensor:
            return loss_of(lambda given: functional_call(self.models[0], weights, (given,)), batch)

        with sdpa_kernel(SDPBackend.MATH):
            gradients, losses = vmap(grad_and_value(one))(self.weights, tokens)
        for number, (model, optimizer) in enumerate(zip(self.models, self.optimizers, strict=True)):
            for name, weight in model.named_parameters():
                weight.grad = gradients[name][number].contiguous()  # a fused step reads memory in order
            for group in optimizer.param_groups:
                group["lr"] = rates[number]
            optimizer.step()
        return losses


def train_together(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Train cases that differ in rate, warm-up, optimizer and seed; -> a row for each."""
    first = cases[0]
    group = Together([build(case) for case in cases], lambda number, model: optimizer_of(cases[number], model))
    losses = []
    for step in range(first.steps):
        tokens = torch.stack([texts(first.batch, case.seed, step) for case in cases])
        losses.append(group.step(tokens, [case.learning_rate * factor_of(case, step) for case in cases]))
    curves = torch.stack(losses, dim=1)  # (cases, steps)
    return [row_of(case, model, curve) for case, model, curve in zip(cases, group.models, curves, strict=True)]


def train_alone(case: Case) -> tuple[GPT, dict[str, Any]]:
    """Train one case, for models with statistics of their own; -> the model and its row."""
    model = build(case).train()
    optimizer, losses = optimizer_of(case, model), []
    for step in range(case.steps):
        optimizer.zero_grad()
        loss = loss_of(model, texts(case.batch, case.seed, step))
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = case.learning_rate * factor_of(case, step)
        optimizer.step()
        losses.append(float(loss.detach()))
    return model, row_of(case, model, torch.tensor(losses))


def row_of(case: Case, model: nn.Module, curve: Tensor) -> dict[str, Any]:
    """What is kept of a training: its held-out loss, and twenty points of its curve."""
    points = [float(part.nanmean()) for part in curve.tensor_split(20) if len(part)]
    return {
        "case": asdict(case),
        "held_out": held_out(model),
        "losses": [round(point, 4) if math.isfinite(point) else None for point in points],
    }


def cause_cases() -> list[Case]:
    """All take as many steps that move; Adam that waits first sees as many batches as a warm-up takes."""
    grid = itertools.product(("post_norm", "pre_norm", "deep_norm"), ("adam", "radam"), (0, WARMUP), SEEDS)
    cases = [Case(wiring=wiring, optimizer=kind, warmup=warmup, seed=seed) for wiring, kind, warmup, seed in grid]
    return cases + [Case(optimizer="adam_waits", steps=STEPS + WARMUP, seed=seed) for seed in SEEDS]


def map_cases() -> list[Case]:
    grid = itertools.product(("post_norm", "pre_norm"), MAP_RATES, MAP_WARMUPS)
    return [Case(wiring=wiring, learning_rate=rate, warmup=warmup) for wiring, rate, warmup in grid]


def batch_cases() -> list[Case]:
    """Both optimizers in batches of each size, over the same number of texts, at several rates."""
    shape: dict[str, Any] = {"wiring": "pre_norm", "num_layers": 2, "falls": True}
    return [
        Case(**shape, optimizer=kind, learning_rate=rate, batch=batch, steps=TEXTS // batch, warmup=TEXTS // batch // 8)
        for batch in BATCHES
        for kind, rates in BATCH_RATES.items()
        for rate in rates
    ]


def norm_cases() -> list[Case]:
    grid = itertools.product(("post_norm", "pre_norm"), NORMS, SEEDS)
    return [
        Case(wiring=wiring, norm=norm, num_layers=4, learning_rate=3e-3, warmup=60, seed=seed)
        for wiring, norm, seed in grid
    ]


DISTANCES = [round(0.1 * place, 1) for place in range(-10, 11)]
LOOKS = 21  # how often a run is looked at, its start and its end among them


def sharpest(model: GPT, tokens: Tensor, start: Tensor, rounds: int) -> tuple[float, Tensor]:
    """The largest curvature of the loss at the weights, and its direction: Lanczos's method from a start.

    Power iteration would find the largest in size, which is often a negative one on the way down.
    """
    weights, basis, products = list(model.parameters()), [start / start.norm()], []
    with sdpa_kernel(SDPBackend.MATH):  # the fused kernel has no second derivative
        gradient = parameters_to_vector(torch.autograd.grad(loss_of(model, tokens), weights, create_graph=True))
        for _ in range(rounds):
            product = parameters_to_vector(torch.autograd.grad(gradient, weights, basis[-1], retain_graph=True))
            products.append(product)
            for known in (*basis, *basis):  # twice, for rounding
                product = product - (product @ known) * known
            basis.append(product / product.norm())
    known = torch.stack(basis[:-1])  # (rounds, weights)
    values, vectors = torch.linalg.eigh(known @ torch.stack(products).mT)  # of the curvature within what is known
    return float(values[-1]), vectors[:, -1] @ known


@torch.no_grad()
def slice_of(model: GPT, tokens: Tensor, direction: Tensor) -> list[float]:
    """The loss at `DISTANCES` along a direction of length 1."""
    weights, losses = list(model.parameters()), []
    start = parameters_to_vector(weights)
    for distance in DISTANCES:
        vector_to_parameters(start + distance * direction, weights)
        losses.append(round(float(loss_of(model, tokens)), 4))
    vector_to_parameters(start, weights)
    return losses


def sharpness_rows(case: Case, rounds: int = 15) -> list[dict[str, Any]]:
    """Train a case, and look at the ground under it now and then."""
    model, tokens = build(case), texts(64, seed=98, step=0)
    optimizer, rows = optimizer_of(case, model), []
    start = torch.randn(parameters_to_vector(model.parameters()).shape)
    every = max(1, case.steps // (LOOKS - 1))
    for step in range(case.steps + 1):
        if step % every == 0:
            curvature, direction = sharpest(model, tokens, start, rounds)
            along = slice_of(model, tokens, direction)
            middle = along[len(along) // 2]
            rows.append(
                {"case": asdict(case), "step": step, "loss": middle, "sharpness": round(curvature, 4), "slice": along}
            )
        optimizer.zero_grad()
        loss_of(model, texts(case.batch, case.seed, step)).backward()
        for group in optimizer.param_groups:
            group["lr"] = case.learning_rate * factor_of(case, step)
        optimizer.step()
    return rows


def sharpness_cases() -> list[Case]:
    return [Case(warmup=0), Case(warmup=WARMUP), Case(wiring="pre_norm", warmup=0)]


CASES = {"warmup_causes": cause_cases, "warmup_map": map_cases, "large_batches": batch_cases, "norms": norm_cases}
CASES["sharpness"] = sharpness_cases


def shape_of(case: Case) -> tuple[Any, ...]:
    """What cases must share to be trained together."""
    return case.wiring, case.num_layers, case.norm, case.batch, case.steps


def train_all(cases: Sequence[Case]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for shape, group in itertools.groupby(cases, key=shape_of):
        alike = list(group)
        is_small = alike[0].num_layers > 2 and alike[0].norm != "power"  # PowerNorm has statistics of its own
        rows += train_together(alike) if is_small else [train_alone(case)[1] for case in alike]
        print(shape, [f"{row['held_out']:.2f}" for row in rows[-len(alike) :]], flush=True)
    return rows


def command(name: str) -> str:
    return f"python book/runs/training.py --run {name}"


def name_of(case: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in case.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=sorted(CASES), required=True)
    parser.add_argument("--folder", type=Path, help="where to write; lecturelib/runs/NAME when left out")
    given = parser.parse_args()
    torch.set_num_threads(1)
    cases = CASES[given.run]()
    if given.run == "sharpness":
        rows = [row for case in cases for row in sharpness_rows(case)]
        results = {
            name_of(asdict(case)): max(row["sharpness"] for row in rows if row["case"] == asdict(case))
            for case in cases
        }
    else:
        rows = train_all(cases)
        results = {name_of(row["case"]): row["held_out"] for row in rows}
    facts = {
        "command": command(given.run),
        "seed": sorted({case.seed for case in cases}),
        "config": asdict(config_of(cases[0])),
        "results": results,
    }
    save_run(given.folder or RUNS / given.run, facts, rows)


if __name__ == "__main__":
    main()
