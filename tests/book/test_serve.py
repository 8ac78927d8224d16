"""`make book` serves the site, or says in one line why it cannot."""

import socket
import subprocess
import sys
from pathlib import Path

SERVE = Path(__file__).resolve().parents[2] / "book" / "serve.py"


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SERVE), *arguments], capture_output=True, text=True, check=False)


def test_busy_port_says_so_and_names_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = serve("anywhere", "--port", str(port), "--check")
    assert result.returncode == 1
    assert result.stderr.startswith(f"Port {port} is busy. Choose another: make book PORT=")
    assert result.stderr.count("\n") == 1


def test_port_that_does_not_exist_says_so() -> None:
    result = serve("anywhere", "--port", "70000", "--check")
    assert result.returncode == 1
    assert result.stderr == "Port 70000 does not exist: choose one from 1024 to 65535.\n"


def test_free_port_is_silent() -> None:
    result = serve("anywhere", "--port", "0", "--check")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_missing_site_says_how_to_build_it(tmp_path: Path) -> None:
    result = serve(str(tmp_path), "--port", "0")
    assert result.returncode == 1
    assert "build it with `make site`" in result.stderr
