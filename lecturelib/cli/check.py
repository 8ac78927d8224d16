"""`lecturelib check`: a student's own notebook, checked at the terminal."""

import argparse
import os
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `check`."""
    parser = subparsers.add_parser(
        "check",
        help="run a notebook of your own and its checks",
        description="Runs the notebook's code cells in this process, then the checks it carries, and prints what "
        "`check()` would show. Exit code 0 if every check passes, 1 if not, 2 if the notebook cannot be read. "
        "For notebooks of others use `lecturelib grade`, which confines them.",
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--exercise", metavar="NAME", help="only this exercise")
    parser.set_defaults(run=run, computes=True)


def run(arguments: argparse.Namespace) -> int:
    """Check one notebook and print the report."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # a plot must not wait for a window to be closed
    from lecturelib.grading.check.terminal import check_notebook

    result = check_notebook(arguments.notebook, arguments.exercise)
    for line in result.failed_cells:
        print(line)
    print(result.report)
    return 0 if result.report.passed else 1
