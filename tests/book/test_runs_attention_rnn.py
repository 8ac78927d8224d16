"""The run that chapter 05 shows, measured again from its weights, and its program run for a step."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.data import greek_english
from lecturelib.evaluation import alignment_error_rate, best_links, diagonal_links
from lecturelib.models import IBM1, BahdanauConfig, BahdanauSeq2Seq, IBM1Config
from lecturelib.tokens import Vocabulary, WordTokenizer
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def run() -> Run:
    return shipped_run("greek_english")


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "greek_english.py")


def words_of(folder: Path, side: str) -> Vocabulary:
    return WordTokenizer.load(folder / f"{side}.json").vocabulary


@pytest.fixture(scope="module")
def vocabularies(run: Run) -> tuple[Vocabulary, Vocabulary]:
    return words_of(run.folder, "source"), words_of(run.folder, "target")


def test_greek_run_measures_again_what_it_says(run, program, vocabularies):
    splits = greek_english(max_len=run.facts["data"]["max_len"], punctuation=False)
    assert len(splits.train) == run.facts["data"]["verses"]
    model = run.load_into(BahdanauSeq2Seq(BahdanauConfig(**run.facts["config"])))
    again = program.measure(model, splits.test, *vocabularies)
    for name, value in run.facts["results"]["test"].items():
        assert again[name] == pytest.approx(value, abs=3e-3), name


def test_greek_run_has_the_vocabulary_of_its_training_verses(run, program, vocabularies):
    splits = greek_english(max_len=run.facts["data"]["max_len"], punctuation=False)
    assert program.vocabularies(splits.train) == vocabularies


def test_greek_run_stands_where_the_chapter_puts_it(run, program, vocabularies):
    """Diagonal, attention, attention with the word known, IBM 1: worst to best, the first two close together."""
    splits = greek_english(max_len=run.facts["data"]["max_len"], punctuation=False)
    gold = [pair.links for pair in splits.test]
    diagonal = alignment_error_rate([diagonal_links(len(p.target), len(p.source)) for p in splits.test], gold)
    counting = IBM1(IBM1Config(source_vocab_size=len(vocabularies[0]), target_vocab_size=len(vocabularies[1])))
    counting.fit(program.encode(splits.train, *vocabularies))
    encoded = program.encode(splits.test, *vocabularies)
    ibm = alignment_error_rate([best_links(counting.posterior(*pair)) for pair in encoded], gold)
    measured = run.facts["results"]["test"]
    assert ibm < measured["aer_posterior"] < measured["aer_attention"] - 0.1
    assert measured["aer_posterior"] < diagonal - 0.1


def test_greek_run_is_small_and_learned_something(run):
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 3_000_000
    assert run.rows[-1]["step"] == run.facts["training"]["steps"] - 1
    assert run.rows[-1]["eval_loss"] < run.rows[0]["eval_loss"] - 0.5
    for name in ("loss", "aer_attention"):  # half precision moves the end point only a little
        assert run.rows[-1][f"eval_{name}"] == pytest.approx(run.facts["results"]["validation"][name], abs=5e-3)


def test_greek_run_can_be_started_again(program, monkeypatch, tmp_path, capsys):
    """One step of the same program on a few verses: it writes everything that the chapter reads."""
    splits = greek_english(max_len=8, punctuation=False)
    monkeypatch.setattr(program, "greek_english", lambda **_: splits)
    monkeypatch.setattr("sys.argv", ["greek_english.py", str(tmp_path / "run"), "--steps", "1", "--seed", "3"])
    threads = torch.get_num_threads()
    program.main()
    torch.set_num_threads(threads)
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["seed"] == 3
    assert "--steps 1 --seed 3" in facts["command"]
    written = shipped_run("run", tmp_path)
    model = written.load_into(BahdanauSeq2Seq(BahdanauConfig(**facts["config"])))
    words = [words_of(tmp_path / "run", side) for side in ("source", "target")]
    again = program.measure(model, splits.test, *words)
    assert again == pytest.approx(facts["results"]["test"], abs=1e-4)
    assert "aer_posterior" in capsys.readouterr().out
