"""What goes back to students and instructors is complete, keeps hidden tests hidden, and runs nothing."""

import csv
import io
import json
import os
import subprocess
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from lecturelib.grading.reports import page
from lecturelib.grading.reports.feedback import feedback_page, file_name
from lecturelib.grading.reports.gradebook import canvas_csv, grades_csv, moodle_csv
from lecturelib.grading.reports.gradescope import autograder_zip, results_json
from lecturelib.grading.reports.items import analyse, common_wrong_answers, items_page
from lecturelib.grading.rubric.results import Graded, Picture, SubmissionResult, TestResult
from lecturelib.grading.rubric.rubric import Rubric

EVIL = "</pre></title></style><script>window.ran = 1; alert(1)</script><img src=x onerror=alert(2)>"
SECRET = "hidden_uses_seven_heads"


@pytest.fixture
def rubric() -> Rubric:
    made = Rubric("99_small", title="A small set")
    for name in ("softmax", "attention"):
        made.exercise(name, title=name.title(), minutes=5, difficulty=1)
        made.test(name, points=2, visible=True)(named(f"{name}_formula"))
        made.test(name, points=1, visible=False)(named(SECRET))
    return made


def named(name):
    def test(submission, rng):
        """Never run here."""

    test.__name__ = name
    return test


PICTURE = Picture(got=((1.0, float("nan")),), want=((1.0, -0.5),), got_shape=(1, 2), want_shape=(1, 2))


def graded(rubric: Rubric, student: str, passes: tuple[bool, bool, bool, bool], **changes) -> Graded:
    tests = tuple(
        TestResult(
            name=test.name,
            exercise=test.exercise,
            points=test.points,
            outcome="pass" if ok else "fail",
            visible=test.visible,
            message="" if ok else f"wrong in {test.name}",
            hint="" if ok else f"hint for {test.name}",
            mistake="" if ok else "forgot_the_scale",
            picture=None if ok else PICTURE,
        )
        for test, ok in zip(rubric.tests, passes, strict=True)
    )
    result = SubmissionResult(submission=student, rubric=rubric.name, seed=1, tests=tests, seconds=0.5)
    values = {"student": student, "name": student, "path": f"{student}.ipynb", "late": False, "result": result}
    return Graded(**{**values, **changes})


def test_feedback_shows_visible_tests_and_nothing_of_hidden_ones(rubric):
    html = feedback_page(rubric, graded(rubric, "ada", (False, False, True, False)))
    assert "wrong in softmax_formula" in html
    assert "hint for softmax_formula" in html
    assert "<svg" in html
    assert "seven" not in html.lower()
    assert "2 of 6 points" in html
    assert html.count("Further tests on other inputs: 0 of 1 points.") == 2


def test_feedback_and_grades_say_which_file_was_graded(rubric):
    row = graded(rubric, "ada", (True,) * 4, path="ada/new.ipynb", note="passed over: ada/old.ipynb")
    assert "<p>File: ada/new.ipynb; passed over: ada/old.ipynb</p>" in feedback_page(rubric, row)
    (read,) = csv.DictReader(io.StringIO(grades_csv(rubric, [row])))
    assert (read["path"], read["note"]) == ("ada/new.ipynb", "passed over: ada/old.ipynb")


def test_feedback_of_an_unreadable_notebook_says_why(rubric):
    result = SubmissionResult(submission="bo", rubric=rubric.name, seed=1, reason="the notebook is not JSON")
    html = feedback_page(rubric, Graded(student="bo", name="Bo", path="bo.ipynb", late=True, result=result))
    assert "The notebook is not JSON." in html
    assert "0 of 6 points" in html
    assert "late" in html


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, attrs))


def evil_pages(rubric: Rubric) -> dict[str, str]:
    plain = graded(rubric, EVIL, (False, True, True, True))
    (first, *others) = plain.result.tests
    first = TestResult(**{**first.__dict__, "message": EVIL, "hint": EVIL, "name": EVIL, "replaced": (EVIL,)})
    result = SubmissionResult(submission=EVIL, rubric="r", seed=1, tests=(first, *others), reason=EVIL, notes=(EVIL,))
    row = Graded(student=EVIL, name=EVIL, path=EVIL, late=False, result=result)
    return {"feedback": feedback_page(rubric, row), "items": items_page(rubric, [row])}


def test_student_text_never_becomes_markup(rubric):
    for html in evil_pages(rubric).values():
        tags = Tags()
        tags.feed(html)
        assert not {tag for tag, _ in tags.seen} & {"script", "img", "iframe", "object", "a", "form"}
        assert not [name for _, attributes in tags.seen for name, _ in attributes if name.startswith("on")]


def test_student_text_does_not_run_in_a_browser(rubric, tmp_path, browser):
    for name, html in evil_pages(rubric).items():
        path = tmp_path / f"{name}.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page()
        dialogs, requests = [], []
        page.on("dialog", lambda dialog, seen=dialogs: (seen.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request, seen=requests: seen.append(request.url))
        page.goto(path.as_uri())
        assert page.evaluate("window.ran") is None
        assert dialogs == []
        assert requests == [path.as_uri()]
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_feedback_and_items_are_accessible(rubric, tmp_path, browser, axe_source, scheme):
    rows = [graded(rubric, "ada", (False, False, True, False)), graded(rubric, "bo", (True, True, True, True))]
    for name, html in {"f": feedback_page(rubric, rows[0]), "i": items_page(rubric, rows)}.items():
        path = tmp_path / f"{name}.html"
        path.write_text(html.replace("default-src 'none'", "default-src 'unsafe-inline'"), encoding="utf-8")
        page = browser.new_page(color_scheme=scheme, bypass_csp=True)
        page.goto(path.as_uri())
        page.add_script_tag(content=axe_source)
        report = page.evaluate("axe.run()")
        assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in report["violations"]] == []
        page.close()


def test_pages_fit_a_phone(rubric, tmp_path, browser):
    rows = [graded(rubric, "ada" * 30, (False, False, True, False)), graded(rubric, "bo", (True, True, True, True))]
    for name, html in {"f": feedback_page(rubric, rows[0]), "i": items_page(rubric, rows)}.items():
        path = tmp_path / f"{name}.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        page.close()


def test_file_names_are_safe_and_distinct():
    names = {file_name(student) for student in ("../../x", "x", "..\\x", "/etc/passwd", "", "é", "a" * 500, "CON")}
    assert len(names) == 8
    assert all(len(Path(name).parts) == 1 and name.isascii() and len(name) < 100 for name in names)


@pytest.mark.parametrize(
    "name", ["=1+2", "+cmd", "-x", "@sum", " =1", "\t=1", "\r=1", "＝1", "x;=1", 'x;"=1;y', "x; \t=1"]
)
def test_no_cell_computes(rubric, name):
    row = graded(rubric, name, (True, True, True, True), name=name, path=name)
    for text in (grades_csv(rubric, [row]), canvas_csv(rubric, [row])):
        for line in list(csv.reader(io.StringIO(text)))[1:]:
            assert not [cell for cell in line if cell.strip().startswith(("=", "+", "-", "@", "＝"))]
        for line in list(csv.reader(io.StringIO(text), delimiter=";"))[1:]:  # as a spreadsheet in Europe divides it
            assert not [cell for cell in line if cell.startswith("=")]


def test_no_cell_is_longer_than_tables_may_have_it(rubric):
    """A file in a student's zip may have a name of 65,535 characters, and a reason names four."""
    row = graded(rubric, "ada", (True, True, True, True), path="a" * 300_000)
    (read,) = csv.DictReader(io.StringIO(grades_csv(rubric, [row])))
    assert (read["student"], read["points"]) == ("ada", "6")
    assert 20_000 < len(read["path"]) < 32_767


def test_unseen_characters_are_shown_and_can_be_written():
    for unseen in ("\x1b[2J", "\x07", "\u202e", "\u061c", "\u2066", "\u200b", "\ud800", "\U000e0041"):
        shown = page.text(f"a{unseen}b")
        assert shown.startswith("a\N{REPLACEMENT CHARACTER}")
        shown.encode()
    assert page.text("Zoë\tO’Neil") == "Zoë\tO’Neil"


def test_grades_csv_adds_up(rubric):
    text = grades_csv(rubric, [graded(rubric, "ada", (True, False, True, True))])
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["points"], row["out_of"], row["softmax"], row["attention"]) == ("5", "6", "2", "3")


def test_canvas_csv_has_the_columns_canvas_wants(rubric):
    lines = list(csv.reader(io.StringIO(canvas_csv(rubric, [graded(rubric, "10234", (True,) * 4, name="Doe, Jane")]))))
    assert lines[0][:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert lines[1][0].strip() == "Points Possible"
    assert lines[2] == ["Doe, Jane", "10234", "", "", "", "6"]


def test_canvas_csv_keeps_sections_and_the_assignments_number(rubric):
    roster = {"SIS User ID": "S1", "SIS Login ID": "jane", "Section": "A"}
    rows = [graded(rubric, "10234", (True,) * 4, name="Doe, Jane", roster=roster)]
    header, possible, jane = csv.reader(io.StringIO(canvas_csv(rubric, rows, "Homework 8 (4711)")))
    assert header == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Homework 8 (4711)"]
    assert (possible[0], possible[-1]) == ("    Points Possible", "6")
    assert jane == ["Doe, Jane", "10234", "S1", "jane", "A", "6"]


def test_moodle_csv_has_what_its_two_importers_ask_for(rubric):
    text = moodle_csv(
        rubric, [graded(rubric, "4711", (True, True, True, False), name="Jane Doe", comment="Well done.")]
    )
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["Identifier"] == "Participant 4711"
    assert (row["Full name"], row["Grade"], row["Maximum grade"]) == ("Jane Doe", "5", "6")
    assert (row["Last modified (grade)"], row["Feedback comments"]) == ("-", "Well done.")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("the weights: shape (2, {0}), expected (2, 3)", "wrong shape: softmax formula"),
        ("the weights is {0}.5, expected 2.25", "wrong values: softmax formula"),
        ("the weights should be a tensor of shape ({0}, 3), got None", "returns nothing: softmax formula"),
        ("the loss should be a number, got a list of {0}", "wrong type: softmax formula"),
        ("no gradient reaches input {0}: .detach() cuts it", "no gradient: softmax formula"),
        ("the weights: NaN or infinity in {0} of 9 places", "NaN or infinity: softmax formula"),
        ("row {0} is not a copy of row 1", "row … is not a copy of row …"),
    ],
)
def test_unnamed_mistakes_are_grouped_by_what_they_are(rubric, message, kind):
    rows = []
    for number in (4, 17):
        row = graded(rubric, f"s{number}", (False, True, True, True))
        first = replace(row.result.tests[0], mistake="", message=message.format(number))
        rows.append(replace(row, result=replace(row.result, tests=(first, *row.result.tests[1:]))))
    ((_, what, count, _),) = common_wrong_answers(rows)
    assert (what, count) == (kind, 2)


def test_exceptions_are_grouped_by_their_type(rubric):
    rows = []
    for number in (4, 17):
        row = graded(rubric, f"s{number}", (False, True, True, True))
        said = f"softmax raised IndexError: index {number} is out of bounds (cell {number}, line 3)"
        first = replace(row.result.tests[0], outcome="error", mistake="", message=said)
        rows.append(replace(row, result=replace(row.result, tests=(first, *row.result.tests[1:]))))
    ((_, what, count, _),) = common_wrong_answers(rows)
    assert (what, count) == ("raises IndexError", 2)


def test_gradescope_json_keeps_hidden_tests_hidden(rubric):
    document = json.loads(results_json(rubric, graded(rubric, "ada", (False, False, True, True))))
    assert document["score"] == 3
    assert sum(test["max_score"] for test in document["tests"]) == 6
    hidden = [test for test in document["tests"] if test["visibility"] == "hidden"]
    assert len(hidden) == 2
    assert "seven" not in json.dumps(document)
    assert all(test["output"] == "" for test in hidden)


def test_gradescope_zip_has_scripts_that_bash_reads(tmp_path):
    rubric_file = tmp_path / "99_small.py"
    rubric_file.write_text("rubric = None\n")
    archive = zipfile.ZipFile(io.BytesIO(autograder_zip(rubric_file)))
    assert archive.read("exercise") == b"99_small"
    assert any(line.startswith("torch") for line in archive.read("requirements.txt").decode().splitlines())
    assert archive.read("rubrics/99_small.py") == b"rubric = None\n"
    assert "lecturelib/grading/rubric/rubric.py" in archive.namelist()
    for script in ("setup.sh", "run_autograder"):
        assert archive.getinfo(script).external_attr >> 16 & os.X_OK
        subprocess.run(["bash", "-n"], input=archive.read(script), check=True)


@pytest.mark.parametrize(("is_old", "used"), [(True, "python3.11"), (False, "python3")])
def test_gradescope_image_gets_a_python_that_is_new_enough(tmp_path, is_old, used):
    """Ubuntu 22.04, on which Gradescope builds, has Python 3.10."""
    tools = {"apt-get": "", "python3": f'[ "$1" != -c ] || exit {int(is_old)}', "python3.11": "", "pip": ""}
    for name, does in tools.items():
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n{does}\n')
        (tmp_path / name).chmod(0o755)
    script = (
        (Path(page.__file__).parent / "container" / "setup.sh").read_text().replace("/autograder/venv/bin/pip", "pip")
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert f"apt-get install -y -qq {used} {used}-venv" in lines
    assert f"{used} -m venv /autograder/venv" in lines
    assert lines[-1] == "pip install --quiet --requirement /autograder/source/requirements.txt"


def test_items_are_what_the_definition_says(rubric):
    rows = [
        graded(rubric, "a", (True, True, True, True)),
        graded(rubric, "b", (True, True, True, False)),
        graded(rubric, "c", (False, False, False, False)),
        graded(rubric, "d", (True, False, False, False)),
    ]
    first, *_, last = analyse(rubric, rows)
    assert first.solved == 0.75
    # Passing the first test against the points on the other three: (1, 4), (1, 3), (0, 0), (1, 0)
    assert first.discrimination == pytest.approx(np.corrcoef([1, 1, 0, 1], [4, 3, 0, 0])[0, 1])
    assert last.solved == 0.25
    assert analyse(rubric, rows[:1])[0].discrimination is None


def test_common_wrong_answers_count_students_not_tests(rubric):
    rows = [graded(rubric, name, (False, False, True, True)) for name in ("a", "b")]
    assert common_wrong_answers(rows) == [("softmax", "forgot the scale", 2, f"hint for {SECRET}")]


def test_items_page_lists_what_could_not_be_graded(rubric):
    result = SubmissionResult(submission="bo", rubric=rubric.name, seed=1, reason="not JSON")
    html = items_page(rubric, [Graded(student="bo", name="bo", path="bo.ipynb", late=False, result=result)])
    assert "Not graded" in html
    assert "not JSON" in html
