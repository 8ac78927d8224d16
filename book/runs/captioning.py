"""Train the captioners of chapter 7: `python book/runs/captioning.py scenes`, then `animals`.

Eight minutes on a free core for the scenes, four for the animals. Writes lecturelib/runs/captioning/ and
lecturelib/runs/captioning_animals/. Three captioners of the scenes start from the same eyes, an encoder that has
learned to name the colours and shapes of an image; they see the same scenes in the same order, for as many steps. A
fourth, "hardened", goes on from the soft one with hard looks, for a quarter as many steps.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data.sets.animals import (
    ANIMAL_WORDS,
    ANIMALS,
    GROUNDS,
    AnimalScene,
    draw_animals,
    render_animals,
)
from lecturelib.data.sets.scenes import (
    COLOURS,
    MOST_THINGS,
    SCENE_WORDS,
    SHAPES,
    Scene,
    caption_scene,
    describes,
    draw_scenes,
    render_scenes,
)
from lecturelib.evaluation import bleu, decode, read_source
from lecturelib.models.conv_encoder import ConvEncoder
from lecturelib.models.show_attend_tell import HardGlimpse, OneVector, ShowAttendTell, ShowAttendTellConfig
from lecturelib.tokens import BOS, EOS, PAD, CaptionBatch, Vocabulary, collate_captions
from lecturelib.training import Cosine, History, TrainConfig, caption_loss, read_run, reinforce_loss, save_run, train

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
WAYS = ("one_vector", "soft", "hard", "hardened")
STAGES = ("eyes", *WAYS)
SHARES = {"biased": 1.0, "mended": 0.5}  # of animals on their usual ground, in training
REGIONS = 8  # along each side
BATCH = 48
SCENE_VOCABULARY = Vocabulary(SCENE_WORDS, specials=(PAD, BOS, EOS))
ANIMAL_VOCABULARY = Vocabulary(ANIMAL_WORDS, specials=(PAD, BOS, EOS))
IDS = {"pad_id": SCENE_VOCABULARY.pad_id, "bos_id": SCENE_VOCABULARY.bos_id, "eos_id": SCENE_VOCABULARY.eos_id}
SCENE_CONFIG = ShowAttendTellConfig(vocab_size=len(SCENE_VOCABULARY))
ANIMAL_CONFIG = ShowAttendTellConfig(
    vocab_size=len(ANIMAL_VOCABULARY), embedding_dim=24, hidden_dim=32, attention_dim=32
)


def scaled(images: Tensor) -> Tensor:
    """Pixels around zero."""
    return (images - 0.4) * 3


def build_captioner(way: str, seed: int = 0) -> ShowAttendTell:
    """A captioner of scenes: soft, hard (from the start, or hardened), or with one vector for the whole image."""
    torch.manual_seed(seed)
    glimpses: dict[str, Callable[[], nn.Module | None]] = {
        "one_vector": lambda: OneVector(SCENE_CONFIG, regions=REGIONS**2),
        "soft": lambda: None,
        "hard": lambda: HardGlimpse(SCENE_CONFIG),
        "hardened": lambda: HardGlimpse(SCENE_CONFIG),
    }
    return ShowAttendTell(SCENE_CONFIG, glimpses[way]())


def captioners() -> nn.ModuleDict:
    """The captioners of scenes, and the encoder that all of them start from, as their weights are stored."""
    return nn.ModuleDict({"eyes": build_captioner("soft").encoder} | {way: build_captioner(way) for way in WAYS})


def animal_captioners(seed: int = 0) -> nn.ModuleDict:
    """The captioners of animals, with the same first weights."""
    found = {}
    for name in SHARES:
        torch.manual_seed(seed)
        found[name] = ShowAttendTell(ANIMAL_CONFIG)
    return nn.ModuleDict(found)


def scene_batch(scenes: Sequence[Scene], seed: int) -> CaptionBatch:
    """Scenes as a batch, each with one caption."""
    captions = [SCENE_VOCABULARY.encode(caption_scene(scene, seed=seed).words) for scene in scenes]
    return collate_captions(scaled(render_scenes(scenes, seed=seed).images), captions, **IDS)


def animal_batch(scenes: list[AnimalScene], seed: int) -> CaptionBatch:
    """Animals as a batch, each with one caption."""
    captions = [ANIMAL_VOCABULARY.encode(scene.caption(seed=seed)) for scene in scenes]
    return collate_captions(scaled(render_animals(scenes, seed=seed).images), captions, **IDS)


def named_scenes(step: int) -> tuple[Tensor, Tensor]:
    """Images (B, 3, S, S), and which colours and shapes each holds (B, names): all pairs, but never named as pairs."""
    scenes = [
        s for which in ("train", "held_out") for s in draw_scenes(32, things=1 + step % 3, which=which, seed=step)
    ]
    known = [[any(name in thing.kind for thing in s.things) for name in (*COLOURS, *SHAPES)] for s in scenes]
    return scaled(render_scenes(scenes, seed=step).images), torch.tensor(known).float()


def named_animals(step: int) -> tuple[Tensor, Tensor]:
    """Images (B, 3, S, S), and which animal and which ground each holds (B, names); neither says the other."""
    scenes = draw_animals(64, usual=0.5, seed=1_000_000 + step)
    known = [[name in (s.animal, s.ground) for name in (*ANIMALS, *GROUNDS)] for s in scenes]
    return scaled(render_animals(scenes, seed=step).images), torch.tensor(known).float()


def learn_to_see(encoder: ConvEncoder, steps: int, batches: Callable[[int], tuple[Tensor, Tensor]]) -> float:
    """Teach an encoder to name what an image holds; the share of names that are right at the end."""
    head = nn.Linear(encoder.config.widths[-1], batches(0)[1].shape[1])
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=2e-3)
    recent: list[float] = []
    for step in range(steps):
        images, known = batches(step)
        found = head(encoder(images)[..., :-2]).amax(dim=1)  # (B, names), each name where it is clearest
        loss = F.binary_cross_entropy_with_logits(found, known)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent.append(float(((found > 0) == (known > 0)).float().mean()))
        if step % 100 == 99:
            print(f"seeing, step {step + 1}: {sum(recent[-50:]) / 50:.3f}", flush=True)
    return sum(recent[-50:]) / max(1, len(recent[-50:]))


@torch.inference_mode()
def write_captions(model: ShowAttendTell, images: Tensor, vocabulary: Vocabulary = SCENE_VOCABULARY) -> list[list[str]]:
    """The caption of each image, word by word, always the likeliest."""
    start = read_source(model, images, bos_id=vocabulary.bos_id)
    written = decode(model, start, max_len=40, eos_id=vocabulary.eos_id, pad_id=vocabulary.pad_id)
    return [vocabulary.decode(ids) for ids in written.sequences(vocabulary.eos_id)]


def score(model: ShowAttendTell, things: int, which: str, count: int = 100) -> dict[str, float]:
    """The share of scenes that are described without a mistake, and BLEU against five captions of each."""
    scenes = draw_scenes(count, things=things, which=which, seed=-1)
    written = write_captions(model, scaled(render_scenes(scenes, seed=-1).images))
    references = [[list(caption_scene(scene, seed=-1 - k).words) for scene in scenes] for k in range(5)]
    exact = sum(describes(words, scene) for words, scene in zip(written, scenes, strict=True)) / count
    return {"exact": round(exact, 4), "bleu": round(bleu(written, *references).score, 2)}


def schedule_things(step: int, steps: int) -> int:
    """How many things the scenes of a step have: up to three at first, and more and more; all numbers equally often."""
    most = min(MOST_THINGS, 3 + int(4 * step / max(1, steps)))
    return 1 + step % most


def train_scenes(folder: Path, steps: int, seeing: int, stages: Sequence[str], count: int) -> None:
    """Go through the stages, "eyes" first; those that the folder holds already stay as they are."""
    trained, rows, results = captioners(), [], {}
    if (folder / "run.json").exists():
        run = read_run(folder)
        run.load_into(trained)
        rows, results = run.rows, run.facts["results"]
    for stage in stages:
        if stage == "eyes":
            results["eyes"] = round(learn_to_see(trained["eyes"], seeing, named_scenes), 4)
            trained["eyes"].half().float()  # as the weights will be stored
        else:
            model = trained[stage]
            if stage == "hardened":
                model.load_state_dict(trained["soft"].state_dict())
            else:
                model.encoder.load_state_dict(trained["eyes"].state_dict())
            length = max(1, steps // 4) if stage == "hardened" else steps
            config = TrainConfig(
                steps=length,
                learning_rate=1e-3 if stage == "hardened" else 3e-3,
                schedule=Cosine(steps=length, warmup=length // 20),
                device="cpu",
                progress=True,
            )
            losses = {"hard": partial(reinforce_loss, entropy=0.01), "hardened": reinforce_loss}
            loss = losses.get(stage, caption_loss)
            batches = partial(late_step, steps) if stage == "hardened" else partial(scene_step, steps)
            rows += loss_rows(stage, train(model, batches, loss, config))
            model.half().float().eval()
            results[stage] = {
                which: {str(things): score(model, things, which, count) for things in range(1, MOST_THINGS + 1)}
                for which in ("train", "held_out")
            }
        print(stage, results[stage], flush=True)
        facts = {
            "command": f"python book/runs/captioning.py scenes --steps {steps} --seeing {seeing}",
            "seed": 0,
            "config": asdict(SCENE_CONFIG),
            "data": f"{steps} batches of {BATCH} drawn scenes; {count} test scenes for each number of things",
            "torch": torch.__version__,
            "results": results,
        }
        save_run(folder, facts, rows, trained)


def scene_step(steps: int, step: int) -> CaptionBatch:
    """The batch of a step."""
    return scene_batch(draw_scenes(BATCH, things=schedule_things(step, steps), seed=step), step)


def late_step(steps: int, step: int) -> CaptionBatch:
    """The batch of a step after the last of `scene_step`: new scenes, all numbers of things equally often."""
    return scene_batch(draw_scenes(BATCH, things=1 + step % MOST_THINGS, seed=steps + step), steps + step)


def loss_rows(name: str, history: History) -> list[dict[str, object]]:
    """The loss of a model, as the mean of every 25 steps."""
    losses = history["loss"]
    return [
        {"model": name, "step": stop, "loss": round(sum(losses[stop - 25 : stop]) / 25, 4)}
        for stop in range(25, len(losses) + 1, 25)
    ]


@torch.inference_mode()
def animal_accuracy(model: ShowAttendTell, usual: float, count: int = 200) -> float:
    """The share of captions that name the right animal, on test images with this share of usual grounds."""
    scenes = draw_animals(count, usual=usual, seed=-1)
    written = write_captions(model, scaled(render_animals(scenes, seed=-1).images), ANIMAL_VOCABULARY)
    return sum(scene.animal in words for words, scene in zip(written, scenes, strict=True)) / count


def train_animals(folder: Path, steps: int, seeing: int, count: int) -> None:
    """Two captioners from the same eyes, which know both animals and both grounds."""
    trained = animal_captioners()
    eyes = trained["biased"].encoder
    results: dict[str, object] = {"eyes": round(learn_to_see(eyes, seeing, named_animals), 4)}
    trained["mended"].encoder.load_state_dict(eyes.state_dict())
    rows: list[dict[str, object]] = []
    for name, share in SHARES.items():
        history = train(
            trained[name],
            lambda step, share=share: animal_batch(draw_animals(BATCH, usual=share, seed=step), step),
            caption_loss,
            TrainConfig(
                steps=steps,
                learning_rate=3e-3,
                schedule=Cosine(steps=steps, warmup=steps // 10),
                device="cpu",
                progress=True,
            ),
        )
        rows += loss_rows(name, history)
        model = trained[name].half().float().eval()
        results[name] = {str(usual): animal_accuracy(model, usual, count) for usual in (1.0, 0.5, 0.0)}
        print(name, results[name], flush=True)
        save_run(
            folder,
            {
                "command": f"python book/runs/captioning.py animals --steps {steps} --seeing {seeing}",
                "seed": 0,
                "config": asdict(ANIMAL_CONFIG),
                "data": f"{steps} batches of {BATCH} drawn animals; {count} test images for each share of usual ones",
                "usual": SHARES,
                "torch": torch.__version__,
                "results": results,
            },
            rows,
            trained,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("scenes", "animals"))
    parser.add_argument("--steps", type=int, help="of each captioner (default 1000 for scenes, 500 for animals)")
    parser.add_argument(
        "--seeing", type=int, help="steps of the encoder before that (default 500, and 800 for animals)"
    )
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="of the scenes")
    parser.add_argument("--count", type=int, default=100, help="test images for each number (default 100)")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the runs go")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    steps, seeing = (1000, 500) if arguments.what == "scenes" else (500, 800)
    steps = steps if arguments.steps is None else arguments.steps
    seeing = seeing if arguments.seeing is None else arguments.seeing
    if arguments.what == "scenes":
        train_scenes(arguments.runs / "captioning", steps, seeing, arguments.stages, arguments.count)
    else:
        train_animals(arguments.runs / "captioning_animals", steps, seeing, 2 * arguments.count)


if __name__ == "__main__":
    main()
