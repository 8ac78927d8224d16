"""Train what chapter 17 shows of captions: `python book/runs/caption_transformers.py captions`, then `pixels`.

Quarter of an hour on a free core for the captions, two minutes for the pixels. The first writes
lecturelib/runs/caption_transformers/: two captioners with a transformer decoder, one over convolutions and one over
patches alone, and again the recurrent captioner of chapter 7, each from three seeds. All see the scenes of chapter 7
in the same order, for as many steps. Where there is a convolution it starts as the one of chapter 7; the patches have
learned to name colours and shapes for as many steps as that one had.

The second writes lecturelib/runs/pixels/: a Perceiver that reads single pixels and a ViT that reads patches name the
one thing in a scene, from three seeds, at the same number of operations per image.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from captioning import (
    RUNS,
    SCENE_CONFIG,
    SCENE_VOCABULARY,
    build_captioner,
    captioners,
    loss_rows,
    named_scenes,
    scaled,
    scene_step,
    write_captions,
)
from torch import Tensor, nn

from lecturelib.data.sets.scenes import (
    COLOURS,
    HELD_OUT,
    MOST_THINGS,
    SHAPES,
    SIDE,
    Scene,
    describes,
    draw_scenes,
    read_caption,
    render_scenes,
)
from lecturelib.evaluation import count_flops, count_parameters
from lecturelib.layers import fourier_positions
from lecturelib.models import (
    CaptionTransformer,
    CaptionTransformerConfig,
    Perceiver,
    PerceiverConfig,
    ViT,
    ViTCaptioner,
    ViTCaptionerConfig,
    ViTConfig,
)
from lecturelib.training import Cosine, History, TrainConfig, caption_loss, read_run, save_run, shipped_run, train

Row = dict[str, Any]


def finished(history: History) -> History:
    """The history of a training that came to its end; half a training is no measurement."""
    if history.stop == "interrupted":
        raise KeyboardInterrupt
    return history


# Captions

WAYS = ("soft", "convolution", "patches")
RATES = {"soft": 3e-3, "convolution": 3e-3, "patches": 1e-3}
CONVOLUTION = CaptionTransformerConfig(vocab_size=len(SCENE_VOCABULARY), image=SCENE_CONFIG.image)
PATCHES = ViTCaptionerConfig(
    vocab_size=len(SCENE_VOCABULARY),
    image=ViTConfig(image_size=SIDE, patch_size=4, d_model=64, num_heads=4, num_layers=3, d_ff=128),
)


def build(way: str, seed: int = 0) -> nn.Module:
    """A captioner as it is before training."""
    if way == "soft":
        return build_captioner("soft", seed)
    torch.manual_seed(seed)
    return CaptionTransformer(CONVOLUTION) if way == "convolution" else ViTCaptioner(PATCHES)


def stored() -> nn.ModuleDict:
    """The captioners whose weights are stored, those of the first seed; the recurrent one is in chapter 7's run."""
    return nn.ModuleDict({way: build(way) for way in WAYS[1:]})


def learn_to_name(encoder: nn.Module, width: int, steps: int) -> float:
    """Teach an encoder to name the colours and shapes of an image, as `captioning.learn_to_see` does."""
    head = nn.Linear(width, len(COLOURS) + len(SHAPES))
    model = nn.ModuleList([encoder, head])
    recent: list[float] = []

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, known = batch
        found = head(encoder(images)).amax(dim=1)  # (B, names), each name where it is clearest
        recent.append(float(((found > 0) == (known > 0)).float().mean()))
        return F.binary_cross_entropy_with_logits(found, known)

    schedule = Cosine(steps=steps, warmup=steps // 10)
    plan = TrainConfig(steps=steps, learning_rate=2e-3, schedule=schedule, device="cpu", progress=True)
    finished(train(model, named_scenes, loss, plan))
    return sum(recent[-50:]) / max(1, len(recent[-50:]))


def check_names(words: Sequence[str], scene: Scene) -> tuple[list[bool], list[bool]]:
    """For each kind of thing that a caption names: is it there? For each that is there: is the number right?"""
    claim, there = read_caption(words), scene.groups()
    if claim is None:
        return [False], []
    is_there = [kind in there for kind in claim.kinds]
    numbers = [len(there[k]) == n for k, n in zip(claim.kinds, claim.numbers, strict=True) if k in there]
    return is_there, numbers


def score(model: Any, things: int, which: Any, count: int) -> dict[str, float]:
    """Shares of scenes without a mistake, of named things that are there, and of these with the right number."""
    scenes = draw_scenes(count, things=things, which=which, seed=-1)
    written = write_captions(model, scaled(render_scenes(scenes, seed=-1).images))
    checked = [check_names(words, scene) for words, scene in zip(written, scenes, strict=True)]
    there, numbers = ([value for pair in checked for value in pair[part]] for part in (0, 1))
    exact = [describes(words, scene) for words, scene in zip(written, scenes, strict=True)]
    named = {"exact": exact, "there": there, "numbers": numbers}
    return {name: round(sum(values) / max(1, len(values)), 4) for name, values in named.items()}


def score_all(model: Any, count: int) -> dict[str, dict[str, dict[str, float]]]:
    return {
        which: {str(things): score(model, things, which, count) for things in range(1, MOST_THINGS + 1)}
        for which in ("train", "held_out")
    }


def train_captions(
    folder: Path, steps: int, seeing: int, seeds: Sequence[int], ways: Sequence[str], count: int
) -> None:
    """Train each captioner from each seed; what the folder holds already stays as it is."""
    recurrent = shipped_run("captioning")
    models, rows, results = stored(), [], {way: {} for way in WAYS} | {"naming": {}}
    if (folder / "run.json").exists():
        run = read_run(folder)
        run.load_into(models)
        rows, results = run.rows, run.facts["results"]
    before = recurrent.load_into(captioners())
    for seed in seeds:
        for way in ways:
            if str(seed) in results[way]:
                continue
            model = build(way, seed)
            if (way, seed, steps) == ("soft", 0, 1000):
                model = before["soft"]  # trained in chapter 7, in the same way
            else:
                if way == "patches":
                    results["naming"][str(seed)] = round(learn_to_name(model.encoder, 64, seeing), 4)
                else:
                    model.encoder.load_state_dict(before["eyes"].state_dict())
                schedule = Cosine(steps=steps, warmup=steps // 20)
                plan = TrainConfig(
                    steps=steps, learning_rate=RATES[way], schedule=schedule, device="cpu", progress=True
                )
                history = finished(train(model, partial(scene_step, steps), caption_loss, plan))
                rows += [row | {"seed": seed} for row in loss_rows(way, history)]
            model.half().float().eval()
            results[way][str(seed)] = score_all(model, count)
            if way in models and seed == 0:
                models[way].load_state_dict(model.state_dict())
            print(way, seed, results[way][str(seed)], flush=True)
            facts = {
                "command": f"python book/runs/caption_transformers.py captions --steps {steps} --seeing {seeing}",
                "seed": sorted({int(seed) for way in WAYS for seed in results[way]}),
                "config": {"convolution": asdict(CONVOLUTION), "patches": asdict(PATCHES), "rates": RATES},
                "data": f"{steps} batches of chapter 7's scenes; {count} test scenes for each number of things",
                "parameters": {way: count_parameters(build(way)) for way in WAYS},
                "torch": torch.__version__,
                "results": results,
            }
            save_run(folder, facts, rows, models)


# Pixels

BANDS, KINDS = 6, [(colour, shape) for colour in COLOURS for shape in SHAPES if (colour, shape) not in HELD_OUT]
READERS = ("perceiver", "perceiver_without_positions", "vit")


def as_pixels(images: Tensor, positions: Tensor) -> Tensor:
    """Every pixel as a vector, its colour and where it is: (B, 3, S, S), (S · S, P) -> (B, S · S, 3 + P)."""
    colours = images.flatten(2).transpose(1, 2)  # (B, S · S, 3)
    return torch.cat((colours, positions.expand(len(images), -1, -1)), dim=-1)


class PixelReader(nn.Module):
    """A Perceiver over single pixels; without positions they are a bag of colours."""

    def __init__(self, *, has_positions: bool = True) -> None:
        super().__init__()
        positions = fourier_positions((SIDE, SIDE), BANDS)  # (S · S, P)
        self.register_buffer("positions", positions * has_positions, persistent=False)
        self.model = Perceiver(
            PerceiverConfig(
                input_dim=3 + positions.shape[1],
                num_classes=len(KINDS),
                d_model=48,
                num_latents=16,
                num_heads=4,
                num_layers=2,
                cross_heads=4,
                widening=2,
            )
        )

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) -> logits of the kinds (B, kinds)."""
        return self.model(as_pixels(images, self.get_buffer("positions")))


def reader(name: str, seed: int = 0) -> nn.Module:
    """A model that names the one thing in a scene. The ViT's feed-forward net makes it cost what the Perceiver does."""
    torch.manual_seed(seed)
    if name == "vit":
        return ViT(
            ViTConfig(
                image_size=SIDE,
                patch_size=4,
                num_classes=len(KINDS),
                d_model=48,
                num_heads=4,
                num_layers=3,
                d_ff=113,
            )
        )
    return PixelReader(has_positions=name == "perceiver")


def readers() -> nn.ModuleDict:
    """Those whose weights are stored."""
    return nn.ModuleDict({name: reader(name) for name in ("perceiver", "vit")})


def thing_batch(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Scenes with one thing each, and its kind."""
    scenes = draw_scenes(count, things=1, seed=seed)
    return scaled(render_scenes(scenes, seed=seed).images), torch.tensor(
        [KINDS.index(s.things[0].kind) for s in scenes]
    )


def kind_loss(model: Callable[[Tensor], Tensor], batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


@torch.inference_mode()
def read_right(model: nn.Module, count: int) -> dict[str, float]:
    """The shares of test scenes whose kind, colour and shape are right."""
    images, kinds = thing_batch(count, -1)
    found = model.eval()(images).argmax(dim=1).tolist()
    pairs = [(KINDS[one], KINDS[other]) for one, other in zip(found, kinds.tolist(), strict=True)]
    right = {"kind": [a == b for a, b in pairs]}
    right |= {name: [a[part] == b[part] for a, b in pairs] for part, name in enumerate(("colour", "shape"))}
    return {name: round(sum(values) / count, 4) for name, values in right.items()}


def train_pixels(folder: Path, steps: int, seeds: Sequence[int], names: Sequence[str], count: int) -> None:
    """Train each reader from each seed, and keep a row for each."""
    rows, models = [], readers()
    for seed in seeds:
        for name in names:
            model = reader(name, seed)
            schedule = Cosine(steps=steps, warmup=steps // 20)
            plan = TrainConfig(steps=steps, learning_rate=3e-3, schedule=schedule, device="cpu", progress=True)
            finished(train(model, lambda step, seed=seed: thing_batch(48, 1_000_000 * seed + step), kind_loss, plan))
            model.half().float().eval()
            cost = {"flops": count_flops(model, torch.zeros(1, 3, SIDE, SIDE)), "parameters": count_parameters(model)}
            rows.append({"reader": name, "seed": seed} | cost | read_right(model, count))
            if seed == 0 and name in models:
                models[name].load_state_dict(model.state_dict())
            print(rows[-1], flush=True)
            facts = {
                "command": f"python book/runs/caption_transformers.py pixels --steps {steps}",
                "seed": list(seeds),
                "config": {"steps": steps, "bands": BANDS, "readers": list(READERS)},
                "data": f"{steps} batches of 48 scenes with one thing; {count} test scenes",
                "torch": torch.__version__,
                "results": {"trained": len(rows)},
            }
            save_run(folder, facts, rows, models)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("captions", "pixels"))
    parser.add_argument("--steps", type=int, help="of each training (default 1000 for captions, 400 for pixels)")
    parser.add_argument("--seeing", type=int, default=500, help="steps in which patches learn to name (default 500)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default 0 1 2")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="which captioners (default all)")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS), help="of pixels (default all)")
    parser.add_argument("--count", type=int, default=200, help="test images for each number (default 200)")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the runs go")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.what == "captions":
        folder, steps = arguments.runs / "caption_transformers", arguments.steps or 1000
        train_captions(folder, steps, arguments.seeing, arguments.seeds, arguments.ways, arguments.count)
    else:
        train_pixels(
            arguments.runs / "pixels", arguments.steps or 400, arguments.seeds, arguments.readers, 2 * arguments.count
        )


if __name__ == "__main__":
    main()
