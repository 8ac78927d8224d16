"""Train the models of images and statements of chapter 17: `python book/runs/two_streams.py`.

Writes lecturelib/runs/two_streams/. Three models learn from the same scenes, in the same order, for as many steps and
for nearly as many operations a step: "two streams" (ViLBERT, co-attention), "one stream" (VisualBERT, words and regions
in one sequence), and "apart" (the two streams of ViLBERT, each of which reads only itself; they meet at the end, in the
product of one vector of each). The regions are boxes, seen by the eyes of chapter 7, which stay as they are.
"""

import argparse
import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from lecturelib.data.sets.scene_statements import (
    BOXES,
    FACTS,
    KINDS,
    Fact,
    Statement,
    StatementPair,
    draw_scene_boxes,
    draw_statements,
    regions_of_grid,
)
from lecturelib.data.sets.scenes import SCENE_WORDS, Scene, Which, render_scenes
from lecturelib.evaluation import count_flops
from lecturelib.models.bert import BERTConfig
from lecturelib.models.conv_encoder import ConvEncoder, ConvEncoderConfig
from lecturelib.models.vilbert import ApartBlock, CoBlock, StreamConfig, ViLBERTConfig, ViLBERTPretraining
from lecturelib.models.visual_bert import VisualBERTConfig, VisualBERTPretraining
from lecturelib.tokens import PAD, Vocabulary
from lecturelib.tokens.masking import CLS, MASK, SEP
from lecturelib.training import Cosine, History, TrainConfig, read_run, save_run, shipped_run, train

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
WAYS = ("two streams", "one stream", "apart")
SPECIALS = (PAD, CLS, SEP, MASK)
VOCABULARY = Vocabulary(SCENE_WORDS, specials=SPECIALS)
MASK_ID = VOCABULARY.encode([MASK])[0]
LENGTH = 5  # <cls> number colour shape <sep>
BATCH = 64  # scenes, each with three texts: a right statement, a wrong one, and a right one with gaps
EYES = 16.0  # the numbers of the eyes are about this large, those of a place at most 1
REGION_DIM = ConvEncoderConfig().d_model + 5
CLASSES = len(KINDS) + 1  # and nothing but ground
D_MODEL, HEADS, D_FF = 32, 4, 64
STREAM = StreamConfig(d_model=D_MODEL, num_heads=HEADS, num_layers=2, d_ff=D_FF)
TWO = ViLBERTConfig(
    vocab_size=len(VOCABULARY),
    max_len=LENGTH,
    region_dim=REGION_DIM,
    text=STREAM,
    image=STREAM,
    co_dim=D_MODEL,
    co_heads=HEADS,
    num_region_classes=CLASSES,
    dropout=0.0,
)
ONE = VisualBERTConfig(
    bert=BERTConfig(
        vocab_size=len(VOCABULARY),
        max_len=LENGTH,
        d_model=D_MODEL,
        num_heads=HEADS,
        num_layers=4,
        d_ff=D_FF,
        dropout=0.0,
    ),
    region_dim=REGION_DIM,
    num_region_classes=CLASSES,
)


class Examples(NamedTuple):
    """Scenes as regions (B, 1 + K, F) and their classes (B, K), with right and wrong statements (B, T)."""

    regions: Tensor
    classes: Tensor
    right: Tensor
    wrong: Tensor

    def rows(self, index: Tensor) -> "Examples":
        return Examples(*(part[index] for part in self))


class PairTexts(NamedTuple):
    """Texts (3B, T) with their regions (3B, 1 + K, F): B right, B wrong, B right with gaps to fill in.

    words (B, T) and classes (B, K) say what was there, chosen_words and chosen_regions where it is asked for.
    """

    tokens: Tensor
    regions: Tensor
    words: Tensor
    chosen_words: Tensor
    classes: Tensor
    chosen_regions: Tensor


def build(way: str, seed: int = 0) -> nn.Module:
    """One of the three models."""
    torch.manual_seed(seed)
    builders: dict[str, Callable[[], nn.Module]] = {
        "two streams": lambda: ViLBERTPretraining(TWO, CoBlock),
        "one stream": lambda: VisualBERTPretraining(ONE),
        "apart": lambda: ViLBERTPretraining(TWO, ApartBlock),
    }
    model = builders[way]()
    for module in model.modules():  # 0.02 is for widths of 768, too little for 32
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    return model


def models(seed: int = 0) -> nn.ModuleDict:
    """All three, as their weights are stored."""
    return nn.ModuleDict({way.replace(" ", "_"): build(way, seed) for way in WAYS})


def eyes() -> ConvEncoder:
    """The encoder that chapter 7 taught to name colours and shapes."""
    stored = load_file(shipped_run("captioning").folder / "weights.safetensors")
    encoder = ConvEncoder(ConvEncoderConfig())
    weights = {name.removeprefix("eyes."): value for name, value in stored.items() if name.startswith("eyes.")}
    encoder.load_state_dict({name: value.float() for name, value in weights.items()})
    return encoder.eval()


@torch.no_grad()
def see(scenes: Sequence[Scene], encoder: ConvEncoder, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scenes as regions (B, 1 + K, F), the classes of their boxes (B, K) and the boxes (B, K, 4)."""
    images = render_scenes(scenes, seed=seed).images
    found = draw_scene_boxes(scenes, seed=seed)
    grid = encoder((images - 0.4) * 3) / EYES
    return regions_of_grid(grid, found.boxes), found.classes, found.boxes


def encode(statements: Sequence[Statement]) -> Tensor:
    """Statements as "<cls> number colour shape <sep>": (B, 5)."""
    rows = [VOCABULARY.encode([CLS, *statement.words(), SEP]) for statement in statements]
    return torch.tensor(rows, dtype=torch.int64).view(-1, LENGTH)


def examples(pairs: Sequence[StatementPair], encoder: ConvEncoder, seed: int) -> Examples:
    """Scenes and statements as tensors, a few at a time."""
    parts = []
    for start in range(0, len(pairs), 256):
        some = pairs[start : start + 256]
        regions, classes, _ = see([pair.scene for pair in some], encoder, seed + start)
        parts.append(Examples(regions, classes, encode([p.right for p in some]), encode([p.wrong for p in some])))
    return Examples(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


class Batches:
    """The batch of a step: rows of the pool in an order of their own for each pass, with fresh gaps."""

    def __init__(self, pool: Examples, seed: int) -> None:
        self.pool, self.seed = pool, seed

    def __call__(self, step: int) -> PairTexts:
        count = len(self.pool.regions)
        passes, place = divmod(step * BATCH, count)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(1000 * self.seed + passes))
        chosen = self.pool.rows(order[place : place + BATCH])
        return with_gaps(chosen, torch.Generator().manual_seed(1_000_000 * (self.seed + 1) + step))


def with_gaps(some: Examples, generator: torch.Generator, share: float = 0.3) -> PairTexts:
    """Three texts for each scene; in the third some words are masked and some regions are dark.

    Three in ten words and regions are asked for, twice BERT's share, because a statement has three words. Of these
    words 80 % are read as "<mask>", 10 % as another word, 10 % as they are; of the regions 90 % lose their features and
    keep their place.
    """
    draws = torch.rand(2, *some.right.shape, generator=generator)
    chosen = (draws[0] < share) & torch.tensor([False, True, True, True, False])  # neither <cls> nor <sep>
    other = torch.randint(len(SPECIALS), len(VOCABULARY), some.right.shape, generator=generator)
    read = torch.where(draws[1] < 0.8, MASK_ID, torch.where(draws[1] < 0.9, other, some.right))
    draws = torch.rand(2, *some.classes.shape, generator=generator)
    asked = draws[0] < share  # (B, K)
    dark = F.pad(asked & (draws[1] < 0.9), (1, 0))  # (B, 1 + K): never the whole image
    gaps = some.regions.clone()
    gaps[..., :-5] = gaps[..., :-5].masked_fill(dark[..., None], 0.0)
    return PairTexts(
        tokens=torch.cat([some.right, some.wrong, torch.where(chosen, read, some.right)]),
        regions=torch.cat([some.regions, some.regions, gaps]),
        words=some.right,
        chosen_words=chosen,
        classes=some.classes,
        chosen_regions=asked,
    )


def pair_loss(model: nn.Module, batch: PairTexts) -> tuple[Tensor, int]:
    """The sum of three means: does the statement match, which words were masked, what is in the dark regions?"""
    count = len(batch.words)
    said = model(batch.tokens, batch.regions)
    matches = torch.arange(2 * count, device=batch.tokens.device) >= count  # 0: it does
    loss = F.cross_entropy(said.matches[: 2 * count], matches.long())
    loss = loss + F.cross_entropy(said.words[2 * count :][batch.chosen_words], batch.words[batch.chosen_words])
    dark = said.regions[2 * count :, 1:][batch.chosen_regions]
    return loss + F.cross_entropy(dark, batch.classes[batch.chosen_regions]), 2 * count


@torch.no_grad()
def matching(model: nn.Module, fact: Fact, encoder: ConvEncoder, which: Which = "train", count: int = 400) -> float:
    """The share of test statements, half of them wrong in this fact, that are judged correctly."""
    some = examples(draw_statements(count, fact=fact, which=which, seed=-1), encoder, seed=-1_000_000)
    right = model(some.right, some.regions).matches.argmax(-1) == 0
    wrong = model(some.wrong, some.regions).matches.argmax(-1) == 1
    return float(torch.cat([right, wrong]).float().mean())


@torch.no_grad()
def gap_filling(model: nn.Module, encoder: ConvEncoder, count: int = 400, *, blind: bool = False) -> dict[str, float]:
    """The share of masked numbers, colours and shapes that are guessed.

    Args:
        blind: show the regions of another scene
    """
    some = examples(draw_statements(count, seed=-2), encoder, seed=-2_000_000)
    regions = some.regions.roll(1, dims=0) if blind else some.regions
    found = {}
    for place, name in enumerate(Statement._fields, start=1):
        tokens = some.right.clone()
        tokens[:, place] = MASK_ID
        guessed = model(tokens, regions).words[:, place].argmax(-1)
        found[name] = round(float((guessed == some.right[:, place]).float().mean()), 4)
    return found


def best_gap_filling(count: int = 400) -> dict[str, float]:
    """What `gap_filling` would give for one who sees everything: some gaps have several right words."""
    found = {}
    for place, name in enumerate(Statement._fields):
        shares = []
        for scene, right, _, _ in draw_statements(count, seed=-2):
            true = [Statement(len(members), *kind) for kind, members in scene.groups().items()]
            rest = [word for at, word in enumerate(right.words()) if at != place]
            fits = {
                one.words()[place] for one in true if [w for at, w in enumerate(one.words()) if at != place] == rest
            }
            shares.append(1 / len(fits))
        found[name] = round(sum(shares) / len(shares), 4)
    return found


@torch.no_grad()
def dark_regions(model: nn.Module, encoder: ConvEncoder, count: int = 400) -> float:
    """The share of things, named in a statement and dark in the image, that are classified correctly."""
    pairs = [pair for pair in draw_statements(count, seed=-3) if pair.right.number == 1]
    some = examples(pairs, encoder, seed=-3_000_000)
    named = torch.tensor([KINDS.index(pair.right.kind) for pair in pairs])
    rows, places = torch.arange(len(pairs)), (some.classes == named[:, None]).int().argmax(-1)
    regions = some.regions.clone()
    regions[rows, 1 + places, :-5] = 0
    guessed = model(some.right, regions).regions[rows, 1 + places].argmax(-1)
    return float((guessed == named).float().mean())


def score(model: nn.Module, encoder: ConvEncoder, count: int) -> dict[str, object]:
    """All that the chapter says of a model."""
    model.eval()
    return {
        "matching": {
            which: {fact: round(matching(model, fact, encoder, which, count), 4) for fact in FACTS}
            for which in ("train", "held_out")
        },
        "gaps": gap_filling(model, encoder, count),
        "gaps_blind": gap_filling(model, encoder, count, blind=True),
        "dark_regions": round(dark_regions(model, encoder, count), 4),
    }


def flops(model: nn.Module) -> int:
    """Operations of reading one statement and its regions."""
    return count_flops(model, encode([Statement(1, "red", "circle")]), torch.zeros(1, 1 + BOXES, REGION_DIM))


def loss_rows(way: str, seed: int, history: History) -> list[dict[str, object]]:
    """The loss of a model, as the mean of every 50 steps."""
    losses = history["loss"]
    return [
        {"model": way, "seed": seed, "step": stop, "loss": round(sum(losses[stop - 50 : stop]) / 50, 4)}
        for stop in range(50, len(losses) + 1, 50)
    ]


def train_all(folder: Path, steps: int, scenes: int, seeds: Sequence[int], ways: Sequence[str], count: int) -> None:
    """Every way with every seed; what the folder holds already stays. The weights kept are those of seed 0."""
    kept, rows = models(), []
    results: dict[str, dict[str, object]] = {}
    if (folder / "run.json").exists():
        run = read_run(folder)
        run.load_into(kept)
        rows, results = run.rows, run.facts["results"]
    encoder = eyes()
    pool = examples(draw_statements(scenes, seed=0), encoder, seed=0)
    for seed in seeds:
        for way in ways:
            if str(seed) in results.get(way, {}):
                continue
            model = build(way, seed)
            config = TrainConfig(
                steps=steps,
                learning_rate=3e-3,
                schedule=Cosine(steps=steps, warmup=max(1, steps // 20)),
                device="cpu",
                progress=True,
            )
            rows += loss_rows(way, seed, train(model, Batches(pool, seed), pair_loss, config))
            model.half().float()  # as the weights are stored
            results.setdefault(way, {})[str(seed)] = score(model, encoder, count)
            print(way, seed, results[way][str(seed)], flush=True)
            if seed == 0:
                kept[way.replace(" ", "_")] = copy.deepcopy(model)
            facts = {
                "command": f"python book/runs/two_streams.py --steps {steps} --scenes {scenes}",
                "seed": list(seeds),
                "config": {"two streams": asdict(TWO), "one stream": asdict(ONE), "apart": asdict(TWO)},
                "data": f"{scenes} drawn scenes, {BATCH} a step; {count} test scenes for each fact",
                "flops": {way: flops(kept[way.replace(" ", "_")]) for way in WAYS},
                "parameters": {way: sum(p.numel() for p in kept[way.replace(" ", "_")].parameters()) for way in WAYS},
                "best_gaps": best_gap_filling(count),
                "torch": torch.__version__,
                "results": results,
            }
            save_run(folder, facts, rows, kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2500, help="of each model (default 2500)")
    parser.add_argument("--scenes", type=int, default=9600, help="in the pool (default 9600)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--count", type=int, default=400, help="test scenes for each fact (default 400)")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the run goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train_all(
        arguments.runs / "two_streams",
        arguments.steps,
        arguments.scenes,
        arguments.seeds,
        arguments.ways,
        arguments.count,
    )


if __name__ == "__main__":
    main()
