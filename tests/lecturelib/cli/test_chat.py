"""chat and sample with a pretrained model, from a small GGUF file that the test writes."""

import io

import pytest

import lecturelib.cli
from lecturelib.cli import chat

from ..gguf_files import small_llama, write_llama


@pytest.fixture
def talk(tmp_path, monkeypatch, capsys):
    path = write_llama(tmp_path / "small.gguf", small_llama(max_len=400))

    def run(said, *arguments, command="chat"):
        monkeypatch.setattr("sys.stdin", io.StringIO(said))
        model = ("--model", path) if command == "chat" else (path,)
        code = lecturelib.cli.main([str(word) for word in (command, *model, "--device", "cpu", *arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_chat_answers_every_line_and_shows_memory(talk):
    code, out, err = talk("Hello\nAnd you?\n", "--max-tokens", 9, "--temperature", 0)
    assert code == 0
    assert len(out.split("\n")) >= 3
    assert err.count("key-value cache") == 2
    assert "MB of weights" in err
    assert talk("Hello\nAnd you?\n", "--max-tokens", 9, "--temperature", 0)[1] == out
    assert talk("Hello\nAnd you?\n", "--max-tokens", 9, "--temperature", 0, "--system", "Be rude.")[1] != out


def test_chat_ends_at_an_empty_line_and_remembers_what_was_said(talk):
    first, both = (
        talk("Hello\n", "--temperature", 0, "--max-tokens", 5),
        talk("Hello\nHello\n\nX\n", "--temperature", 0),
    )
    assert first[2].count("tokens;") == 1
    assert both[2].count("tokens;") == 2


def test_chat_in_four_bits_takes_less_memory(talk):
    whole, small = talk("\n"), talk("\n", "--bits", 4)

    def megabytes(result):
        return float(result[2].split(" MB")[0].rsplit(" ", 1)[-1])

    assert small[0] == 0
    assert megabytes(small) <= megabytes(whole)


def test_ctrl_c_ends_an_answer_and_not_the_conversation(talk, monkeypatch):
    from lecturelib import evaluation

    plain = evaluation.stream

    def interrupted(*arguments, **options):
        tokens = plain(*arguments, **options)
        yield next(tokens)
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "stream", interrupted)
    code, out, err = talk("Hello\nStill there?\n", "--temperature", 0)
    assert code == 0
    assert out.count("…") == 2
    assert err.count("key-value cache") == 2


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("--max-tokens", 0, "must be at least 1"), ("--temperature", -1, "must not be negative")],
)
def test_chat_refuses_what_cannot_be_meant(talk, option, value, message):
    code, _, err = talk("Hello\n", option, value)
    assert code == 2
    assert message in err


def test_chat_says_which_models_there_are(capsys):
    assert lecturelib.cli.main(["chat", "--model", "gpt9"]) == 2
    assert "--model gpt9 is no GGUF file, nor one of smollm2" in capsys.readouterr().err


def test_a_conversation_that_is_too_long_is_told(talk):
    code, _, err = talk("word " * 400 + "\n")
    assert code == 2
    assert "the model reads 400" in err


def test_sample_goes_on_with_a_prompt(talk):
    code, out, _ = talk("", "--prompt", "the cat", "--length", 7, "--temperature", 0, command="sample")
    assert code == 0
    assert out.startswith("the cat")
    assert len(out) > len("the cat\n")


def test_nothing_is_asked_twice_at_the_end_of_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert chat._ask() is None
