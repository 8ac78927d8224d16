"""Find the submissions in a folder or a zip, whoever made it, and read each within bounds.

Nothing is ever unpacked to disk and no link is followed, so a name like `../../x` or a link to a solution has nothing
to act on. A submission that cannot be read, or is no notebook, is still listed, and says why when it is loaded: each
one gets a result. Notebooks are read one at a time, so that thousands need no more memory than a few.

Whose a file is, is told by its path: the names Canvas and Moodle give their downloads, else the first folder, else the
file's own name. A zip that wraps everything in one folder is read as if it did not.
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
from typing import Literal

from lecturelib.grading.notebook import MOST_BYTES, NotebookError, read_bounded, read_bytes

MAX_INNER_ZIP_BYTES = 64 << 20
MAX_MEMBERS = 200_000

# What reading a damaged or exotic zip member can raise
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, OSError, ValueError)

# Canvas: doejane_LATE_10234_556677_my notebook-2.ipynb (sortable name, user id, upload id, the student's file name);
# graded anonymously LATE_anon_x7Kq2_556677_my notebook.ipynb; and for text typed into a form doejane_10234_text.html
CANVAS_NAME = re.compile(
    r"((?P<name>[^/]+?)(?P<late>_LATE|_late)?_(?P<user>\d{1,18})|(?P<late_too>LATE_)?(?P<anonymous>anon_[A-Za-z0-9]+))"
    r"_((?P<upload>\d{1,18})_[^/]+|text\.html|link\.html)"
)
# Moodle: Jane Doe_1234567_assignsubmission_file/notebook.ipynb; older ones end in an underscore, and without folders
# the student's file name comes after that
MOODLE_NAME = re.compile(r"(?P<name>[^/]+)_(?P<user>\d+)_assignsubmission_[a-z]+(_[^/]*)?")


class IntakeError(ValueError):
    """The folder or zip as a whole cannot be graded."""


Reader = Callable[[], bytes]


@dataclass(frozen=True)
class Listed:
    """What lies in the folder or zip. What is no notebook only counts where its owner handed in nothing else."""

    path: PurePosixPath
    load: Reader
    kind: Literal["notebook", "file", "folder"] = "notebook"

    @property
    def is_notebook(self) -> bool:
        return self.kind == "notebook"


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
        note: what the instructor should know, such as other notebooks passed over
    """

    student: str
    name: str
    path: str
    load: Reader
    late: bool = False
    order: int = 0
    note: str = ""


def find_submissions(source: Path, exercise: str | None = None, *, out: Path | None = None) -> list[Found]:
    """List each student's latest submission, sorted by student.

    Args:
        source: a folder, a zip or one notebook
        exercise: decides between several notebooks of one student
        out: the folder of the results; if it lies in `source` it is no submission
    """
    if not source.exists():
        raise IntakeError(f"there is nothing at {source}: give a folder, a zip or one notebook")
    if out and out.resolve() == source.resolve():
        raise IntakeError(f"the results cannot lie among the submissions: give --out a folder other than {source}")
    if source.is_dir():
        files = list(_in_folder(source, out))
    elif source.suffix.lower() == ".ipynb":
        files = [Listed(PurePosixPath(source.name), partial(read_bytes, source))]
    elif zipfile.is_zipfile(source):
        try:
            files = _without_wrapper(list(_in_zip(zipfile.ZipFile(source))))
        except IntakeError:
            raise
        except DAMAGED as error:
            raise IntakeError(f"{source} is damaged, download it again: {error}") from error
    else:
        raise IntakeError(f"{source} is not a folder, a zip or a notebook")
    entries = _identified(files)
    if not entries or all(file.kind == "folder" for file in files):
        raise IntakeError(f"there is no notebook (.ipynb) in {source}")
    return _one_for_each_student(entries, exercise)


def _in_folder(root: Path, out: Path | None) -> Iterator[Listed]:
    unread: list[OSError] = []
    apart = out.resolve() if out else None
    for folder, subfolders, files in os.walk(root, onerror=unread.append):  # does not descend into links
        if Path(folder).resolve() == apart:
            subfolders.clear()
            continue
        subfolders[:] = sorted(name for name in subfolders if not _is_noise(name))
        files = sorted(name for name in files if not _is_noise(name))
        relative = PurePosixPath(Path(folder).relative_to(root).as_posix())
        if relative.parts and not subfolders and not files:
            yield _folder(relative, "is empty")
        for name in files:
            yield from _listed(relative / name, partial(read_bytes, Path(folder, name)))
    for error in unread:
        if Path(error.filename) == root:
            raise error
        relative = PurePosixPath(Path(error.filename).relative_to(root).as_posix())
        yield _folder(relative, f"cannot be read: {error.strerror}")


def _in_zip(archive: zipfile.ZipFile) -> Iterator[Listed]:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise IntakeError(f"the zip lists {len(members)} files; more than {MAX_MEMBERS} are not read")
    paths = [(PurePosixPath(member.filename.replace("\\", "/")), member) for member in members]
    paths = [(path, member) for path, member in paths if path.parts and not any(map(_is_noise, path.parts))]
    filled = {parent for path, _ in paths for parent in path.parents}
    for path, member in paths:
        if not member.is_dir():
            yield from _listed(path, partial(_read_member, archive, member))
        elif path not in filled:
            yield _folder(path, "is empty")


def _listed(path: PurePosixPath, load: Callable[[int], bytes]) -> Iterator[Listed]:
    """A file as it counts: a notebook, a zip of a student's own, or something else."""
    if path.suffix.lower() == ".ipynb":
        yield Listed(path, partial(load, MOST_BYTES))
    elif path.suffix.lower() == ".zip":
        yield from _in_inner_zip(path, partial(load, MAX_INNER_ZIP_BYTES))
    else:
        yield _file(path, "it is not a notebook (.ipynb)")


def _file(path: PurePosixPath, reason: str) -> Listed:
    return Listed(path, partial(_refuse, reason), "file")


def _folder(path: PurePosixPath, problem: str) -> Listed:
    return Listed(path, partial(_refuse, f"the folder {problem}"), "folder")


def _in_inner_zip(path: PurePosixPath, load: Reader) -> Iterator[Listed]:
    """A student handed in a zip: its notebooks are theirs. Zips inside it are not opened."""
    try:
        with zipfile.ZipFile(io.BytesIO(load())) as archive:
            names = [name for name in archive.namelist()[:MAX_MEMBERS] if name.lower().endswith(".ipynb")]
    except (NotebookError, *DAMAGED) as error:
        yield _file(path, f"the zip could not be opened: {error}")
        return
    names = [name for name in names if not any(_is_noise(part) for part in PurePosixPath(name).parts)]
    if not names:
        yield _file(path, "the zip holds no notebook")
    for name in names:
        yield Listed(path / PurePosixPath(name).name, partial(_read_inner_member, load, name))


def _without_wrapper(files: list[Listed]) -> list[Listed]:
    paths = [file.path for file in files if file.is_notebook or file.path.suffix.lower() == ".zip"]
    tops = {path.parts[0] for path in paths}
    if len(paths) < 2 or len(tops) != 1 or any(len(path.parts) < 2 for path in paths):
        return files
    (top,) = tops
    if top.lower().endswith(".zip") or MOODLE_NAME.fullmatch(top) or CANVAS_NAME.fullmatch(top):
        return files  # it says whose these are
    return [
        replace(file, path=PurePosixPath(*file.path.parts[1:])) if file.path.parts[0] == top else file for file in files
    ]


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> bytes:
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
        return _read_member(archive, archive.getinfo(name), MOST_BYTES)


def _refuse(reason: str) -> bytes:
    raise NotebookError(reason)


def _identified(files: list[Listed]) -> list[tuple[Found, bool]]:
    """Whose each file is, and whether it is a notebook.

    `ada_2026_08_answer.ipynb` looks like a name of Canvas's but is not one: there a number belongs to one student.
    """
    found = [_identify(file) for file in files]
    names: dict[str, set[str]] = {}
    for one in found:
        names.setdefault(one.student, set()).add(one.name)
    trusted = [
        one if len(names[one.student]) == 1 else _identify(file, canvas=False)
        for one, file in zip(found, files, strict=True)
    ]
    return [(one, file.is_notebook) for one, file in zip(trusted, files, strict=True) if _is_submission(one, file)]


def _identify(file: Listed, *, canvas: bool = True) -> Found:
    path = os.fsencode(str(file.path)).decode("utf-8", "replace")  # a name in another encoding is a name all the same
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..", ".")] or ["unnamed.ipynb"]
    for part in parts[:2]:  # deeper down it is the student who gives the names
        if match := MOODLE_NAME.fullmatch(part):
            return Found(student=match["user"], name=match["name"], path=path, load=file.load)
        if canvas and (match := CANVAS_NAME.fullmatch(part)):
            late = bool(match["late"] or match["late_too"])
            student, order = match["user"] or match["anonymous"], int(match["upload"] or 0)
            name = match["name"] or student
            return Found(student=student, name=name, path=path, load=file.load, late=late, order=order)
    student = PurePosixPath(parts[0]).stem if parts[0].lower().endswith((".ipynb", ".zip", ".py")) else parts[0]
    return Found(student=student, name=student, path=path, load=file.load)


def _is_submission(found: Found, file: Listed) -> bool:
    """A file that lies loose beside the submissions is nobody's, unless its name says otherwise."""
    loose = file.kind == "file" and len(file.path.parts) == 1 and found.student == file.path.name
    return file.is_notebook or not (loose or any(part.startswith(".") for part in file.path.parts))


def _one_for_each_student(entries: list[tuple[Found, bool]], exercise: str | None) -> list[Found]:
    """Keep each student's latest notebook of this exercise; several that fit equally well are not guessed between."""
    by_student: dict[str, list[tuple[Found, bool]]] = {}
    for entry, is_notebook in entries:
        by_student.setdefault(entry.student, []).append((entry, is_notebook))
    return [_choose(by_student[student], exercise) for student in sorted(by_student)]


def _choose(entries: list[tuple[Found, bool]], exercise: str | None) -> Found:
    notebooks = [entry for entry, is_notebook in entries if is_notebook]
    if not notebooks:
        (first, _), *others = entries
        reason = f"there is no notebook (.ipynb), only {_few([entry.path for entry, _ in entries])}"
        return replace(first, load=partial(_refuse, reason)) if others else first
    named = [entry for entry in notebooks if exercise and exercise.lower() in entry.path.lower()] or notebooks
    latest = max(entry.order for entry in named)
    first, *equals = [entry for entry in named if entry.order == latest]
    if equals:
        paths = _few([entry.path for entry in (first, *equals)])
        reason = f"there are {1 + len(equals)} notebooks and none says which one counts: {paths}"
        return replace(first, load=partial(_refuse, reason))
    passed_over = [entry.path for entry in notebooks if entry is not first]
    return replace(first, note=f"passed over: {_few(passed_over)}" if passed_over else "")


def _few(paths: list[str], most: int = 4) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more


def _is_noise(name: str) -> bool:
    return name in ("__MACOSX", ".DS_Store", ".ipynb_checkpoints", ".git") or name.startswith("._")
