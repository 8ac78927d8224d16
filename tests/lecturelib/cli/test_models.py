"""train, sample, translate and info, from the first step to a line of output."""

import json
import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import lecturelib.cli
from lecturelib.data import Splits, dates

FACTS = {"command": "lecturelib train", "seed": 0, "config": {"width": 3}, "results": {}}
TEXT = "To be, or not to be: that is the question.\n" * 40


@pytest.fixture
def shell(monkeypatch, tmp_path, capsys):
    """Run a command in an empty folder, with small data; returns (exit code, stdout, stderr)."""
    from lecturelib.recipes import pairs, texts

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LECTURELIB_TRACEBACK", raising=False)
    monkeypatch.setattr(texts, "TEXTS", {"shakespeare": lambda: Splits(TEXT, TEXT[:2000] * 5, TEXT * 5)})
    monkeypatch.setattr(pairs, "PAIRS", {"dates": lambda: dates(train=200, validation=7, test=5)})

    def run(*arguments):
        code = lecturelib.cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


GPT = ("train", "gpt", "--data", "shakespeare", "--preset", "tiny", "--device", "cpu", "--batch-size", 4)
DATES = ("train", "seq2seq", "--data", "dates", "--device", "cpu", "--batch-size", 8, "--evaluate-every", 3)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / json.loads((folder / "last.json").read_text())["file"])


def test_train_then_sample_shows_text_and_is_reproducible(shell) -> None:
    code, out, err = shell(*GPT, "--steps", 6, "--evaluate-every", 3)
    assert (code, err) == (0, "")
    assert out.count("held out: loss") == 2
    assert "lecturelib sample runs/gpt-shakespeare-tiny" in out
    first = shell("sample", "runs/gpt-shakespeare-tiny", "--prompt", "To be", "--length", 90, "--device", "cpu")
    assert first[0] == 0
    assert first[1].startswith("To be")
    assert first == shell("sample", "--prompt", "To be", "--length", 90, "--device", "cpu")  # the newest run
    other = shell("sample", "--prompt", "To be", "--length", 90, "--device", "cpu", "--seed", 1, "--top-k", 9)
    assert other != first
    assert shell("sample", "--temperature", 0, "--length", 5, "--prompt", "žluť")[0] == 0  # never seen, still read


def test_train_then_translate_gives_a_line_for_each_text(shell) -> None:
    code, out, _ = shell(*DATES, "--steps", 3)
    assert code == 0
    assert "of 5 exactly right" in out
    code, out, _ = shell("translate", "runs/seq2seq-dates-tiny", "3 March 2026", "4 May 1999", "--beam", 3)
    assert code == 0
    assert out.count("\n") == 2
    assert shell("translate", "runs/seq2seq-dates-tiny", "--beam", 3, "3 March 2026", "4 May 1999")[:2] == (0, out)
    code, out, err = shell("translate", "runs/seq2seq-dates-tiny", "3 Märch")
    assert (code, out) == (2, "")
    assert "'ä'" in err


def test_train_resumed_equals_train_in_one_go(shell, tmp_path) -> None:
    shell(*DATES, "--steps", 9, "--out", "whole")
    shell(*DATES, "--steps", 9, "--out", "parts")
    folder = tmp_path / "parts"
    (folder / "last.json").write_text((folder / "previous.json").read_text())  # as if killed after step 6
    assert shell(*DATES, "--steps", 9, "--out", "parts", "--resume")[0] == 0
    left, right = weights(tmp_path / "whole"), weights(folder)
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("train", "gtp"), "did you mean gpt?"),
        (("train", "gpt", "--preset", "huge"), "--preset huge is unknown for GPT; choose one of tiny, small, gpt1"),
        (("train", "gpt", "--data", "dates"), "--data dates is not for GPT"),
        (("train", "gpt", "--steps", 0), "--steps 0"),
        (("train", "gpt", "--seed", -1, "--steps", 0, "--data", "none"), "--seed -1 must be a whole number from 0"),
        (("train", "gpt", "--seed", 2**64), f"--seed {2**64} must be a whole number"),
        (("train", "bert", "--ema", 1), "--ema 1.0 must be between 0 and 1"),
        (("sample", "vit_small"), "names no model, so only Python can use this run"),
        (("train", "gpt", "--batch-size", 0), "--batch-size 0"),
        (("train", "gpt", "--device", "abacus"), "'abacus' is not a torch device"),
        (("sample", "nowhere"), "nowhere is not the folder of a run"),
        (("sample",), "lecturelib train gpt --data shakespeare"),
        (("sample", "--length", -1), "--length -1"),
        (("translate", "nowhere", "x"), "nowhere is not the folder of a run"),
        (("translate", "nowhere", "--beam", 0), "--beam 0"),
        (("info", "gpt", "--preset", "gpt2-small", "--length", 2000), "more than the 1024 tokens"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(shell, arguments, line) -> None:
    code, out, err = shell(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert line in err


def test_train_will_not_mix_two_runs(shell) -> None:
    assert shell(*DATES, "--steps", 1)[0] == 0
    assert "say --resume" in shell(*DATES, "--steps", 1)[2]
    code, _, err = shell("train", "gpt", "--out", "runs/seq2seq-dates-tiny", "--resume")
    assert code == 2
    assert "model seq2seq, not gpt" in err
    before = {path.name: path.read_bytes() for path in Path("runs/seq2seq-dates-tiny").iterdir()}
    code, out, err = shell(*DATES, "--steps", 2, "--resume", "--seed", 3, "--learning-rate", 0.5, "--ema", 0.9)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "with seed 0, not 3; steps 1, not 2; learning rate 0.003, not 0.5; ema None, not 0.9. Leave that out" in err
    assert {path.name: path.read_bytes() for path in Path("runs/seq2seq-dates-tiny").iterdir()} == before
    assert "use `lecturelib translate`" in shell("sample", "runs/seq2seq-dates-tiny")[2]


def test_refused_run_leaves_no_folder_that_blocks_the_next(shell, tmp_path) -> None:
    for wrong in (("--preset", "huge"), ("--data", "cmudict"), ("--device", "abacus"), ("--learning-rate", 1e30)):
        code, _, err = shell(*DATES, "--steps", 3, "--out", "mine", *wrong)
        assert (code, err.count("\n")) == (2, 1), wrong
        assert not (tmp_path / "mine").exists(), wrong
    assert shell(*DATES, "--steps", 3, "--out", "mine")[0] == 0


@pytest.mark.parametrize("room", [1200, 200_000], ids=["not even for a line", "not for a checkpoint"])
def test_full_disk_is_one_line_and_costs_nothing_that_was_saved(shell, tmp_path, room) -> None:
    """As on a disk that fills up: files can't grow beyond `room` bytes."""
    shell(*DATES, "--steps", 9, "--out", "calm")
    shell(*DATES, "--steps", 9, "--out", "torn")
    torn = tmp_path / "torn"
    (torn / "last.json").write_text((torn / "previous.json").read_text())  # as if killed after step 6
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        code, _, err = shell(*DATES, "--steps", 9, "--out", "torn", "--resume")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (code, err.count("\n")) == (2, 1)
    assert "can't be written" in err
    assert "File too large" in err
    assert json.loads((torn / "last.json").read_text())["step"] == 6
    assert not list(torn.glob("*.tmp"))
    assert shell(*DATES, "--steps", 9, "--out", "torn", "--resume")[0] == 0
    left, right = weights(tmp_path / "calm"), weights(torn)
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_run_killed_before_its_first_checkpoint_is_begun_again(shell, tmp_path) -> None:
    shell(*DATES, "--steps", 3, "--out", "mine")
    for path in (tmp_path / "mine").glob("*"):
        if path.suffix != ".json" or path.name in ("last.json", "previous.json"):
            path.unlink()
    assert shell(*DATES, "--steps", 2, "--out", "mine")[0] == 0


def test_resumed_run_takes_its_settings_from_the_run(shell, tmp_path) -> None:
    shell(*DATES, "--steps", 9, "--out", "mine", "--seed", 5, "--ema", 0.9)
    (tmp_path / "mine" / "last.json").write_text((tmp_path / "mine" / "previous.json").read_text())
    code, _, err = shell("train", "seq2seq", "--out", "mine", "--resume", "--device", "cpu")
    assert (code, err) == (0, "")
    facts = json.loads((tmp_path / "mine" / "run.json").read_text())
    assert (facts["seed"], facts["training"]["steps"], facts["training"]["ema"]) == (5, 9, 0.9)
    assert facts["results"].keys() == {"test_exact_match", "test_error_rate"}
    assert "--seed 5 --steps 9 --batch-size 8" in facts["command"]


def test_foreign_and_damaged_folders_among_the_runs_are_passed_over(shell, tmp_path) -> None:
    shell(*GPT, "--steps", 2)
    runs = tmp_path / "runs"
    (runs / "notes").mkdir()
    (runs / "torn").mkdir()
    (runs / "torn" / "run.json").write_text("{")
    (runs / "other").mkdir()
    (runs / "other" / "run.json").write_text('{"model": "resnet", "lr": 3}')
    (runs / "a file").write_text("x")
    code, out, err = shell("sample", "--length", 5)
    assert code == 0
    assert out
    assert err.count("lecturelib: passing over") == err.count("\n") == 3
    for name in ("notes", "torn", "other"):
        assert f"runs/{name}" in err


@pytest.mark.parametrize(
    ("arguments", "beginning"),
    [
        (("sample", "gpt_shakespeare", "--prompt", "To be", "--length", 7), "To be"),
        (("sample", "review_gpt", "--prompt", "wonderful", "--length", 3), "wonderful "),
        (("translate", "transformer_greek", "Ἐν ἀρχῇ ἦν ὁ λόγος"), ""),
        (("translate", "greek_english", "καὶ εἶπεν αὐτοῖς ὁ Ἰησοῦς", "--beam", 1), ""),
    ],
)
def test_runs_that_came_with_the_package_are_used_by_name(shell, arguments, beginning) -> None:
    code, out, err = shell(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith(beginning)
    assert len(out) > len(beginning) + 3


def test_bert_trains_and_fills_in_gaps(shell, tmp_path) -> None:
    code, out, err = shell("train", "bert", "--device", "cpu", "--batch-size", 4, "--steps", 4, "--evaluate-every", 2)
    assert (code, err) == (0, "")
    assert out.count("held out: loss") == 2
    assert "of the gaps filled in right" in out
    assert "use Python with it" in shell("sample", "runs/bert-shakespeare-tiny")[2]


def test_info_gives_published_counts_without_building_anything(shell) -> None:
    code, out, _ = shell("info", "gpt", "--preset", "gpt2-small", "--batch-size", 2, "--length", 128)
    assert code == 0
    assert "124,439,808 parameters" in out
    assert f"{2 * 12 * 768 * 2 * 128 * 4 / 1e6:.3g} MB in fp32 after 128 tokens" in out
    assert shell("info", "seq2seq", "--preset", "tiny")[0] == 0
    assert "key-value cache" in out
    assert "key-value cache" not in shell("info", "bert", "--preset", "base", "--length", 8)[1]
    assert "63,082,496 parameters" in shell("info", "transformer", "--preset", "base", "--length", 8)[1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "damaged"),
        ("[]", "says nothing of command, seed, config, results"),
        ('{"model": "gpt"}', "says nothing of command, seed, config, results"),
        (json.dumps(FACTS), "names no model"),
        (json.dumps(FACTS | {"model": "gtp"}), "did you mean gpt?"),
        (json.dumps(FACTS | {"model": "gpt"}), "not one of a GPT"),
    ],
)
def test_damaged_run_is_one_line(shell, tmp_path, text, line) -> None:
    (tmp_path / "run.json").write_text(text)
    code, out, err = shell("sample", ".")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err
    assert "run.json is a file" in shell("train", "gpt", "--out", "run.json")[2]


def test_words_that_no_command_takes_are_refused(capsys) -> None:
    for words in (["data", "list", "all"], ["translate", "folder", "--beam", "3", "text", "--top-k", "4"]):
        with pytest.raises(SystemExit) as stop:
            lecturelib.cli.main(words)
        assert stop.value.code == 2
        assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "sample", "translate", "info"])
def test_help_teaches(command, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        lecturelib.cli.main([command, "--help"])
    assert stop.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 15
