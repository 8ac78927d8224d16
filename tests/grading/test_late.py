"""Rules for what comes late, over times that tables, Moodle and a platform's mark give."""

from datetime import datetime, timedelta, timezone

import pytest

from lecturelib.grading.batch.intake import Found
from lecturelib.grading.batch.late import LatePolicy, moment, parse_policy, read_times, roster_times
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


def test_table_gives_times_and_deadlines_of_their_own(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("student;submitted;extension\nada;2026-11-03 10:00;\nBo;2026-11-03 10:00;2026-11-04\ncy;;\n")
    policy = LatePolicy(**{**parse_policy(RULES).__dict__, "times": read_times(path)})
    assert [policy.judge(found(student), 10).penalty for student in ("ada", "bo", "cy")] == [2, 0, 0]
    path.write_text("student,submitted\nada,yesterday\n")
    with pytest.raises(ValueError, match="ada: 'yesterday' is no time"):
        read_times(path)
    path.write_text("who,when\nada,2026-11-03\n")
    with pytest.raises(ValueError, match="needs a column `student`"):
        read_times(path)


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


@pytest.mark.parametrize("rules", ["10 percent", "due soon", "due 2026-11-01; 10% per fortnight", "at most lots"])
def test_rules_that_cannot_be_read_are_named(rules):
    with pytest.raises(ValueError, match=r"--late cannot be read at|no time that can be read"):
        parse_policy(rules)
