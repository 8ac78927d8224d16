"""A whole class through `lecturelib grade`: the roster, the second run, a new seed, attempts, and late work."""

import csv
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import lecturelib
from lecturelib.cli import main
from lecturelib.grading.batch.desk import Desk
from lecturelib.grading.batch.grader import seed_for
from lecturelib.grading.batch.journal import held_run
from lecturelib.grading.check.packing import pack_rubric
from lecturelib.grading.reports.feedback import file_name
from lecturelib.grading.rubric.rubric import load_rubric

ROOT = Path(lecturelib.__file__).parent.parent
RUBRICS = Path(__file__).parent / "rubrics"
RIGHT, WRONG = "def double(x):\n    return 2 * x", "def double(x):\n    return x"
ROSTER = "Identifier,Full name,Email address,Maximum grade,Last modified (submission)\n" + "".join(
    f'Participant {number},{name},{name.lower()}@uni.example,10.00,"{when}"\n'
    for number, name, when in (
        (111, "Ada", "Tuesday, 3 November 2026, 11:58 PM"),
        (222, "Bo", "Thursday, 5 November 2026, 9:00 AM"),
        (333, "Cy", "-"),
        (444, "Di", "-"),
    )
)


def notebook(code: str, answer: str = "") -> str:
    cells = [
        {"cell_type": "code", "id": "a", "source": code, "metadata": {}, "outputs": [], "execution_count": None},
        {"cell_type": "markdown", "id": "b", "source": answer, "metadata": {"tags": ["answer:why"]}},
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def grade(source: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    asked = ["grade", str(source), "--out", str(out), "--rubrics", str(RUBRICS), "--exercise", "words"]
    return subprocess.run(
        [sys.executable, "-m", "lecturelib.cli", *asked, "--workers", "1", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )


def table(out: Path, name: str = "grades.csv") -> list[dict[str, str]]:
    with open(out / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def results(out: Path) -> list[dict]:
    lines = (out / "journal.jsonl").read_text().splitlines()
    return [entry for line in lines if "key" in (entry := json.loads(line))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Folders of which one holds a file that is called as Moodle would call another student's."""
    made = tmp_path_factory.mktemp("class")
    files = {
        "111/words.ipynb": notebook(RIGHT, "because"),
        "222/x_111_assignsubmission_file_words.ipynb": notebook(RIGHT, "so"),
        "333/words.ipynb": notebook(WRONG),
        "999/words.ipynb": notebook(RIGHT),
    }
    for name, text in files.items():
        (made / name).parent.mkdir()
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module")
def out(folder, tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("results") / "out"
    (made.parent / "roster.csv").write_text("\ufeff" + ROSTER.replace("\n", "\r\n"), encoding="utf-8", newline="")
    late = "due 2026-11-04; 20% per day"
    done = grade(folder, made, "--roster", str(made.parent / "roster.csv"), "--late", late)
    assert done.returncode == 0, done.stderr
    assert "sandbox tier" in done.stderr
    assert "not on the roster: 999" in done.stderr
    assert "handed in nothing: 444" in done.stderr
    assert done.stdout.startswith("4 submissions graded with seed ")
    assert ", 0 of them unreadable" in done.stdout
    assert f"4 with written answers to read: lecturelib review {made}" in done.stdout
    return made


def test_everybody_has_a_row_under_their_own_name(out):
    rows = {row["student"]: row for row in table(out)}
    assert {student: (row["points"], row["flag"]) for student, row in rows.items()} == {
        "111": ("3", ""),
        "222": ("2", ""),  # 20 % of 5 points for the day that has begun
        "333": ("0", ""),
        "444": ("0", "handed in nothing"),
        "999": ("3", "not on the roster"),
    }
    assert rows["444"]["reason"] == "handed in nothing"
    assert (rows["222"]["lateness"], rows["222"]["deducted"]) == ("9 hours 1 minute late, which costs 1 point", "1")
    assert len(list((out / "feedback").iterdir())) == 5


def test_moodle_gets_its_worksheet_back_with_grades_of_its_own_scale(out):
    rows = {row["Identifier"]: row for row in table(out, "moodle.csv")}
    assert list(rows) == ["Participant 111", "Participant 222", "Participant 333", "Participant 444", "Participant 999"]
    assert (rows["Participant 111"]["Grade"], rows["Participant 111"]["Maximum grade"]) == ("6", "10")
    assert {"Identifier", "Full name", "Grade", "Maximum grade", "Last modified (grade)", "Feedback comments"} <= set(
        rows["Participant 111"]
    )


def test_inputs_are_of_the_secret_the_student_and_the_content(folder, out):
    secret = held_run(out).seed
    seeds = {entry["result"]["submission"]: entry["result"]["seed"] for entry in results(out)}
    for student in ("111", "333", "999"):
        content = (folder / student / "words.ipynb").read_bytes()
        assert seeds[student] == seed_for(secret, student, content)
        assert seeds[student] != seed_for(secret, student, content + b" ")
        assert seeds[student] != seed_for(secret, "another", content)
        assert seeds[student] != seed_for(secret + 1, student, content)
    assert secret.bit_length() > 64  # so that it cannot be guessed from what a student sees


def test_second_run_with_nothing_to_do_starts_no_sandbox(folder, out):
    before = (out / "journal.jsonl").read_bytes()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = grade(folder, out, "--roster", str(out.parent / "roster.csv"))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert "sandbox tier" not in done.stderr
    assert (out / "journal.jsonl").read_bytes() == before
    seconds = spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime
    assert seconds < 1.5, f"{seconds:.1f} s of computing; torch alone takes more"
    assert len(table(out)) == 5


def test_new_seed_grades_anew_and_keeps_what_was_reviewed(folder, out):
    with Desk(out) as desk:
        desk.save("111", {"s1": "2", "s1c": "well said"})
    first = held_run(out).seed
    done = grade(folder, out, "--new-seed", "--roster", str(out.parent / "roster.csv"))
    assert done.returncode == 0, done.stderr
    assert held_run(out).seed != first
    assert len(results(out)) == 2 * 5
    rows = {row["student"]: row for row in table(out)}
    assert (rows["111"]["points"], rows["111"]["comment"]) == ("5", "names the reason: well said")


def test_best_attempt_counts_and_last_can(tmp_path):
    for attempt, code in enumerate((WRONG, RIGHT, WRONG + "  # again")):
        path = tmp_path / "in" / "ada" / f"attempt{attempt}" / "words.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(notebook(code))
        os.utime(path, (1e9 + attempt, 1e9 + attempt))
    done = grade(tmp_path / "in", tmp_path / "out", "--attempts", "best")
    assert done.returncode == 0, done.stderr
    (row,) = table(tmp_path / "out")
    assert (row["points"], row["note"], row["path"]) == ("3", "the best of 3 attempts", "ada/attempt1/words.ipynb")
    done = grade(tmp_path / "in", tmp_path / "out", "--attempts", "last")  # all are graded already
    assert done.returncode == 0, done.stderr
    assert "sandbox tier" not in done.stderr
    (row,) = table(tmp_path / "out")
    assert (row["points"], row["path"]) == ("0", "ada/attempt2/words.ipynb")


def test_names_do_not_steer_the_terminal(folder, out, tmp_path):
    (tmp_path / "in" / "\x1b[2Jeve").mkdir(parents=True)
    (tmp_path / "in" / "\x1b[2Jeve" / "words.ipynb").write_text(notebook(RIGHT))
    done = grade(tmp_path / "in", tmp_path / "out", "--roster", str(out.parent / "roster.csv"))
    assert done.returncode == 0, done.stderr
    assert "not on the roster: \N{REPLACEMENT CHARACTER}[2Jeve" in done.stderr
    assert "\x1b[2J" not in done.stderr + done.stdout
    seed = str(held_run(tmp_path / "out").seed)
    done = grade(tmp_path / "in", tmp_path / "out", "--new-seed", "--seed", seed)
    assert (done.returncode, "give another, or no --seed" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--roster", "absent.csv"), "there is no file absent.csv"),
        (("--roster", "empty.csv"), "empty.csv is empty"),
        (("--late", "10 percent"), "--late cannot be read at '10 percent'"),
        (("--times", "empty.csv"), "say with --late what being late costs"),
    ],
)
def test_mistakes_of_the_user_are_one_line(folder, tmp_path, monkeypatch, capsys, options, said):
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").write_text("")
    asked = ["grade", str(folder), "--out", "out", "--rubrics", str(RUBRICS), "--exercise", "words"]
    assert main([*asked, *options]) == 2
    assert said in capsys.readouterr().err


def test_notebook_of_another_set_is_said_at_the_top_and_in_the_terminal(tmp_path):
    packed = pack_rubric(load_rubric(RUBRICS / "small.py"))
    checks = f'from lecturelib.grading import load_checks\ncheck = load_checks("""{packed}""", globals())\n'
    files = {
        "ada": checks + "def softmax(x):\n    return x.softmax(-1)",
        "bo": "def softmax(x):\n    return x",
        "cy": "def double(x):\n    raise NotImplementedError('double is yours to write')",
        "di": checks + RIGHT,
    }
    for student, code in files.items():
        (tmp_path / "in" / student).mkdir(parents=True)
        (tmp_path / "in" / student / "words.ipynb").write_text(notebook(code, "because"))
    out = tmp_path / "out"
    done = grade(tmp_path / "in", out)
    assert done.returncode == 0, done.stderr
    looks = "this looks like a notebook of set small, and it was graded as words"
    nothing = "nothing that this set asks for is in the notebook (double); is it one of another set?"
    assert f"ada: {looks}\n" in done.stderr
    assert f"bo: {nothing}\n" in done.stderr
    assert {row["student"]: row["reason"] for row in table(out)} == {"ada": looks, "bo": nothing, "cy": "", "di": ""}
    assert [row["to_review"] for row in table(out)] == ["1"] * 4  # what is written is read all the same
    page = (out / "feedback" / file_name("ada")).read_text()
    assert page.index("This looks like a notebook of set small") < page.index("<h2>")
    assert f"ada: {looks}\n" in grade(tmp_path / "in", out).stderr  # also where nothing is left to do
