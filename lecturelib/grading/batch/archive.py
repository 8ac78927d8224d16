"""What lies in a folder or a zip: every file once, each with a way to read it within bounds.

Nothing is unpacked to disk, no link is followed, and a damaged or hostile file costs only itself.
"""

import io
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from lecturelib.grading.notebook import MOST_BYTES, NotebookError, read_bounded, read_bytes

MAX_INNER_ZIP_BYTES = 64 << 20
MAX_INNER_LIST_BYTES = 8 << 20  # of a student's zip, for the list of its files, which is read whole and kept
MAX_MEMBERS = 200_000
MAX_INNER_ZIPS = 20  # that one student's zip may hold, at any depth

# What reading a damaged or exotic zip member can raise
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, OSError, ValueError)


class IntakeError(ValueError):
    """The folder or zip as a whole cannot be graded."""


Reader = Callable[[], bytes]


@dataclass(frozen=True)
class Listed:
    """What lies in the folder or zip. What is no notebook only counts where its owner handed in nothing else."""

    path: PurePosixPath
    load: Reader
    kind: Literal["notebook", "file", "folder"] = "notebook"
    when: datetime | None = None  # as the folder or the platform's zip says, not as a student's own zip does

    @property
    def is_notebook(self) -> bool:
        return self.kind == "notebook"


def in_folder(root: Path, out: Path | None) -> Iterator[Listed]:
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
        for name in subfolders:
            if Path(folder, name).is_symlink():
                yield _folder(relative / name, "is a symbolic link, which is not followed")
        for name in files:
            when = datetime.fromtimestamp(Path(folder, name).lstat().st_mtime)
            for file in _listed(relative / name, partial(read_bytes, Path(folder, name))):
                yield replace(file, when=when)
    for error in unread:
        if Path(error.filename) == root:
            raise error
        relative = PurePosixPath(Path(error.filename).relative_to(root).as_posix())
        yield _folder(relative, f"cannot be read: {error.strerror}")


def in_zip(archive: zipfile.ZipFile) -> Iterator[Listed]:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise IntakeError(f"the zip lists {len(members)} files; more than {MAX_MEMBERS} are not read")
    paths = [(PurePosixPath(_name(member).replace("\\", "/")), member) for member in members]
    paths = [(path, member) for path, member in paths if path.parts and not _is_noise(path.parts[0])]
    kept = [(path, member) for path, member in paths if not any(map(_is_noise, path.parts))]
    filled = {parent for path, _ in kept for parent in path.parents} | {
        path for path, member in kept if not member.is_dir()
    }
    last = dict(_with_names_of_their_own(kept))  # in a folder the later of one name, as unpacking would have it
    for path, member in last.items():
        if len(path.parts) == 1 and _is_link(member) and path.suffix.lower() not in (".ipynb", ".zip"):
            yield _folder(path, "is a symbolic link, which is not followed")  # as it is in a folder of submissions
        elif not member.is_dir():
            for file in _listed(path, partial(_read_member, archive, member)):
                yield replace(file, when=_moment(member))
        elif path not in filled:
            yield _folder(path, "is empty")
    for top in dict.fromkeys(PurePosixPath(path.parts[0]) for path, _ in paths if len(path.parts) > 1):
        if top not in filled and top not in last:  # somebody's folder with nothing but a program's own files
            yield _folder(top, "is empty")


def _name(member: zipfile.ZipInfo) -> str:
    """A member's name. The Mac's own zips are in UTF-8 and do not say so, and would be read as if they were of DOS."""
    if member.flag_bits & 0x800:
        return member.filename
    try:
        return member.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return member.filename


def _with_names_of_their_own(
    kept: list[tuple[PurePosixPath, zipfile.ZipInfo]],
) -> Iterator[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """Loose files of one name and different content may be different people's: the second is called "x (2)"."""
    taken = {path for path, _ in kept}
    called: dict[PurePosixPath, dict[tuple[int, int], PurePosixPath]] = {}  # by name and content
    for path, member in kept:
        if len(path.parts) > 1 or member.is_dir():
            yield path, member
            continue
        known, number, name = called.setdefault(path, {}), 1, path
        while known and name in taken:
            number += 1
            name = path.with_name(f"{path.stem} ({number}){path.suffix}")
        name = known.setdefault((member.CRC, member.file_size), name)
        taken.add(name)
        yield name, member


def _is_link(member: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(member.external_attr >> 16)


def _moment(member: zipfile.ZipInfo) -> datetime | None:
    try:
        return datetime(*member.date_time)
    except ValueError:
        return None


def _listed(path: PurePosixPath, load: Callable[[int], bytes]) -> Iterator[Listed]:
    """A file as it counts: a notebook, a zip of a student's own, or something else."""
    if path.suffix.lower() == ".ipynb":
        yield Listed(path, partial(load, MOST_BYTES))
    elif path.suffix.lower() == ".zip":
        yield from _in_inner_zip(path, partial(load, MAX_INNER_ZIP_BYTES))
    else:
        yield _file(path, "it is not a notebook (.ipynb)")


def _file(path: PurePosixPath, reason: str) -> Listed:
    return Listed(path, partial(refuse, reason), "file")


def _folder(path: PurePosixPath, problem: str) -> Listed:
    return Listed(path, partial(refuse, f"the folder {problem}"), "folder")


def _in_inner_zip(path: PurePosixPath, load: Reader) -> Iterator[Listed]:
    """A student handed in a zip: its notebooks are theirs, and those of the zips in it."""
    waiting, opened, found = [(path, load)], 0, False
    while waiting and opened < MAX_INNER_ZIPS:
        (inner, reads), opened = waiting.pop(0), opened + 1
        try:
            with _inner_zip(reads()) as archive:
                names = [name for name in archive.namelist()[:MAX_MEMBERS] if name.lower().endswith((".ipynb", ".zip"))]
        except (NotebookError, *DAMAGED) as error:
            if opened == 1:
                yield _file(path, f"the zip could not be opened: {error}")
                return
            continue
        for name in dict.fromkeys(names):
            parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..")]
            if any(map(_is_noise, parts)):
                continue
            if name.lower().endswith(".zip"):
                waiting.append((inner.joinpath(*parts), partial(_read_inner_member, reads, name, MAX_INNER_ZIP_BYTES)))
            else:
                found = True
                yield Listed(inner.joinpath(*parts), partial(_read_inner_member, reads, name, MOST_BYTES))
    if not found:
        yield _file(path, "the zip holds no notebook")


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> bytes:
    relative = PurePosixPath(member.filename.replace("\\", "/"))
    if relative.is_absolute() or ".." in relative.parts:
        raise NotebookError("its path leads out of the zip")
    if _is_link(member):
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


def _read_inner_member(load: Reader, name: str, limit: int) -> bytes:
    with _inner_zip(load()) as archive:
        return _read_member(archive, archive.getinfo(name), limit)


def _inner_zip(content: bytes) -> zipfile.ZipFile:
    """A student's zip, unless its list of files is made to be long."""
    stream = _Bounded(content)
    archive = zipfile.ZipFile(stream)
    stream.most = len(content)
    return archive


class _Bounded(io.BytesIO):
    """A file of which no more is read at once than `most`, whatever the file says of itself."""

    most = MAX_INNER_LIST_BYTES

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > self.most:
            raise NotebookError(f"its list of files has {size >> 20} MB, more than the {self.most >> 20} MB allowed")
        return super().read(size)


def refuse(reason: str) -> bytes:
    raise NotebookError(reason)


def _is_noise(name: str) -> bool:
    return name in ("__MACOSX", ".DS_Store", ".ipynb_checkpoints", ".git") or name.startswith("._")
