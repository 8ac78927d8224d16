"""The command line's own behaviour: help, errors in one line, exit codes."""

import types

import pytest

import lecturelib.cli


def command_that(action):
    """A stand-in for a command module whose only command, `act`, runs the action."""

    def add_parser(subparsers):
        subparsers.add_parser("act", help="act").set_defaults(run=action)

    return types.SimpleNamespace(add_parser=add_parser)


def raising(error):
    def run(arguments):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("num_heads=5 does not\n divide d_model=12"), "num_heads=5 does not divide d_model=12"),
        (KeyError("no data set is called 'shakespear'"), "no data set is called 'shakespear'"),
        (FileNotFoundError(2, "No such file or directory", "notes.txt"), "'notes.txt'"),
    ],
)
def test_main_reports_a_users_mistake_in_one_line(monkeypatch, capsys, error, line):
    monkeypatch.setattr(lecturelib.cli, "COMMANDS", (command_that(raising(error)),))
    monkeypatch.delenv("LECTURELIB_TRACEBACK", raising=False)
    assert lecturelib.cli.main(["act"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("lecturelib: ")
    assert captured.err.count("\n") == 1
    assert line in captured.err


def test_main_keeps_the_traceback_of_a_bug(monkeypatch):
    monkeypatch.setattr(lecturelib.cli, "COMMANDS", (command_that(raising(AttributeError("ours"))),))
    with pytest.raises(AttributeError, match="ours"):
        lecturelib.cli.main(["act"])


def test_main_shows_every_traceback_on_request(monkeypatch):
    monkeypatch.setattr(lecturelib.cli, "COMMANDS", (command_that(raising(ValueError("theirs"))),))
    monkeypatch.setenv("LECTURELIB_TRACEBACK", "1")
    with pytest.raises(ValueError, match="theirs"):
        lecturelib.cli.main(["act"])


def test_main_stops_quietly_on_ctrl_c(monkeypatch, capsys):
    monkeypatch.setattr(lecturelib.cli, "COMMANDS", (command_that(raising(KeyboardInterrupt())),))
    assert lecturelib.cli.main(["act"]) == 130
    assert capsys.readouterr().err == "lecturelib: stopped\n"


def test_main_returns_the_commands_exit_code(monkeypatch):
    monkeypatch.setattr(lecturelib.cli, "COMMANDS", (command_that(lambda arguments: 7),))
    assert lecturelib.cli.main(["act"]) == 7


def test_main_without_a_command_teaches(capsys):
    with pytest.raises(SystemExit) as stop:
        lecturelib.cli.main([])
    assert stop.value.code == 2
    assert "COMMAND" in capsys.readouterr().err
