"""The runs of chapter 12 that came with the package: measured again from their weights, they are what they say."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.data import movie_reviews, shakespeare
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import CharTokenizer, WordTokenizer
from lecturelib.training import Cosine, seed_everything, shipped_run


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
    tokenizer = WordTokenizer.load(run.folder / "vocabulary.json", lower=True)
    model = run.load_into(GPT(GPTConfig(**run.facts["config"])))
    held_out = made_by.stream(tokenizer, splits.test[:400])  # more words than are measured
    assert made_by.held_out_loss(model, held_out) == pytest.approx(run.facts["results"]["test_loss"], abs=1e-3)

    length, count = model.config.max_len, made_by.LABELS[0]
    wanted = next(r for r in run.rows if (r.get("labels"), r.get("draw"), r.get("start")) == (count, 0, "pre-trained"))
    chosen = torch.randperm(len(splits.train), generator=torch.Generator().manual_seed(0))[:count].tolist()
    labelled = made_by.examples_of(tokenizer, [splits.train[i] for i in chosen], length)
    seed_everything(0)
    gpt = GPT(model.config)
    gpt.load_state_dict(model.state_dict())
    classifier = made_by.ReviewClassifier(gpt)
    made_by.fine_tune(classifier, labelled, 0)
    test = made_by.test_examples(tokenizer, splits.test, length)
    assert made_by.accuracy_on(classifier, test) == pytest.approx(wanted["accuracy"], abs=0.03)
