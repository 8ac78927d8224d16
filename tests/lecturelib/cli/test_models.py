"""train, sample, translate and info, from the first step to a line of output."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import lecturelib.cli
from lecturelib.data import Splits, dates

TEXT = "To be, or not to be: that is the question.\n" * 40


@pytest.fixture
def shell(monkeypatch, tmp_path, capsys):
    """Run a command in an empty folder, with small data; returns (exit code, stdout, stderr)."""
    from lecturelib.cli import tasks

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LECTURELIB_TRACEBACK", raising=False)
    monkeypatch.setattr(tasks, "TEXTS", {"shakespeare": lambda: Splits(TEXT, TEXT[:2000] * 5, TEXT * 5)})
    monkeypatch.setattr(tasks, "PAIRS", {"dates": lambda: dates(train=200, validation=7, test=5)})

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
    assert "with seed 0, not 3; ask for that" in shell(*DATES, "--steps", 2, "--resume", "--seed", 3)[2]
    assert "use `lecturelib translate`" in shell("sample", "runs/seq2seq-dates-tiny")[2]


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
        ("[]", "damaged: it must name model, data, preset and config"),
        ('{"model": "gpt"}', "damaged: it must name model, data, preset and config"),
        ('{"model": "gpt", "data": "shakespeare", "preset": "tiny", "config": {"width": 3}}', "not one of a GPT"),
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
