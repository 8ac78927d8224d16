"""Train the detectors of chapter 17: `python book/runs/detection.py`.

About five minutes on a free core for each of them. Writes lecturelib/runs/detection/. All start from the eyes of the
captioners of chapter 7 and the same first weights, and see the same scenes in the same order, for as many steps. They
differ in the loss alone: which query is told to answer for which object, and whether the layers before the last have a
loss of their own.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from lecturelib.data.sets.detection import DetectionBatch, detection_batch, draw_spread
from lecturelib.data.sets.scenes import SHAPES
from lecturelib.evaluation import average_precision, duplicates, exact_sets, read_answers, suppress_overlapping
from lecturelib.models.detr import DETR, Detected, DETRConfig
from lecturelib.training import (
    Cosine,
    History,
    TrainConfig,
    match_in_order,
    match_overlapping,
    read_run,
    save_run,
    set_loss,
    shipped_run,
    train,
)

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
BATCH = 16
LEARNING_RATE = 1.5e-3
QUIETER = 8
NO_OBJECT = 0.1  # the weight of "no object" in the loss
CONFIG = DETRConfig(
    num_classes=len(SHAPES),
    num_queries=12,
    d_model=64,
    num_heads=4,
    encoder_layers=1,
    decoder_layers=3,
    d_ff=128,
    dropout=0.0,
)
LOSSES: dict[str, Callable] = {
    "set": partial(set_loss, no_object=NO_OBJECT),
    "overlap": partial(set_loss, no_object=NO_OBJECT, match=match_overlapping),
    "order": partial(set_loss, no_object=NO_OBJECT, match=match_in_order),
    "last_only": partial(set_loss, no_object=NO_OBJECT, auxiliary=False),
}


def scenes_batch(count: int, seed: int) -> DetectionBatch:
    """Scenes as a batch, with pixels around zero."""
    batch = detection_batch(draw_spread(count, seed=seed), seed=seed)
    return batch._replace(images=(batch.images - 0.4) * 3)


def build_detector(seed: int = 0) -> DETR:
    """A detector before training, with the eyes of the captioners of chapter 7.

    Their last convolution is divided by a number, so that what the eyes see is about as large as the positions.
    """
    torch.manual_seed(seed)
    model = DETR(CONFIG)
    weights = load_file(shipped_run("captioning").folder / "weights.safetensors")
    eyes = {name: weights[f"eyes.{name}"] for name in model.backbone.state_dict()}
    model.backbone.load_state_dict(eyes)
    *_, last = (module for module in model.backbone.modules() if isinstance(module, nn.Conv2d))
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.div_(QUIETER)
    return model


def detectors() -> nn.ModuleDict:
    """All detectors, as their weights are stored."""
    return nn.ModuleDict({name: build_detector() for name in LOSSES})


@torch.inference_mode()
def look(model: DETR, batch: DetectionBatch) -> Detected:
    """What every query says after every layer."""
    return model(batch.images)


def score(model: DETR, batch: DetectionBatch, layer: int = -1) -> dict[str, float]:
    """Average precision, whole sets and duplicates of what the queries say after a layer, as they are and after NMS."""
    said = look(model, batch)
    answers = read_answers(said.logits[:, layer], said.boxes[:, layer], no_object=NO_OBJECT)
    kept = suppress_overlapping(answers)
    found = {
        "ap": average_precision(answers, batch),
        "ap_nms": average_precision(kept, batch),
        "exact": exact_sets(answers, batch),
        "exact_nms": exact_sets(kept, batch),
        "duplicates": duplicates(answers, batch),
    }
    return {name: round(value, 4) for name, value in found.items()}


def loss_rows(name: str, history: History) -> list[dict[str, object]]:
    """The loss of a detector, as the mean of every 25 steps."""
    losses = history["loss"]
    return [
        {"model": name, "step": stop, "loss": round(sum(losses[stop - 25 : stop]) / 25, 4)}
        for stop in range(25, len(losses) + 1, 25)
    ]


def train_detectors(folder: Path, steps: int, names: Sequence[str], count: int, seed: int = 0) -> None:
    """Train these detectors, one after the other; others that the folder holds already stay as they are.

    Another seed is other first weights of the transformer and other training scenes; the test scenes are the same.
    """

    def batch(step: int) -> DetectionBatch:
        return scenes_batch(BATCH, step + 100_000 * seed)

    trained, rows, results = detectors(), [], {}
    if (folder / "run.json").exists():
        run = read_run(folder)
        run.load_into(trained)
        rows, results = [row for row in run.rows if row["model"] not in names], run.facts["results"]
    test = scenes_batch(count, seed=-1)
    for name in names:
        trained[name] = build_detector(seed)
        config = TrainConfig(
            steps=steps,
            learning_rate=LEARNING_RATE,
            schedule=Cosine(steps=steps, warmup=steps // 20),
            device="cpu",
            progress=True,
        )
        rows += loss_rows(name, train(trained[name], batch, LOSSES[name], config))
        model = trained[name].half().float().eval()  # as the weights will be stored
        results[name] = {str(layer + 1): score(model, test, layer) for layer in range(CONFIG.decoder_layers)}
        print(name, results[name], flush=True)
        facts = {
            "command": f"python book/runs/detection.py --steps {steps}" + (f" --seed {seed}" if seed else ""),
            "seed": seed,
            "config": asdict(CONFIG),
            "no_object": NO_OBJECT,
            "data": f"{steps} batches of {BATCH} drawn scenes; {count} test scenes",
            "torch": torch.__version__,
            "results": results,
        }
        save_run(folder, facts, rows, trained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3500, help="of each detector (default 3500)")
    parser.add_argument("--names", nargs="+", choices=tuple(LOSSES), default=list(LOSSES), help="which to train")
    parser.add_argument("--count", type=int, default=500, help="test scenes (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="another than 0 goes to a folder of its own (default 0)")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the runs go")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.runs / ("detection" if arguments.seed == 0 else f"detection_{arguments.seed}")
    train_detectors(folder, arguments.steps, arguments.names, arguments.count, arguments.seed)


if __name__ == "__main__":
    main()
