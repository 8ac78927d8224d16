"""Whatever arrives, each student is found once, and nothing outside the folder or zip is touched."""

import io
import os
import zipfile
from pathlib import Path

import pytest

from lecturelib.grading.intake import IntakeError, find_submissions
from lecturelib.grading.notebook import NotebookError


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def reason(found) -> str:
    with pytest.raises(NotebookError) as caught:
        found.load()
    return str(caught.value)


def test_folder_names_students_by_file_or_first_folder(tmp_path):
    (tmp_path / "ada.ipynb").write_bytes(b"1")
    (tmp_path / "bo" / "work").mkdir(parents=True)
    (tmp_path / "bo" / "work" / "notebook.ipynb").write_bytes(b"2")
    (tmp_path / "bo" / "work" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "bo" / "work" / ".ipynb_checkpoints" / "notebook.ipynb").write_bytes(b"old")
    (tmp_path / "notes.txt").write_text("not a notebook")
    assert [(f.student, f.load()) for f in find_submissions(tmp_path)] == [("ada", b"1"), ("bo", b"2")]


def test_canvas_names_are_understood_and_the_latest_upload_counts(tmp_path):
    archive = write_zip(
        tmp_path / "canvas.zip",
        {
            "doejane_10_500_08_attention_layer.ipynb": b"first",
            "doejane_LATE_10_700_08_attention_layer-1.ipynb": b"second",
            "smithjo_11_600_08_attention_layer.ipynb": b"other",
        },
    )
    jane, jo = find_submissions(archive)
    assert (jane.student, jane.name, jane.late, jane.load()) == ("10", "doejane", True, b"second")
    assert "1 other file" in jane.note
    assert (jo.student, jo.late, jo.load()) == ("11", False, b"other")


def test_moodle_names_are_understood(tmp_path):
    archive = write_zip(tmp_path / "m.zip", {"Jane Doe_4711_assignsubmission_file_/my answer.ipynb": b"x"})
    (jane,) = find_submissions(archive)
    assert (jane.student, jane.name, jane.load()) == ("4711", "Jane Doe", b"x")


def test_platform_names_are_understood_in_any_script_and_form(tmp_path):
    members = {
        "李雷_12_assignsubmission_file/作业.ipynb": b"1",
        "Zoë de_la O'Neil_13_assignsubmission_file_/x.ipynb": b"2",
        "Jane Doe_14_assignsubmission_file_my notebook.ipynb": b"3",  # Moodle, when asked for no folders
        "müller_late_15_9_x.ipynb": b"4",
    }
    found = {f.student: (f.name, f.late, f.load()) for f in find_submissions(write_zip(tmp_path / "s.zip", members))}
    assert found == {
        "12": ("李雷", False, b"1"),
        "13": ("Zoë de_la O'Neil", False, b"2"),
        "14": ("Jane Doe", False, b"3"),
        "15": ("müller", True, b"4"),
    }


def test_folder_or_zip_of_one_student_is_not_taken_for_a_wrapper(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("08_attention_layer.ipynb", b"1")
        archive.writestr("scratch.ipynb", b"2")
    (ada,) = find_submissions(write_zip(tmp_path / "a.zip", {"ada.zip": inner.getvalue()}), "08_attention_layer")
    assert (ada.student, ada.load()) == ("ada", b"1")
    folder = "Jane Doe_4711_assignsubmission_file"
    members = {f"{folder}/08_attention_layer.ipynb": b"1", f"{folder}/scratch.ipynb": b"2"}
    (jane,) = find_submissions(write_zip(tmp_path / "b.zip", members), "08_attention_layer")
    assert (jane.student, jane.load()) == ("4711", b"1")


def test_name_that_is_not_utf8_costs_nobody_anything(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(b"1")
    with open(os.fsencode(folder) + b"/bo\xff.ipynb", "wb") as file:
        file.write(b"2")
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("é.ipynb", b"3")
    (folder / "cy.zip").write_bytes(inner.getvalue().replace("é".encode(), b"\xff\xff"))
    ada, bo, cy = find_submissions(folder)
    assert (ada.load(), bo.student, bo.load()) == (b"1", "bo\N{REPLACEMENT CHARACTER}", b"2")
    assert "could not be opened" in reason(cy)


def test_zip_with_one_wrapping_folder_is_read_as_if_it_had_none(tmp_path):
    archive = write_zip(
        tmp_path / "s.zip", {"all/ada.ipynb": b"1", "all/bo/x.ipynb": b"2", "__MACOSX/all/._ada.ipynb": b""}
    )
    assert [f.student for f in find_submissions(archive)] == ["ada", "bo"]


def test_a_students_own_zip_is_opened_once(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("deep/inside/answer.ipynb", b"hello")
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("again.zip", inner.getvalue())
    members = {"ada.zip": inner.getvalue(), "bo.zip": empty.getvalue(), "cy.zip": b"not a zip"}
    ada, bo, cy = find_submissions(write_zip(tmp_path / "s.zip", members))
    assert (ada.student, ada.load()) == ("ada", b"hello")
    assert "holds no notebook" in reason(bo)
    assert "could not be opened" in reason(cy)


def test_exercise_decides_between_several_notebooks(tmp_path):
    for name in ("08_attention_layer.ipynb", "09_positions.ipynb"):
        (tmp_path / "ada").mkdir(exist_ok=True)
        (tmp_path / "ada" / name).write_text(name)
    (chosen,) = find_submissions(tmp_path, "08_attention_layer")
    assert chosen.load() == b"08_attention_layer.ipynb"
    (undecided,) = find_submissions(tmp_path)
    assert "2 notebooks" in reason(undecided)


@pytest.mark.parametrize("name", ["../../evil.ipynb", "/etc/evil.ipynb", "..\\..\\evil.ipynb", "ok/../../evil.ipynb"])
def test_path_out_of_the_zip_is_refused_and_writes_nothing(tmp_path, name):
    folder = tmp_path / "in"
    folder.mkdir()
    archive = write_zip(folder / "s.zip", {name: b"x", "ada.ipynb": b"1"})
    before = sorted(tmp_path.rglob("*"))
    by_student = {f.student: f for f in find_submissions(archive)}
    assert by_student.pop("ada").load() == b"1"
    (evil,) = by_student.values()
    assert "leads out" in reason(evil)
    assert sorted(tmp_path.rglob("*")) == before


def test_links_are_refused_in_folders_and_zips(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_bytes(b"the solution")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ada.ipynb").symlink_to(secret)
    (folder / "bo").symlink_to(tmp_path, target_is_directory=True)
    (ada,) = find_submissions(folder)
    assert "symbolic link" in reason(ada)

    link = zipfile.ZipInfo("cy.ipynb")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        archive.writestr(link, str(secret))
    (cy,) = find_submissions(tmp_path / "s.zip")
    assert "symbolic link" in reason(cy)


def test_named_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "ada.ipynb")
    (ada,) = find_submissions(tmp_path)
    assert "regular file" in reason(ada)


def test_zip_bomb_and_large_file_are_refused_before_they_unfold(tmp_path):
    bomb = write_zip(tmp_path / "bomb.zip", {"ada.ipynb": bytes(100 << 20)})
    assert bomb.stat().st_size < 1 << 20
    (ada,) = find_submissions(bomb)
    assert "more than the 16 MB allowed" in reason(ada)

    folder = tmp_path / "in"
    folder.mkdir()
    with (folder / "bo.ipynb").open("wb") as file:
        file.truncate(100 << 20)
    (bo,) = find_submissions(folder)
    assert "has 100 MB, more than" in reason(bo)


def test_damaged_member_costs_only_itself(tmp_path):
    archive = write_zip(tmp_path / "s.zip", {"ada.ipynb": b"a" * 4000, "bo.ipynb": b"b" * 4000})
    data = bytearray(archive.read_bytes())
    data[40] ^= 0xFF  # inside the first member's compressed bytes
    archive.write_bytes(data)
    ada, bo = find_submissions(archive)
    assert "damaged" in reason(ada)
    assert bo.load() == b"b" * 4000


@pytest.mark.parametrize(
    ("name", "message"), [("nothing", "nothing at"), ("text.txt", "not a folder"), ("empty", "no notebook")]
)
def test_useless_source_says_what_to_give(tmp_path, name, message):
    (tmp_path / "text.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    with pytest.raises(IntakeError, match=message):
        find_submissions(tmp_path / name)
