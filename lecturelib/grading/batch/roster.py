"""The list of the class, so that everybody has a row: whoever handed in nothing, and no stranger unseen.

Read as Canvas and Moodle export it, or as a plain table with a heading such as `student,name`:

- Canvas, Grades > Export: Student, ID, SIS User ID, SIS Login ID, Section. ID is the number in its downloads' names.
- Moodle, Download grading worksheet: Identifier ("Participant 4711", the number in its downloads' names), Full name,
  Email address, Last modified (submission), Maximum grade. Also its list of participants or its grades: First name,
  Last name or Surname, ID number, Email address.
- Plain: one line for each person; without a heading the first column is the student and the second the name.

Commas, semicolons or tabs; with or without a byte order mark; UTF-8, UTF-16 or Windows-1252, as old spreadsheets have
it.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from lecturelib.grading.batch.archive import refuse
from lecturelib.grading.batch.intake import Found, Intake
from lecturelib.grading.batch.owners import same_name

MOST_BYTES = 16 << 20
STRANGER = "not on the roster"
NOTHING = "handed in nothing"

# What a heading may be called, in the order in which it is preferred as the id
IDS = (
    *("student", "student id", "identifier", "id", "user id", "user", "username", "login", "matriculation number"),
    *("student number", "student no.", "student no", "studentid", "student_id", "sid", "netid", "net id"),
    *("registration number", "matrikelnummer"),
)
OTHER_IDS = (
    *("sis user id", "sis login id", "id number", "email address", "email", "e-mail", "mail", "e-mail address"),
    *("id-nummer", "e-mail-adresse"),
)
NAMES = ("full name", "name", "student name", "vollständiger name")
FIRST_NAMES = ("first name", "firstname", "given name", "vorname")
LAST_NAMES = ("last name", "lastname", "surname", "family name", "nachname")


@dataclass(frozen=True, kw_only=True)
class Person:
    """One line of the roster.

    Args:
        student: what identifies them
        name: how to address them
        ids: all else that identifies them: SIS id, login, email
        cells: the line as it was, by heading, for files that go back to where it came from
    """

    student: str
    name: str
    ids: frozenset[str] = frozenset()
    cells: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def names(self) -> set[str]:
        """Ways in which a folder may be called after them."""
        shown = {self.name}
        if "," in self.name:
            last, _, first = self.name.partition(",")
            shown.add(f"{first.strip()} {last.strip()}")
        return {squeezed(one) for one in shown} - {""}


def squeezed(name: str) -> str:
    """Only letters and digits, as Canvas has a name in its downloads: Doe, Jane is doejane."""
    return "".join(c for c in unicodedata.normalize("NFC", name).casefold() if c.isalnum())


@dataclass(frozen=True)
class Roster:
    """Everybody in the class, each once."""

    people: tuple[Person, ...]
    is_canvas: bool = False
    is_moodle: bool = False

    @cached_property
    def _by_id(self) -> dict[str, list[Person]]:
        return _index((same_name(one), person) for person in self.people for one in {person.student, *person.ids})

    @cached_property
    def _by_name(self) -> dict[str, list[Person]]:
        return _index((one, person) for person in self.people for one in person.names)

    def by_id(self, student: str) -> list[Person]:
        """Whose id it is; of several whose ids differ in capitals or spaces, the one who writes it so."""
        alike = self._by_id.get(same_name(student), [])
        return [one for one in alike if student in {one.student, *one.ids}] or alike

    def by_name(self, name: str) -> list[Person]:
        return self._by_name.get(squeezed(name), [])

    def has(self, name: str) -> bool:
        return bool(self.by_id(name) or self.by_name(name))

    def call(self, intake: Intake) -> Intake:
        """The intake with the roster's ids and names, a line for whoever handed in nothing, and strangers flagged.

        Nobody is matched by a guess: an id must be one person's, and where there is none, a name must be. Of two that
        claim one person the one with the id is believed, and of two with the name neither.
        """
        claims: dict[str, list[str]] = {}
        matched: dict[str, Person] = {}
        firsts = {found.student: found for found in reversed(intake.found)}
        for look_up in (self.by_id, self.by_name):
            wanted: dict[str, list[str]] = {}
            for student, found in firsts.items():
                people = look_up(student if look_up == self.by_id else found.name)
                if student not in matched and people:
                    claims.setdefault(student, []).extend(person.student for person in people)
                if student not in matched and len(people) == 1 and not self._is_doubtful(found):
                    wanted.setdefault(people[0].student, []).append(student)
            taken = {person.student for person in matched.values()}
            for one, students in wanted.items():
                if len(students) == 1 and one not in taken:
                    matched[students[0]] = self._by_student[one]
        doubtful = {one: student for student, people in claims.items() if student not in matched for one in people}
        there = {person.student for person in matched.values()}
        called = [_called(one, matched.get(one.student), claims.get(one.student, [])) for one in intake.found]
        absent = [_absent(one, doubtful.get(one.student)) for one in self.people if one.student not in there]
        everybody = sorted([*called, *absent], key=lambda one: one.student)
        strangers = [student for student in firsts if student not in matched]
        said = [f"{STRANGER}: {', '.join(sorted(strangers))}"] if strangers else []
        said += [f"{NOTHING}: {', '.join(sorted(one.student for one in absent))}"] if absent else []
        ids = sorted({one.student for one in everybody})
        return Intake(found=everybody, people=ids, warnings=[*intake.warnings, *said])

    def _is_doubtful(self, found: Found) -> bool:
        """The roster settles a name that can be read in two ways, if it has only one of them; and one that is almost
        another's, if it has just this one."""
        if found.others:
            return any(map(self.by_id, found.others))
        return bool(found.flag) and found.student not in self._by_student

    @cached_property
    def _by_student(self) -> dict[str, Person]:
        return {person.student: person for person in self.people}


def _index(pairs: Iterable[tuple[str, Person]]) -> dict[str, list[Person]]:
    made: dict[str, list[Person]] = {}
    for key, person in pairs:
        if key and person not in made.setdefault(key, []):
            made[key].append(person)
    return made


def _called(found: Found, person: Person | None, claims: list[str]) -> Found:
    if person is not None:
        return replace(found, student=person.student, name=person.name, owner=found.source, flag="")
    flag = f"{STRANGER}; {found.flag}" if found.flag else STRANGER
    if claims:
        flag += f"; it may be {' or '.join(dict.fromkeys(claims))}"
    student = f"{found.student} ({STRANGER})" if found.student in claims else found.student  # the id is somebody's
    return replace(found, flag=flag, student=student, owner=found.source)


def _absent(person: Person, doubtful: str | None) -> Found:
    flag = f"{NOTHING}; what {doubtful} handed in may be theirs" if doubtful else NOTHING
    return Found(student=person.student, name=person.name, path="", load=lambda: refuse(NOTHING), flag=flag)


def read_roster(path: Path) -> Roster:
    """The people in a CSV file; ValueError says what is wrong with it."""
    rows = read_table(path)
    headings = [same_name(cell) for cell in rows[0]]
    known = {*IDS, *OTHER_IDS, *NAMES, *FIRST_NAMES, *LAST_NAMES}
    if not known & set(headings):
        rows, headings = [["student", "name"][: len(rows[0])] + [""] * (len(rows[0]) - 2), *rows], ["student", "name"]
    is_canvas = headings[:2] == ["student", "id"] or {"sis login id", "section"} <= set(headings)
    people: dict[str, Person] = {}
    for line in rows[1:]:
        cells = {heading.strip(): cell.strip() for heading, cell in zip(rows[0], line, strict=False)}
        person = _person({same_name(heading): cell for heading, cell in cells.items()}, cells, is_canvas)
        if person is None:
            continue
        before = people.get(person.student)
        if before and not is_canvas and person.student == person.name:  # two people of one name, and no other id
            person = replace(
                person, student=f"{person.name} ({1 + sum(p.name == person.name for p in people.values())})"
            )
        elif before and same_name(before.name) != same_name(person.name):
            both = f"{before.name} and {person.name}"
            raise ValueError(f"the roster {path} has {person.student} twice, for {both}: give each an id of their own")
        people[person.student] = person  # the same person twice is one: Canvas has a line for each section
    if not people:
        raise ValueError(f"the roster {path} has nobody in it")
    return Roster(tuple(people.values()), is_canvas=is_canvas, is_moodle="identifier" in headings)


def _person(line: dict[str, str], cells: dict[str, str], is_canvas: bool) -> Person | None:
    if is_canvas:
        if "points possible" in line.get("student", "").casefold() or not line.get("id"):
            return None  # Canvas's second and third row are about the assignments
        others = [line[one] for one in ("sis user id", "sis login id") if line.get(one)]
        return Person(student=line["id"], name=line.get("student", ""), ids=_with_logins(others), cells=cells)
    first = next((line[one] for one in FIRST_NAMES if line.get(one)), "")
    last = next((line[one] for one in LAST_NAMES if line.get(one)), "")
    name = next((line[one] for one in NAMES if line.get(one)), "") or f"{first} {last}".strip()
    ids = [line[one] for one in (*IDS, *OTHER_IDS) if line.get(one)]
    if number := re.fullmatch(r"\D*?(\d+)", line.get("identifier", "")):
        ids.insert(0, number[1])  # "Participant 4711", in whatever language
    if not ids and not name:
        return None
    student = ids[0] if ids else name
    return Person(student=student, name=name or student, ids=_with_logins(ids), cells=cells)


def _with_logins(ids: list[str]) -> frozenset[str]:
    return frozenset([*ids, *(one.partition("@")[0] for one in ids if "@" in one)])


def read_table(path: Path) -> list[list[str]]:
    """The rows of a CSV file that are not blank, in whatever dialect a spreadsheet wrote it."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    content = path.read_bytes()
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} has {len(content) >> 20} MB; a table of people has less than {MOST_BYTES >> 20}")
    text = _decoded(content).lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"\A\s*sep=.[^\S\n]*\n", "", text, flags=re.IGNORECASE)  # a word from one spreadsheet to another
    first = next((line for line in text.split("\n") if line.strip()), "")
    delimiter = max(",;\t", key=re.sub(r'"[^"]*(?:"|$)', "", first).count)  # one inside a name divides nothing
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ValueError(f"{path} is not a table of comma-separated values: {error}") from error
    if not rows:
        raise ValueError(f"{path} is empty")
    return rows


def _decoded(content: bytes) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
