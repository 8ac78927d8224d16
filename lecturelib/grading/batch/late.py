"""What being late costs, by rules that an instructor writes down once:

    due 2026-11-01 23:59; zone Europe/Berlin; grace 15 minutes; 10% per day; at most 50%; nothing after 7 days;
    marked 20%

Clauses are divided by semicolons, and any may be left out. `due` is the deadline. `zone` is where clocks show the times
that say no zone of their own, in the rules and in every table; this machine's, if it is left out. Whoever comes within
the `grace` is on time. Then each day that has begun since the deadline, or hour, or week, costs a share of the set's
points, or `2 points per day`; `at most` limits what it costs, and `nothing after` ends it. `marked` is what it costs if
the platform marks a submission late without saying when it came; one step, if it is left out.

When somebody handed in is taken from a table (`--times`), which may also give somebody a deadline of their own, else
from Moodle's grading worksheet or its zip. Canvas's zip only says that something is late. A table names people by their
ids; a name counts only if it is one person's.
"""

import contextlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from lecturelib.grading.batch.intake import Found
from lecturelib.grading.batch.owners import same_name
from lecturelib.grading.batch.roster import IDS, NAMES, OTHER_IDS, Roster, read_table, squeezed
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
_UNKNOWN = "marked late by the platform, which knows nothing of an extension; without a time nothing is deducted"
# Moodle's in English, as its worksheet has them, then what spreadsheets write
FORMATS = (
    *("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%d %B %Y, %I:%M %p", "%d.%m.%Y %H:%M", "%Y-%m-%d %I:%M %p"),
    *(
        f"{month} %d, %Y{at} {clock}"
        for month in ("%b", "%B")
        for at in ("", " at")
        for clock in ("%I:%M %p", "%I:%M%p")
    ),
)
# The day first, or the month: taken if only one of them is a date
SLASHED = tuple(f"{date} {clock}" for date in ("%d/%m/%Y", "%m/%d/%Y") for clock in ("%H:%M", "%H:%M:%S", "%I:%M %p"))


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
    """When each student handed in, and by when they had to, by what a table calls them; see `of_people`."""

    submitted: dict[str, datetime] = field(default_factory=dict)
    due: dict[str, datetime] = field(default_factory=dict)

    def of(self, found: Found) -> tuple[datetime | None, datetime | None]:
        submitted = self.submitted.get(found.student)
        if submitted is None and found.is_platform_time:
            submitted = found.when
        return submitted, self.due.get(found.student)

    def of_people(self, found: Iterable[Found], roster: Roster | None = None) -> "tuple[Times, list[str]]":
        """The same by the ids of those who are graded; and which lines of the table are nobody's for sure.

        A line is somebody's by an id, theirs or one that the roster has for them; else by a name, if one person has it.
        """
        people = {one.student: one for one in found}
        by_id: dict[str, set[str]] = {}
        by_name: dict[str, set[str]] = {}
        for student, one in people.items():
            for known in (student, one.source):
                by_id.setdefault(same_name(known), set()).add(student)
            by_name.setdefault(squeezed(one.name), set()).add(student)
        for person in roster.people if roster else ():
            for known in person.ids:
                by_id.setdefault(same_name(known), set()).add(person.student)
            for name in person.names:
                by_name.setdefault(name, set()).add(person.student)

        def owner(line: str) -> str | None:
            called = by_name.get(squeezed(line), set()) if any(map(str.isalpha, line)) else set()
            claims = {line} & people.keys() or by_id.get(same_name(line)) or called
            return next(iter(claims)) if len(claims) == 1 else None

        made: list[dict[str, datetime]] = []
        for kept in (self.submitted, self.due):
            by_student: dict[str, datetime] = {}
            for line, when in kept.items():
                whose = owner(line)
                if whose is not None and by_student.setdefault(whose, when) != when:
                    raise ValueError(f"the table of times has {whose} twice, with different times: keep one of them")
            made.append(by_student)
        nobodys = [line for line in dict.fromkeys([*self.submitted, *self.due]) if owner(line) is None]
        return Times(submitted=made[0], due=made[1]), nobodys

    def over(self, other: "Times") -> "Times":
        """These, and another table's where this one says nothing."""
        return Times(submitted={**other.submitted, **self.submitted}, due={**other.due, **self.due})


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
    zone: tzinfo | None = None
    times: Times = Times()

    def judge(self, found: Found, points: float) -> Lateness:
        """How late a submission is, in a set of so many points. What is deducted never exceeds what was earned."""
        submitted, own = self.times.of(found)
        due = own or self.due
        if submitted is None or due is None:
            if not found.late:
                return Lateness(is_late=False)
            if own is not None:
                return Lateness(is_late=True, told=_UNKNOWN)
            penalty = min((self.marked or self.rate).of(points), self.most.of(points))
            return Lateness(is_late=True, told=f"marked late by the platform{_cost(penalty)}", penalty=penalty)
        by = self._same_clock(submitted) - self._same_clock(due)
        if by <= self.grace:
            return Lateness(is_late=False)
        if self.nothing_after is not None and by > self.nothing_after:
            return Lateness(is_late=True, told=f"{_span(by)} late, too late to count", penalty=points)
        penalty = min(math.ceil(by / self.per) * self.rate.of(points), self.most.of(points))
        return Lateness(is_late=True, told=f"{_span(by)} late{_cost(penalty)}", penalty=penalty)

    def _same_clock(self, when: datetime) -> datetime:
        """A time without a zone of its own is of the rules', else of this machine's."""
        placed = when.replace(tzinfo=self.zone) if self.zone and when.tzinfo is None else when
        return placed.astimezone(UTC)  # two times of one zone would be compared without its summer time


def parse_policy(rules: str) -> LatePolicy:
    """The policy that the rules describe; ValueError names the clause that cannot be read."""
    policy = LatePolicy()
    kinds: set[str] = set()
    for clause in filter(None, (part.strip() for part in rules.split(";"))):
        text = " ".join(clause.lower().split())
        kind = re.split(r"[ \d]", text, maxsplit=1)[0]  # "" of what begins with an amount
        if kind in kinds:
            raise ValueError(f"--late has two clauses like {clause!r}, and only one can hold: leave one of them out")
        kinds.add(kind)
        if match := re.fullmatch(r"due (.+)", text):
            policy = replace(policy, due=moment(clause[4:]))
        elif re.fullmatch(r"zone \S+", text):
            policy = replace(policy, zone=_zone(clause.split()[1]))
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
                student = line[who].strip()
                try:
                    when = moment(text)
                except ValueError as error:
                    raise ValueError(f"{path}, {student}: {error}") from error
                if kept.setdefault(student, when) != when:
                    raise ValueError(f"{path} has {student} twice, with different times: keep one of them")
    return made


def moment(text: str) -> datetime:
    """A date and time as people and platforms write it; a date alone is the end of that day."""
    text = re.sub(r" ?(?:UTC|GMT)$", "+00:00", text.strip())
    text = re.sub(r" (?=[+-]\d\d:?\d\d$)", "", text)
    try:
        found = datetime.fromisoformat(text)
        return found.replace(hour=23, minute=59, second=59) if re.fullmatch(r"\d{4}-?\d\d-?\d\d", text) else found
    except ValueError:
        pass
    readings = _read_as(text, FORMATS) or _read_as(text, SLASHED)
    if len(readings) > 1:
        raise ValueError(f"{text!r} can be read in two ways, day or month first; write it like 2026-11-01 23:59")
    if readings:
        return readings.pop()
    raise ValueError(f"{text!r} is no time that can be read; write it like 2026-11-01 23:59, or 2026-11-01T23:59+01:00")


def _read_as(text: str, forms: Iterable[str]) -> set[datetime]:
    found = set()
    for form in forms:
        with contextlib.suppress(ValueError):
            found.add(datetime.strptime(text, form))
    return found


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # not found, or no name that could be
        raise ValueError(f"--late knows no zone {name!r}; it is a name such as Europe/Berlin, or UTC") from None


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
