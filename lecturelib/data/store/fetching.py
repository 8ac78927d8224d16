"""Bring a data set's files: from the offline folder, from the cache, or from their source into the cache."""

import os
import shutil
import sys
from pathlib import Path

from lecturelib.data.store.data_set import Archive, DataSet, Route
from lecturelib.data.store.folders import is_intact, locked, offline_folder, sha256_of, working_folder
from lecturelib.data.store.registry import find
from lecturelib.data.store.sources import FetchError, bring
from lecturelib.machine.caches import cache_folder


def fetch(name: str) -> dict[str, Path]:
    """Return the set's files by file name, each with the right SHA-256, fetching what is not here yet.

    Looks in LECTURELIB_DATA, then in the cache folder, then asks each route in turn. Whoever fetches for the first
    time is told the licence. A download that fails leaves nothing behind; a damaged file in the cache is replaced.
    """
    data_set = find(name)
    if not data_set.routes:
        return {}
    folder = cache_folder()
    for route in data_set.routes:
        if (files := _present(route, offline_folder(), folder)) is not None:
            return files
    with locked(folder, data_set.name):
        for route in data_set.routes:  # someone else may have fetched it while we waited
            if (files := _present(route, offline_folder(), folder)) is not None:
                return files
        _discard_damaged(data_set, folder)
        return _fetch_by_some_route(data_set, folder)


def fetch_to(name: str, folder: Path) -> list[Path]:
    """Copy the set's files into a folder that LECTURELIB_DATA can point at; returns the copies."""
    copies = []
    for file, path in fetch(name).items():
        with working_folder(folder, "store") as temporary:
            shutil.copyfile(path, temporary / file)
            os.replace(temporary / file, folder / file)
        copies.append(folder / file)
    return copies


def _present(route: Route, offline: Path | None, folder: Path) -> dict[str, Path] | None:
    """The route's files if all of them are here and intact, otherwise None."""
    files = {}
    for archive in route:
        path = _in_offline_folder(archive, offline) or _in_cache(archive, folder)
        if path is None:
            return None
        files[archive.file] = path
    return files


def _in_offline_folder(archive: Archive, offline: Path | None) -> Path | None:
    if offline is None or not (offline / archive.file).is_file():
        return None
    path = offline / archive.file
    if not is_intact(path, archive.sha256):
        raise FetchError(
            f"{path} is damaged: its SHA-256 is {sha256_of(path)[:12]}…, not {archive.sha256[:12]}…. "
            "It is in the folder that LECTURELIB_DATA names, which we never change: replace or delete the file."
        )
    return path


def _in_cache(archive: Archive, folder: Path) -> Path | None:
    path = folder / archive.file
    return path if path.is_file() and is_intact(path, archive.sha256) else None


def _discard_damaged(data_set: DataSet, folder: Path) -> None:
    for archive in (archive for route in data_set.routes for archive in route):
        path = folder / archive.file
        if path.is_file() and not is_intact(path, archive.sha256):
            _tell(f"{path} is damaged (its SHA-256 is not {archive.sha256[:12]}…); fetching it again.")
            path.unlink()


def _fetch_by_some_route(data_set: DataSet, folder: Path) -> dict[str, Path]:
    reasons = []
    for route in data_set.routes:
        try:
            return _fetch_by(route, data_set, folder)
        except FetchError as error:
            reasons.append(str(error).rstrip("."))
    wanted = " + ".join(archive.file for archive in data_set.routes[0])
    raise FetchError(
        f"could not fetch {data_set.name!r}. Tried: {'; '.join(reasons)}. Nothing was left behind, so try again when "
        f"the connection is back. Without one, put {wanted} into a folder and set LECTURELIB_DATA to it."
    )


def _fetch_by(route: Route, data_set: DataSet, folder: Path) -> dict[str, Path]:
    missing = [archive for archive in route if _present((archive,), offline_folder(), folder) is None]
    _tell(
        f"Fetching {data_set.name} ({human_size(sum(archive.size for archive in missing))}): {data_set.summary}.\n"
        f"  licence: {data_set.licence}\n  source:  {', '.join(archive.where for archive in missing)}\n"
        f"  cache:   {folder}"
    )
    for archive in missing:
        with working_folder(folder, data_set.name) as temporary:
            path = bring(archive, temporary)
            if (found := sha256_of(path)) != archive.sha256:
                raise FetchError(
                    f"{archive.where} gave {path.stat().st_size:,} bytes with SHA-256 {found[:12]}…, where "
                    f"{archive.size:,} bytes with {archive.sha256[:12]}… were expected"
                )
            os.replace(path, folder / archive.file)
    files = _present(route, offline_folder(), folder)
    if files is None:
        raise FetchError(f"the files of {data_set.name!r} vanished from {folder} while being fetched")
    return files


def human_size(size: int) -> str:
    """Bytes as people say them: 939711 -> '0.9 MB'."""
    return f"{size / 1e6:.1f} MB" if size >= 50_000 else f"{size / 1e3:.1f} kB"


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
