"""One address in _config.yml, and what follows from it."""

from types import SimpleNamespace

import pytest

from lecturelib.book.addresses import install_source, repository_url, site_url


def test_repository_url_is_read_from_the_one_place(tmp_path):
    (tmp_path / "_config.yml").write_text("title: T\nrepository:\n  # ours\n  url: https://example.org/me/mine/\n")
    assert repository_url(tmp_path) == "https://example.org/me/mine"
    (tmp_path / "_config.yml").write_text("title: T\nhtml:\n  url: https://example.org\n")
    with pytest.raises(ValueError, match="no repository url"):
        repository_url(tmp_path)
    with pytest.raises(FileNotFoundError, match="what the first cell installs from"):
        repository_url(tmp_path / "elsewhere")


def test_site_url_is_where_the_host_publishes_a_repository():
    assert site_url("https://github.com/Me/Mine") == "https://me.github.io/Mine"
    assert site_url("https://github.com/me/me.github.io") == "https://me.github.io"
    assert site_url("https://gitlab.com/me/mine") == "https://me.gitlab.io/mine"
    for wrong in ("https://example.org/me/mine", "https://github.com/me"):
        with pytest.raises(ValueError, match="must be https://HOST/OWNER/NAME"):
            site_url(wrong)


def run_cell(monkeypatch, source, found):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    exec(compile(source, "install cell", "exec"), {})


def test_install_cell_is_silent_where_lecturelib_is(monkeypatch, capfd):
    monkeypatch.setattr("subprocess.run", lambda *args, **kwargs: pytest.fail("nothing to install"))
    run_cell(monkeypatch, install_source("https://github.com/me/mine"), found=SimpleNamespace())
    assert capfd.readouterr() == ("", "")


def test_install_cell_says_what_to_do_where_there_is_no_repository(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    source = install_source(f"file://{tmp_path}/nowhere", "[book]")
    with pytest.raises(
        RuntimeError, match=r"could not be installed from git\+file.*clone the course.*pip install"
    ) as e:
        run_cell(monkeypatch, source, found=None)
    assert e.value.__cause__ is None
    assert e.value.__context__ is None


def test_install_cell_installs_from_the_repository(monkeypatch):
    ran = []
    monkeypatch.setattr("subprocess.run", lambda command: ran.append(command) or SimpleNamespace(returncode=0))
    run_cell(monkeypatch, install_source("https://github.com/me/mine", "[book]"), found=None)
    assert ran[0][1:] == ["-m", "pip", "install", "--quiet", "lecturelib[book] @ git+https://github.com/me/mine"]
