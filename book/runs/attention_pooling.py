"""Train what chapter 06 shows of pooling and of attention between two texts.

    python book/runs/attention_pooling.py pooling_reviews    # four ways to pool, few labels and many
    python book/runs/attention_pooling.py han_reviews        # a hierarchical attention network for long reviews
    python book/runs/attention_pooling.py esim_inference     # ESIM against two vectors and bags of words
    python book/runs/attention_pooling.py span_reading       # one turn of reading against three

Each writes lecturelib/runs/NAME: a row of history for every model trained, and the weights of the one shown. What is
in the history already is not trained again. All together take about a quarter of an hour of one core.
"""

import argparse
import platform
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from lecturelib.data import (
    InferencePair,
    Question,
    Review,
    Splits,
    inference_pairs,
    long_reviews,
    movie_reviews,
    questions,
)
from lecturelib.layers import MeanPooling
from lecturelib.models import (
    ESIM,
    ESIMConfig,
    HierarchicalAttentionConfig,
    HierarchicalAttentionNetwork,
    PairClassifier,
    PoolingClassifier,
    PoolingConfig,
    SpanReader,
    SpanReaderConfig,
    best_span,
)
from lecturelib.tokens import (
    StepBatches,
    Vocabulary,
    WordTokenizer,
    collate_labelled,
    pad,
    pad_documents,
    split_sentences,
)
from lecturelib.training import Cosine, TrainConfig, save_run, seed_everything, shipped_run, train

RUNS = Path(__file__).resolve().parents[2] / "lecturelib" / "runs"
Row = dict[str, Any]


class TextPairs(NamedTuple):
    """Two texts a row, padded: passages and questions, or premises and hypotheses, and what is asked of them."""

    first: Tensor
    first_lengths: Tensor
    second: Tensor
    second_lengths: Tensor
    targets: Tensor  # (B,) labels, or (B, 2) first and last word of the answer


class Documents(NamedTuple):
    """A batch of `pad_documents` with its labels."""

    ids: Tensor
    lengths: Tensor
    labels: Tensor


class History:
    """The rows of a run: a case that is in them already is not trained again."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        self.name, self.config = name, config
        self.rows = shipped_run(name, RUNS).rows if (RUNS / name / "run.json").exists() else []

    def find(self, case: Row) -> Row | None:
        return next((row for row in self.rows if row["case"] == case), None)

    def add(self, case: Row, results: Row, model: nn.Module | None = None) -> None:
        self.rows = [row for row in self.rows if row["case"] != case] + [{"case": case, **results}]
        facts = {
            "command": f"python book/runs/attention_pooling.py {self.name}",
            "seed": sorted({row["case"]["seed"] for row in self.rows}),
            "config": self.config,
            "results": {" ".join(map(str, row["case"].values())): row["accuracy"] for row in self.rows},
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
        }
        save_run(RUNS / self.name, facts, self.rows, model)
        print(case, results, flush=True)


def fit(model: nn.Module, batches: Callable[[int], Any], loss: Any, *, steps: int, rate: float, seed: int) -> Row:
    """Train, and say how long it took and how the loss went."""
    started = time.process_time()
    schedule = Cosine(steps=steps, warmup=steps // 10, floor=0.0)
    config = TrainConfig(
        steps=steps, learning_rate=rate, schedule=schedule, seed=seed, device="cpu", progress=False, weight_decay=0.01
    )
    losses = train(model, batches, loss, config)["loss"]
    ends = range(0, len(losses) + 1, max(1, len(losses) // 10))
    means = [round(sum(losses[a:b]) / (b - a), 4) for a, b in pairwise(ends)]
    return {"losses": means, "cpu_seconds": round(time.process_time() - started, 1)}


# How to pool --------------------------------------------------------------------------------------------------------

POOLED = PoolingConfig(vocab_size=6000, num_classes=2, embedding_dim=64, hidden_dim=32, attention_dim=64, dropout=0.4)


@cache
def sentences() -> Splits[list[Review]]:
    return movie_reviews("rotten_tomatoes")


def labelled_loss(model: nn.Module, batch: Any) -> tuple[Tensor, int]:
    *inputs, labels = batch
    return F.cross_entropy(model(*inputs), labels), len(labels)


@torch.no_grad()
def share_right(model: nn.Module, examples: Sequence[Any], collate: Callable[[Any], Any], size: int = 100) -> float:
    model.eval()
    right = 0
    for start in range(0, len(examples), size):
        *inputs, labels = collate(examples[start : start + size])
        right += int((model(*inputs).argmax(dim=-1) == labels).sum())
    return right / len(examples)


def pooling_reviews() -> None:
    tokenizer = WordTokenizer.train((r.text for r in sentences().train), lower=True, max_size=POOLED.vocab_size)
    encoded = {part: [(tokenizer.encode(r.text), r.label) for r in sentences()[part]] for part in ("train", "test")}
    encoded["test"] += [(tokenizer.encode(r.text), r.label) for r in sentences().validation]  # nothing is chosen on it
    collate = partial(collate_labelled, pad_id=tokenizer.specials["<pad>"])
    steps, batch, rate = 250, 32, 3e-3
    history = History(
        "pooling_reviews",
        {"data": "movie_reviews, rotten_tomatoes alone", "steps": steps, "batch": batch, "learning_rate": rate}
        | {"model": asdict(POOLED), "held_out": len(encoded["test"])},
    )
    for seed in range(3):
        chosen = random.Random(seed).sample(encoded["train"], len(encoded["train"]))
        for labels in (100, 1000, len(chosen)):
            for pooling in ("attention", "mean", "max", "last"):
                case = {"pooling": pooling, "labels": labels, "seed": seed}
                if history.find(case):
                    continue
                seed_everything(seed)
                model = PoolingClassifier(PoolingConfig(**{**asdict(POOLED), "pooling": pooling}))
                batches = StepBatches(chosen[:labels], collate, batch_size=batch, seed=seed, length=lambda e: len(e[0]))
                row = fit(model, batches, labelled_loss, steps=steps, rate=rate, seed=seed)
                history.add(case, {"accuracy": share_right(model, encoded["test"], collate), **row})


# Words, sentences, documents ----------------------------------------------------------------------------------------

HAN = HierarchicalAttentionConfig(
    vocab_size=6000, num_classes=2, embedding_dim=48, hidden_dim=32, attention_dim=48, dropout=0.3
)
CUT = {"max_sentences": 24, "max_words": 24}


def han_reviews() -> None:
    films, long = movie_reviews("imdb"), long_reviews()
    train_reviews = films.train[:14_000] + long.train
    held_out = long.validation + long.test  # nothing is chosen on either
    tokenizer = WordTokenizer.train((r.text for r in train_reviews), lower=True, max_size=HAN.vocab_size)
    (RUNS / "han_reviews").mkdir(parents=True, exist_ok=True)
    tokenizer.save(RUNS / "han_reviews" / "tokens.json")

    def encode(review: Review) -> tuple[list[list[int]], int]:
        parts = [tokenizer.encode(sentence)[: CUT["max_words"]] for sentence in split_sentences(review.text)]
        return [part for part in parts if part][: CUT["max_sentences"]], review.label

    def collate(examples: Sequence[tuple[list[list[int]], int]]) -> Documents:
        padded = pad_documents([document for document, _ in examples], pad_id=tokenizer.specials["<pad>"])
        return Documents(*padded, torch.tensor([label for _, label in examples]))

    examples, asked = [encode(r) for r in train_reviews], [encode(r) for r in held_out]
    steps, batch, rate, seed = 2500, 16, 3e-3, 0
    history = History(
        "han_reviews",
        {"data": "14,000 reviews of movie_reviews (imdb) and the training part of long_reviews", "cut": CUT}
        | {"steps": steps, "batch": batch, "learning_rate": rate, "model": asdict(HAN)}
        | {"held_out": "validation and test of long_reviews", "held_out_reviews": len(asked)},
    )
    case: Row = {"model": "bag of words", "seed": seed}
    if not history.find(case):
        flat = [[" ".join(str(i) for s in d for i in s) for d, _ in part] for part in (examples, asked)]
        bag = CountVectorizer(token_pattern=r"\S+", binary=True)
        learner = LogisticRegression(C=0.02, max_iter=300).fit(bag.fit_transform(flat[0]), [y for _, y in examples])
        right = learner.predict(bag.transform(flat[1])) == [y for _, y in asked]
        history.add(case, {"accuracy": float(right.mean())})
    for name in ("attention", "averages"):
        case = {"model": name, "seed": seed}
        if history.find(case):
            continue
        seed_everything(seed)
        model = HierarchicalAttentionNetwork(HAN)
        if name == "averages":
            model.word_pooling, model.sentence_pooling = MeanPooling(), MeanPooling()  # type: ignore[assignment]
        batches = StepBatches(examples, collate, batch_size=batch, seed=seed, length=lambda e: len(e[0]))
        row = fit(model, batches, labelled_loss, steps=steps, rate=rate, seed=seed)
        row = {"accuracy": share_right(model, asked, collate, 20), **row}
        history.add(case, row, model if name == "attention" else None)


# Two sentences ------------------------------------------------------------------------------------------------------

PAIR_EMBEDDING, PAIR_HIDDEN = 64, 64


class BagPair(nn.Module):
    """Two bags of words, compared as `PairClassifier` compares two vectors."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(vocab_size, 2 * PAIR_EMBEDDING, mode="sum", padding_idx=0)
        self.hidden, self.output = nn.Linear(8 * PAIR_EMBEDDING, 64), nn.Linear(64, 3)

    def forward(self, first: Tensor, first_lengths: Tensor, second: Tensor, second_lengths: Tensor) -> Tensor:
        u, v = self.words(first), self.words(second)
        out: Tensor = self.output(self.hidden(torch.cat([u, v, (u - v).abs(), u * v], dim=-1)).relu())
        return out


def pair_models(vocab_size: int) -> dict[str, Callable[[], nn.Module]]:
    sizes = {"vocab_size": vocab_size, "embedding_dim": PAIR_EMBEDDING, "hidden_dim": PAIR_HIDDEN}
    vectors = PoolingConfig(**sizes, num_classes=3, attention_dim=64)
    return {
        "bags of words": lambda: BagPair(vocab_size),
        "two vectors, max": lambda: PairClassifier(PoolingConfig(**{**asdict(vectors), "pooling": "max"})),
        "ESIM": lambda: ESIM(ESIMConfig(**sizes)),
    }


def esim_inference() -> None:
    pairs, asked = inference_pairs(8000), inference_pairs(1000, split="test")
    vocabulary = Vocabulary.build(words for pair in pairs for words in (pair.premise, pair.hypothesis))
    folder = RUNS / "esim_inference"
    folder.mkdir(parents=True, exist_ok=True)
    WordTokenizer(vocabulary).save(folder / "tokens.json")

    def collate(examples: Sequence[InferencePair]) -> TextPairs:
        premise = pad([vocabulary.encode(pair.premise) for pair in examples], pad_id=vocabulary.pad_id)
        hypothesis = pad([vocabulary.encode(pair.hypothesis) for pair in examples], pad_id=vocabulary.pad_id)
        return TextPairs(*premise, *hypothesis, torch.tensor([pair.label for pair in examples]))

    steps, batch, rate = 700, 32, 2e-3
    history = History(
        "esim_inference",
        {"data": "inference", "steps": steps, "batch": batch, "learning_rate": rate, "held_out": len(asked)}
        | {
            "model": asdict(
                ESIMConfig(vocab_size=len(vocabulary), embedding_dim=PAIR_EMBEDDING, hidden_dim=PAIR_HIDDEN)
            )
        },
    )
    for examples in (8000,):
        for seed in (0, 1):
            for name, build in pair_models(len(vocabulary)).items():
                case = {"model": name, "pairs": examples, "seed": seed}
                if history.find(case):
                    continue
                seed_everything(seed)
                model = build()
                batches = StepBatches(pairs[:examples], collate, batch_size=batch, seed=seed)
                row = fit(model, batches, labelled_loss, steps=steps, rate=rate, seed=seed)
                by_topic = {
                    topic: share_right(model, [pair for pair in asked if pair.topic == topic], collate)
                    for topic in sorted({pair.topic for pair in asked})
                }
                row = {"accuracy": share_right(model, asked, collate), "by_topic": by_topic, **row}
                history.add(case, row, model if case == {"model": "ESIM", "pairs": 8000, "seed": 0} else None)


# A passage and a question -------------------------------------------------------------------------------------------


def span_loss(model: nn.Module, batch: TextPairs) -> tuple[Tensor, int]:
    log_probabilities = model(*batch[:4])  # (B, 2, T)
    return F.cross_entropy(log_probabilities.flatten(0, 1), batch.targets.flatten()), len(batch.targets)


def span_reading() -> None:
    learned, asked = questions(10_000), questions(1000, split="test")
    vocabulary = Vocabulary.build(words for q in learned for words in (q.passage, q.question))
    folder = RUNS / "span_reading"
    folder.mkdir(parents=True, exist_ok=True)
    WordTokenizer(vocabulary).save(folder / "tokens.json")

    def collate(examples: Sequence[Question]) -> TextPairs:
        passage = pad([vocabulary.encode(q.passage) for q in examples], pad_id=vocabulary.pad_id)
        question = pad([vocabulary.encode(q.question) for q in examples], pad_id=vocabulary.pad_id)
        return TextPairs(*passage, *question, torch.tensor([(q.start, q.end) for q in examples]))

    @torch.no_grad()
    def exact(model: nn.Module, hops: int) -> float:
        model.eval()
        chosen = [q for q in asked if q.hops == hops]
        batch = collate(chosen)
        return float((best_span(model(*batch[:4])) == batch.targets).all(dim=1).float().mean())

    steps, batch, rate = 1100, 32, 4e-3
    sizes = {"vocab_size": len(vocabulary), "embedding_dim": 32, "hidden_dim": 40}
    history = History(
        "span_reading",
        {"data": "reading", "steps": steps, "batch": batch, "learning_rate": rate, "held_out": len(asked)}
        | {"model": asdict(SpanReaderConfig(**sizes, num_turns=3))},
    )
    for seed in (0,):
        for turns in (3, 1):
            case = {"turns": turns, "seed": seed}
            if history.find(case):
                continue
            seed_everything(seed)
            model = SpanReader(SpanReaderConfig(**sizes, num_turns=turns))
            batches = StepBatches(learned, collate, batch_size=batch, seed=seed)
            row = fit(model, batches, span_loss, steps=steps, rate=rate, seed=seed)
            one, two = exact(model, 1), exact(model, 2)
            row = {"accuracy": (one + two) / 2, "one_hop": one, "two_hops": two, **row}
            history.add(case, row, model if case == {"turns": 3, "seed": 0} else None)


KINDS = {run.__name__: run for run in (pooling_reviews, han_reviews, esim_inference, span_reading)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=KINDS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    KINDS[given.name]()
