"""Run every suite, go on after a failure, and end with one table: suite, count, seconds.

Suites of two processes run one after another and print as they go. Suites of one process run beside them, also one
after another, and print when they are done: so neither core waits for the other.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SITE = ROOT / "_build" / "html"
PAPERMILL = "tests/book/test_papermill.py"


@dataclass(frozen=True)
class Suite:
    """One command and how to count what it checked: pytest's report, or a pattern in its output."""

    name: str
    command: tuple[str, ...]
    count: str | None = None  # a regular expression with one group, or None for a pytest run
    needs: str = ""  # the suite that must have run before


@dataclass(frozen=True)
class Outcome:
    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    returncode: int
    output: str


def pytest_suite(name: str, *arguments: str, needs: str = "") -> Suite:
    return Suite(name, (sys.executable, "-m", "pytest", "-q", "--durations=20", *arguments), needs=needs)


def wide_suites() -> list[Suite]:
    """Those that keep two processes busy."""
    chapters = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "book").glob("*.ipynb"))
    nbval = ("--nbval-lax", "--nbval-kernel-startup-timeout=600", "-p", "no:warnings", "--dist", "loadfile")
    whole = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py"))
    browser = browser_tests()
    elsewhere = (f"--ignore={path}" for path in (PAPERMILL, *browser))
    return [
        pytest_suite("package", "tests/lecturelib", *whole, "-n", "2"),
        pytest_suite("nbval", *nbval, "-n", "2", "--max-worker-restart=1", *chapters),
        pytest_suite("exercises", "tests/exercises", "-n", "2"),
        pytest_suite("grading", "tests/grading", "--ignore=tests/grading/sandbox", "-n", "2", "--dist", "loadfile"),
        pytest_suite("browser", *browser, "-n", "2", needs="site"),
        pytest_suite("gates", "tests/book", *elsewhere, "-n", "2"),
    ]


def narrow_suites() -> list[Suite]:
    """Those of one process; the site comes early, for the browser waits for it."""
    build = ("build", "book", "--all", "--config", "_config.yml", "--path-output", ".", "-W", "-n", "--keep-going")
    return [
        Suite("lint", (str(BIN / "ruff"), "check", "."), r"(All checks passed)"),
        Suite("format", (str(BIN / "ruff"), "format", "--check", "."), r"(\d+) files? already formatted"),
        Suite("types", (str(BIN / "mypy"),), r"no issues found in (\d+) source files"),
        Suite("site", (str(BIN / "jupyter-book"), *build), r"build succeeded()"),
        pytest_suite("papermill", PAPERMILL),
        pytest_suite("sandbox", "tests/grading/sandbox"),
    ]


def browser_tests() -> list[str]:
    explorers = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "book").glob("test_explorers*.py"))
    return ["tests/book/test_site.py", "tests/book/test_print.py", *explorers]


def run(suite: Suite, scratch: Path, say: Callable[[str], None]) -> Outcome:
    """Run one suite; `say` gets its output, line by line, as it comes."""
    lines = [f"\n=== {suite.name}: {' '.join(suite.command)}\n"]
    say(lines[0])
    report = scratch / f"{suite.name}.xml"
    command = suite.command if suite.count else (*suite.command, f"--junit-xml={report}")
    environment = os.environ | {
        "LECTURELIB_SITE": str(SITE),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",  # processes run side by side; more threads would only wait for each other
    }
    start = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            say(line)
            lines.append(line)
    returncode = process.returncode
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
    return Outcome(suite.name, passed, failed, skipped, seconds, returncode, "".join(lines))


def print_now(text: str) -> None:
    print(text, end="", flush=True)


def run_beside(wide: list[Suite], narrow: list[Suite], scratch: Path) -> list[Outcome]:
    """Run the wide suites one after another and the narrow ones beside them; no output stands inside another."""
    outcomes: list[Outcome] = []
    lane = ThreadPoolExecutor(max_workers=1)
    try:
        beside = {suite.name: lane.submit(run, suite, scratch, lambda line: None) for suite in narrow}
        for suite in wide:
            for name in [name for name, future in beside.items() if name == suite.needs or future.done()]:
                outcomes.append(show(beside.pop(name)))
            outcomes.append(run(suite, scratch, print_now))
        return outcomes + [show(future) for future in beside.values()]
    finally:
        lane.shutdown(cancel_futures=True)  # after Ctrl-C, begin no other


def show(suite: Future[Outcome]) -> Outcome:
    print_now(suite.result().output)
    return suite.result()


def count_tests(report: Path) -> tuple[int, int, int]:
    if not report.exists():
        return 0, 1, 0
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ElementTree.parse(report).iter("testsuite"):
        for key in totals:
            totals[key] += int(suite.get(key, 0))
    failed = totals["failures"] + totals["errors"]
    return totals["tests"] - failed - totals["skipped"], failed, totals["skipped"]


def print_table(outcomes: list[Outcome], seconds: float) -> None:
    print(f"\n{'suite':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for outcome in outcomes:
        mark = "" if outcome.returncode == 0 else "  FAILED"
        print(
            f"{outcome.name:<12}{outcome.passed:>8}{outcome.failed:>8}{outcome.skipped:>9}{outcome.seconds:>9.1f}{mark}"
        )
    passed, failed, skipped = (sum(getattr(o, field) for o in outcomes) for field in ("passed", "failed", "skipped"))
    print(f"{'all':<12}{passed:>8}{failed:>8}{skipped:>9}{seconds:>9.1f}\n")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    wide, narrow = wide_suites(), narrow_suites()
    names = [suite.name for suite in (*narrow, *wide)]
    parser.add_argument("only", nargs="*", metavar="SUITE", help=f"run only these: {', '.join(names)}")
    only = set(parser.parse_args().only) or set(names)
    if unknown := only - set(names):
        parser.error(f"no suite named {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    sys.path.remove(str(ROOT / "tests"))  # its folder lecturelib holds tests, and would hide the package
    from lecturelib.machine.bf16 import settle_bf16

    settle_bf16()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        wide, narrow = ([suite for suite in lane if suite.name in only] for lane in (wide, narrow))
        outcomes = run_beside(wide, narrow, Path(scratch))
    print_table(sorted(outcomes, key=lambda outcome: names.index(outcome.name)), time.perf_counter() - start)
    return int(any(outcome.returncode for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
