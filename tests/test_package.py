"""The wheel holds the package and nothing else, and installs on its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy, so that a build never leaves files in the clone."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for folder in ("lecturelib", "tests", "solutions", "book", "exercises"):  # must not leak into the wheel
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


def output(command: list[str | Path], folder: Path) -> str:
    """What a command prints that sees installed packages only: PYTHONPATH often leads to the clone."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, env=environment).stdout


def pinned(path: Path) -> dict[str, str]:
    """Name and version of every pin in a file of requirements."""
    pins = (Requirement(line) for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#")
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}


def test_requirements_pin_what_the_package_and_its_extras_ask_for_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    asked = {r.name: r.specifier for group in groups.values() for r in map(Requirement, group)}
    pins = pinned(ROOT / "tests" / "requirements.txt") | pinned(ROOT / "requirements.txt")
    assert {name for name in asked if canonicalize_name(name) not in pins} == set()
    for name, allowed in asked.items():
        assert pins[canonicalize_name(name)] in allowed, name
    chosen = (ROOT / "requirements.txt").read_text(encoding="utf-8").partition("# What those need")[0]
    direct = {Requirement(line).name for line in chosen.splitlines() if line and line[0] != "#"}
    assert direct == {name for group, names in groups.items() if group != "hub" for name in map(name_of, names)}


def name_of(requirement: str) -> str:
    return Requirement(requirement).name


def test_package_runs_without_scikit_learn(tmp_path: Path) -> None:
    """It is an extra: everything imports without it, and whoever asks for the digits is told where they are."""
    program = "\n".join(
        [
            "import sys, pkgutil, importlib, lecturelib",
            "sys.modules['sklearn'] = None",
            "for module in pkgutil.walk_packages(lecturelib.__path__, 'lecturelib.'):",
            "    if not {'__main__', 'worker'} & set(module.name.split('.')): importlib.import_module(module.name)",
            "try: lecturelib.data.digits()",
            "except ModuleNotFoundError as error: print(error)",
        ]
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert result.stdout == "the digits come with scikit-learn: pip install 'lecturelib[book]'\n"


def test_wheel_holds_only_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"lecturelib"}
    assert "lecturelib/py.typed" in names
    assert not [name for name in names if name.endswith(".ipynb") or "/tests/" in name or "/graders/" in name]


def test_wheel_holds_every_source_and_data_file(wheel: Path) -> None:
    """A data file that setuptools is not told about is missing only on the user's machine."""
    tracked = subprocess.run(["git", "ls-files", "lecturelib"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert set(tracked.stdout.split()) <= set(zipfile.ZipFile(wheel).namelist())


def test_wheel_installs_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=False)
    python = tmp_path / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel],
        check=True,
        capture_output=True,
    )
    # The dependencies are this environment's: installing torch again would prove nothing about our wheel.
    site = output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], tmp_path).strip()
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    script = "import lecturelib, lecturelib.layers; print(lecturelib.__version__, lecturelib.__file__)"
    version, location = output([python, "-c", script], tmp_path).split()
    assert version in wheel.name
    assert Path(location).is_relative_to(tmp_path)
    assert "usage: lecturelib" in output([tmp_path / "bin" / "lecturelib", "--help"], tmp_path)
