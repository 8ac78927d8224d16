"""Train the segmenters of chapter 17: `python book/runs/segmentation.py`.

About four minutes on a free core for each of three. Writes lecturelib/runs/segmentation/. All three see the same scenes
and the same prompts in the same order, for as many steps. "three" offers three masks for a click, of which only the
best one learns, and has a fourth for prompts of several points; "one" has a single mask for all prompts; "alike" is as
"three", but all masks on offer learn from every answer.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data.sets.nested import LEVELS, SIDE, Asked, draw_boxes, draw_clicks, draw_nested
from lecturelib.models.promptable_segmenter import Masks, PromptableSegmenter, PromptableSegmenterConfig
from lecturelib.training import (
    Cosine,
    History,
    TrainConfig,
    best_of,
    mask_iou,
    mask_loss,
    mean_of,
    read_run,
    save_run,
    train,
)

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
CONFIG = PromptableSegmenterConfig()
Choice = Callable[[Tensor, Tensor], Tensor]
WAYS: dict[str, tuple[int, Choice]] = {"three": (4, best_of), "one": (1, best_of), "alike": (4, mean_of)}
ROUND = (1, 0, 2, 1, 4, 1, 0, 3)  # clicks of the prompts of a step, in turn; 0 is a box
IMAGES, QUESTIONS = 12, 4  # of a step
MOST_CLICKS = 5


def scaled(images: Tensor) -> Tensor:
    """Pixels around zero."""
    return (images - 0.4) * 3


def build(way: str, seed: int = 0) -> PromptableSegmenter:
    """A segmenter, with the first weights that all have in common."""
    torch.manual_seed(seed)
    return PromptableSegmenter(replace(CONFIG, num_masks=WAYS[way][0]))


def segmenters() -> nn.ModuleDict:
    """All segmenters, as their weights are stored."""
    return nn.ModuleDict({way: build(way) for way in WAYS})


def batch(step: int) -> Asked:
    """The prompts of a step."""
    scenes, clicks = draw_nested(IMAGES, seed=step), ROUND[step % len(ROUND)]
    if clicks:
        asked = draw_clicks(scenes, questions=QUESTIONS, clicks=clicks, seed=step)
    else:
        asked = draw_boxes(scenes, questions=QUESTIONS, seed=step)
    return asked._replace(images=scaled(asked.images))


def on_offer(model: PromptableSegmenter, masks: Masks, kinds: Tensor) -> Masks:
    """The masks that answer prompts of one kind, clicks or several points: logits (B, M, S, S), quality (B, M)."""
    offered = model.offered(kinds)[0]  # (masks,)
    return Masks(masks.logits[:, offered], masks.quality[:, offered])


@torch.inference_mode()
def answer(model: PromptableSegmenter, asked: Asked) -> Masks:
    """What is on offer for one prompt for each image: logits (B, M, S, S), quality (B, M)."""
    kinds = asked.kinds[:, 0]
    return on_offer(model, model(scaled(asked.images), asked.points[:, 0], kinds), kinds)


def ranked(masks: Masks) -> Tensor:
    """The mask that claims the highest quality, of each row, as booleans: (B, S, S)."""
    return (masks.logits > 0)[torch.arange(len(masks.logits)), masks.quality.argmax(dim=1)]


def next_click(found: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Where a mask is most wrong: the pixel of the mistakes that lies deepest in them, and its kind.

    Shapes: found and targets (B, S, S) -> points (B, 1, 2), kinds (B, 1)
    """
    wrong = (found != targets).float().unsqueeze(1)  # (B, 1, S, S)
    depth, ring = wrong.clone(), wrong
    for _ in range(SIDE // 2):  # peel off a pixel at a time; beyond the image nothing is wrong
        ring = (F.avg_pool2d(ring, 3, 1, 1) > 0.99).float()
        depth = depth + ring
    pixel = depth.flatten(1).argmax(dim=1, keepdim=True)  # (B, 1)
    points = torch.stack((pixel % SIDE, pixel // SIDE), dim=-1).float()
    return points, targets.flatten(1).gather(1, pixel).long()


@torch.inference_mode()
def click_on(model: PromptableSegmenter, asked: Asked, clicks: int = MOST_CLICKS) -> tuple[list[Tensor], Tensor]:
    """The IoU of the mask ranked first after each of several clicks, of which later ones mend mistakes: (B,) each.

    Also the kinds of all clicks: (B, clicks).
    """
    image, targets = model.encode(scaled(asked.images)), asked.targets[:, 0]
    points, kinds, found = asked.points[:, 0, :1], asked.kinds[:, 0, :1], []
    nothing = torch.zeros_like(points[:, :1]), torch.full_like(kinds[:, :1], -1)
    for _ in range(clicks):
        ended = torch.cat((points, nothing[0]), dim=1), torch.cat((kinds, nothing[1]), dim=1)
        best = ranked(on_offer(model, model.decode(image, *ended), ended[1]))
        found.append(mask_iou(best, targets))
        point, kind = next_click(best, targets)
        points, kinds = torch.cat((points, point), dim=1), torch.cat((kinds, kind), dim=1)
    return found, kinds[:, :clicks]


def score(model: PromptableSegmenter, count: int = 600) -> dict[str, object]:
    """How well a segmenter does what chapter 17 asks of it, on new scenes."""
    scenes = draw_nested(count, seed=-1)
    asked, boxed = draw_clicks(scenes, seed=-1), draw_boxes(scenes, seed=-1)
    rows, clicked, thing = torch.arange(count), asked.clicked[:, 0], asked.thing[:, 0]  # (B,) each
    masks = answer(model, asked)
    iou = mask_iou(masks.logits > 0, asked.targets)  # (B, M)
    best, first = iou.amax(dim=1), iou[rows, masks.quality.argmax(dim=1)]  # (B,)
    possible = scenes.masks[rows, thing]  # (B, levels, S, S)
    pairs = mask_iou((masks.logits > 0)[:, :, None], possible[:, None])  # (B, M, levels)
    may = torch.arange(len(LEVELS)) <= clicked[:, None]  # (B, levels)
    hoped = (pairs * may[:, None]).sum(dim=2) / may.sum(dim=1)[:, None]  # (B, M), the mean over what may be meant
    chosen = hoped[rows, masks.quality.argmax(dim=1)]  # (B,)
    inner = clicked == len(LEVELS) - 1  # clicks on a sub-part, which may mean three things
    likely, zones = masks.logits.sigmoid(), scenes.visible[rows, thing]  # (B, M, S, S), (B, levels, S, S)
    sums = torch.einsum("bmhw,blhw->bml", likely, zones.float())
    after, kinds = click_on(model, asked)
    belongs = kinds[:, 1] == 1  # (B,), whether the second click is on something that was missed
    fits = pairs[inner].argmax(dim=1)  # (inner clicks, levels): which mask fits each level best

    def mean(values: Tensor) -> float:
        return round(float(values.float().mean()), 4)

    return {
        "click_best": mean(best),
        "click_first": mean(first),
        "box_first": mean(mask_iou(ranked(answer(model, boxed)), boxed.targets[:, 0])),
        "clicks": [mean(found) for found in after],
        "second": {"share": mean(belongs), "belongs": mean(after[1][belongs]), "not": mean(after[1][~belongs])},
        "by_meanings": [
            {"best": mean(best[clicked == level]), "first": mean(first[clicked == level])}
            for level in range(len(LEVELS))
        ],
        "covered": mean((pairs.amax(dim=1) > 0.75)[may]),  # of what a click may mean, the share that some mask fits
        "covered_inner": mean((pairs.amax(dim=1) > 0.75)[inner]),
        "specialists": [[mean(fits[:, level] == mask) for level in range(len(LEVELS))] for mask in range(iou.shape[1])],
        # the mean probability of the pixels of each visible level, in each mask, after clicks on a sub-part
        "zones": [
            [round(float(value), 4) for value in row]
            for row in sums[inner].sum(dim=0) / zones[inner].sum(dim=(0, 2, 3))
        ],
        "quality_error": mean((masks.quality - hoped).abs()),
        "ranked_best": mean(chosen >= hoped.amax(dim=1) - 0.02),
        "ranked_loss": mean(hoped.amax(dim=1) - chosen),
        "by_chance": mean(hoped.amax(dim=1)[:, None] - hoped),
    }


def train_all(folder: Path, steps: int, ways: Sequence[str], count: int, *, measure_only: bool = False) -> None:
    """Train the segmenters one after the other, or only measure them; others that the folder holds stay as they are."""
    trained, rows, results = segmenters(), [], {}
    if (folder / "run.json").exists():
        run = read_run(folder)
        run.load_into(trained)
        rows, results = run.rows, run.facts["results"]
    for way in ways:
        if not measure_only:
            config = TrainConfig(
                steps=steps,
                learning_rate=2e-3,
                schedule=Cosine(steps=steps, warmup=steps // 20),
                device="cpu",
                progress=True,
            )
            history = train(trained[way], batch, partial(mask_loss, choose=WAYS[way][1]), config)
            rows = [row for row in rows if row["model"] != way] + loss_rows(way, history)
        trained[way].half().float().eval()  # as the weights will be stored
        results[way] = score(trained[way], count)
        print(way, results[way], flush=True)
        facts = {
            "command": f"python book/runs/segmentation.py --steps {steps}",
            "seed": 0,
            "config": asdict(CONFIG),
            "data": f"{steps} batches of {IMAGES} drawn scenes with {QUESTIONS} prompts each; {count} test scenes",
            "prompts": steps * IMAGES * QUESTIONS,
            "torch": torch.__version__,
            "results": results,
        }
        save_run(folder, facts, rows, trained)


def loss_rows(name: str, history: History) -> list[dict[str, object]]:
    """The loss of a model, as the mean of every 24 steps, three rounds of prompts."""
    losses = history["loss"]
    return [
        {"model": name, "step": stop, "loss": round(sum(losses[stop - 24 : stop]) / 24, 4)}
        for stop in range(24, len(losses) + 1, 24)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200, help="of each segmenter (default 1200)")
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--count", type=int, default=600, help="test scenes (default 600)")
    parser.add_argument(
        "--measure", action="store_true", help="measure again what was trained before, and train nothing"
    )
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.runs / "segmentation"
    train_all(folder, arguments.steps, arguments.ways, arguments.count, measure_only=arguments.measure)


if __name__ == "__main__":
    main()
