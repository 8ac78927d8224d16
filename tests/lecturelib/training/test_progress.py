"""The bar: there when somebody watches, silent when not."""

import sys
import types

import pytest

from lecturelib.training.progress import Progress


def show(**options) -> None:
    with Progress(3, **options) as bar:
        for _ in range(3):
            bar.advance({"loss": 1.25})


def test_progress_is_silent_where_nobody_watches(capsys, monkeypatch) -> None:
    monkeypatch.delenv("LECTURELIB_PROGRESS", raising=False)
    show()
    assert capsys.readouterr() == ("", "")


def test_progress_shows_in_a_terminal_and_on_request(capsys, monkeypatch) -> None:
    monkeypatch.delenv("LECTURELIB_PROGRESS", raising=False)
    show(show=True)
    assert "loss=1.25" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show()
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setenv("LECTURELIB_PROGRESS", "off")
    show()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("live", [True, False])
def test_progress_in_a_notebook_without_widgets_needs_a_person(capsys, monkeypatch, live) -> None:
    monkeypatch.delenv("LECTURELIB_PROGRESS", raising=False)
    kernel = types.SimpleNamespace(get_parent=lambda: {"content": {"allow_stdin": live}})
    python = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=kernel))
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    show()
    assert ("3/3" in capsys.readouterr().err) == live
