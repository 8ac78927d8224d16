"""Fine-tune the GPT of `review_gpt` on fifty labelled reviews, in five ways, as chapter 11 shows.

    python book/runs/few_labels.py

Two or three minutes on one core. The run goes to `lecturelib/runs/few_labels`, a row for each fine-tuning: everything
learns; the lower half is frozen; weight decay; dropout; and all of these together.
"""

import argparse
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from review_gpt import ReviewClassifier, accuracy_on, class_loss, collate, drawn, examples_of

from lecturelib.data import movie_reviews
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import StepBatches, WordTokenizer
from lecturelib.training import Linear, TrainConfig, save_run, seed_everything, shipped_run, train
from lecturelib.training.runs import RUNS

LABELS, DRAWS, PASSES, BATCH, RATE, TEST = 50, 5, 20, 10, 1e-3, 400
COMMAND = "python book/runs/few_labels.py"


@dataclass(frozen=True, kw_only=True)
class Way:
    """How to fine-tune."""

    freeze: bool = False
    weight_decay: float = 0.0
    dropout: float = 0.0


WAYS = {
    "everything learns": Way(),
    "half frozen": Way(freeze=True),
    "weight decay": Way(weight_decay=3.0),
    "dropout": Way(dropout=0.2),
    "all three": Way(freeze=True, weight_decay=3.0, dropout=0.2),
}


def freeze_lower_half(gpt: GPT) -> None:
    """Keep the embeddings and the first half of the blocks as pre-training left them."""
    for part in (gpt.token_embedding, gpt.positions, *gpt.blocks[: len(gpt.blocks) // 2]):
        part.requires_grad_(False)


def tuned(way: Way, pretrained: GPT, few: list[Any], draw: int) -> ReviewClassifier:
    seed_everything(draw)
    gpt = GPT(replace(pretrained.config, dropout=way.dropout))
    gpt.load_state_dict(pretrained.state_dict())
    if way.freeze:
        freeze_lower_half(gpt)
    classifier = ReviewClassifier(gpt)
    batches = StepBatches(few, collate, batch_size=BATCH, seed=draw)
    steps = PASSES * batches.steps_per_pass
    schedule = Linear(steps=steps, warmup=steps // 10)
    plan = TrainConfig(
        steps=steps, learning_rate=RATE, schedule=schedule, weight_decay=way.weight_decay, seed=draw, device="cpu"
    )
    train(classifier, batches, class_loss, plan)
    return classifier.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=RUNS / "few_labels")
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    run = shipped_run("review_gpt")
    tokenizer = WordTokenizer.load(run.folder / "tokens.json")
    pretrained = run.load_into(GPT(GPTConfig(**run.facts["config"])))
    splits = movie_reviews("imdb")
    judges = drawn(examples_of(tokenizer, splits.test), TEST, 0)
    known, rows = list(splits.train), []
    for draw in range(DRAWS):
        few = examples_of(tokenizer, drawn(known, LABELS, draw))
        for name, way in WAYS.items():
            classifier = tuned(way, pretrained, few, draw)
            learned = sum(p.numel() for p in classifier.parameters() if p.requires_grad)
            rows.append({"way": name, "draw": draw, "accuracy": accuracy_on(classifier, judges), "learned": learned})
            print(rows[-1], flush=True)
    means = {name: sum(row["accuracy"] for row in rows if row["way"] == name) / DRAWS for name in WAYS}
    config = asdict(pretrained.config) | {"ways": {name: asdict(way) for name, way in WAYS.items()}}
    facts = {"command": COMMAND, "seed": list(range(DRAWS)), "config": config, "results": means}
    save_run(folder, facts | {"labels": LABELS, "judges": TEST}, rows)


if __name__ == "__main__":
    main()
