"""Where the course lives: one address, in `_config.yml`, from which the site, install cells and all links follow."""

import re
from pathlib import Path
from urllib.parse import urlsplit

_URL = re.compile(r"^repository:\n(?:[ \t]+.*\n|[ \t]*\n)*?[ \t]+url:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
PAGES_HOSTS = {"github.com": "github.io", "gitlab.com": "gitlab.io"}  # where a host publishes the site of a repository

_INSTALL = """\
# Run once where lecturelib is missing (on Colab, say); silent everywhere else.
import subprocess
import sys
from importlib.util import find_spec

if find_spec("lecturelib") is None:
    address = "git+REPOSITORY"
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    if subprocess.run([*pip, f"lecturelibEXTRA @ {address}"]).returncode != 0:
        raise RuntimeError(
            f"lecturelib could not be installed from {address}. Check the network and try again, or clone the course, "
            "run `pip install --editable '.[book]'` in the clone, restart the kernel and run this cell again."
        )"""


def repository_url(root: Path) -> str:
    """The repository's address, from the one place that holds it."""
    config = root / "_config.yml"
    if not config.is_file():
        raise FileNotFoundError(f"no {config}; its repository url is what the first cell installs from")
    match = _URL.search(config.read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{config} has no repository url")
    return match.group(1).rstrip("/")


def site_url(repository: str) -> str:
    """Where the site of a repository is published: owner.github.io/name for github.com/owner/name."""
    address = urlsplit(repository)
    owner, _, name = address.path.strip("/").partition("/")
    if address.netloc not in PAGES_HOSTS or not name:
        hosts = ", ".join(PAGES_HOSTS)
        raise ValueError(f"the repository's address must be https://HOST/OWNER/NAME on {hosts}, got {repository}")
    home = f"{owner}.{PAGES_HOSTS[address.netloc]}".lower()
    return f"https://{home}" if name.lower() == home else f"https://{home}/{name}"


def file_url(repository: str, branch: str, path: str) -> str:
    """Where the repository's host shows a file, or with "." the repository itself."""
    return repository if path == "." else f"{repository}/blob/{branch}/{path}"


def colab_url(colab: str, repository: str, branch: str, path: str) -> str:
    """Where Colab opens a notebook of the repository."""
    return f"{colab.rstrip('/')}/github{urlsplit(repository).path}/blob/{branch}/{path}"


def install_source(repository: str, extra: str = "") -> str:
    """The first cell of every notebook: silent where lecturelib is there, and clear about what to do where it can't be.

    Args:
        repository: the address of the repository
        extra: what else to install, such as "[book]"
    """
    return _INSTALL.replace("REPOSITORY", repository).replace("EXTRA", extra)
