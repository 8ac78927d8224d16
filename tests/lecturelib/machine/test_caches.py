"""Where the cache is."""

from pathlib import Path

from lecturelib.machine.caches import cache_folder


def test_cache_folder_is_where_the_platform_keeps_caches_or_where_it_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("LECTURELIB_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, appauthor: tmp_path / "platform" / name)
    assert cache_folder() == tmp_path / "platform" / "lecturelib"
    monkeypatch.setenv("LECTURELIB_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("LECTURELIB_CACHE", "~/mine")
    assert cache_folder() == Path.home() / "mine"
