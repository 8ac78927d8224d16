"""Whatever arrives, each student is found once, and nothing outside the folder or zip is touched."""

import errno
import io
import os
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.grading.batch import archive as archives
from lecturelib.grading.batch.archive import IntakeError
from lecturelib.grading.batch.intake import find_submissions, take_in
from lecturelib.grading.notebook import NotebookError
from lecturelib.grading.reports.feedback import file_name
from lecturelib.grading.reports.gradebook import cell


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
    assert jane.note == "passed over: doejane_10_500_08_attention_layer.ipynb"
    assert (jo.student, jo.late, jo.load()) == ("11", False, b"other")


def test_canvas_names_of_groups_and_of_anonymous_grading_are_understood(tmp_path):
    members = {"team_a_12_500_x.ipynb": b"1", "LATE_anon_x7Kq2_501_x.ipynb": b"2", "anon_x7Kq3_502_x.ipynb": b"3"}
    found = find_submissions(write_zip(tmp_path / "canvas.zip", members))
    assert [(f.student, f.name, f.late) for f in found] == [
        ("12", "team_a", False),
        ("anon_x7Kq2", "anon_x7Kq2", True),
        ("anon_x7Kq3", "anon_x7Kq3", False),
    ]


def test_files_deep_in_a_students_folder_stay_theirs_whatever_their_names(tmp_path):
    (tmp_path / "ada" / "files").mkdir(parents=True)
    (tmp_path / "ada" / "files" / "x_10_500_08_attention_layer.ipynb").write_bytes(b"1")
    (tmp_path / "ada" / "files" / "y_11_501_scratch.ipynb").write_bytes(b"2")
    (ada,) = find_submissions(tmp_path, "08_attention_layer")
    assert (ada.student, ada.load()) == ("ada", b"1")


def test_names_that_only_look_like_canvas_names_do_not_merge_students(tmp_path):
    for student in ("ada", "bo"):
        (tmp_path / f"{student}_2026_08_attention.ipynb").write_text(student)
    assert [(f.student, f.load()) for f in find_submissions(tmp_path)] == [
        ("ada_2026_08_attention", b"ada"),
        ("bo_2026_08_attention", b"bo"),
    ]


def test_whoever_handed_in_no_notebook_is_listed_with_the_reason(tmp_path):
    canvas = {
        "right_10_500_x.ipynb": b"1",
        "script_11_501_answer.py": b"x = 1",
        "typed_LATE_12_text.html": b"<p>see my drive</p>",
        "linked_13_link.html": b"",
    }
    found = {f.student: f for f in find_submissions(write_zip(tmp_path / "c.zip", canvas))}
    assert found.pop("10").load() == b"1"
    assert {s: reason(f) for s, f in found.items()} == dict.fromkeys(
        ("11", "12", "13"), "it is not a notebook (.ipynb)"
    )
    assert (found["12"].name, found["12"].late) == ("typed", True)
    moodle = {
        "Jane Doe_14_assignsubmission_onlinetext_/onlinetext.html": b"",
        "Jo Doe_15_assignsubmission_file_/x.ipynb": b"2",
        "Jo Doe_15_assignsubmission_onlinetext_/onlinetext.html": b"",
        "Bo Doe_16_assignsubmission_file_/a.txt": b"",
        "Bo Doe_16_assignsubmission_file_/b.txt": b"",
        "Cy Doe_17_assignsubmission_file_/": b"",
        "Di Doe_18_assignsubmission_file_/.vscode/settings.json": b"",
        "Ed Doe_19_assignsubmission_file_/.DS_Store": b"",
        "__MACOSX/Jo Doe_15_assignsubmission_file_/._x.ipynb": b"",
    }
    found = {f.student: f for f in find_submissions(write_zip(tmp_path / "m.zip", moodle))}
    assert (found["15"].note, found.pop("15").load()) == ("", b"2")
    assert {student: reason(f) for student, f in found.items()} == {
        "14": "it is not a notebook (.ipynb)",
        "16": "there is no notebook (.ipynb), only Bo Doe_16_assignsubmission_file_/a.txt, "
        "Bo Doe_16_assignsubmission_file_/b.txt",
        "17": "the folder is empty",
        "18": "it is not a notebook (.ipynb)",
        "19": "the folder is empty",
    }


def test_name_of_a_platform_is_believed_only_where_all_have_that_form(tmp_path):
    """What one student calls a file moves nobody: here 222 hands in under a name that Moodle would give to 111."""
    for student, name in {
        "111": "a.ipynb",
        "222": "x_111_assignsubmission_file_08.ipynb",
        "333": "y_111_5_b.ipynb",
    }.items():
        (tmp_path / "folders" / student).mkdir(parents=True)
        (tmp_path / "folders" / student / name).write_text(student)
    found = find_submissions(tmp_path / "folders")
    assert [(f.student, f.load()) for f in found] == [("111", b"111"), ("222", b"222"), ("333", b"333")]
    members = {
        "ada.ipynb": b"1",
        "x_111_assignsubmission_file_08.ipynb": b"2",
        "y_111_5_b.ipynb": b"3",
        "111.ipynb": b"4",
    }
    intake = take_in(write_zip(tmp_path / "loose.zip", members))
    assert [f.student for f in intake.found] == ["111", "ada", "x_111_assignsubmission_file_08", "y_111_5_b"]
    assert "called as a platform would" in intake.warnings[0]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        # the student's part of a name comes last and is never read
        (["Bo_222_assignsubmission_file_x_111_assignsubmission_file_y.ipynb"], ["222"]),
        (["Bo_222_assignsubmission_file_/x_111_assignsubmission_file_/y.ipynb"], ["222"]),
        # somebody who is called so that the name holds another's number: never put with that other's work
        (["ada_1_77_x.ipynb", "ada_1_222_900_x.ipynb"], ["1", "ada_1_222_900_x"]),
        (["ada_1_77_10_t.ipynb", "ada_1_222_900_10_t.ipynb"], ["1", "222"]),
        (["ada_1_77_x.ipynb", "bo_1_78_x.ipynb"], ["ada_1_77_x", "bo_1_78_x"]),
        (
            ["Ada_1_assignsubmission_file_/x.ipynb", "Ada_1_assignsubmission_file_2_assignsubmission_file_/x.ipynb"],
            ["1", "2"],
        ),
        (["ada_7_8_x.ipynb", "ada_LATE_7_9_x-1.ipynb"], ["7"]),
        (["ada_7_8_x.ipynb", "../x_7_9_x.ipynb"], ["../x_7_9_x.ipynb", "7"]),
    ],
)
def test_every_person_stays_who_they_are(tmp_path, names, expected):
    archive = write_zip(tmp_path / "s.zip", {name: name.encode() for name in names})
    assert [f.student for f in find_submissions(archive, "10_t")] == expected


NAME = st.text(st.characters(exclude_characters="/\\\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
FORGED = st.builds("{}_{}_assignsubmission_file_{}".format, NAME, st.integers(1, 4), NAME) | st.builds(
    "{}_{}_{}_{}".format, NAME, st.integers(1, 4), st.integers(1, 99), NAME
)
FILE = (NAME | FORGED).filter(lambda name: not name.startswith("._"))  # what a Mac leaves beside a file is no work
FOLDER = (st.integers(1, 4).map(str) | FILE).filter(lambda name: name.strip("."))


@given(st.dictionaries(FOLDER, FILE, min_size=2, max_size=6))
def test_whatever_folders_and_files_are_called_each_folder_has_its_own_row(files):
    """One plain folder is enough that no name is taken for a platform's."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for folder, name in {**files, "plain": "x"}.items():
            archive.writestr(f"{folder}/{name}.ipynb", folder)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "s.zip")
        path.write_bytes(content.getvalue())
        intake = take_in(path)
        assert len(intake.people) == len(set(intake.people)) == len({cell(one) for one in intake.people})
        assert sorted(found.load().decode() for found in intake.found) == sorted({*files, "plain"})


def test_people_who_only_look_the_same_are_not_one(tmp_path):
    """Composed and decomposed accents, capitals, spaces, marks nobody sees, bytes that are no text."""
    names = ["Zo\u00eb", "Zoe\u0308", "ada", "Ada", "ada ", "a\u200bb", "a\u200eb", "x" * 240]
    for name in [*names, b"bo\xff", b"bo\xfe"]:
        folder = os.path.join(os.fsencode(tmp_path), name if isinstance(name, bytes) else name.encode())
        os.mkdir(folder)
        with open(folder + b"/x.ipynb", "wb") as file:
            file.write(b"1")
    intake = take_in(tmp_path)
    assert len({f.student for f in intake.found}) == len(intake.people) == 10
    assert len({cell(f.student) for f in intake.found}) == 10
    assert len({file_name(f.student) for f in intake.found}) == 10
    assert sum("another is called almost the same" in f.flag for f in intake.found) == 5


def test_file_folder_and_zip_of_one_name_are_kept_apart_and_flagged(tmp_path):
    members = {"ada.ipynb": b"1", "ada/x.ipynb": b"2", "bo.ipynb": b"3", "bo.py": b"", "cy.pdf": b"", "notes.txt": b""}
    intake = take_in(write_zip(tmp_path / "s.zip", members))
    assert [f.student for f in intake.found] == ["ada", "ada.ipynb", "bo", "cy"]
    assert [bool(f.flag) for f in intake.found] == [True, True, False, False]
    assert any("notes.txt" in said for said in intake.warnings)


def test_same_name_twice_in_a_zip_is_the_later_one(tmp_path):
    archive = write_zip(tmp_path / "s.zip", {"ada/x.ipynb": b"1", "ada/y.ipynb": b"2", "bo/x.ipynb": b"3"})
    archive.write_bytes(archive.read_bytes().replace(b"y.ipynb", b"x.ipynb"))
    assert [(f.student, f.load()) for f in find_submissions(tmp_path / "s.zip")] == [("ada", b"2"), ("bo", b"3")]


def test_loose_files_of_one_name_lose_nobody(tmp_path):
    """As a platform makes them that keeps the names students chose; equal copies are one."""
    members = {"08.ipynb": b"1", "0b.ipynb": b"2", "0c.ipynb": b"1", "08 (2).ipynb": b"3", "bo/x.ipynb": b"4"}
    archive = write_zip(tmp_path / "s.zip", members)
    archive.write_bytes(archive.read_bytes().replace(b"0b.ipynb", b"08.ipynb").replace(b"0c.ipynb", b"08.ipynb"))
    found = {f.student: f.load() for f in find_submissions(archive)}
    assert found == {"08": b"1", "08 (2)": b"3", "08 (3)": b"2", "bo": b"4"}


def test_attempts_are_told_apart_by_time_or_all_taken(tmp_path):
    for attempt, content in enumerate((b"old", b"new")):
        path = tmp_path / "ada" / f"attempt{attempt}" / "x.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        os.utime(path, (1e9 + attempt, 1e9 + attempt))
    (undecided,) = find_submissions(tmp_path)
    assert "2 notebooks" in reason(undecided)
    assert [f.load() for f in take_in(tmp_path, attempts="last").found] == [b"new"]
    assert [f.load() for f in take_in(tmp_path, attempts="best").found] == [b"new", b"old"]
    path.write_bytes(b"old")
    assert [f.load() for f in take_in(tmp_path, attempts="best").found] == [b"old"]
    assert [f.load() for f in find_submissions(tmp_path)] == [b"old"]  # the same twice is one


def test_folder_without_a_notebook_is_listed_and_what_lies_loose_is_not(tmp_path):
    for name in (
        "ada/x.ipynb",
        "ada/data.csv",
        "bo/answer.py",
        "cy/.DS_Store",
        "di.py",
        "roster.csv",
        ".vscode/x.json",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "grades" / "feedback").mkdir(parents=True)
    (tmp_path / "grades" / "journal.jsonl").write_text("")
    ada, bo, cy, di = find_submissions(tmp_path, out=tmp_path / "ada" / ".." / "grades")
    assert (ada.student, ada.load(), ada.note) == ("ada", b"", "")
    assert [(f.student, reason(f)) for f in (bo, cy, di)] == [
        ("bo", "it is not a notebook (.ipynb)"),
        ("cy", "the folder is empty"),
        ("di", "it is not a notebook (.ipynb)"),
    ]


def test_results_among_the_submissions_are_refused(tmp_path):
    (tmp_path / "ada.ipynb").write_bytes(b"1")
    with pytest.raises(IntakeError, match="give --out a folder other than"):
        find_submissions(tmp_path, out=tmp_path)


def test_notebook_counts_although_a_zip_of_data_lies_beside_it(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "x.ipynb").write_bytes(b"1")
    write_zip(tmp_path / "ada" / "data.zip", {"data.csv": b""})
    (ada,) = find_submissions(tmp_path)
    assert ada.load() == b"1"


def test_folder_that_cannot_be_read_is_listed(tmp_path, monkeypatch):
    for name in ("ada", "bo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.ipynb").write_bytes(b"1")
    scandir = os.scandir

    def refuse_bo(path):  # a superuser, who may run this test, can read everything
        if Path(path).name == "bo":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse_bo)
    ada, bo = find_submissions(tmp_path)
    assert (ada.load(), bo.student) == (b"1", "bo")
    assert reason(bo) == "the folder cannot be read: Permission denied"


def test_damaged_zip_is_one_sentence(tmp_path):
    archive = write_zip(tmp_path / "s.zip", {"ada.ipynb": b"1"})
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\x01\x02")] = 0
    archive.write_bytes(data)
    with pytest.raises(IntakeError, match="is damaged, download it again"):
        find_submissions(archive)


def test_moodle_names_are_understood(tmp_path):
    archive = write_zip(tmp_path / "m.zip", {"Jane Doe_4711_assignsubmission_file_/my answer.ipynb": b"x"})
    (jane,) = find_submissions(archive)
    assert (jane.student, jane.name, jane.load()) == ("4711", "Jane Doe", b"x")


def test_platform_names_are_understood_in_any_script_and_form(tmp_path):
    members = {
        "李雷_12_assignsubmission_file/作业.ipynb": b"1",
        "Zoë de_la O'Neil_13_assignsubmission_file_/x.ipynb": b"2",
        "Jane Doe_14_assignsubmission_file_my notebook.ipynb": b"3",  # Moodle, when asked for no folders
    }
    found = {f.student: (f.name, f.late, f.load()) for f in find_submissions(write_zip(tmp_path / "s.zip", members))}
    assert found == {
        "12": ("李雷", False, b"1"),
        "13": ("Zoë de_la O'Neil", False, b"2"),
        "14": ("Jane Doe", False, b"3"),
    }
    (found,) = find_submissions(write_zip(tmp_path / "c.zip", {"müller_late_15_9_x.ipynb": b"4"}))
    assert (found.student, found.name, found.late) == ("15", "müller", True)


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


def test_zip_with_one_wrapping_folder_of_its_name_is_read_as_if_it_had_none(tmp_path):
    archive = write_zip(
        tmp_path / "all.zip", {"all/ada.ipynb": b"1", "all/bo/x.ipynb": b"2", "__MACOSX/all/._ada.ipynb": b""}
    )
    assert [f.student for f in find_submissions(archive)] == ["ada", "bo"]
    archive = write_zip(
        tmp_path / "All (2).zip",  # as a browser calls a second download
        {"all/": b"", "all/ada/x.ipynb": b"1", "all/bo/x.ipynb": b"2", "all/cy/x.py": b"", "README": b""},
    )
    assert [f.student for f in find_submissions(archive)] == ["ada", "bo", "cy"]
    archive = write_zip(tmp_path / "u.zip", {"ada/x.ipynb": b"1", "ada/data.csv": b""})
    assert [f.student for f in find_submissions(archive)] == ["ada"]


def test_only_student_of_a_zip_does_not_become_those_whom_their_folders_name(tmp_path):
    archive = write_zip(tmp_path / "s.zip", {"222/111/x.ipynb": b"1", "222/333/x.ipynb": b"2", "222/444.zip": b""})
    intake = take_in(archive)
    assert intake.people == ["222"]
    assert intake.warnings == [
        "all is in one folder, 222, so it is one student's; if it is a class, unpack s.zip and grade that folder, or "
        "call the zip 222.zip"
    ]


def test_a_students_own_zip_is_opened_and_the_zips_in_it(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("deep/inside/answer.ipynb", b"hello")
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("again.zip", inner.getvalue())
    members = {"ada.zip": inner.getvalue(), "bo.zip": empty.getvalue(), "cy.zip": b"not a zip"}
    ada, bo, cy = find_submissions(write_zip(tmp_path / "s.zip", members))
    assert (ada.student, ada.load()) == ("ada", b"hello")
    assert bo.load() == b"hello"
    assert "could not be opened" in reason(cy)


def test_exercise_decides_between_several_notebooks(tmp_path):
    for name in ("08_attention_layer.ipynb", "09_positions.ipynb"):
        (tmp_path / "ada").mkdir(exist_ok=True)
        (tmp_path / "ada" / name).write_text(name)
    (chosen,) = find_submissions(tmp_path, "08_attention_layer")
    assert chosen.load() == b"08_attention_layer.ipynb"
    (undecided,) = find_submissions(tmp_path)
    assert "2 notebooks" in reason(undecided)


def test_notebook_called_as_the_exercise_counts_before_others_in_a_zip_called_so(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("08_attention_layer.ipynb", b"1")
        archive.writestr("scratch.ipynb", b"2")
    members = {"ada/08_attention_layer.zip": inner.getvalue(), "bo/08_attention_layer/a.ipynb": b"3", "bo/b.ipynb": b""}
    ada, bo = find_submissions(write_zip(tmp_path / "s.zip", members), "08_attention_layer")
    assert (ada.load(), ada.note) == (b"1", "passed over: ada/08_attention_layer.zip/scratch.ipynb")
    assert bo.load() == b"3"


def test_zip_made_on_a_mac_keeps_peoples_names(tmp_path):
    """Its names are in UTF-8, and it does not say so."""
    names = {"Zo** M**ller": "Zoë Müller", "***": "李", "ada": "ada"}
    archive = write_zip(tmp_path / "s.zip", {f"{name}/x.ipynb": b"1" for name in names})
    data = archive.read_bytes()
    for name, real in names.items():
        data = data.replace(name.encode(), real.encode())
    archive.write_bytes(data)
    found = find_submissions(archive)
    assert {one.student: one.load() for one in found} == {"Zoë Müller": b"1", "李": b"1", "ada": b"1"}


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
    ada, bo = find_submissions(folder)
    assert "symbolic link" in reason(ada)
    assert reason(bo) == "the folder is a symbolic link, which is not followed"

    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        for name, target in (("cy.ipynb", secret), ("di", tmp_path)):
            link = zipfile.ZipInfo(name)
            link.external_attr = 0o120777 << 16
            archive.writestr(link, str(target))
    cy, di = find_submissions(tmp_path / "s.zip")
    assert "symbolic link" in reason(cy)
    assert reason(di) == reason(bo)


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


def test_zip_of_very_many_files_is_not_listed(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for index in range(1000):
            archive.writestr(zipfile.ZipInfo(f"{index}{'x' * 9000}"), b"")
        archive.writestr("x.ipynb", b"1")
    (ada,) = find_submissions(write_zip(tmp_path / "s.zip", {"ada.zip": inner.getvalue()}))
    assert "its list of files has 8 MB" in reason(ada)


def test_zip_of_very_many_notebooks_is_not_read_again_for_each(tmp_path, monkeypatch):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for index in range(500):
            archive.writestr(f"{index}.ipynb", b"1")
    opened = []
    monkeypatch.setattr(
        archives, "_inner_zip", lambda content: opened.append(1) or zipfile.ZipFile(io.BytesIO(content))
    )
    (ada,) = find_submissions(write_zip(tmp_path / "s.zip", {"ada.zip": inner.getvalue()}))
    assert "there are 500 notebooks" in reason(ada)
    assert len(opened) < 50


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
