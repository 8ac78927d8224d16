"""The committed runs of chapter 15: which pictures, which model, which recipe, which seed, and what came out.

    python book/runs/vision_transformers.py vit_rates            # which learning rate suits which model
    python book/runs/vision_transformers.py vit_small            # the ViT whose attention the chapter looks at
    python book/runs/vision_transformers.py vit_data_growth      # ViT against ResNet as the training set grows
    python book/runs/vision_transformers.py vit_recipe           # DeiT's recipe, one ingredient at a time
    python book/runs/vision_transformers.py vit_patience         # the recipe again, four times as long
    python book/runs/vision_transformers.py vit_distillation     # a ResNet teaches a DeiT

Each writes lecturelib/runs/NAME, a row of history for every model trained. What is in the history already is not
trained again, so an interrupted run goes on where it stopped. All together take about ten minutes of one core.
"""

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lecturelib.data import (
    ImageBatch,
    Images,
    Splits,
    fashion_mnist,
    mixup_or_cutmix,
    rand_augment,
    random_crop,
    random_erasing,
    random_flip,
    repeated_indices,
    smooth_labels,
)
from lecturelib.evaluation import accuracy
from lecturelib.models.deit import DeiT, hard_distillation_loss, soft_distillation_loss
from lecturelib.models.resnet import ResNet, ResNetConfig
from lecturelib.models.vit import ViT, ViTConfig
from lecturelib.training import Cosine, TrainConfig, class_loss, save_run, seed_everything, shipped_run, train

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
VIT = ViTConfig(
    image_size=28, patch_size=7, num_channels=1, num_classes=10, d_model=64, num_heads=4, num_layers=4, d_ff=128
)
RESNET = ResNetConfig(num_channels=1, d_model=8, blocks=1)
SMALL = replace(VIT, patch_size=4, d_model=48, d_ff=96)
RATES = {"vit": 4e-3, "resnet": 3e-2}
BATCH, WEIGHT_DECAY = 64, 0.05


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training run. The recipe's ingredients are at their weakest when left out."""

    name: str
    seed: int
    examples: int
    steps: int
    model: str = "vit"
    learning_rate: float | None = None
    truncated_normal: bool = False
    flips_and_shifts: bool = False
    label_smoothing: float = 0.0
    drop_path: float = 0.0
    rand_augment: float = 0.0
    mixing: bool = False
    erasing: float = 0.0
    repeats: int = 1


@cache
def pictures() -> Splits[Images]:
    return fashion_mnist()


def scaled(images: Tensor) -> Tensor:
    """Pixels from 0 to 1, to about mean 0 and deviation 1 over Fashion-MNIST."""
    return (images - 0.286) / 0.353


def subset(case: Case) -> Images:
    """The first `examples` of a shuffle of the training pictures that only the seed decides."""
    order = torch.randperm(len(pictures().train), generator=torch.Generator().manual_seed(case.seed))
    return pictures().train[order[: case.examples]]


def batches(case: Case) -> Callable[[int], ImageBatch]:
    """Batch i of a case: pictures, augmented as it says, and the probabilities of their classes."""
    data = subset(case)
    pixels, labels = data.scaled(), data.labels

    def batch(step: int) -> ImageBatch:
        chosen = repeated_indices(len(data), BATCH, repeats=case.repeats, step=step, seed=case.seed)
        images, targets = pixels[chosen], smooth_labels(labels[chosen], len(data.classes), case.label_smoothing)
        if case.flips_and_shifts:
            images = random_crop(random_flip(images), padding=2)
        if case.rand_augment:
            images = rand_augment(images, magnitude=case.rand_augment)
        if case.mixing:
            images, targets = mixup_or_cutmix(ImageBatch(images, targets))
        if case.erasing:
            images = random_erasing(images, probability=case.erasing)
        return ImageBatch(scaled(images), targets)

    return batch


def new_model(case: Case) -> nn.Module:
    seed_everything(case.seed)
    if case.model == "resnet":
        return ResNet(RESNET)
    config = replace(SMALL if case.model == "small vit" else VIT, drop_path=case.drop_path)
    model = DeiT.distilled(config) if case.model == "distilled" else ViT(config)
    if not case.truncated_normal:
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                module.reset_parameters()
    return model


@torch.no_grad()
def right(model: nn.Module, data: Images) -> float:
    """The share of pictures that the model names rightly."""
    model.eval()
    parts = data.scaled().split(500)
    return accuracy(torch.cat([model(scaled(part)) for part in parts]), data.labels)


Row = dict[str, Any]
Loss = Callable[[nn.Module, ImageBatch], Any]


class Runner:
    """Trains cases, and remembers those that an earlier start of the same run trained."""

    def __init__(self, name: str) -> None:
        self.name = name
        rows = shipped_run(name, RUNS).rows if (RUNS / name / "run.json").exists() else []
        self.rows: dict[str, Row] = {label(row["case"]): row for row in rows}

    def __call__(self, case: Case, loss: Loss = class_loss) -> Row:
        """A case's row: from the history, or by training."""
        row = self.rows.get(label(asdict(case)))
        if row is None or row["case"] != asdict(case):
            row = self.train(case, loss)[1]
            self.add(row)
        return row

    def train(self, case: Case, loss: Loss = class_loss) -> tuple[nn.Module, Row]:
        """Train one case and say how it did on every fourth official test picture, and on those it learned from."""
        model, started = new_model(case), time.process_time()
        config = TrainConfig(
            steps=case.steps,
            learning_rate=case.learning_rate or RATES["resnet" if case.model == "resnet" else "vit"],
            schedule=Cosine(steps=case.steps, warmup=case.steps // 10, floor=0.0),
            weight_decay=WEIGHT_DECAY,
            seed=case.seed,
            device="cpu",
            progress=False,
        )
        losses = train(model, batches(case), loss, config)["loss"]
        seconds = time.process_time() - started
        row: Row = {
            "case": asdict(case),
            "test_accuracy": right(model, pictures().test[::4]),
            "train_accuracy": right(model, subset(case)[:1000]),
            "cpu_seconds": round(seconds, 1),
            "losses": [round(sum(part) / len(part), 4) for part in zip(*[iter(losses)] * 25, strict=True)],
        }
        print(
            f"{case.name:36} seed {case.seed} {case.examples:6} {row['test_accuracy']:.4f} {seconds:.0f} s", flush=True
        )
        return model, row

    def add(self, row: Row, model: nn.Module | None = None) -> None:
        """Put a row into the history on disk."""
        self.rows[label(row["case"])] = row
        seeds = sorted({row["case"]["seed"] for row in self.rows.values()})
        facts = {
            "command": command(self.name, seeds),
            "seed": seeds,
            "config": {
                "data": "fashion_mnist",
                "vit": asdict(VIT),
                "resnet": asdict(RESNET),
                "small vit": asdict(SMALL),
                "batch": BATCH,
                "learning_rates": RATES,
                "weight_decay": WEIGHT_DECAY,
                "schedule": "cosine to 0 after a tenth of warm-up",
            },
            "results": {name: row["test_accuracy"] for name, row in self.rows.items()},
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
        }
        save_run(RUNS / self.name, facts, list(self.rows.values()), model)


def command(name: str, seeds: list[int]) -> str:
    """What to type to train all of a run again."""
    given = "" if seeds == [0] else f" --seeds {' '.join(str(seed) for seed in seeds)}"
    return f"python book/runs/vision_transformers.py {name}{given}"


def label(case: dict[str, Any]) -> str:
    return f"{case['name']}, {case['examples']} pictures, {case['steps']} steps, seed {case['seed']}"


def rates(run: Runner, seeds: list[int]) -> None:
    """How RATES were chosen: the best on the validation pictures, for each model by itself."""
    for model, tried in (("vit", (1e-3, 2e-3, 4e-3)), ("resnet", (3e-3, 1e-2, 3e-2))):
        for rate in tried:
            case = Case(name=f"{model} at {rate:g}", model=model, seed=0, examples=4000, steps=600, learning_rate=rate)
            if label(asdict(case)) not in run.rows:
                trained, row = run.train(case)
                run.add(row | {"validation_accuracy": right(trained, pictures().validation[::4])})


def small(run: Runner, seeds: list[int]) -> None:
    """Patches of 4 × 4, for finer maps."""
    case = Case(
        name="small vit",
        model="small vit",
        seed=0,
        examples=54000,
        steps=700,
        flips_and_shifts=True,
    )
    model, row = run.train(case)
    run.add(row, model)


def growth(run: Runner, seeds: list[int]) -> None:
    for seed in seeds:
        for examples in (250, 1000, 4000, 16000):
            for model in ("vit", "resnet"):
                run(Case(name=model, model=model, seed=seed, examples=examples, steps=400))


def recipe_cases(seed: int, examples: int = 1000, steps: int = 300) -> list[Case]:
    """Each case has all that the one before it has, and one ingredient more."""
    cases = [Case(name="nothing", seed=seed, examples=examples, steps=steps)]
    for name, ingredient in (
        ("truncated normal", {"truncated_normal": True}),
        ("flips and shifts", {"flips_and_shifts": True}),
        ("label smoothing", {"label_smoothing": 0.1}),
        ("stochastic depth", {"drop_path": 0.1}),
        ("RandAugment", {"rand_augment": 9.0}),
        ("mixup and CutMix", {"mixing": True}),
        ("random erasing", {"erasing": 0.25}),
        ("repeated augmentation", {"repeats": 4}),
    ):
        cases.append(replace(cases[-1], name=name, **ingredient))
    return cases


def recipe(run: Runner, seeds: list[int]) -> None:
    for seed in seeds:
        for case in recipe_cases(seed):
            run(case)


def patience(run: Runner, seeds: list[int]) -> None:
    """Does the whole recipe want more steps? Some of its cases again, four times as long."""
    for seed in seeds:
        for case in recipe_cases(seed, steps=1200):
            if case.name in ("nothing", "flips and shifts", "repeated augmentation"):
                run(case)


def taught(teacher: nn.Module, how: Callable[..., Tensor], model: nn.Module, batch: ImageBatch) -> Tensor:
    """A loss from labels and from a teacher's opinion; a student without a distillation token hears both in one."""
    with torch.no_grad():
        opinion = teacher(batch.images)
    student = model.both_heads(batch.images) if isinstance(model, DeiT) else (model(batch.images),) * 2
    return how(student, opinion, batch.targets)


def distillation(run: Runner, seeds: list[int]) -> None:
    """A ResNet learns 4,000 pictures; students of the same pictures learn from labels, or from it as well."""
    soft = partial(soft_distillation_loss, temperature=3.0, weight=0.5)
    for seed in seeds:
        base = Case(name="alone", seed=seed, examples=4000, steps=400, flips_and_shifts=True)
        teacher, row = run.train(replace(base, name="teacher", model="resnet"))
        run.add(row)
        run(base)
        run(replace(base, name="soft, no token"), partial(taught, teacher, soft))
        run(replace(base, name="hard, no token"), partial(taught, teacher, hard_distillation_loss))
        run(replace(base, name="hard, token", model="distilled"), partial(taught, teacher, hard_distillation_loss))


KINDS = {
    "vit_rates": rates,
    "vit_small": small,
    "vit_data_growth": growth,
    "vit_recipe": recipe,
    "vit_patience": patience,
    "vit_distillation": distillation,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=KINDS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="which seeds to train now")
    given = parser.parse_args()
    torch.set_num_threads(1)
    KINDS[given.name](Runner(given.name), given.seeds)
