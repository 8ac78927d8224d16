"""A reviewer's decisions reach the journal and every file of results, and nobody else can make any."""

import csv
import http.client
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from lecturelib.cli import main
from lecturelib.grading.batch.desk import Desk, DeskServer
from lecturelib.grading.batch.intake import Found, Intake
from lecturelib.grading.batch.journal import Decision, Journal, Run
from lecturelib.grading.batch.late import parse_policy
from lecturelib.grading.batch.record import Record, best
from lecturelib.grading.batch.run import RowsDiffer, grade_batch, require_everybody
from lecturelib.grading.batch.schedule import FaultTolerantPool
from lecturelib.grading.reports.feedback import file_name
from lecturelib.grading.rubric.results import Graded, SubmissionResult, TestResult
from lecturelib.grading.rubric.rubric import Rubric

RUN = Run(exercise="words", rubric="abc", seed=7, timeout=10, memory=1024)
EVIL = "</pre></textarea><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"


def words() -> Rubric:
    rubric = Rubric("words", title="Code and words")
    rubric.exercise("double", title="Double", minutes=1, difficulty=1)
    rubric.test("double", points=3, visible=True)(doubles)
    rubric.test("double", points=1, visible=False)(doubles_in_secret)
    items = {"names the reason": 2, "gives an example": 1}
    rubric.written("why", title="Why?", minutes=2, difficulty=1, items=items)
    return rubric


def doubles(submission, rng):
    """Never run here."""


def doubles_in_secret(submission, rng):
    """Never run here."""


def fake_grade(student: str, notebook: bytes) -> str:
    """Stands for the sandbox: the notebook's first word says whether the tests pass, the rest is the written answer."""
    verdict, _, answer = notebook.decode().partition(" ")
    outcome = "pass" if verdict == "right" else "fail"
    tests = tuple(
        TestResult(name=test.name, exercise=test.exercise, points=test.points, outcome=outcome, visible=test.visible)
        for test in words().tests
    )
    result = SubmissionResult(submission=student, rubric="words", seed=1, tests=tests, answers=(("why", answer),))
    return result.to_json()


class Here:
    """An executor of this very process."""

    def submit(self, function, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


def graded(out: Path, late: str = "", **notebooks: str) -> None:
    found = [
        Found(student=student, name=student.title(), path=f"{student}.ipynb", load=text.encode, late=student == "cy")
        for student, text in notebooks.items()
    ]
    intake = Intake(found=found, people=sorted(notebooks), warnings=[])
    record = Record(rubric="abc", outline=words().outline)
    with Journal(out, RUN) as journal, FaultTolerantPool(fake_grade, lambda: nullcontext(Here()), 2) as pool:
        grade_batch(intake, out, record, pool, journal, seed=7, late=parse_policy(late) if late else None)


@pytest.fixture
def out(tmp_path) -> Path:
    graded(tmp_path, ada=f"right {EVIL}", bo="wrong because", cy="right so")
    return tmp_path


@pytest.fixture
def server(out) -> Iterator[DeskServer]:
    with Desk(out) as desk, DeskServer(desk) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def grades(out: Path) -> dict[str, dict[str, str]]:
    with open(out / "grades.csv", newline="", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def last_column(path: Path, column: str) -> dict[str, str]:
    with open(path, newline="", encoding="utf-8") as file:
        return {next(iter(row.values())): row[column] for row in csv.DictReader(file)}


def test_instructor_scores_comments_and_overrides_in_a_browser(out, server, browser, axe_source):
    page = browser.new_page(bypass_csp=True)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(server.address)
    assert "3 students, 3 with answers to read" in page.inner_text("main")
    page.click("text=Ada")
    assert EVIL in page.inner_text("pre")
    page.fill("input[aria-label='points: names the reason']", "1.5")
    page.fill("textarea[aria-label='comment: names the reason']", f"Good, but {EVIL}")
    page.fill("input[aria-label='points: gives an example']", "0")
    page.fill("input[aria-label='points: doubles']", "2")
    page.fill("textarea[aria-label='comment: doubles']", "Copied the loop.")
    page.click("text=Save")
    assert page.inner_text("[role=status]") == "Saved."
    page.reload()
    assert page.input_value("input[aria-label='points: names the reason']") == "1.5"
    assert page.input_value("textarea[aria-label='comment: doubles']") == "Copied the loop."
    assert "4.5 of 7 points" in page.inner_text("main")
    page.add_script_tag(content=axe_source)
    assert [violation["id"] for violation in page.evaluate("axe.run()")["violations"]] == []
    page.click("text=next")
    assert page.inner_text("h1") == "Bo"
    page.fill("input[aria-label='points: the points in all']", "6.25")
    page.fill("textarea[aria-label='comment: the points in all']", "Agreed in office hours.")
    page.click("text=Save")
    page.click("text=all students")
    assert "3 students, 2 with answers to read" in page.inner_text("main")
    assert page.evaluate("window.ran") is None
    assert {url.split("/")[2] for url in requests} == {server.address.split("/")[2]}
    page.close()

    table = grades(out)
    assert (table["ada"]["points"], table["ada"]["double"], table["ada"]["why"]) == ("4.5", "3", "1.5")
    assert "Copied the loop." in table["ada"]["comment"]
    assert (table["bo"]["points"], table["bo"]["comment"]) == ("6.25", "Agreed in office hours.")
    assert (table["cy"]["points"], table["cy"]["to_review"]) == ("4", "2")
    assert last_column(out / "canvas.csv", "Code and words")["Ada"] == "4.5"
    assert last_column(out / "moodle.csv", "Grade")["bo"] == "6.25"
    feedback = (out / "feedback" / file_name("ada")).read_text()
    assert "Copied the loop." in feedback
    assert "<script>" not in feedback
    gradescope = json.loads((out / "gradescope" / file_name("ada")).with_suffix(".json").read_text())
    assert gradescope["score"] == 4.5
    assert sum(test["score"] for test in gradescope["tests"]) == 4.5


def test_decisions_survive_a_regrade_and_are_of_the_version_that_was_read(out):
    with Desk(out) as desk:
        desk.save("ada", {"s2": "2", "s3": "1", "s2c": "clear"})
    with Journal(out, RUN) as journal:
        decisions = next(iter(journal.decisions.values()))
    assert decisions["why/names the reason"] == Decision(points=2, comment="clear")
    graded(out, ada=f"right {EVIL}", bo="wrong because", cy="right so")
    assert grades(out)["ada"]["points"] == "7"
    graded(out, ada="right something else", bo="wrong because", cy="right so")
    assert (grades(out)["ada"]["points"], grades(out)["ada"]["to_review"]) == ("4", "2")


def test_page_opened_before_a_change_does_not_undo_it(out, server):
    inside = f"/{server.secret}/0"
    (old,) = re.findall(r'name="version" value="(\w+)"', ask(server, "GET", inside)[1])
    assert ask(server, "POST", inside, f"token={server.token}&version={old}&s2=1.5")[0] == 303
    status, text = ask(server, "POST", inside, f"token={server.token}&version={old}&s2=&s3=1")
    assert (status, "another window" in text, 'value="1.5"' in text) == (400, True, True)
    assert grades(out)["ada"]["why"] == "1.5"
    (new,) = set(re.findall(r'name="version" value="(\w+)"', text))
    assert ask(server, "POST", inside, f"token={server.token}&version={new}&s2=1.5&s3=1")[0] == 303
    assert grades(out)["ada"]["why"] == "2.5"


def test_points_come_back_with_the_form_as_they_were_given(out, server):
    with_thirds = f"token={server.token}&s2=0.66666667"
    assert ask(server, "POST", f"/{server.secret}/0", with_thirds)[0] == 303
    assert 'value="0.66666667"' in ask(server, "GET", f"/{server.secret}/0")[1]


def test_attempt_whose_points_were_set_by_hand_counts():
    result = SubmissionResult(
        submission="ada",
        rubric="words",
        seed=1,
        tests=(TestResult(name="doubles", exercise="double", points=3, outcome="pass", visible=True),),
    )
    better = Graded(student="ada", name="Ada", path="2", late=False, result=result)
    copied = replace(better, path="1", total=0.0, comment="Copied.")
    assert best([better, copied]).path == "1"
    assert best([better, replace(copied, total=None)]).path == "2"


@pytest.mark.parametrize("points", ["-1", "2.5", "nan", "inf", "two"])
def test_points_out_of_range_are_refused_and_nothing_of_the_form_is_kept(out, points):
    with Desk(out) as desk:
        before = (out / "journal.jsonl").read_bytes()
        with pytest.raises(ValueError, match="points are from 0 to 2"):
            desk.save("ada", {"s0": "1", "s2": points})
        assert (out / "journal.jsonl").read_bytes() == before


def ask(server: DeskServer, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_nobody_without_the_secret_reads_or_changes_anything(out, server):
    inside = f"/{server.secret}/0"
    form = f"token={server.token}&s2=2"
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server, "GET", "/")[0] == 404
    assert ask(server, "GET", f"/{'x' * len(server.secret)}/")[0] == 404
    assert ask(server, "GET", f"/{server.secret}/", Host="evil.example")[0] == 403  # a name made to point here
    assert ask(server, "POST", inside, form, Origin="http://evil.example")[0] == 403
    assert ask(server, "POST", inside, "s2=2")[0] == 403
    assert ask(server, "POST", inside, "token=x&s2=2")[0] == 403
    assert ask(server, "POST", f"/{server.secret}/9", form)[0] == 400
    assert ask(server, "GET", f"/{server.secret}/../../etc/passwd")[0] == 404
    assert grades(out)["ada"]["why"] == "0"
    assert ask(server, "POST", inside, form)[0] == 303
    assert grades(out)["ada"]["why"] == "2"
    status, text = ask(server, "POST", inside, f"token={server.token}&s2=99")
    assert (status, "Not saved" in text) == (400, True)
    assert grades(out)["ada"]["why"] == "2"


def test_review_keeps_graders_out_and_says_where_there_is_nothing(out, tmp_path, capsys):
    with Desk(out):
        assert main(["review", str(out), "--no-browser"]) == 4
    assert "another grader is at work" in capsys.readouterr().err
    assert main(["review", str(tmp_path / "absent"), "--no-browser"]) == 2
    assert "nothing to review" in capsys.readouterr().err


def test_late_is_deducted_and_said_in_feedback_and_gradebook(tmp_path):
    graded(tmp_path, "10% per day; marked 50%", ada="right x", cy="right y")
    row = grades(tmp_path)["cy"]
    assert (row["points"], row["earned"], row["deducted"], row["late"]) == ("0.5", "4", "3.5", "late")
    assert row["lateness"] == "marked late by the platform, which costs 3.5 points"
    page = (tmp_path / "feedback" / file_name("cy")).read_text()
    assert "Marked late by the platform, which costs 3.5 points. 4 points earned, 3.5 deducted." in page
    assert grades(tmp_path)["ada"]["late"] == ""
    with Desk(tmp_path) as desk:
        desk.save("cy", {"s2": "2"})
    assert grades(tmp_path)["cy"]["points"] == "2.5"


def test_rows_that_are_not_the_people_are_named(out):
    require_everybody(out, ["ada", "bo", "cy"])
    with pytest.raises(RowsDiffer, match="4 people went in and 3 rows came out; no row for di; no page for di"):
        require_everybody(out, ["ada", "bo", "cy", "di"])
    with pytest.raises(RowsDiffer, match="2 people went in and 3 rows came out; a row too many for cy"):
        require_everybody(out, ["ada", "bo"])


def test_feedback_says_where_no_answer_was_found(tmp_path):
    graded(tmp_path, ada="right because", bo="right ")
    said = {name: (tmp_path / "feedback" / file_name(name)).read_text() for name in ("ada", "bo")}
    assert "There is no answer in its cell." in said["bo"]
    assert "There is no answer in its cell." not in said["ada"]
    assert "<h2>Why? 0 of 3 points</h2>" in said["bo"]
    assert "<h2>Double: 4 of 4 points</h2>" in said["bo"]
