"""Where the cache is."""

from pathlib import Path

import pytest

from lecturelib.data.store.folders import cache_folder


@pytest.fixture
def bare(monkeypatch, tmp_path):
    for name in ("LECTURELIB_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("linux", ".cache/lecturelib"),
        ("darwin", "Library/Caches/lecturelib"),
        ("win32", "AppData/Local/lecturelib/Cache"),
    ],
)
def test_cache_folder_is_where_the_platform_keeps_caches(bare, monkeypatch, platform, place):
    monkeypatch.setattr("lecturelib.data.store.folders.sys.platform", platform)
    assert cache_folder() == bare / place


def test_cache_folder_follows_the_environment(bare, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(bare / "xdg"))
    assert cache_folder() == bare / "xdg" / "lecturelib"
    monkeypatch.setenv("LECTURELIB_CACHE", str(bare / "mine"))
    assert cache_folder() == bare / "mine"
