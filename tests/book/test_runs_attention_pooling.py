"""The runs that chapter 06 shows, measured again from their weights, and their program run for a step."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.data import dialogues, inference_pairs, long_reviews, questions
from lecturelib.models import (
    ESIM,
    ESIMConfig,
    HierarchicalAttentionConfig,
    HierarchicalAttentionNetwork,
    PoolingConfig,
    SpanReader,
    SpanReaderConfig,
    best_span,
)
from lecturelib.tokens import load_tokenizer, pad, pad_documents, split_sentences
from lecturelib.training import shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "attention_pooling.py")


def texts(run, firsts, seconds):
    words = load_tokenizer(run.folder / "tokens.json").vocabulary
    return [part for given in (firsts, seconds) for part in pad([words.encode(one) for one in given], pad_id=0)]


@torch.no_grad()
def test_esim_measures_again_what_its_run_says(program):
    run = shipped_run("esim_inference")
    model = run.load_into(ESIM(ESIMConfig(**run.facts["config"]["model"])))
    pairs = program.unseen_pairs(run.facts["config"]["held_out"])
    assert len(pairs) == run.facts["config"]["held_out"]
    looked_at = inference_pairs(1000, split="test")
    assert not {pair.premise + pair.hypothesis for pair in pairs} & {p.premise + p.hypothesis for p in looked_at}
    predicted = model(*texts(run, [p.premise for p in pairs], [p.hypothesis for p in pairs])).argmax(dim=1)
    right = float((predicted == torch.tensor([pair.label for pair in pairs])).float().mean())
    (row,) = (row for row in run.rows if row["case"] == {"model": "ESIM", "seed": 0})
    assert right == pytest.approx(row["accuracy"], abs=5e-3)
    assert all(row["accuracy"] <= 0.5 for row in run.rows if row["case"]["model"] == "bags of words")


@torch.no_grad()
def test_span_reader_measures_again_what_its_run_says():
    run = shipped_run("span_reading")
    model = run.load_into(SpanReader(SpanReaderConfig(**run.facts["config"]["model"])))
    asked = questions(run.facts["config"]["held_out"], split="test", seed=1)
    asked += dialogues(run.facts["config"]["held_out_dialogues"], split="test", seed=1)
    found = best_span(model(*texts(run, [q.passage for q in asked], [q.before + q.question for q in asked])))
    right = (found == torch.tensor([(q.start, q.end) for q in asked])).all(dim=1).float()
    (row,) = (row for row in run.rows if row["case"] == {"readings": 3, "remembers": True, "seed": 0})
    kinds = {"one_hop": lambda q: q.hops == 1 and not q.before, "two_hops": lambda q: q.hops == 2}
    kinds["second_turn"] = lambda q: bool(q.before)
    for name, belongs in kinds.items():
        here = torch.tensor([belongs(q) for q in asked])
        assert float(right[here].mean()) == pytest.approx(row[name], abs=5e-3)


@torch.no_grad()
def test_hierarchical_network_measures_again_what_its_run_says():
    run = shipped_run("han_reviews")
    config = run.facts["config"]
    model = run.load_into(HierarchicalAttentionNetwork(HierarchicalAttentionConfig(**config["model"])))
    words = load_tokenizer(run.folder / "tokens.json")
    reviews = [*long_reviews().validation, *long_reviews().test]
    assert len(reviews) == config["held_out_reviews"]
    right = 0
    for start in range(0, len(reviews), 50):
        part = reviews[start : start + 50]
        documents = [[words.encode(sentence) for sentence in split_sentences(review.text)] for review in part]
        logits = model(*pad_documents(documents, pad_id=0, **config["cut"]))
        right += int((logits.argmax(dim=1) == torch.tensor([review.label for review in part])).sum())
    (row,) = (row for row in run.rows if row["case"]["model"] == "attention")
    assert right / len(reviews) == pytest.approx(row["accuracy"], abs=0.011)


def test_pooling_run_compares_at_equal_budgets():
    run = shipped_run("pooling_reviews")
    cases = [tuple(row["case"].values()) for row in run.rows]
    assert len(set(cases)) == len(cases)
    assert {labels for _, labels, _ in cases} >= {100, 1000}
    assert PoolingConfig(**run.facts["config"]["model"]).pooling == "attention"
    for row in run.rows:
        assert 0.45 < row["accuracy"] < 0.9


def test_program_trains_a_step_of_every_kind(program):
    for name, build in program.pair_models(7).items():
        model = build()
        one, two = torch.randint(1, 7, (2, 4)), torch.randint(1, 7, (2, 3))
        batch = program.TextPairs(one, torch.tensor([4, 2]), two, torch.tensor([3, 1]), torch.tensor([0, 2]))
        row = program.fit(model, lambda step, batch=batch: batch, program.labelled_loss, steps=2, rate=1e-3, seed=0)
        assert len(row["losses"]) == 2, name
