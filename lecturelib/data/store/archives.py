"""Read single members of a zip, wheel or tar archive without ever unpacking it onto the disk."""

import fnmatch
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path


def read_members(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the regular files whose names match the pattern, in the archive's order.

    A pattern without a match is an error that names both: the archive is not the one we know.
    """
    matched = False
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in fnmatch.filter(archive.namelist(), pattern):
                matched = True
                yield name, archive.read(name)
    else:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and fnmatch.fnmatch(member.name, pattern):
                    file = archive.extractfile(member)
                    assert file is not None  # a regular file always has content
                    matched = True
                    yield member.name, file.read()
    if not matched:
        raise ValueError(f"{path} has no member like {pattern!r}")


def read_member(path: Path, pattern: str) -> bytes:
    """The content of the one member that matches; it stops looking at the first."""
    return next(read_members(path, pattern))[1]
