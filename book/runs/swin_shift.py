"""Train small Swins on Fashion-MNIST, with the shift and without it: `python book/runs/swin_shift.py`.

Three seeds each, five minutes on one core. Writes lecturelib/runs/swin_shift/, which chapter 16 shows. Nothing but
the shift differs within a pair: the same first weights, the same pictures in the same order.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data.augment.mixing import ImageBatch
from lecturelib.data.sets.images import Images, fashion_mnist
from lecturelib.layers.windows import WindowAttention
from lecturelib.models.swin import Swin, SwinConfig
from lecturelib.training import Cosine, TrainConfig, class_loss, save_run, train

RUN = Path(__file__).resolve().parents[2] / "lecturelib" / "runs" / "swin_shift"
WAYS = ("shifted", "still")
CONFIG = SwinConfig(
    image_size=32,
    patch_size=4,
    num_channels=1,
    num_classes=10,
    d_model=32,
    num_layers=(2, 2),
    num_heads=(2, 4),
    window=2,
    mlp_ratio=2.0,
)


def pictures(images: Images) -> Tensor:
    """Pixels of mean 0 and deviation 1, with a dark border, so that windows tile the grid. Shapes: (N, 1, 32, 32)"""
    return (F.pad(images.scaled(), (2, 2, 2, 2)) - 0.286) / 0.353


def build(way: str, seed: int) -> Swin:
    """A small Swin whose first weights depend on the seed alone; "still" windows stay where they are in every layer."""
    torch.manual_seed(seed)
    model = Swin(CONFIG)
    if way == "still":
        for part in model.modules():
            if isinstance(part, WindowAttention):
                part.shift = (0, 0)
    return model


def models(seeds: list[int]) -> nn.ModuleDict:
    """All models of the run, in one module, as their weights are stored."""
    return nn.ModuleDict({f"{way}_{seed}": build(way, seed) for seed in seeds for way in WAYS})


@torch.inference_mode()
def accuracy(model: nn.Module, images: Images) -> float:
    """The part of the pictures whose class the model finds."""
    parts = zip(pictures(images).split(500), images.labels.split(500), strict=True)
    return sum(int((model(x).argmax(dim=-1) == y).sum()) for x, y in parts) / len(images)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="of each model (default 1000)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="(default 0 1 2)")
    parser.add_argument("--folder", type=Path, default=RUN, help="where the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = fashion_mnist()
    shown, labels = pictures(data.train), data.train.labels
    trained, rows, results = models(arguments.seeds), [], {}
    for name, model in trained.items():
        seed = int(name.rpartition("_")[2])

        def batches(step: int, seed: int = seed) -> ImageBatch:
            generator = torch.Generator().manual_seed(1_000_000 * seed + step)
            chosen = torch.randint(len(labels), (64,), generator=generator)
            return ImageBatch(shown[chosen], labels[chosen])

        config = TrainConfig(
            steps=arguments.steps,
            learning_rate=4e-3,
            schedule=Cosine(steps=arguments.steps, warmup=arguments.steps // 10),
            weight_decay=0.05,
            device="cpu",
            seed=seed,
        )
        history = train(model, batches, class_loss, config)
        losses = torch.tensor(history["loss"])
        rows += [
            {"model": name, "step": step + 25, "loss": round(float(losses[step : step + 25].mean()), 4)}
            for step in range(0, arguments.steps, 25)
        ]
        results[name] = accuracy(model.half().float().eval(), data.test)  # as the weights will be stored
        print(name, f"{results[name]:.4f}", flush=True)
        facts = {
            "command": f"python book/runs/swin_shift.py --steps {arguments.steps}",
            "seed": arguments.seeds,
            "config": asdict(CONFIG),
            "data": f"fashion_mnist: {arguments.steps} batches of 64 from {len(labels)} pictures, all of the test set",
            "torch": torch.__version__,
            "results": results,
        }
        save_run(arguments.folder, facts, rows, trained)


if __name__ == "__main__":
    main()
