"""Which installed packages a submission may see: those it may import, and what those need, by their own metadata."""

import glob
import os
import re
import site
import sys
import sysconfig
from importlib import metadata

MAY_IMPORT = ("torch", "numpy", "matplotlib", "tqdm")


def not_there(package: str) -> str:
    """What to say of a package that a check or the grader does not let a submission use."""
    allowed = ", ".join(MAY_IMPORT)
    return f"{package} is not there when your notebook is graded: import {allowed} and Python's own modules, no others"


def may_import(package: str) -> bool:
    """Whether a submission may use a package: one of those, what they need, or Python's own."""
    if package in MAY_IMPORT or package in sys.stdlib_module_names or package in ("__main__", "builtins"):
        return True
    return any(package in (name, name.removesuffix(".py")) for each in needed() for name in _top_level(each))


def directories() -> list[str]:
    """The site-packages of this Python."""
    found = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    return list(dict.fromkeys(path for path in found if path and os.path.isdir(path)))


def foreign_directories(folders: list[str]) -> list[str]:
    """Packages of other Pythons, or of the one that a virtual environment was made from, below these folders."""
    own = {os.path.realpath(folder) for folder in directories()}
    patterns = [f"{folder}/{inner}" for folder in folders for inner in ("python3*/*-packages", "*-packages")]
    found = {os.path.realpath(path) for pattern in patterns for path in glob.glob(pattern) if os.path.isdir(path)}
    return sorted(found - own)


def shown(folder: str) -> list[str]:
    """The entries of a site-packages directory that belong to packages a submission may see."""
    wanted = {name for package in needed() for name in _top_level(package)}
    return sorted(name for name in os.listdir(folder) if name in wanted)


def needed() -> list[metadata.Distribution]:
    """The installed distributions of `MAY_IMPORT`, of what they need, and so on; extras are nobody's need."""
    found: dict[str, metadata.Distribution] = {}
    waiting, seen = list(MAY_IMPORT), set()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another system, or missing: then importing it says so
            continue
        for requirement in found[name].requires or ():
            if "extra ==" not in requirement:
                waiting += re.findall(r"^[A-Za-z0-9._-]+", requirement)
    return list(found.values())


def _top_level(package: metadata.Distribution) -> set[str]:
    """What a distribution has put into site-packages, by its list of files; without one, by its names."""
    record = package.read_text("RECORD")
    if record is None:
        names = (package.read_text("top_level.txt") or package.name).split()
        return {*names, *(f"{name}.py" for name in names)}
    return {line.partition(",")[0].partition("/")[0] for line in record.splitlines()} - {"..", "__pycache__", ""}


def python_directories() -> list[str]:
    """Where this Python's own modules and shared libraries are."""
    found = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.join(sys.base_prefix, "lib")]
    return list(dict.fromkeys(path for path in found if path and os.path.isdir(path)))
