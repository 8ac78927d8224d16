"""The run whose maps chapter 10 shows, measured again from its weights, and its program run for a few steps."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.data import greek_english
from lecturelib.models import Transformer, TransformerConfig
from lecturelib.tokens import BPETokenizer
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def run() -> Run:
    return shipped_run("transformer_greek")


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "transformer_greek.py")


def test_transformer_run_measures_again_what_it_says(run, program):
    model = run.load_into(Transformer(TransformerConfig(**run.facts["config"])))
    tokenizer = BPETokenizer.load(run.folder / "tokens.json")
    texts = program.texts_of(greek_english(max_len=program.MAX_LEN).test)
    again, said = program.measure(model, texts, tokenizer), run.facts["results"]["test"]
    assert again["loss"] == pytest.approx(said["loss"], abs=2e-3)
    assert again["loss_other_source"] == pytest.approx(said["loss_other_source"], abs=2e-3)
    for name in ("bleu", "bleu_other_source", "bleu_beam_4"):
        assert again[name] == pytest.approx(said[name], abs=0.5)  # rounding may turn a word, and a word many after it


def test_transformer_run_listens_to_its_source(run):
    for part in ("validation", "test"):
        results = run.facts["results"][part]
        assert results["loss"] < results["loss_other_source"] - 0.5
        assert results["bleu"] > results["bleu_other_source"] + 2


def test_transformer_run_has_the_tokens_of_its_training_verses(run, program):
    texts = program.texts_of(greek_english(max_len=program.MAX_LEN).train)
    lines = (text for pair in texts for text in pair)
    learned = BPETokenizer.train(lines, vocab_size=program.VOCAB_SIZE, specials=program.SPECIALS)
    kept = BPETokenizer.load(run.folder / "tokens.json")
    assert (kept.merges, kept.vocab, kept.specials) == (learned.merges, learned.vocab, learned.specials)


def test_transformer_run_is_small(run):
    assert sum(path.stat().st_size for path in run.folder.iterdir()) < 3_000_000


def test_transformer_program_writes_a_run(program, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["transformer_greek.py", str(tmp_path / "run"), "--steps", "2"])
    monkeypatch.setattr(program, "greek_english", small_splits)
    threads = torch.get_num_threads()
    program.main()
    torch.set_num_threads(threads)
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["command"].endswith("--steps 2 --seed 0")
    assert facts["results"]["test"]["loss"] > 0
    assert (tmp_path / "run" / "tokens.json").is_file()


def small_splits(max_len):
    splits = greek_english(max_len=max_len)
    return type(splits)(splits.train[:60], splits.validation[:5], splits.test[:5])
