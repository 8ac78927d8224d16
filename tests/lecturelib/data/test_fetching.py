"""Fetching: whole files or none, checked, once, with the licence, and a word of advice when it fails."""

import concurrent.futures
import io
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import lecturelib
from lecturelib.data import FetchError, UnknownDataSetError, fetch, fetch_to, find

POEMS = b"roses are red\n" * 20_000


@pytest.fixture
def poems(web, cache, make_archive, register):
    """A data set of one file on the web."""
    web.pages["/poems.txt"] = POEMS
    register("poems", (make_archive(web.address + "/poems.txt", "poems.txt", POEMS),))
    return web


def visible(folder):
    """What is in the folder, locks aside."""
    return sorted(path.name for path in folder.glob("*") if not path.name.endswith(".lock"))


def test_fetch_brings_the_file_and_shows_the_licence_once(poems, cache, capsys):
    assert fetch("poems")["poems.txt"].read_bytes() == POEMS
    told = capsys.readouterr().err
    assert "Fetching poems (0.3 MB): three tiny poems." in told
    assert "licence: CC0, for testing" in told
    fetch("poems")
    assert capsys.readouterr().err == ""
    assert poems.asked == ["/poems.txt"]
    assert visible(cache) == ["poems.txt"]


def test_fetch_shows_progress_at_a_terminal_only(poems, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen, log = Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    path = fetch("poems")["poems.txt"]
    path.unlink()
    monkeypatch.setattr("sys.stderr", screen)
    fetch("poems")
    assert "\rpoems.txt:   0%|" in screen.getvalue()
    assert "%|" not in log.getvalue()


def test_fetch_that_breaks_off_leaves_no_half_file(poems, cache):
    poems.cut["/poems.txt"] = 1000
    with pytest.raises(FetchError, match=r"broke off after 1,000 of 280,000 bytes.*LECTURELIB_DATA") as failure:
        fetch("poems")
    assert "Nothing was left behind" in str(failure.value)
    assert visible(cache) == []
    del poems.cut["/poems.txt"]
    assert fetch("poems")["poems.txt"].read_bytes() == POEMS


def test_fetch_of_other_content_leaves_nothing(poems, cache):
    poems.pages["/poems.txt"] = POEMS.replace(b"red", b"RED")
    with pytest.raises(FetchError, match=r"gave 280,000 bytes with SHA-256 \w{12}…, where 280,000 bytes with \w{12}…"):
        fetch("poems")
    assert visible(cache) == []


def test_fetch_interrupted_leaves_nothing(poems, cache, monkeypatch):
    def interrupted(archive, folder):
        (folder / "half").write_bytes(POEMS[:1000])
        raise KeyboardInterrupt

    monkeypatch.setattr("lecturelib.data.store.fetching.bring", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch("poems")
    assert visible(cache) == []


def test_fetch_clears_what_a_killed_one_left(poems, cache):
    (cache / ".poems-killed").mkdir(parents=True)
    (cache / ".poems-killed" / "poems.txt").write_bytes(POEMS[:1000])
    fetch("poems")
    assert visible(cache) == ["poems.txt"]


def test_fetch_says_what_the_server_said(poems):
    del poems.pages["/poems.txt"]
    with pytest.raises(FetchError, match="answered 404 Not Found"):
        fetch("poems")


def test_fetch_says_when_nobody_answers(cache, make_archive, register):
    register("poems", (make_archive("http://127.0.0.1:9/poems.txt", "poems.txt", POEMS),))
    with pytest.raises(FetchError, match=r"could not be read .*put poems\.txt into a folder and set LECTURELIB_DATA"):
        fetch("poems")


def test_fetch_goes_another_way_when_one_fails(poems, make_archive, register):
    gone = make_archive(poems.address + "/gone.txt", "gone.txt", POEMS)
    register("poems", (gone,), (make_archive(poems.address + "/poems.txt", "poems.txt", POEMS),))
    assert list(fetch("poems")) == ["poems.txt"]
    assert poems.asked == ["/gone.txt", "/poems.txt"]
    fetch("poems")
    assert len(poems.asked) == 2


def test_fetch_brings_every_file_of_a_route_and_only_the_missing_ones(poems, cache, make_archive, register):
    poems.pages["/b.txt"] = b"violets"
    route = [make_archive(poems.address + path, path[1:], poems.pages[path]) for path in ("/poems.txt", "/b.txt")]
    register("poems", tuple(route))
    assert list(fetch("poems")) == ["poems.txt", "b.txt"]
    (cache / "b.txt").unlink()
    fetch("poems")
    assert poems.asked == ["/poems.txt", "/b.txt", "/b.txt"]


def test_fetch_replaces_a_damaged_file_and_names_it(poems, cache, capsys):
    path = fetch("poems")["poems.txt"]
    path.write_bytes(POEMS[:-1] + b"?")
    capsys.readouterr()
    assert fetch("poems")["poems.txt"].read_bytes() == POEMS
    told = capsys.readouterr().err
    assert f"{path} is damaged" in told
    assert told.count("is damaged") == 1
    assert len(poems.asked) == 2


def test_fetch_in_many_threads_asks_once(poems):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = [future.result() for future in [pool.submit(fetch, "poems") for _ in range(8)]]
    assert all(files["poems.txt"].read_bytes() == POEMS for files in found)
    assert poems.asked == ["/poems.txt"]


def test_fetch_in_many_processes_asks_once(poems, cache, make_archive):
    archive = make_archive(poems.address + "/poems.txt", "poems.txt", POEMS)
    program = textwrap.dedent(f"""
        from lecturelib.data import DATA_SETS, Archive, DataSet, fetch
        archive = {archive!r}
        DATA_SETS["poems"] = DataSet(name="poems", summary="poems", licence="CC0", routes=((archive,),))
        print(len(fetch("poems")["poems.txt"].read_bytes()))
    """)
    root = Path(lecturelib.__file__).parents[1]
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root) for _ in range(2)]
    outputs = [process.communicate(timeout=550) for process in running]
    assert [output for output, _ in outputs] == [b"280000\n"] * 2, outputs
    assert poems.asked == ["/poems.txt"]
    assert visible(cache) == ["poems.txt"]


def test_offline_folder_is_used_without_asking_anyone(poems, tmp_path, cache, monkeypatch):
    classroom = tmp_path / "classroom"
    assert fetch_to("poems", classroom) == [classroom / "poems.txt"]
    (cache / "poems.txt").unlink()
    monkeypatch.setenv("LECTURELIB_DATA", str(classroom))
    assert fetch("poems") == {"poems.txt": classroom / "poems.txt"}
    assert len(poems.asked) == 1
    assert visible(classroom) == ["poems.txt"]


def test_offline_folder_with_a_damaged_file_is_an_error_and_stays_as_it_is(poems, tmp_path, monkeypatch):
    (tmp_path / "poems.txt").write_bytes(b"weeds")
    monkeypatch.setenv("LECTURELIB_DATA", str(tmp_path))
    with pytest.raises(FetchError, match=r"poems\.txt is damaged.*replace or delete the file"):
        fetch("poems")
    assert (tmp_path / "poems.txt").read_bytes() == b"weeds"


def test_offline_folder_that_does_not_exist_is_named(poems, tmp_path, monkeypatch):
    monkeypatch.setenv("LECTURELIB_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(NotADirectoryError, match="nowhere', which is not a folder"):
        fetch("poems")


def test_cache_folder_that_cannot_be_written_is_named(poems, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LECTURELIB_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"cannot write to the folder .*file .*Set LECTURELIB_CACHE"):
        fetch("poems")


def test_unknown_name_lists_the_names_and_suggests_the_nearest():
    with pytest.raises(
        UnknownDataSetError, match=r"'Fashion-MNST'\. Did you mean 'fashion_mnist'\? There are: .*dates"
    ):
        fetch("Fashion-MNST")
    with pytest.raises(UnknownDataSetError, match=r"called 'qqq'\. There are: cifar10, cmudict"):
        find("qqq")


def test_generated_sets_need_no_files():
    assert fetch("dates") == {}
