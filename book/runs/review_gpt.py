"""Pre-train a small GPT on film reviews, then fine-tune it on few labels, as chapter 12 shows.

    python book/runs/review_gpt.py --work runs/review_gpt

Some ten minutes on one core. The pre-training may be stopped and started again. The finished run goes to
`lecturelib/runs/review_gpt`: the weights are those of the pre-trained language model, the rows of the history are the
steps of pre-training (thinned out) and one row for each fine-tuning.

The model reads reviews without their commonest words, so that a short pre-training is spent on what reviews say and
not on grammar.
"""

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

from lecturelib.data import Review, movie_reviews
from lecturelib.evaluation import accuracy, mean_loss, perplexity
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import UNK, LabelledBatch, StepBatches, WordTokenizer, collate_labelled, split_words
from lecturelib.training import Cosine, History, Linear, TrainConfig, save_run, seed_everything, train

SEED = 0
SIZES = {"max_len": 128, "d_model": 64, "num_heads": 4, "num_layers": 2, "dropout": 0.0}
VOCAB_SIZE, COMMON, STEPS, BATCH_SIZE, LEARNING_RATE = 3000, 50, 3000, 16, 3e-3
LABELS, DRAWS, PASSES, TUNING_RATE, TUNING_DROPOUT, TEST = (50, 100, 200), 3, 10, 1e-3, 0.1, 1000

Example = tuple[list[int], int]


class ReviewClassifier(nn.Module):
    """A GPT and a linear layer on the mean of what it made of the words."""

    def __init__(self, gpt: GPT, num_classes: int = 2) -> None:
        super().__init__()
        self.gpt = gpt
        self.head = nn.Linear(gpt.config.d_model, num_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        features = self.gpt.features(ids)  # (B, T, D)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]  # (B, T)
        mean = (features * real[..., None]).sum(dim=1) / lengths[:, None]  # (B, D)
        return self.head(mean)  # (B, classes)


def words_of(review: Review) -> list[str]:
    return [word for word in split_words(review.text.lower()) if word[0].isalpha()]


def tokenizer_of(reviews: Iterable[Review]) -> WordTokenizer:
    """The most frequent words, but not the very commonest: "the", "and", "movie", …"""
    texts = [words_of(review) for review in reviews]
    common = {word for word, _ in Counter(word for text in texts for word in text).most_common(COMMON)}
    kept = (" ".join(word for word in text if word not in common) for text in texts)
    return WordTokenizer.train(kept, lower=True, max_size=VOCAB_SIZE)


def examples_of(tokenizer: WordTokenizer, reviews: Iterable[Review]) -> list[Example]:
    """A start symbol and the known words of each review, up to the window's length; with the label."""
    vocabulary, length = tokenizer.vocabulary, SIZES["max_len"]
    start, unknown = vocabulary.bos_id, vocabulary.id_of(UNK)
    return [
        ([start, *(i for i in tokenizer.encode(review.text) if i != unknown)][:length], review.label)
        for review in reviews
    ]


def collate(examples: list[Example]) -> LabelledBatch:
    return collate_labelled(examples, pad_id=0)


def text_loss(model: nn.Module, batch: LabelledBatch) -> tuple[Tensor, int]:
    """Surprise of each next word in nats, padding left out; the labels are not looked at."""
    targets = batch.ids[:, 1:]
    real = torch.arange(1, batch.ids.shape[1], device=targets.device) < batch.lengths[:, None]  # (B, T - 1)
    logits = model.head(model.features(batch.ids[:, :-1])[real])  # (words, V)
    return F.cross_entropy(logits, targets[real]), len(logits)


def held_out_loss(model: GPT, examples: list[Example]) -> float:
    """Mean surprise in nats a word over the first held-out reviews."""
    return mean_loss(model, (collate(examples[i : i + 50]) for i in range(0, 400, 50)), text_loss)


def class_loss(model: nn.Module, batch: LabelledBatch) -> Tensor:
    return F.cross_entropy(model(batch.ids, batch.lengths), batch.labels)


def fine_tune(gpt: GPT, examples: list[Example], seed: int) -> ReviewClassifier:
    """All weights learn, the network's and the new layer's, in a few passes over the labelled examples."""
    classifier = ReviewClassifier(gpt)
    batches = StepBatches(examples, collate, batch_size=BATCH_SIZE, seed=seed)
    steps = PASSES * batches.steps_per_pass
    schedule = Linear(steps=steps, warmup=steps // 10)
    train(
        classifier,
        batches,
        class_loss,
        TrainConfig(steps=steps, learning_rate=TUNING_RATE, schedule=schedule, seed=seed),
    )
    return classifier.eval()


def drawn(known: list[Any], count: int, draw: int) -> list[Any]:
    """As many of them, by lot."""
    chosen = torch.randperm(len(known), generator=torch.Generator().manual_seed(draw))[:count]
    return [known[i] for i in chosen.tolist()]


def tuned(start: str, pretrained: GPT, few: list[Example], draw: int) -> ReviewClassifier:
    """A classifier from a few labelled examples, and weights from pre-training or new ones."""
    seed_everything(draw)
    gpt = GPT(replace(pretrained.config, dropout=TUNING_DROPOUT))
    if start == "pre-trained":
        gpt.load_state_dict(pretrained.state_dict())
    return fine_tune(gpt, few, draw)


def count_accuracy(few: list[Example], judges: list[Example]) -> float:
    """The rival without a network: which words are there, weighted by rarity, and logistic regression."""
    (ids, labels), (new_ids, new_labels) = (zip(*part, strict=True) for part in (few, judges))
    words = TfidfVectorizer(analyzer=list, sublinear_tf=True)
    return float(make_pipeline(words, LogisticRegression(C=10)).fit(ids, labels).score(new_ids, new_labels))


@torch.no_grad()
def accuracy_on(classifier: ReviewClassifier, examples: list[Example]) -> float:
    parts = [collate(examples[i : i + 100]) for i in range(0, len(examples), 100)]
    logits = torch.cat([classifier(batch.ids, batch.lengths) for batch in parts])
    return accuracy(logits, torch.cat([batch.labels for batch in parts]))


def pretrain(known: list[Example], validation: list[Example], vocab_size: int, work: Path) -> tuple[GPT, History]:
    torch.manual_seed(SEED)
    model = GPT(GPTConfig(vocab_size=vocab_size, **SIZES))
    plan = TrainConfig(
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        schedule=Cosine(steps=STEPS, warmup=100, floor=0.05),
        seed=SEED,
        evaluate_every=STEPS // 10,
        checkpoint_every=STEPS // 30,
        device="cpu",
    )
    batches = StepBatches(known, collate, batch_size=BATCH_SIZE, seed=SEED, length=lambda example: len(example[0]))
    history = train(
        model,
        batches,
        text_loss,
        plan,
        evaluate=lambda model: held_out_loss(model, validation),
        folder=work,
        resume=True,
    )
    return model.half().float().eval(), history  # what is shipped is in half precision, so that is what is measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where checkpoints go while it runs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "lecturelib" / "runs" / "review_gpt")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the numbers then do not depend on how many cores there are

    splits = movie_reviews("imdb")
    tokenizer = tokenizer_of(splits.train)
    known, validation, test = (examples_of(tokenizer, part) for part in (splits.train, splits.validation, splits.test))
    model, history = pretrain(known, validation, tokenizer.vocab_size, arguments.work)
    rows = [row for row in history if "eval_loss" in row or row["step"] % 25 == 0]
    judges = drawn(test, TEST, SEED)  # they are sorted by their verdicts, so by lot
    for count in LABELS:
        for draw in range(DRAWS):
            few = drawn(known, count, draw)
            for start in ("pre-trained", "from scratch"):
                value = accuracy_on(tuned(start, model, few, draw), judges)
                row = {"labels": count, "draw": draw, "start": start, "accuracy": value}
                print(row, flush=True)
                rows.append(row)
            value = count_accuracy(few, judges)
            rows.append({"labels": count, "draw": draw, "start": "word counts", "accuracy": value})
    loss = held_out_loss(model, test)
    save_run(
        arguments.out,
        {
            "command": "python book/runs/review_gpt.py --work runs/review_gpt",
            "seed": SEED,
            "model": "gpt",
            "data": "movie_reviews, imdb alone",
            "config": asdict(model.config),
            "training": {"steps": STEPS, "batch_size": BATCH_SIZE, "learning_rate": LEARNING_RATE},
            "fine_tuning": {"labels": LABELS, "draws": DRAWS, "passes": PASSES, "learning_rate": TUNING_RATE},
            "results": {"test_loss": loss, "test_perplexity": perplexity(loss), "test_reviews": 400},
            "versions": {"torch": torch.__version__.partition("+")[0]},
        },
        rows,
        model,
    )
    tokenizer.save(arguments.out / "tokens.json")


if __name__ == "__main__":
    main()
