"""What being late costs, by rules that an instructor writes down once:

    due 2026-11-01 23:59; grace 15 minutes; 10% per day; at most 50%; nothing after 7 days; marked 20%

Clauses are divided by semicolons, and any may be left out. `due` is the deadline. Whoever comes within the `grace` is
on time. Then each day that has begun since the deadline, or hour, or week, costs a share of the set's points, or
`2 points per day`; `at most` limits what it costs, and `nothing after` ends it. `marked` is what it costs if the
platform marks a submission late without saying when it came; one step, if it is left out.

When somebody handed in is taken from a table (`--times`), which may also give somebody a deadline of their own, else
from Moodle's grading worksheet or its zip. Canvas's zip only says that something is late.
"""

import math
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from lecturelib.grading.batch.intake import Found
from lecturelib.grading.batch.owners import same_name
from lecturelib.grading.batch.roster import IDS, NAMES, OTHER_IDS, Roster, read_table
from lecturelib.grading.reports.page import number

SUBMITTED = (
    *("submitted", "submitted at", "submission time", "last modified (submission)", "time", "timestamp", "date"),
    *("handed in", "turned in"),
)
DUE = ("due", "deadline", "extension", "due date")
SPANS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_AMOUNT = r"(?P<amount>\d+(?:\.\d+)?) ?(?P<kind>%|points?)"
_SPAN = r"(?P<count>\d+(?:\.\d+)?) ?(?P<span>minute|hour|day|week)s?"
# Moodle's in English, as its worksheet has them, then what spreadsheets write
FORMATS = ("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%d %B %Y, %I:%M %p", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M")


@dataclass(frozen=True, kw_only=True)
class Amount:
    """Points, or a share of the points there are."""

    value: float
    is_share: bool

    def of(self, points: float) -> float:
        return self.value / 100 * points if self.is_share else self.value


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """How late something is, in words, and what that costs."""

    is_late: bool
    told: str = ""
    penalty: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Times:
    """When each student handed in, and by when they had to, where a table says so."""

    submitted: dict[str, datetime] = field(default_factory=dict)
    due: dict[str, datetime] = field(default_factory=dict)

    def of(self, found: Found) -> tuple[datetime | None, datetime | None]:
        names = [same_name(one) for one in (found.student, found.source, found.name)]
        submitted = next((self.submitted[one] for one in names if one in self.submitted), None)
        if submitted is None and found.is_platform_time:
            submitted = found.when
        return submitted, next((self.due[one] for one in names if one in self.due), None)


@dataclass(frozen=True, kw_only=True)
class LatePolicy:
    """The rules, and the times they are applied to."""

    due: datetime | None = None
    grace: timedelta = timedelta()
    rate: Amount = Amount(value=0, is_share=True)
    per: timedelta = SPANS["day"]
    most: Amount = Amount(value=100, is_share=True)
    nothing_after: timedelta | None = None
    marked: Amount | None = None
    times: Times = Times()

    def judge(self, found: Found, points: float) -> Lateness:
        """How late a submission is, in a set of so many points. What is deducted never exceeds what was earned."""
        submitted, own = self.times.of(found)
        due = own or self.due
        if submitted is None or due is None:
            if not found.late:
                return Lateness(is_late=False)
            penalty = min((self.marked or self.rate).of(points), self.most.of(points))
            return Lateness(is_late=True, told=f"marked late by the platform{_cost(penalty)}", penalty=penalty)
        by = _same_clock(submitted) - _same_clock(due)
        if by <= self.grace:
            return Lateness(is_late=False)
        if self.nothing_after is not None and by > self.nothing_after:
            return Lateness(is_late=True, told=f"{_span(by)} late, too late to count", penalty=points)
        penalty = min(math.ceil(by / self.per) * self.rate.of(points), self.most.of(points))
        return Lateness(is_late=True, told=f"{_span(by)} late{_cost(penalty)}", penalty=penalty)


def parse_policy(rules: str) -> LatePolicy:
    """The policy that the rules describe; ValueError names the clause that cannot be read."""
    policy = LatePolicy()
    for clause in filter(None, (part.strip() for part in rules.split(";"))):
        text = " ".join(clause.lower().split())
        if match := re.fullmatch(r"due (.+)", text):
            policy = replace(policy, due=moment(clause[4:]))
        elif match := re.fullmatch(rf"grace (?:of )?{_SPAN}", text):
            policy = replace(policy, grace=_timedelta(match))
        elif match := re.fullmatch(rf"{_AMOUNT} (?:per|an?|each|/) ?(?P<span>minute|hour|day|week)", text):
            policy = replace(policy, rate=_amount(match), per=SPANS[match["span"]])
        elif match := re.fullmatch(rf"{_AMOUNT}", text):
            policy = replace(policy, rate=_amount(match), per=timedelta(days=36500))
        elif match := re.fullmatch(rf"at most {_AMOUNT}", text):
            policy = replace(policy, most=_amount(match))
        elif match := re.fullmatch(rf"nothing after {_SPAN}", text):
            policy = replace(policy, nothing_after=_timedelta(match))
        elif match := re.fullmatch(rf"marked {_AMOUNT}", text):
            policy = replace(policy, marked=_amount(match))
        else:
            raise ValueError(
                f"--late cannot be read at {clause!r}; write it like 'due 2026-11-01 23:59; grace 15 minutes; "
                "10% per day; at most 50%; nothing after 7 days; marked 20%'"
            )
    return policy


def read_times(path: Path) -> Times:
    """When each student handed in, from a table with a column such as `submitted`, and one such as `due` if need be."""
    headings, *lines = read_table(path)
    return _times(
        [{same_name(heading): cell for heading, cell in zip(headings, line, strict=False)} for line in lines], path
    )


def roster_times(roster: Roster, path: Path) -> Times:
    """When each student handed in, where the roster is Moodle's grading worksheet."""
    lines = [{same_name(heading): cell for heading, cell in person.cells.items()} for person in roster.people]
    found = [
        {"student": person.student, "submitted": line["last modified (submission)"]}
        for person, line in zip(roster.people, lines, strict=True)
        if line.get("last modified (submission)", "-").strip() not in ("", "-")
    ]
    return _times(found, path) if found else Times()


def _times(lines: list[dict[str, str]], path: Path) -> Times:
    who = next((one for one in (*IDS, *OTHER_IDS, *NAMES) if lines and one in lines[0]), None)
    submitted = next((one for one in SUBMITTED if lines and one in lines[0]), None)
    due = next((one for one in DUE if lines and one in lines[0]), None)
    if who is None or (submitted is None and due is None):
        raise ValueError(f"{path} needs a column `student` and one `submitted` or `due`; its first line names none")
    made = Times()
    for line in lines:
        for column, kept in ((submitted, made.submitted), (due, made.due)):
            if column and (text := line.get(column, "").strip()) not in ("", "-"):
                try:
                    kept[same_name(line[who])] = moment(text)
                except ValueError as error:
                    raise ValueError(f"{path}, {line[who]}: {error}") from error
    return made


def moment(text: str) -> datetime:
    """A date and time as people and platforms write it; a date alone is the end of that day."""
    text = text.strip()
    try:
        found = datetime.fromisoformat(text)
        return found.replace(hour=23, minute=59, second=59) if re.fullmatch(r"\d{4}-?\d\d-?\d\d", text) else found
    except ValueError:
        pass
    for form in FORMATS:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is no time that can be read; write it like 2026-11-01 23:59, or 2026-11-01T23:59+01:00")


def _same_clock(when: datetime) -> datetime:
    """A time without a zone is this machine's."""
    return when.astimezone()


def _amount(match: re.Match[str]) -> Amount:
    return Amount(value=float(match["amount"]), is_share=match["kind"] == "%")


def _timedelta(match: re.Match[str]) -> timedelta:
    return float(match["count"]) * SPANS[match["span"]]


def _cost(penalty: float) -> str:
    return f", which costs {number(penalty)} point{'' if penalty == 1 else 's'}" if penalty else ""


def _span(by: timedelta) -> str:
    minutes = math.ceil(by / SPANS["minute"])
    days, hours, rest = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [(days, "day"), (hours, "hour"), (0 if days else rest, "minute")]
    return " ".join(f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in parts if count)
