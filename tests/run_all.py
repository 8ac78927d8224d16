"""Run every suite, go on after a failure, and end with one table: suite, count, seconds."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SITE = ROOT / "_build" / "html"


@dataclass(frozen=True)
class Suite:
    """One command and how to count what it checked: pytest's report, or a pattern in its output."""

    name: str
    command: tuple[str, ...]
    count: str | None = None  # a regular expression with one group, or None for a pytest run


@dataclass(frozen=True)
class Outcome:
    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    returncode: int


def pytest_suite(name: str, *arguments: str) -> Suite:
    return Suite(name, (sys.executable, "-m", "pytest", "-q", "--durations=20", *arguments))


def suites() -> list[Suite]:
    chapters = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "book").glob("*.ipynb"))
    build = ("build", "book", "--all", "--config", "_config.yml", "--path-output", ".", "-W", "-n", "--keep-going")
    nbval = ("--nbval-lax", "--nbval-kernel-startup-timeout=600", "-p", "no:warnings")
    papermill = "tests/book/test_papermill.py"
    explorers = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "book").glob("test_explorers*.py"))
    browser = ("tests/book/test_site.py", "tests/book/test_print.py", *explorers)
    return [
        Suite("lint", (str(BIN / "ruff"), "check", "."), r"(All checks passed)"),
        Suite("format", (str(BIN / "ruff"), "format", "--check", "."), r"(\d+) files? already formatted"),
        Suite("types", (str(BIN / "mypy"),), r"no issues found in (\d+) source files"),
        pytest_suite("package", "tests/lecturelib", "tests/test_package.py", "tests/test_workflows.py", "-n", "2"),
        pytest_suite("exercises", "tests/exercises", "-n", "2"),
        pytest_suite("grading", "tests/grading", "--ignore=tests/grading/sandbox", "-n", "2", "--dist", "loadfile"),
        pytest_suite("sandbox", "tests/grading/sandbox"),
        pytest_suite("nbval", *nbval, "-n", "2", "--dist", "loadfile", "--max-worker-restart=1", *chapters),
        pytest_suite("papermill", papermill, "-n", "2"),
        Suite("site", (str(BIN / "jupyter-book"), *build), r"build succeeded()"),
        pytest_suite("browser", *browser, "-n", "2"),
        pytest_suite("gates", "tests/book", *(f"--ignore={path}" for path in (papermill, *browser)), "-n", "2"),
    ]


def run(suite: Suite, scratch: Path) -> Outcome:
    print(f"\n=== {suite.name}: {' '.join(suite.command)}", flush=True)
    report = scratch / f"{suite.name}.xml"
    command = suite.command if suite.count else (*suite.command, f"--junit-xml={report}")
    environment = os.environ | {
        "LECTURELIB_SITE": str(SITE),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",  # suites run two processes side by side; more threads would only wait for each other
    }
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    returncode = process.wait()
    seconds = time.perf_counter() - start
    if suite.count:
        match = re.search(suite.count, "".join(lines))
        counted = int(match.group(1)) if match and match.group(1).isdigit() else 1
        passed, failed, skipped = (counted, 0, 0) if returncode == 0 else (0, 1, 0)
    else:
        passed, failed, skipped = count_tests(report)
    may_skip = os.environ.get("ALLOW_SKIPS") == "1" and skipped
    if returncode == 0 and passed == 0 and not may_skip:  # a suite that ran nothing has shown nothing
        returncode, failed = 1, 1
    return Outcome(suite.name, passed, failed, skipped, seconds, returncode)


def count_tests(report: Path) -> tuple[int, int, int]:
    if not report.exists():
        return 0, 1, 0
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ElementTree.parse(report).iter("testsuite"):
        for key in totals:
            totals[key] += int(suite.get(key, 0))
    failed = totals["failures"] + totals["errors"]
    return totals["tests"] - failed - totals["skipped"], failed, totals["skipped"]


def print_table(outcomes: list[Outcome]) -> None:
    print(f"\n{'suite':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for outcome in outcomes:
        mark = "" if outcome.returncode == 0 else "  FAILED"
        print(
            f"{outcome.name:<12}{outcome.passed:>8}{outcome.failed:>8}{outcome.skipped:>9}{outcome.seconds:>9.1f}{mark}"
        )
    passed, failed, skipped = (sum(getattr(o, field) for o in outcomes) for field in ("passed", "failed", "skipped"))
    print(f"{'all':<12}{passed:>8}{failed:>8}{skipped:>9}{sum(o.seconds for o in outcomes):>9.1f}\n")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [suite.name for suite in suites()]
    parser.add_argument("only", nargs="*", metavar="SUITE", help=f"run only these: {', '.join(names)}")
    only = parser.parse_args().only
    if unknown := set(only) - set(names):
        parser.error(f"no suite named {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    sys.path.remove(str(ROOT / "tests"))  # its folder lecturelib holds tests, and would hide the package
    from lecturelib.machine.bf16 import settle_bf16

    settle_bf16()
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = [run(suite, Path(scratch)) for suite in suites() if not only or suite.name in only]
    print_table(outcomes)
    return int(any(outcome.returncode for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
