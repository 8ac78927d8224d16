"""Rules for what comes late, over times that tables, Moodle and a platform's mark give."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lecturelib.grading.batch.intake import Found
from lecturelib.grading.batch.late import LatePolicy, Times, moment, parse_policy, read_times, roster_times
from lecturelib.grading.batch.roster import read_roster

RULES = "due 2026-11-01 23:59; grace 15 minutes; 10% per day; at most 50%; nothing after 7 days; marked 20%"


def found(student: str = "ada", **changes) -> Found:
    return Found(**{"student": student, "name": student, "path": "x", "load": bytes, **changes})


def judged(rules: str, after: timedelta, points: float = 26):
    when = datetime(2026, 11, 1, 23, 59) + after
    return parse_policy(rules).judge(found(when=when, is_platform_time=True), points)


@pytest.mark.parametrize(
    ("after", "penalty", "told"),
    [
        (timedelta(minutes=-1), 0, ""),
        (timedelta(minutes=15), 0, ""),
        (timedelta(minutes=16), 2.6, "16 minutes late, which costs 2.6 points"),
        (timedelta(days=1), 2.6, "1 day late, which costs 2.6 points"),
        (timedelta(days=1, hours=2), 5.2, "1 day 2 hours late, which costs 5.2 points"),
        (timedelta(days=6), 13, "6 days late, which costs 13 points"),
        (timedelta(days=7, minutes=1), 26, "7 days late, too late to count"),
    ],
)
def test_each_begun_day_costs_its_share_up_to_a_limit(after, penalty, told):
    lateness = judged(RULES, after)
    assert lateness.penalty == pytest.approx(penalty)
    assert (lateness.told, lateness.is_late) == (told, bool(told))


def test_points_per_hour_and_a_flat_share():
    assert judged("due 2026-11-01 23:59; 0.5 points per hour", timedelta(hours=3, minutes=1)).penalty == 2
    assert judged("due 2026-11-01 23:59; 1 point an hour; at most 3 points", timedelta(hours=30)).penalty == 3
    assert judged("due 2026-11-01 23:59; 25%", timedelta(days=40), points=8).penalty == 2


def test_mark_of_the_platform_counts_only_without_a_time():
    policy = parse_policy(RULES)
    assert policy.judge(found(late=True), 10).penalty == 2
    assert policy.judge(found(late=False), 10).penalty == 0
    on_time = found(late=True, when=datetime(2026, 11, 1, 12), is_platform_time=True)
    assert not policy.judge(on_time, 10).is_late
    students_own = found(when=datetime(2026, 12, 1), is_platform_time=False)  # a time in a folder proves nothing
    assert not policy.judge(students_own, 10).is_late


def test_mark_of_the_platform_says_nothing_about_an_extension():
    policy = replace(parse_policy(RULES), times=Times(due={"ada": datetime(2026, 11, 9)}))
    lateness = policy.judge(found(late=True), 10)
    assert (lateness.is_late, lateness.penalty) == (True, 0)
    assert "extension" in lateness.told
    assert policy.judge(found("bo", late=True), 10).penalty == 2


def test_table_gives_times_and_deadlines_of_their_own(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("student;submitted;extension\nada;2026-11-03 10:00;\nBo;2026-11-03 10:00;2026-11-04\ncy;;\n")
    people = [found(student) for student in ("ada", "bo", "cy")]
    times, nobodys = read_times(path).of_people(people)
    policy = replace(parse_policy(RULES), times=times)
    assert [policy.judge(one, 10).penalty for one in people] == [2, 0, 0]
    assert nobodys == []
    path.write_text("student,submitted\nada,yesterday\n")
    with pytest.raises(ValueError, match="ada: 'yesterday' is no time"):
        read_times(path)
    path.write_text("who,when\nada,2026-11-03\n")
    with pytest.raises(ValueError, match="needs a column `student`"):
        read_times(path)


def test_line_of_a_table_is_somebodys_by_an_id_or_by_a_name_that_one_person_has(tmp_path):
    (tmp_path / "roster.csv").write_text(
        "student,name,email\n7,Ada Lovelace,al@uni.example\n8,Jane Doe,jd@uni.example\n9,Jane Doe,jo@uni.example\n"
    )
    roster = read_roster(tmp_path / "roster.csv")
    people = [found(person.student, name=person.name) for person in roster.people]
    people.append(found("10", name="222"))  # a name that a student chose, to have somebody else's extension
    path = tmp_path / "times.csv"
    path.write_text(
        "email,due\nlovelace ada,2026-11-02\nJO@uni.example,2026-11-04\nJane Doe,2026-11-05\n222,2026-12-24\n"
    )
    times, nobodys = read_times(path).of_people(people, roster)
    assert times.due == {"9": moment("2026-11-04")}
    assert nobodys == ["lovelace ada", "Jane Doe", "222"]
    path.write_text("student,due\nada lovelace,2026-11-02\nal@uni.example,2026-11-03\n")
    with pytest.raises(ValueError, match="has 7 twice, with different times"):
        read_times(path).of_people(people, roster)
    path.write_text("student,submitted\n7,2026-11-02\n7,2026-11-03\n")
    with pytest.raises(ValueError, match="has 7 twice, with different times"):
        read_times(path)
    path.write_text("student,due\nAda,2026-11-02\nada,2026-11-03\n")
    times, nobodys = read_times(path).of_people([found("Ada"), found("ada")])
    assert (times.due["Ada"].day, times.due["ada"].day, nobodys) == (2, 3, [])


def test_extensions_in_a_table_leave_the_worksheets_times_as_they_are():
    worksheet = Times(submitted={"7": moment("2026-11-03 10:00"), "8": moment("2026-11-03 11:00")})
    both = Times(submitted={"8": moment("2026-11-01 11:00")}, due={"7": moment("2026-11-04")}).over(worksheet)
    policy = replace(parse_policy(RULES), times=both)
    assert [policy.judge(found(student), 10).is_late for student in ("7", "8")] == [False, False]
    assert replace(policy, times=worksheet).judge(found("7"), 10).penalty == 2


def test_moodles_worksheet_gives_times(tmp_path):
    path = tmp_path / "worksheet.csv"
    path.write_text(
        'Identifier,"Full name","Last modified (submission)"\n'
        '"Participant 7","Ada","Tuesday, 3 November 2026, 11:58 PM"\n"Participant 8","Bo",-\n'
    )
    times = roster_times(read_roster(path), path)
    assert times.of(found("7"))[0] == datetime(2026, 11, 3, 23, 58)
    assert times.of(found("8"))[0] is None


def test_zones_are_respected_and_a_date_is_the_end_of_its_day():
    assert moment("2026-11-01") == datetime(2026, 11, 1, 23, 59, 59)
    berlin, utc = moment("2026-11-02T00:30+01:00"), moment("2026-11-01T23:45Z")
    assert berlin < utc
    policy = LatePolicy(due=moment("2026-11-01T23:59Z"))
    early = found(when=datetime(2026, 11, 2, 0, 30, tzinfo=timezone(timedelta(hours=1))), is_platform_time=True)
    assert not policy.judge(early, 10).is_late


def test_times_without_a_zone_are_of_the_zone_in_the_rules():
    policy = parse_policy("due 2026-10-25 12:00; zone Europe/Berlin; 1 point per hour")
    assert policy.judge(found(when=moment("2026-10-25T10:59Z"), is_platform_time=True), 10).penalty == 0
    assert policy.judge(found(when=moment("2026-10-25T11:01Z"), is_platform_time=True), 10).penalty == 1
    assert policy.judge(found(when=moment("2026-10-25 11:59"), is_platform_time=True), 10).penalty == 0
    # the clocks went back that night: from noon to noon it were 25 hours
    day_before = parse_policy("due 2026-10-24 12:00; zone Europe/Berlin; 1 point per hour; at most 100 points")
    assert day_before.judge(found(when=moment("2026-10-25 12:00"), is_platform_time=True), 30).penalty == 25
    with pytest.raises(ValueError, match="no zone 'Berlin'"):
        parse_policy("due 2026-11-01; zone Berlin")


def test_times_as_platforms_write_them():
    utc = moment("2026-11-01T22:59:05Z")
    for text in ("2026-11-01 22:59:05 UTC", "2026-11-01 15:59:05 -0700", "2026-11-01 23:59:05 +01:00"):
        assert moment(text) == utc, text
    for text in ("31/10/2026 23:59", "10/31/2026 23:59", "10/31/2026 11:59 PM", "31.10.2026 23:59"):
        assert moment(text) == datetime(2026, 10, 31, 23, 59), text
    for text in ("2026-10-31 11:59 PM", "Oct 31, 2026 11:59 PM", "October 31, 2026 at 11:59pm"):
        assert moment(text) == datetime(2026, 10, 31, 23, 59), text
    assert moment("11/11/2026 08:00") == datetime(2026, 11, 11, 8)
    with pytest.raises(ValueError, match="can be read in two ways"):
        moment("11/01/2026 23:59")


@pytest.mark.parametrize(
    "rules", ["due 2026-11-01; due 2026-11-02", "10% per day; 2 points per hour", "at most 1 point; at most 5%"]
)
def test_two_clauses_of_one_kind_are_refused(rules):
    with pytest.raises(ValueError, match="only one can hold"):
        parse_policy(rules)


@pytest.mark.parametrize("rules", ["10 percent", "due soon", "due 2026-11-01; 10% per fortnight", "at most lots"])
def test_rules_that_cannot_be_read_are_named(rules):
    with pytest.raises(ValueError, match=r"--late cannot be read at|no time that can be read"):
        parse_policy(rules)
