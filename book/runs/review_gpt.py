"""Pre-train a small GPT on film reviews, then fine-tune it on few labels, as chapter 12 shows.

    python book/runs/review_gpt.py --work runs/review_gpt

A few minutes on one core. The pre-training may be stopped and started again. The finished run goes to
`lecturelib/runs/review_gpt`: the weights are those of the pre-trained language model, the rows of the history are the
steps of pre-training (thinned out) and one row for each fine-tuning.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data import Review, movie_reviews
from lecturelib.evaluation import accuracy, mean_loss, perplexity
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import (
    ContiguousWindows,
    LabelledBatch,
    RandomWindows,
    StepBatches,
    WordTokenizer,
    collate_labelled,
)
from lecturelib.training import (
    Constant,
    Cosine,
    TrainConfig,
    next_token_loss,
    save_shipped_run,
    seed_everything,
    train,
)

SEED = 0
SIZES = {"max_len": 64, "d_model": 64, "num_heads": 4, "num_layers": 3, "dropout": 0.1}
VOCAB_SIZE, STEPS, BATCH_SIZE, LEARNING_RATE = 4000, 2000, 16, 3e-3
LABELS, DRAWS, PASSES, TEST = (100,), 3, 8, 1000


class ReviewClassifier(nn.Module):
    """A GPT and a linear layer on what it made of the last token."""

    def __init__(self, gpt: GPT, num_classes: int = 2) -> None:
        super().__init__()
        self.gpt = gpt
        self.head = nn.Linear(gpt.config.d_model, num_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        features = self.gpt.features(ids)  # (B, T, D)
        rows = torch.arange(len(ids), device=ids.device)
        return self.head(features[rows, lengths - 1])  # (B, classes)


def tokenizer_of(reviews: list[Review]) -> WordTokenizer:
    return WordTokenizer.train((review.text for review in reviews), lower=True, max_size=VOCAB_SIZE)


def stream(tokenizer: WordTokenizer, reviews: list[Review]) -> Tensor:
    """All reviews one after the other, an end symbol after each."""
    eos = tokenizer.vocabulary.eos_id
    return torch.tensor([token for review in reviews for token in (*tokenizer.encode(review.text), eos)])


def examples_of(tokenizer: WordTokenizer, reviews: list[Review], length: int) -> list[tuple[list[int], int]]:
    """The end of each review, where its verdict is, and the end symbol; with the label."""
    eos = tokenizer.vocabulary.eos_id
    return [([*tokenizer.encode(review.text)[-(length - 1) :], eos], review.label) for review in reviews]


def test_examples(tokenizer: WordTokenizer, reviews: list[Review], length: int) -> list[tuple[list[int], int]]:
    """A thousand reviews out of all held-out ones, which are sorted by their verdicts."""
    order = torch.randperm(len(reviews), generator=torch.Generator().manual_seed(SEED))[:TEST]
    return examples_of(tokenizer, [reviews[i] for i in order.tolist()], length)


def class_loss(model: nn.Module, batch: LabelledBatch) -> Tensor:
    return F.cross_entropy(model(batch.ids, batch.lengths), batch.labels)


def fine_tune(model: ReviewClassifier, examples: list[tuple[list[int], int]], seed: int, rate: float = 1e-3) -> None:
    """A few passes over the labelled examples."""

    def collate(rows: list[tuple[list[int], int]]) -> LabelledBatch:
        return collate_labelled(rows, pad_id=0)

    batches = StepBatches(examples, collate, batch_size=16, seed=seed)
    steps = PASSES * batches.steps_per_pass
    plan = TrainConfig(steps=steps, learning_rate=rate, schedule=Constant(warmup=min(10, steps)), seed=seed)
    train(model, batches, class_loss, plan)
    model.eval()


@torch.no_grad()
def accuracy_on(model: ReviewClassifier, examples: list[tuple[list[int], int]]) -> float:
    batch = collate_labelled(examples, pad_id=0)
    parts = [model(ids, n) for ids, n in zip(batch.ids.split(250), batch.lengths.split(250), strict=True)]
    return accuracy(torch.cat(parts), batch.labels)


def held_out_loss(model: GPT, ids: Tensor, *, words: int = 32_768) -> float:
    """Mean surprise in nats a word over the beginning of a held-out text, in windows of the model's length."""
    windows = ContiguousWindows(ids[: words + 1], batch_size=32, length=model.config.max_len)
    return mean_loss(model, map(windows, range(windows.steps_per_pass)), next_token_loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where checkpoints go while it runs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "lecturelib" / "runs" / "review_gpt")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the numbers then do not depend on how many cores there are

    splits = movie_reviews("imdb")
    tokenizer = tokenizer_of(splits.train)
    config = GPTConfig(vocab_size=tokenizer.vocab_size, **SIZES)
    torch.manual_seed(SEED)
    model = GPT(config)
    validation = stream(tokenizer, splits.validation)
    plan = TrainConfig(
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        schedule=Cosine(steps=STEPS, warmup=100, floor=0.05),
        seed=SEED,
        evaluate_every=STEPS // 10,
        checkpoint_every=STEPS // 30,
        device="cpu",
    )
    batches = RandomWindows(stream(tokenizer, splits.train), batch_size=BATCH_SIZE, length=config.max_len, seed=SEED)
    history = train(
        model,
        batches,
        next_token_loss,
        plan,
        evaluate=lambda model: held_out_loss(model, validation),
        folder=arguments.work,
        resume=True,
    )
    model.half().float().eval()  # what is shipped is in half precision, so that is what is measured
    rows = [row for row in history if "eval_loss" in row or row["step"] % 25 == 0]
    test = test_examples(tokenizer, splits.test, config.max_len)
    known = examples_of(tokenizer, splits.train, config.max_len)
    for count in LABELS:
        for draw in range(DRAWS):
            chosen = torch.randperm(len(known), generator=torch.Generator().manual_seed(draw))[:count]
            for start in ("pre-trained", "from scratch"):
                seed_everything(draw)
                gpt = GPT(config)
                if start == "pre-trained":
                    gpt.load_state_dict(model.state_dict())
                classifier = ReviewClassifier(gpt)
                fine_tune(classifier, [known[i] for i in chosen.tolist()], draw)
                row = {"labels": count, "draw": draw, "start": start, "accuracy": accuracy_on(classifier, test)}
                print(row, flush=True)
                rows.append(row)
    loss = held_out_loss(model, stream(tokenizer, splits.test))
    save_shipped_run(
        arguments.out,
        {
            "command": "python book/runs/review_gpt.py --work runs/review_gpt",
            "seed": SEED,
            "data": "movie_reviews, imdb alone",
            "config": asdict(config),
            "training": {"steps": STEPS, "batch_size": BATCH_SIZE, "learning_rate": LEARNING_RATE},
            "fine_tuning": {"labels": LABELS, "draws": DRAWS, "passes": PASSES, "learning_rate": 1e-3},
            "results": {"test_loss": loss, "test_perplexity": perplexity(loss), "test_words": 32_768},
            "versions": {"torch": torch.__version__.partition("+")[0]},
        },
        rows,
        model,
    )
    tokenizer.save(arguments.out / "vocabulary.json")


if __name__ == "__main__":
    main()
