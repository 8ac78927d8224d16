"""Train the video networks of chapter 17 on fireflies: `python book/runs/video.py networks`, then `vivit`.

Six minutes on a free core for the networks, four for the ViViTs. Writes lecturelib/runs/video/ and
lecturelib/runs/video_vivit/. The nights of a step are the same for all models: in the first half of the training the
two flashes are near each other, after that they have any distance. Three networks of convolutions, one of them with a
non-local block in the place of a convolution, are tested at every distance, in a hedge as long as in training and in
one twice as long. ViViT, with a joint and with a factorised encoder, starts from an image model, as the paper's do: one
that has learned to name the colour that flashes in two frames. Weights of the first seed are kept.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lecturelib.data.augment.mixing import ImageBatch
from lecturelib.data.sets.fireflies import (
    CELL,
    COLUMNS,
    FLASHES,
    FRAMES,
    MOST_DISTANCE,
    ROWS,
    Night,
    draw_nights,
    render_nights,
)
from lecturelib.evaluation import count_flops, count_parameters
from lecturelib.models.non_local import NonLocalBlock, ResidualConvolution, VideoNet, VideoNetConfig
from lecturelib.models.vivit import FactorisedEncoder, JointEncoder, ViViT, ViViTConfig
from lecturelib.training import Cosine, TrainConfig, class_loss, read_run, save_run, train

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
NETWORKS = ("convolutions", "dilated", "non_local")
VIVITS = ("joint", "factorised")
NEAR = 2  # the largest distance of flashes in the first half of the training
TWICE = 2 * COLUMNS  # the longer hedge
BATCH = 32
CONFIG = VideoNetConfig(d_model=16)
VIVIT = ViViTConfig(
    image_size=(ROWS * CELL, COLUMNS * CELL),
    num_frames=FRAMES,
    patch_size=CELL,
    tubelet=2,
    num_classes=2,
    d_model=32,
    num_heads=4,
    num_layers=2,
    d_ff=64,
)
EYES = replace(VIVIT, num_frames=VIVIT.tubelet, num_classes=1 + len(FLASHES))  # sees one time, and names a colour


def scaled(videos: Tensor) -> Tensor:
    """Pixels around zero."""
    return (videos - 0.15) * 3


def batch_of(nights: Sequence[Night], seed: int, columns: int = COLUMNS) -> ImageBatch:
    """Nights as videos, and whether each has a couple."""
    labels = torch.tensor([night.is_couple for night in nights], dtype=torch.long)
    return ImageBatch(scaled(render_nights(nights, columns=columns, seed=seed)), labels)


def training_nights(step: int, steps: int, seed: int) -> list[Night]:
    """The nights of a step: near flashes in the first half of the training, all distances in turn after that."""
    number = (1_000_000 * seed + step) * BATCH
    furthest = NEAR if 2 * step < steps else MOST_DISTANCE
    return [
        night
        for place in range(BATCH)
        for night in draw_nights(1, distance=1 + (number + place) % furthest, seed=number + place)
    ]


def clips_of(nights: Sequence[Night], seed: int) -> ImageBatch:
    """Nights cut into clips of one tubelet's frames, and the colour that flashes in each, if one does.

    Shapes: videos (B · times, 2, 3, height, width), labels (B · times,), 0 where nothing flashes
    """
    videos = scaled(render_nights(nights, seed=seed)).unflatten(1, (-1, EYES.num_frames))  # (B, times, 2, ...)
    labels = torch.zeros(videos.shape[:2], dtype=torch.long)
    for row, night in enumerate(nights):
        for flash in (night.second, night.first):  # where both fall into one clip, the first is named
            labels[row, flash.frame // EYES.num_frames] = 1 + FLASHES.index(flash.colour)
    return ImageBatch(videos.flatten(0, 1), labels.flatten())


def build(way: str, seed: int) -> nn.Module:
    """A model of the run, with first weights that depend on the seed alone."""
    torch.manual_seed(seed)
    if way == "eyes":
        return ViViT(EYES, JointEncoder(EYES))
    if way in VIVITS:
        return ViViT(VIVIT, JointEncoder(VIVIT) if way == "joint" else FactorisedEncoder(VIVIT, 1))
    width = CONFIG.d_model
    dilations = (1, 2, 4) if way == "dilated" else (1, 1, 1)
    layers: list[nn.Module] = [ResidualConvolution(width, dilation=dilation) for dilation in dilations]
    if way == "non_local":
        layers[1] = NonLocalBlock(width, width)
    return VideoNet(CONFIG, layers)


@torch.no_grad()
def start_from(model: Any, eyes: Any) -> None:
    """Give a ViViT the weights of an image model, the positions of a frame once for every time.

    Paper: Arnab et al. 2021 [arnab2021vivit], Section 3.4.
    """
    model.tubelets.load_state_dict(eyes.tubelets.state_dict())
    weights = dict(eyes.encoder.encoder.state_dict())
    if isinstance(model.encoder, JointEncoder):
        of_class, of_frame = weights["positions"][:, :1], weights["positions"][:, 1:]
        weights["positions"] = torch.cat((of_class, of_frame.repeat(1, VIVIT.grid[0], 1)), dim=1)
        model.encoder.encoder.load_state_dict(weights)
    else:
        model.encoder.spatial.load_state_dict(weights)


def models(what: str, seed: int = 0) -> nn.ModuleDict:
    """The models of one seed, in one module, as the weights of the first are stored."""
    return nn.ModuleDict({way: build(way, seed) for way in (NETWORKS if what == "networks" else ("eyes", *VIVITS))})


@torch.inference_mode()
def accuracies(
    model: nn.Module, count: int = 400, *, columns: int = COLUMNS, distances: Sequence[int] | None = None
) -> dict[str, float]:
    """The share of test nights for which the model is right, at each distance, in a hedge of this length."""
    found = {}
    for distance in distances or range(1, columns):
        nights = draw_nights(count, distance=distance, columns=columns, seed=-1)
        batch = batch_of(nights, seed=-1, columns=columns)
        right = model(batch.images).argmax(dim=-1) == batch.targets
        found[str(distance)] = round(float(right.float().mean()), 4)
    return found


@torch.inference_mode()
def naming(eyes: nn.Module, count: int = 400) -> float:
    """The share of clips whose colour the image model names."""
    batch = clips_of(draw_nights(count, seed=-1), seed=-1)
    return round(float((eyes(batch.images).argmax(dim=-1) == batch.targets).float().mean()), 4)


def costs(what: str) -> dict[str, dict[str, int]]:
    """Parameters, and operations of one video, of every model that judges nights."""
    video = torch.zeros(1, FRAMES, 3, ROWS * CELL, COLUMNS * CELL)
    ways = {way: build(way, 0).eval() for way in (NETWORKS if what == "networks" else VIVITS)}
    return {
        way: {"parameters": count_parameters(model), "flops": count_flops(model, video)} for way, model in ways.items()
    }


def learn(
    model: nn.Module, way: str, seed: int, steps: int, batches: Callable[[int], ImageBatch]
) -> list[dict[str, object]]:
    """Train one model; its loss, as the mean of every 25 steps."""
    config = TrainConfig(
        steps=steps,
        learning_rate=5e-3 if way in NETWORKS else 2e-3,
        schedule=Cosine(steps=steps, warmup=steps // 20),
        device="cpu",
        seed=seed,
        progress=False,
    )
    losses = train(model, batches, class_loss, config)["loss"]
    return [
        {"way": way, "seed": seed, "step": stop, "loss": round(sum(losses[stop - 25 : stop]) / 25, 4)}
        for stop in range(25, len(losses) + 1, 25)
    ]


def train_seed(what: str, kept: nn.ModuleDict, seed: int, steps: int, count: int) -> tuple[list[Any], dict[str, Any]]:
    """All models of one seed, in place: their history, and what they score as their weights will be stored."""

    def nights(step: int) -> ImageBatch:
        return batch_of(training_nights(step, steps, seed), seed=1_000_000 * seed + step)

    def clips(step: int) -> ImageBatch:
        number = 1_000_000 * seed + step
        return clips_of(draw_nights(BATCH, seed=number), seed=number)

    rows: list[Any] = []
    results: dict[str, Any] = {}
    for way, model in kept.items():
        if way in VIVITS:
            start_from(model, kept["eyes"])
        rows += learn(model, way, seed, steps, clips if way == "eyes" else nights)
        model.half().float().eval()
        if way == "eyes":
            results[way] = naming(model, count)
        else:
            results[way] = {"trained": accuracies(model, count)}
        if way in NETWORKS:
            results[way]["twice"] = accuracies(model, max(1, count // 2), columns=TWICE)
        print(seed, way, results[way], flush=True)
    return rows, results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("networks", "vivit"))
    parser.add_argument("--steps", type=int, help="of each model (default 800 for networks, 500 for vivit)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="(default 0 1 2)")
    parser.add_argument("--count", type=int, default=400, help="test nights of each distance (default 400)")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    what, steps, seeds = arguments.what, arguments.steps, arguments.seeds
    steps = steps if steps is not None else 800 if what == "networks" else 500
    folder = arguments.runs / ("video" if what == "networks" else "video_vivit")
    kept, rows, results = models(what, seeds[0]), [], {}
    if (folder / "run.json").exists():  # seeds that are there already stay as they are
        run = read_run(folder)
        run.load_into(kept)
        rows, results = run.rows, run.facts["results"]
    for seed in (seed for seed in seeds if str(seed) not in results):
        of_seed = kept if seed == seeds[0] else models(what, seed)
        new_rows, results[str(seed)] = train_seed(what, of_seed, seed, steps, arguments.count)
        rows += new_rows
        facts = {
            "command": f"python book/runs/video.py {what} --steps {steps}",
            "seed": seeds,
            "config": asdict(CONFIG if what == "networks" else VIVIT),
            "data": f"{steps} batches of {BATCH} drawn nights; {arguments.count} test nights for each distance",
            "near": NEAR,
            "costs": costs(what),
            "torch": torch.__version__,
            "results": results,
        }
        save_run(folder, facts, rows, kept)


if __name__ == "__main__":
    main()
