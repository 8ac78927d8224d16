"""Find everybody's submission in a folder or a zip, whoever made it.

A submission that cannot be read, or is no notebook, is still listed, and says why when it is loaded: each one gets a
result. Notebooks are read one at a time, so that thousands need no more memory than a few.

Whose a file is, `owners` decides. A zip that wraps everything in one folder of its own name is read as if it did not.
"""

import hashlib
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from lecturelib.grading.batch.archive import DAMAGED, IntakeError, Listed, Reader, in_folder, in_zip, refuse
from lecturelib.grading.batch.owners import Owner, Top, imitations, owners, platform, readable, same_name, top_of
from lecturelib.grading.notebook import NotebookError, read_bytes

MAX_ATTEMPTS = 20

Attempts = Literal["last", "best"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """One submission as it lies in the folder or zip.

    Args:
        student: what identifies the student: the platform's user id, else a folder or file name
        name: how to address the student
        path: where it was found, as shown to the instructor
        load: reads the notebook's bytes, or raises NotebookError with the reason
        late: the platform says it came late
        order: a later upload of the same student has a higher one
        note: what the instructor should know, such as other notebooks passed over
        when: the moment the folder or zip gives it
        is_platform_time: that moment is the platform's, and no student's to choose
        flag: why the instructor should look at whose it is
        others: who else it may be, where its name can be read in several ways
        owner: who it is in the folder or zip, where the roster has another id for them
    """

    student: str
    name: str
    path: str
    load: Reader
    late: bool = False
    order: int = 0
    note: str = ""
    when: datetime | None = None
    is_platform_time: bool = False
    flag: str = ""
    others: tuple[str, ...] = ()
    owner: str = ""

    @property
    def source(self) -> str:
        """Who it is in the folder or zip: the same with and without a roster."""
        return self.owner or self.student


@dataclass(frozen=True, kw_only=True)
class Intake:
    """All that was handed in.

    Args:
        found: what to grade, sorted by student; several of one student where each attempt counts
        people: everybody who is in it, each once
        warnings: what an instructor should look at before believing the grades
    """

    found: list[Found]
    people: list[str]
    warnings: list[str]


def find_submissions(source: Path, exercise: str | None = None, *, out: Path | None = None) -> list[Found]:
    """List each student's submission, sorted by student; see `take_in`."""
    return take_in(source, exercise, out=out).found


def take_in(
    source: Path,
    exercise: str | None = None,
    *,
    out: Path | None = None,
    attempts: Attempts | None = None,
    is_student: Callable[[str], bool] = lambda name: False,
) -> Intake:
    """Find everybody's submissions.

    Args:
        source: a folder, a zip or one notebook
        exercise: decides between several notebooks of one student
        out: the folder of the results; if it lies in `source` it is no submission
        attempts: of a student's several notebooks take the last by time, or all, so that the best can count; where
            none is later than the others for sure, and this is None, none is taken
        is_student: whether the roster has somebody of this name
    """
    if not source.exists():
        raise IntakeError(f"there is nothing at {source}: give a folder, a zip or one notebook")
    if out and out.resolve() == source.resolve():
        raise IntakeError(f"the results cannot lie among the submissions: give --out a folder other than {source}")
    warnings: list[str] = []
    if source.is_dir():
        files = list(in_folder(source, out))
        warnings += _one_folder(source, files)
    elif source.suffix.lower() == ".ipynb":
        files = [Listed(PurePosixPath(source.name), partial(read_bytes, source))]
    elif zipfile.is_zipfile(source):
        try:
            files = _without_wrapper(list(in_zip(zipfile.ZipFile(source))), source, is_student, warnings)
        except IntakeError:
            raise
        except DAMAGED as error:
            raise IntakeError(f"{source} is damaged, download it again: {error}") from error
    else:
        raise IntakeError(f"{source} is not a folder, a zip or a notebook")
    by_top: dict[str, list[Listed]] = {}
    for file in files:
        by_top.setdefault(top_of(file.path), []).append(file)
    tops = [_top(name, inside) for name, inside in by_top.items()]
    tops = [top for top in tops if top.counts or not top.name.startswith(".")]  # an editor's folder is nobody's
    owned = owners(tops, exercise or "")
    if not owned or all(file.kind == "folder" for file in files):
        raise IntakeError(f"there is no notebook (.ipynb) in {source}")
    warnings += _doubts(tops, owned)
    by_student: dict[str, list[tuple[Owner, Listed]]] = {}
    for name, owner in owned.items():
        by_student.setdefault(owner.student, []).extend((owner, file) for file in by_top[name])
    found = [one for student in sorted(by_student) for one in _choose(by_student[student], exercise, attempts)]
    if not source.is_dir() and platform(tops, exercise or "") == "Moodle":  # Canvas gives the moment of the download
        found = [replace(one, is_platform_time=one.when is not None) for one in found]
    return Intake(found=found, people=sorted(by_student), warnings=warnings)


def _top(name: str, inside: list[Listed]) -> Top:
    is_folder = any(len(file.path.parts) > 1 or file.kind == "folder" for file in inside)
    is_zip = not is_folder or (name.lower().endswith(".zip") and all(file.is_notebook for file in inside))
    counts = any(file.is_notebook or file.path.suffix.lower() == ".zip" for file in inside)
    return Top(name=name, is_folder=is_folder and not is_zip, counts=counts)


def _doubts(tops: list[Top], owned: dict[str, Owner]) -> list[str]:
    said = [f"{readable(name)}: {owner.doubt}" for name, owner in owned.items() if owner.doubt]
    loose = [readable(top.name) for top in tops if top.name not in owned]
    if loose:
        said.append(f"passed over, because it lies loose and is no kind of file that is handed in: {_few(loose)}")
    believed = {name for name, owner in owned.items() if owner.student != _stem(name)}
    alike = [name for name in imitations(tops) if name in owned and name not in believed and not owned[name].doubt]
    if alike:
        names = _few([readable(name) for name in alike])
        said.append(f"called as a platform would, but not everything is, so the whole name is the student: {names}")
    return said


def _stem(name: str) -> str:
    return PurePosixPath(readable(name)).stem


def _one_folder(source: Path, files: list[Listed]) -> list[str]:
    tops = {file.path.parts[0] for file in files}
    if len(tops) != 1 or sum(file.is_notebook and len(file.path.parts) > 1 for file in files) < 2:
        return []
    (top,) = tops
    return [f"all is in one folder, {readable(top)}, so it is one student's; if it is a class, grade {source / top}"]


def _without_wrapper(
    files: list[Listed], source: Path, is_student: Callable[[str], bool], warnings: list[str]
) -> list[Listed]:
    """Without the folder around a class, if it is called as the zip is: a folder of another name is a student's."""
    paths = [file.path for file in files if file.is_notebook or file.path.suffix.lower() == ".zip"]
    tops = {path.parts[0] for path in paths}
    if len(paths) < 2 or len(tops) != 1 or any(len(path.parts) < 2 for path in paths):
        return files
    (top,) = tops
    if top.lower().endswith(".zip") or imitations([Top(name=top, is_folder=True, counts=True)]) or is_student(top):
        return files  # it says whose these are
    downloaded_again = re.sub(r"[ _-]+\d+$| *\(\d+\)$", "", source.stem)
    if same_name(top) not in map(same_name, (source.stem, downloaded_again)):
        cure = f"unpack {source.name} and grade that folder, or call the zip {readable(top)}.zip"
        warnings.append(f"all is in one folder, {readable(top)}, so it is one student's; if it is a class, {cure}")
        return files
    warnings.append(f"all is in one folder, {readable(top)}: it is taken for a wrapper around a class")
    return [
        replace(file, path=PurePosixPath(*file.path.parts[1:]))
        if file.path.parts[0] == top and len(file.path.parts) > 1
        else file
        for file in files
    ]


def _choose(work: list[tuple[Owner, Listed]], exercise: str | None, attempts: Attempts | None) -> list[Found]:
    """One student's submission, or each attempt. Several that fit equally well are not guessed between."""
    entries = [(_found(owner, file), file.is_notebook) for owner, file in work]
    notebooks = [entry for entry, is_notebook in entries if is_notebook]
    if not notebooks:
        (first, _), *others = entries
        reason = f"there is no notebook (.ipynb), only {_few([entry.path for entry, _ in entries])}"
        return [replace(first, load=partial(refuse, reason)) if others else first]
    named = _named(notebooks, exercise.lower()) if exercise else notebooks
    if attempts == "best":  # the same twice is one attempt, the earlier
        return list({_digest(entry): entry for entry in sorted(named, key=_age, reverse=True)[:MAX_ATTEMPTS]}.values())
    age = _age if attempts == "last" else _upload
    latest = max(age(entry) for entry in named)
    first, *equals = [entry for entry in named if age(entry) == latest]
    if len(equals) >= MAX_ATTEMPTS or (equals and len({_digest(entry) for entry in (first, *equals)}) > 1):
        paths = _few([entry.path for entry in (first, *equals)])
        reason = f"there are {1 + len(equals)} notebooks and none says which one counts: {paths}"
        return [replace(first, load=partial(refuse, reason))]
    passed_over = [entry.path for entry in notebooks if entry is not first]
    return [replace(first, note=f"passed over: {_few(passed_over)}" if passed_over else "")]


def _named(notebooks: list[Found], exercise: str) -> list[Found]:
    """Those called as the exercise is; else those in a folder or zip called so; else all."""
    by_name = [entry for entry in notebooks if exercise in PurePosixPath(entry.path).name.lower()]
    return by_name or [entry for entry in notebooks if exercise in entry.path.lower()] or notebooks


def _found(owner: Owner, file: Listed) -> Found:
    return Found(
        student=owner.student,
        name=owner.name,
        path=readable(str(file.path)),
        load=file.load,
        late=owner.late,
        order=owner.order,
        when=file.when,
        flag=owner.doubt,
        others=owner.others,
    )


def _upload(entry: Found) -> int:
    return entry.order


def _age(entry: Found) -> tuple[int, datetime]:
    return entry.order, entry.when or datetime.min


def _digest(entry: Found) -> str:
    try:
        return hashlib.sha256(entry.load()).hexdigest()
    except NotebookError as error:
        return str(error)


def _few(paths: list[str], most: int = 4) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more
