"""The runs of chapter 12 that came with the package: measured again from their weights, they are what they say."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.data import movie_reviews, shakespeare
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import CharTokenizer, WordTokenizer
from lecturelib.training import Cosine, shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> Callable[[str], ModuleType]:
    """The program that made a run, by the run's name."""
    return lambda name: load_script(root / "book" / "runs" / f"{name}.py")


@pytest.mark.parametrize("name", ["gpt_shakespeare", "review_gpt"])
def test_run_is_small_and_says_how_to_repeat_it(name, program):
    run, made_by = shipped_run(name), program(name)
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 3_000_000
    assert run.facts["command"].startswith(f"python book/runs/{name}.py")
    assert run.facts["seed"] == made_by.SEED
    assert run.facts["training"]["steps"] == made_by.STEPS
    assert {key: run.facts["config"][key] for key in made_by.SIZES} == made_by.SIZES
    steps = [row["step"] for row in run.rows if "step" in row]
    assert steps == sorted(steps)
    assert steps[-1] == made_by.STEPS - 1


def test_shakespeare_run_has_the_perplexity_it_claims(program):
    run = shipped_run("gpt_shakespeare")
    tokenizer = CharTokenizer.load(run.folder / "tokens.json")
    model = run.load_into(GPT(GPTConfig(**run.facts["config"])))
    held_out = torch.tensor(tokenizer.encode(shakespeare().test))
    loss = program("gpt_shakespeare").held_out_loss(model, held_out)
    assert loss == pytest.approx(run.facts["results"]["test_loss"], abs=1e-3)


def test_shakespeare_run_followed_its_schedule(program):
    made_by = program("gpt_shakespeare")
    schedule = Cosine(steps=made_by.STEPS, warmup=100, floor=0.02)
    for row in shipped_run("gpt_shakespeare").rows:
        assert row["learning_rate"] == pytest.approx(made_by.LEARNING_RATE * schedule(row["step"]), rel=1e-6)


def test_review_run_has_the_perplexity_it_claims_and_tunes_as_it_says(program):
    made_by, run = program("review_gpt"), shipped_run("review_gpt")
    splits = movie_reviews("imdb")
    tokenizer = WordTokenizer.load(run.folder / "tokens.json")
    model = run.load_into(GPT(GPTConfig(**run.facts["config"])))
    test = made_by.examples_of(tokenizer, splits.test)
    assert made_by.held_out_loss(model, test) == pytest.approx(run.facts["results"]["test_loss"], abs=1e-3)

    count, judges = made_by.LABELS[0], made_by.drawn(test, made_by.TEST, made_by.SEED)
    few = made_by.examples_of(tokenizer, made_by.drawn(splits.train, count, 0))
    for start in ("pre-trained", "from scratch"):
        wanted = next(r for r in run.rows if (r.get("labels"), r.get("draw"), r.get("start")) == (count, 0, start))
        classifier = made_by.tuned(start, model, few, 0)
        assert made_by.accuracy_on(classifier, judges) == pytest.approx(wanted["accuracy"], abs=0.04)
    wanted = next(r for r in run.rows if (r.get("labels"), r.get("draw"), r.get("start")) == (count, 0, "word counts"))
    assert made_by.count_accuracy(few, judges) == pytest.approx(wanted["accuracy"], abs=0.01)


def test_review_run_pays_with_every_number_of_labels(program):
    rows = [row for row in shipped_run("review_gpt").rows if "labels" in row]
    for count in program("review_gpt").LABELS:
        means = {
            start: sum(values) / len(values)
            for start in ("pre-trained", "from scratch")
            if (values := [row["accuracy"] for row in rows if (row["labels"], row["start"]) == (count, start)])
        }
        assert means["pre-trained"] > means["from scratch"], f"{count} labels"
