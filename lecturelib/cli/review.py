"""`lecturelib review`: read written answers, comment, and change any score, on a page of this machine alone."""

import argparse
import sys
import webbrowser
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "review",
        help="read written answers, comment, change scores",
        description="Open a local page on a graded class. What is saved there goes to the journal, to the feedback "
        "pages and to every gradebook. Nobody but you can reach it; Ctrl-C ends it.",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder that `lecturelib grade --out` wrote")
    parser.add_argument("--port", type=int, default=0, help="to listen on, on this machine (default: any that is free)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from lecturelib.grading.batch.desk import serve
    from lecturelib.grading.batch.journal import JournalError

    if not 0 <= arguments.port < 65536:
        raise ValueError(f"--port is a number from 1 to 65535, got {arguments.port}")
    try:
        serve(arguments.out, arguments.port, (lambda address: None) if arguments.no_browser else webbrowser.open)
    except JournalError as error:
        print(f"lecturelib: {error}", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        print("the review is saved", file=sys.stderr)
    return 0
