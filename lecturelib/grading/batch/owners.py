"""Whose is it? Decided by the outermost folder, or by a name the platform made; never by a name a student chose.

A platform's names are believed only where everything handed in has that form, because a student may call a file as
Moodle would. Even then the student's own part of a name can hold numbers: a name that can be read in two ways is never
put with somebody else's work.

Canvas: doejane_LATE_10234_556677_my notebook-2.ipynb (sortable name, user, upload, the student's file name); graded
anonymously LATE_anon_x7Kq2_556677_my notebook.ipynb; text typed into a form doejane_10234_text.html. From
canvas-lms/lib/content_zipper.rb.
Moodle: Jane Doe_1234567_assignsubmission_file/notebook.ipynb, where the number is the participant's in this
assignment; older ones end in an underscore, and without folders the student's file name comes after that.
"""

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from lecturelib.grading.reports.page import UNSEEN

_UPLOAD = r"_(?:(?P<upload>[1-9]\d{0,17})_(?P<rest>.+)|(?:text|link)\.html)"
CANVAS = re.compile(r"_(?P<user>[1-9]\d{0,17})" + _UPLOAD, re.DOTALL)
CANVAS_ANONYMOUS = re.compile(r"(?P<late>LATE_)?(?P<user>anon_[A-Za-z0-9]+)" + _UPLOAD, re.DOTALL)
MOODLE_FOLDER = re.compile(r"(?P<name>.+)_(?P<user>\d{1,18})_assignsubmission_[a-z]+_?", re.DOTALL)
MOODLE_FILE = re.compile(r"_(?P<user>\d{1,18})_assignsubmission_[a-z]+_")
LONGEST = 1_000  # characters of a name that a platform made
# A loose file of another kind is nobody's, unless it is of a kind that people hand in
HANDED_IN = (".ipynb", ".zip", ".py", ".pdf", ".doc", ".docx", ".odt", ".html", ".rar", ".7z", ".tar", ".gz", ".tgz")


@dataclass(frozen=True, kw_only=True)
class Top:
    """One outermost thing in the folder or zip: a folder, or a file that lies loose.

    Args:
        name: as it is there
        is_folder: a folder with what is in it
        counts: it holds a notebook or a zip, so that it is surely somebody's work
    """

    name: str
    is_folder: bool
    counts: bool


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who an outermost thing belongs to.

    Args:
        student: what identifies them; different for different people
        name: how to address them
        late: the platform marks it late
        order: of two uploads of one student the later has the higher one
        doubt: why an instructor should look at whose it is
        others: who else it may be
    """

    student: str
    name: str
    late: bool = False
    order: int = 0
    doubt: str = ""
    others: tuple[str, ...] = ()


def owners(tops: Iterable[Top], exercise: str = "") -> dict[str, Owner]:
    """The owner of each outermost thing by its name; what is nobody's is left out.

    Args:
        tops: all there is
        exercise: a file that a student called so begins with this, whatever numbers are in it
    """
    tops = list(tops)
    outside = {top.name: _outside(readable(top.name)) for top in tops if "/" in top.name}
    tops = [top for top in tops if top.name not in outside]
    made_by = platform(tops, exercise)
    if made_by is None:
        return _distinct({**_plain(tops), **outside})
    readings = {top.name: _READS[made_by](top, exercise) for top in tops}
    return _distinct({**_platform({name: reading for name, reading in readings.items() if reading}), **outside})


def _outside(path: str) -> Owner:
    return Owner(student=path, name=path, doubt="its path leads out of the zip")


def platform(tops: Iterable[Top], exercise: str = "") -> Literal["Canvas", "Moodle"] | None:
    """Who made these names, if they all have one form."""
    tops = list(tops)
    for made_by, reads in _READS.items():
        readings = {top.name: reads(top, exercise) for top in tops}
        strays = [top for top in tops if not readings[top.name] and (top.is_folder or _is_handed_in(top))]
        if not strays and any(readings.values()):
            return made_by
    return None


def imitations(tops: Iterable[Top]) -> list[str]:
    """Names of a platform's form that are not believed, because other names beside them have another form."""
    return [top.name for top in tops if _canvas(top, "") or _moodle(top, "")]


def top_of(path: PurePosixPath) -> str:
    """The outermost name of a path. One that leads elsewhere belongs to no folder that is there."""
    return str(path) if path.is_absolute() or ".." in path.parts else path.parts[0]


def readable(name: str) -> str:
    """A name in another encoding is a name all the same."""
    return os.fsencode(name).decode("utf-8", "replace")


def same_name(name: str) -> str:
    """Equal for names that people would call the same: accents composed or not, capitals, spaces."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _canvas(top: Top, exercise: str) -> list[Owner]:
    """All ways to read a name of Canvas's, the one with the shortest name first."""
    name, found = readable(top.name)[:LONGEST], []
    if match := CANVAS_ANONYMOUS.fullmatch(name):
        order = int(match["upload"] or 0)
        return [Owner(student=match["user"], name=match["user"], late=bool(match["late"]), order=order)]
    for start, character in enumerate(name):
        head = name[:start]
        if character != "_" or not head.strip("_") or not (match := CANVAS.fullmatch(name, start)):
            continue
        called = re.sub("_(LATE|late)$", "", head)
        order = int(match["upload"] or 0)
        found.append(Owner(student=match["user"], name=called, late=called != head, order=order))
        if exercise and (match["rest"] or "").lower().startswith(exercise.lower()):
            return found[-1:]  # the numbers that follow are of the file's name
    return found


def _moodle(top: Top, exercise: str) -> list[Owner]:
    """All ways to read a name of Moodle's; a folder's ends with what Moodle wrote, so there is one."""
    name, found = readable(top.name)[:LONGEST], []
    if whole := MOODLE_FOLDER.fullmatch(name):
        return [Owner(student=whole["user"], name=whole["name"])]
    for match in () if top.is_folder else MOODLE_FILE.finditer(name):
        if head := name[: match.start()]:
            found.append(Owner(student=match["user"], name=head))
            if exercise and name[match.end() :].lower().startswith(exercise.lower()):
                return found[-1:]
    return found


_READS: dict[Literal["Canvas", "Moodle"], Callable[[Top, str], list[Owner]]] = {"Canvas": _canvas, "Moodle": _moodle}


def _platform(readings: dict[str, list[Owner]]) -> dict[str, Owner]:
    """One reading of each name; nobody's work is put with another's unless both names say the same person for sure."""
    sure = {name: reading[0] for name, reading in readings.items() if len({one.student for one in reading}) == 1}
    called: dict[str, set[str]] = {}
    for owner in sure.values():
        called.setdefault(owner.student, set()).add(same_name(owner.name))
    made: dict[str, Owner] = {}
    taken = set(called)
    for name, reading in readings.items():
        first = reading[0]
        alone = Owner(student=_label(readable(name)), name=first.name, late=first.late, order=first.order)
        if name in sure:
            is_disputed = len(called[first.student]) > 1
            doubt = f"the number {first.student} is in names of different people, so it is not believed"
            made[name] = replace(alone, doubt=doubt) if is_disputed else first
            continue
        several = " or ".join(dict.fromkeys(one.student for one in reading))
        doubt = f"its name can be read as that of {several}"
        others = tuple(one.student for one in reading[1:])
        is_taken = first.student in taken
        made[name] = replace(alone, doubt=doubt) if is_taken else replace(first, doubt=doubt, others=others)
        taken.add(first.student)
    return made


def _plain(tops: list[Top]) -> dict[str, Owner]:
    """A folder is a person; so is a file that lies loose, by its name without the ending.

    Where `ada.ipynb`, `ada.zip` and `ada/` lie side by side, nobody knows that these are one person's.
    """
    made: dict[str, Owner] = {}
    works: dict[str, list[Top]] = {}
    for top in tops:
        if top.is_folder or top.counts:
            works.setdefault(_label(readable(top.name), top.is_folder), []).append(top)
    for label, alike in works.items():
        for top in alike:
            name = label if len(alike) == 1 else readable(top.name)
            doubt = f"several are called {label}, and whether they are one person's cannot be told"
            made[top.name] = Owner(student=name, name=name, doubt=doubt if len(alike) > 1 else "")
    for top in tops:
        label = _label(readable(top.name), top.is_folder)
        if top.name in made:
            continue
        if len(works.get(label, ())) == 1:
            made[top.name] = made[works[label][0].name]
        elif _is_handed_in(top):
            made[top.name] = Owner(student=label, name=label)
    return made


def _label(name: str, is_folder: bool = False) -> str:
    path = PurePosixPath(name)
    return path.stem if not is_folder and path.suffix.lower() in HANDED_IN and "/" not in name else name


def _is_handed_in(top: Top) -> bool:
    return top.counts or (not top.is_folder and top.name.lower().endswith(HANDED_IN))


def _distinct(made: dict[str, Owner]) -> dict[str, Owner]:
    """Two people whose ids would look the same get different ones: bytes that are no text, marks nobody sees."""
    people: dict[str, dict[str, list[str]]] = {}
    for name, owner in made.items():
        person = name if "\N{REPLACEMENT CHARACTER}" in owner.student else owner.student
        people.setdefault(look(owner.student), {}).setdefault(person, []).append(name)
    for alike in people.values():
        for names in alike.values() if len(alike) > 1 else ():
            mark = hashlib.sha256(os.fsencode(names[0])).hexdigest()[:6]
            for name in names:
                made[name] = replace(made[name], student=f"{made[name].student} #{mark}")
    similar: dict[str, set[str]] = {}
    for owner in made.values():
        similar.setdefault(same_name(look(owner.student)), set()).add(owner.student)
    return {
        name: replace(owner, doubt=owner.doubt or "another is called almost the same")
        if len(similar[same_name(look(owner.student))]) > 1
        else owner
        for name, owner in made.items()
    }


def look(student: str) -> str:
    """An id as tables show it."""
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", re.sub(r"[\r\n]", " ", student))
