"""Three ways to bring one file: the user's own pip, the user's own npm, or an address on the web."""

import contextlib
import http.client
import os
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from tqdm import tqdm

from lecturelib.data.store.data_set import Archive

TIMEOUT = 30.0  # seconds without an answer before a web address is given up
CHUNK = 1 << 16

# For a source distribution pip wants metadata before it hands the file over, and would run the package's setup.py for
# it: code we do not need, often too old to run. This stands in for setuptools, and answers with the name and version.
_STAND_IN = """
import os, types

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = "{stem}-{version}.dist-info"
    os.makedirs(os.path.join(metadata_directory, folder), exist_ok=True)
    with open(os.path.join(metadata_directory, folder, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return folder

def get_requires_for_build_wheel(config_settings=None):
    return []

__legacy__ = types.SimpleNamespace(
    prepare_metadata_for_build_wheel=prepare_metadata_for_build_wheel,
    get_requires_for_build_wheel=get_requires_for_build_wheel,
)
"""


class FetchError(OSError):
    """A data set could not be had; the message says why and what to do."""


def bring(archive: Archive, folder: Path) -> Path:
    """Bring the archive's file into an empty folder, with a progress bar. The content is not checked here."""
    scheme, _, spec = archive.where.partition(":")
    folder = folder.absolute()  # pip and npm run in it
    if scheme == "pip":
        return _bring_by_pip(archive, spec, folder)
    if scheme == "npm":
        return _bring_by_npm(archive, spec, folder)
    return _bring_by_web(archive, folder)


def _bring_by_pip(archive: Archive, spec: str, folder: Path) -> Path:
    name, _, version = spec.partition("==")
    # Asked by path: setuptools answers `importlib.util.find_spec("pip")` by letting go of its distutils, for this whole
    # process, and without it torch can compile nothing.
    has_pip = PathFinder.find_spec("pip") is not None
    pip = [sys.executable, "-m", "pip"] if has_pip else [shutil.which("pip") or ""]
    if not pip[0]:
        raise FetchError(f"{archive.where} needs pip, and this Python has none: run `{sys.executable} -m ensurepip`")
    stand_in = folder / "stand_in" / "setuptools"
    (stand_in / "build_meta").mkdir(parents=True)
    (stand_in / "__init__.py").touch()
    source = _STAND_IN.format(name=name, stem=name.replace("-", "_"), version=version)
    (stand_in / "build_meta" / "__init__.py").write_text(source, encoding="utf-8")
    requirements = folder / "requirements.txt"  # with the hash pip takes exactly this file, and nothing unchecked
    requirements.write_text(f"{spec} --hash=sha256:{archive.sha256}\n", encoding="utf-8")
    command = [*pip, "download", "--quiet", "--no-deps", "--no-build-isolation", "--use-pep517", "--require-hashes"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(folder / "out"), "-r", str(requirements)]
    path = os.pathsep.join(filter(None, [str(stand_in.parent), os.environ.get("PYTHONPATH", "")]))
    _run(command, archive, folder, {"PYTHONPATH": path})
    return _only_file(folder / "out", archive)


def _bring_by_npm(archive: Archive, spec: str, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(f"{archive.where} needs npm, which is not installed (it comes with Node.js)")
    (folder / "out").mkdir()
    command = [npm, "pack", spec, "--silent", "--ignore-scripts", "--pack-destination", str(folder / "out")]
    _run([*command, "--cache", str(folder / "cache")], archive, folder, {})
    return _only_file(folder / "out", archive)


def _only_file(folder: Path, archive: Archive) -> Path:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    if len(files) != 1:
        raise FetchError(f"{archive.where} gave {len(files)} files where one was expected")
    return files[0]


def _run(command: list[str], archive: Archive, folder: Path, environment: dict[str, str]) -> None:
    """Run a downloader, its temporary files inside our folder, where the progress bar can watch them grow."""
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder), **environment}
    with _bar(archive) as bar, _watched(folder, archive, bar):
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    if done.returncode:
        raise FetchError(f"{archive.where}: {_reason(done.stdout + done.stderr, done.returncode)}")


def _reason(output: str, code: int) -> str:
    """The line of pip's or npm's output that says what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("DO NOT MATCH THE HASHES" in line for line in lines):
        return "the index offers this file with other content than the course expects (its SHA-256 differs)"
    errors = [line for line in lines if line.lower().startswith(("error", "npm error", "npm err!"))]
    return (errors or lines or [f"it stopped with exit code {code}"])[0].removeprefix("ERROR: ")


def _bring_by_web(archive: Archive, folder: Path) -> Path:
    path = folder / archive.file
    request = urllib.request.Request(archive.where, headers={"User-Agent": "lecturelib"})
    try:
        with (
            urllib.request.urlopen(request, timeout=TIMEOUT) as answer,
            path.open("wb") as file,
            _bar(archive) as bar,
        ):
            promised = int(answer.headers.get("Content-Length") or 0)
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
    except urllib.error.HTTPError as error:
        error.close()
        raise FetchError(f"{archive.where} answered {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchError(f"{archive.where} could not be read ({str(reason) or type(error).__name__})") from error
    if path.stat().st_size < promised:
        raise FetchError(f"{archive.where} broke off after {path.stat().st_size:,} of {promised:,} bytes")
    return path


def _bar(archive: Archive) -> "tqdm[object]":
    """A progress bar in bytes, at a terminal and in a notebook; a log file is spared it."""
    ipython = sys.modules.get("IPython")
    shown = sys.stderr.isatty() or (ipython is not None and ipython.get_ipython() is not None)
    return tqdm(
        total=archive.size,
        desc=archive.file,
        unit="B",
        unit_scale=True,
        leave=False,
        disable=not shown,
        file=sys.stderr,
    )


@contextlib.contextmanager
def _watched(folder: Path, archive: Archive, bar: "tqdm[object]") -> Iterator[None]:
    """Move the bar as the files of the folder grow, ten times a second, until the work inside is done."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            bar.update(max(0, min(_bytes_in(folder), archive.size) - bar.n))

    thread = threading.Thread(target=watch, daemon=True)
    if not bar.disable:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if not bar.disable:
            thread.join()


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a temporary file may be gone by now
                total += os.stat(os.path.join(place, name)).st_size
    return total
