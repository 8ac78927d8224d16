"""Train what chapter 17 draws with: `python book/runs/text_to_image.py`.

Writes lecturelib/runs/text_to_image/: a tokenizer of images, the same without restarts of unused codes, a reader
that says what each quarter of an image holds, and a transformer that goes on from a caption with image tokens. The
tokenizers and the reader see images of all kinds of things, never a caption; the transformer sees captions and images
in which four pairs of colour and shape never occur.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data.sets.placed_scenes import (
    KINDS,
    LONGEST_CAPTION,
    PLACED_WORDS,
    Quarters,
    draw_placed,
    follows,
    place_caption,
    quarters,
    render_placed,
)
from lecturelib.data.sets.scenes import HELD_OUT, Scene, read_caption
from lecturelib.evaluation import Sampler, decode, read_prompt
from lecturelib.models.conv_encoder import ConvEncoder, ConvEncoderConfig
from lecturelib.models.text_to_image import TextToImage, TextToImageConfig, text_to_image_loss
from lecturelib.models.vq_tokenizer import VQTokenizer, VQTokenizerConfig, tokenizer_loss
from lecturelib.tokens import PAD, Vocabulary
from lecturelib.training import Cosine, History, TrainConfig, read_run, save_run, train

RUN = Path(__file__).resolve().parents[2] / "lecturelib" / "runs" / "text_to_image"
STAGES = ("reader", "tokenizer", "without_restarts", "drawer")
STEPS = {"reader": 400, "tokenizer": 1200, "without_restarts": 1200, "drawer": 2200}
RATES = {"reader": 3e-3, "tokenizer": 3e-3, "without_restarts": 3e-3, "drawer": 2e-3}
BATCH = 32
RESTART_EVERY = 20  # steps, in the first three quarters of a run
TEMPERATURES = (0.25, 0.5, 0.75, 1.0, 1.25)
VOCABULARY = Vocabulary(PLACED_WORDS, specials=(PAD,))
TOKENIZER = VQTokenizerConfig(num_codes=256, d_code=16, d_model=48, d_ff=32)
EYES = ConvEncoderConfig(widths=(16, 32, 32), layers=(1, 1, 1))
DRAWER = TextToImageConfig(
    vocab_size=len(VOCABULARY),
    num_codes=TOKENIZER.num_codes,
    caption_len=LONGEST_CAPTION,
    image_len=64,
    d_model=64,
    num_heads=4,
    num_layers=4,
    dropout=0.0,
)


class Drawn(NamedTuple):
    """Images (B, 3, S, S) with captions (B, T), codes (B, N) and what each quarter holds (B, 4); some may be empty."""

    images: Tensor
    captions: Tensor
    codes: Tensor
    held: Tensor


def build(seed: int = 0) -> nn.ModuleDict:
    """All that is trained, with its first weights."""
    torch.manual_seed(seed)
    reader = nn.ModuleDict({"eyes": ConvEncoder(EYES), "head": nn.Linear(EYES.d_model, 1 + len(KINDS))})
    torch.manual_seed(seed)
    tokenizer = VQTokenizer(TOKENIZER)
    torch.manual_seed(seed)
    without = VQTokenizer(TOKENIZER)
    return nn.ModuleDict(
        {"reader": reader, "tokenizer": tokenizer, "without_restarts": without, "drawer": TextToImage(DRAWER)}
    )


def scaled(scenes: Sequence[Scene]) -> Tensor:
    """Scenes as pixels around zero."""
    return (render_placed(scenes) - 0.4) * 3


def written(captions: Sequence[Sequence[str]]) -> Tensor:
    """Captions as ids, padded: (B, LONGEST_CAPTION)."""
    rows = [VOCABULARY.encode(words) for words in captions]
    return torch.tensor([[*row, *[VOCABULARY.pad_id] * (LONGEST_CAPTION - len(row))] for row in rows])


def labelled(scenes: Sequence[Scene]) -> Tensor:
    """What each quarter holds, 0 for nothing, else 1 + the place in KINDS: (B, 4)."""
    return torch.tensor([[0 if kind is None else 1 + KINDS.index(kind) for kind in quarters(s)] for s in scenes])


def read_quarters(reader: nn.ModuleDict, images: Tensor) -> Tensor:
    """Logits of what each quarter holds, where it is clearest: (B, 3, 32, 32) -> (B, 4, 1 + kinds)."""
    regions = reader["eyes"](images).unflatten(1, (2, 4, 2, 4))  # (B, 2, 4, 2, 4, D)
    return reader["head"](regions).amax(dim=(2, 4)).flatten(1, 2)


@torch.inference_mode()
def said(reader: nn.ModuleDict, images: Tensor) -> list[Quarters]:
    """What the reader sees in each quarter of each image."""
    found = read_quarters(reader, images).argmax(dim=-1).tolist()  # (B, 4)
    return [tuple(KINDS[kind - 1] if kind else None for kind in row) for row in found]


@torch.inference_mode()
def draw(models: nn.ModuleDict, captions: Tensor, sampler: Sampler) -> Tensor:
    """Images (B, 3, S, S) drawn from captions (B, T), token by token."""
    drawer = models["drawer"]
    codes = decode(drawer, read_prompt(drawer, captions), max_len=DRAWER.image_len, choose=sampler).ids
    return models["tokenizer"].decode(codes)


def all_kinds(step: int, count: int = BATCH) -> list[Scene]:
    """Scenes of a step in which every kind occurs, those held out too, all about as often."""
    return draw_placed(count - count // 3, seed=step) + draw_placed(count // 3, which="held_out", seed=step)


def train_stage(stage: str, models: nn.ModuleDict, steps: int) -> History:
    """Train one model; the tokenizer must be trained before the drawer."""
    model, nothing = models[stage], torch.zeros(0, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)

    def batches(step: int) -> Drawn:
        if stage == "drawer":
            scenes = draw_placed(BATCH, seed=step)
            codes = models["tokenizer"].encode(scaled(scenes))
            return Drawn(nothing, written([place_caption(s, seed=step) for s in scenes]), codes, nothing)
        scenes = all_kinds(step)
        images = scaled(scenes)
        if stage == "tokenizer" and step % RESTART_EVERY == 0 and step < 0.75 * steps:
            with torch.no_grad():
                model.quantizer.restart(model.features(images), generator)
        return Drawn(images, nothing, nothing, labelled(scenes))

    def loss(model: Any, batch: Drawn) -> tuple[Tensor, int]:
        if stage == "drawer":
            return text_to_image_loss(model, batch.captions, batch.codes), len(batch.codes)
        if stage == "reader":
            logits = read_quarters(model, batch.images)
            return F.cross_entropy(logits.flatten(0, 1), batch.held.flatten()), len(batch.images)
        return tokenizer_loss(model, batch.images, TOKENIZER.commitment), len(batch.images)

    config = TrainConfig(
        steps=steps,
        learning_rate=RATES[stage],
        schedule=Cosine(steps=steps, warmup=steps // 20),
        device="cpu",
        progress=False,
    )
    return train(model, batches, loss, config)


def for_testing(which: str, count: int) -> tuple[list[Scene], list[tuple[str, ...]]]:
    """Test scenes, one thing and two in turn as often as in training, with a caption each."""
    scenes = draw_placed(count, which=which, seed=-1)
    return scenes, [place_caption(scene, seed=-1) for scene in scenes]


def agreement(found: Sequence[Quarters], captions: Sequence[Sequence[str]]) -> float:
    """The share of images that hold what their captions ask for."""
    pairs = zip(found, captions, strict=True)
    return round(sum(follows(held, words) for held, words in pairs) / len(captions), 4)


def parts(found: Sequence[Quarters], captions: Sequence[Sequence[str]], kinds: Sequence[tuple[str, str]]) -> dict:
    """Of the things of these kinds that captions ask for: the shares with a thing of that colour, shape, and both."""
    asked = [(kind, held) for words, held in zip(captions, found, strict=True) for kind in read_caption(words).kinds]
    asked = [(kind, [thing for thing in held if thing]) for kind, held in asked if kind in kinds]
    tests = {
        "colour": lambda kind, things: any(thing[0] == kind[0] for thing in things),
        "shape": lambda kind, things: any(thing[1] == kind[1] for thing in things),
        "both": lambda kind, things: kind in things,
    }
    return {name: round(sum(test(*one) for one in asked) / len(asked), 4) for name, test in tests.items()}


def measure(stage: str, models: nn.ModuleDict, count: int) -> dict[str, Any]:
    """The numbers of a stage, on test scenes of both kinds."""
    results: dict[str, Any] = {}
    for which in ("train", "held_out"):
        scenes, captions = for_testing(which, count)
        images = scaled(scenes)
        if stage == "reader":
            results[which] = {"follows": agreement(said(models["reader"], images), captions)}
        elif stage != "drawer":
            with torch.inference_mode():
                seen = models[stage](images)
            results[which] = {
                "follows": agreement(said(models["reader"], seen.images), captions),
                "error": round(float((seen.images - images).square().mean()), 5),
                "codes": len(seen.ids.unique()),
            }
        else:
            results[which] = {}
            for temperature in TEMPERATURES:
                sampler = Sampler(temperature=temperature, generator=torch.Generator().manual_seed(0))
                found = said(models["reader"], draw(models, written(captions), sampler))
                kinds = HELD_OUT if which == "held_out" else KINDS
                results[which][str(temperature)] = {
                    "follows": agreement(found, captions),
                    "wrong_caption": agreement(found, [*captions[1:], captions[0]]),
                    **parts(found, captions, kinds),
                }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="in this order")
    parser.add_argument("--steps", type=int, help="of every stage (default: as the table STEPS says)")
    parser.add_argument("--count", type=int, default=300, help="test images of each kind (default 300)")
    parser.add_argument("--run", type=Path, default=RUN, help="where the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    models, rows, results = build(), [], {}
    if (arguments.run / "run.json").exists():
        run = read_run(arguments.run)
        run.load_into(models)
        rows, results = run.rows, run.facts["results"]
    for stage in arguments.stages:
        steps = arguments.steps or STEPS[stage]
        losses = train_stage(stage, models.train(), steps)["loss"]
        models.half().float().eval()  # as the weights will be stored
        results[stage] = measure(stage, models, arguments.count)
        print(stage, results[stage], flush=True)
        rows = [row for row in rows if row["model"] != stage]
        for stop in range(25, steps + 1, 25):
            rows.append({"model": stage, "step": stop, "loss": round(sum(losses[stop - 25 : stop]) / 25, 4)})
        facts = {
            "command": "python book/runs/text_to_image.py",
            "seed": 0,
            "config": {"tokenizer": asdict(TOKENIZER), "drawer": asdict(DRAWER), "eyes": asdict(EYES)},
            "steps": STEPS,
            "data": f"batches of {BATCH} drawn scenes; {arguments.count} test scenes of each kind",
            "torch": torch.__version__,
            "results": results,
        }
        save_run(arguments.run, facts, rows, models)


if __name__ == "__main__":
    main()
