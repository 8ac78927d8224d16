"""Find the submissions in a folder or a zip, whoever made it, and read each within bounds.

Nothing is ever unpacked to disk and no link is followed, so a name like `../../x` or a link to a solution has nothing
to act on. A submission that cannot be read is still listed, and says why when it is loaded: each one gets a result.
Notebooks are read one at a time, so that thousands need no more memory than a few.

Whose a notebook is, is told by its path: the names Canvas and Moodle give their downloads, else the first folder, else
the file's own name. A zip that wraps everything in one folder is read as if it did not.
"""

import io
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from lecturelib.grading.notebook import MOST_BYTES, NotebookError, read_bounded, read_bytes

MAX_INNER_ZIP_BYTES = 64 << 20
MAX_MEMBERS = 200_000

# What reading a damaged or exotic zip member can raise
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, OSError, ValueError)

# Canvas: doejane_LATE_10234_556677_my notebook-2.ipynb (sortable name, user id, upload id, the student's file name)
CANVAS_NAME = re.compile(r"(?P<name>[^_/]+)(?P<late>_LATE|_late)?_(?P<user>\d+)_(?P<upload>\d+)_(?P<file>[^/]+)")
# Moodle: Jane Doe_1234567_assignsubmission_file/notebook.ipynb; older ones end in an underscore, and without folders
# the student's file name comes after that
MOODLE_NAME = re.compile(r"(?P<name>[^/]+)_(?P<user>\d+)_assignsubmission_[a-z]+(_[^/]*)?")


class IntakeError(ValueError):
    """The folder or zip as a whole cannot be graded."""


Reader = Callable[[], bytes]


@dataclass(frozen=True, kw_only=True)
class Found:
    """One student's submission as it lies in the folder or zip.

    Args:
        student: what identifies the student: the platform's user id, else a folder or file name
        name: how to address the student
        path: where it was found, as shown to the instructor
        load: reads the notebook's bytes, or raises NotebookError with the reason
        late: the platform says it came late
        order: a later upload of the same student has a higher one
        note: what the instructor should know, such as other files passed over
    """

    student: str
    name: str
    path: str
    load: Reader
    late: bool = False
    order: int = 0
    note: str = ""


def find_submissions(source: Path, exercise: str | None = None) -> list[Found]:
    """List each student's latest submission, sorted by student; `exercise` decides between several notebooks."""
    if not source.exists():
        raise IntakeError(f"there is nothing at {source}: give a folder, a zip or one notebook")
    if source.is_dir():
        readers = _in_folder(source)
    elif source.suffix.lower() == ".ipynb":
        readers = iter([(PurePosixPath(source.name), partial(read_bytes, source))])
    elif zipfile.is_zipfile(source):
        readers = iter(_without_wrapper(list(_in_zip(zipfile.ZipFile(source)))))
    else:
        raise IntakeError(f"{source} is not a folder, a zip or a notebook")
    entries = [_identify(path, load) for path, load in readers]
    if not entries:
        raise IntakeError(f"there is no notebook (.ipynb) in {source}")
    return _one_for_each_student(entries, exercise)


def _in_folder(root: Path) -> Iterator[tuple[PurePosixPath, Reader]]:
    for folder, subfolders, files in os.walk(root):  # does not descend into links
        subfolders[:] = sorted(name for name in subfolders if not _is_noise(name))
        for name in sorted(files):
            path = Path(folder, name)
            relative = PurePosixPath(path.relative_to(root).as_posix())
            if _is_noise(name):
                continue
            if path.suffix.lower() == ".ipynb":
                yield relative, partial(read_bytes, path)
            elif path.suffix.lower() == ".zip":
                yield from _in_inner_zip(relative, partial(read_bytes, path, MAX_INNER_ZIP_BYTES))


def _in_zip(archive: zipfile.ZipFile) -> Iterator[tuple[PurePosixPath, Reader]]:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise IntakeError(f"the zip lists {len(members)} files; more than {MAX_MEMBERS} are not read")
    for member in members:
        relative = PurePosixPath(member.filename.replace("\\", "/"))
        if member.is_dir() or any(_is_noise(part) for part in relative.parts):
            continue
        if relative.suffix.lower() == ".ipynb":
            yield relative, partial(_read_member, archive, member)
        elif relative.suffix.lower() == ".zip":
            yield from _in_inner_zip(relative, partial(_read_member, archive, member, MAX_INNER_ZIP_BYTES))


def _in_inner_zip(relative: PurePosixPath, load: Reader) -> Iterator[tuple[PurePosixPath, Reader]]:
    """A student handed in a zip: its notebooks are theirs. Zips inside it are not opened."""
    try:
        with zipfile.ZipFile(io.BytesIO(load())) as archive:
            names = [name for name in archive.namelist()[:MAX_MEMBERS] if name.lower().endswith(".ipynb")]
    except (NotebookError, *DAMAGED) as error:
        yield relative, partial(_refuse, f"the zip could not be opened: {error}")
        return
    names = [name for name in names if not any(_is_noise(part) for part in PurePosixPath(name).parts)]
    if not names:
        yield relative, partial(_refuse, "the zip holds no notebook")
    for name in names:
        yield relative.parent / relative.name / PurePosixPath(name).name, partial(_read_inner_member, load, name)


def _without_wrapper(entries: list[tuple[PurePosixPath, Reader]]) -> list[tuple[PurePosixPath, Reader]]:
    tops = {path.parts[0] for path, _ in entries}
    if len(entries) < 2 or len(tops) != 1 or any(len(path.parts) < 2 for path, _ in entries):
        return entries
    (top,) = tops
    if top.lower().endswith(".zip") or MOODLE_NAME.fullmatch(top) or CANVAS_NAME.fullmatch(top):
        return entries  # it says whose these are
    return [(PurePosixPath(*path.parts[1:]), load) for path, load in entries]


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int = MOST_BYTES) -> bytes:
    relative = PurePosixPath(member.filename.replace("\\", "/"))
    if relative.is_absolute() or ".." in relative.parts:
        raise NotebookError("its path leads out of the zip")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise NotebookError("it is a symbolic link")
    if member.flag_bits & 0x1:
        raise NotebookError("it is encrypted")
    try:
        with archive.open(member) as file:
            return read_bounded(file, member.file_size, limit)  # its size in the zip's directory is only a claim
    except NotebookError:
        raise
    except DAMAGED as error:
        raise NotebookError(f"the zip is damaged here: {error}") from error


def _read_inner_member(load: Reader, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(load())) as archive:
        return _read_member(archive, archive.getinfo(name))


def _refuse(reason: str) -> bytes:
    raise NotebookError(reason)


def _identify(relative: PurePosixPath, load: Reader) -> Found:
    path = os.fsencode(str(relative)).decode("utf-8", "replace")  # a name in another encoding is a name all the same
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..", ".")] or ["unnamed.ipynb"]
    for part in parts:
        if match := MOODLE_NAME.fullmatch(part):
            return Found(student=match["user"], name=match["name"], path=path, load=load)
        if match := CANVAS_NAME.fullmatch(part):
            late, order = match["late"] is not None, int(match["upload"])
            return Found(student=match["user"], name=match["name"], path=path, load=load, late=late, order=order)
    student = PurePosixPath(parts[0]).stem if parts[0].lower().endswith((".ipynb", ".zip")) else parts[0]
    return Found(student=student, name=student, path=path, load=load)


def _one_for_each_student(entries: list[Found], exercise: str | None) -> list[Found]:
    """Keep each student's latest notebook of this exercise; several that fit equally well are not guessed between."""
    by_student: dict[str, list[Found]] = {}
    for entry in entries:
        by_student.setdefault(entry.student, []).append(entry)
    chosen = []
    for student in sorted(by_student):
        everything = by_student[student]
        named = [entry for entry in everything if exercise and exercise.lower() in entry.path.lower()]
        latest = max(entry.order for entry in named or everything)
        newest = [entry for entry in named or everything if entry.order == latest]
        passed_over = len(everything) - 1
        first = replace(newest[0], note=f"{passed_over} other file(s) passed over" if passed_over else "")
        if len(newest) > 1:
            paths = ", ".join(entry.path for entry in newest[:4])
            reason = f"there are {len(newest)} notebooks and none says which one counts: {paths}"
            first = replace(first, load=partial(_refuse, reason))
        chosen.append(first)
    return chosen


def _is_noise(name: str) -> bool:
    return name in ("__MACOSX", ".ipynb_checkpoints", ".git") or name.startswith("._")
