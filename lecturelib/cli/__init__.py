"""The command line: `lecturelib COMMAND ...`. Each command is one file in this room with an `add_parser(subparsers)`.

A command's `add_parser` sets `run`, a function from the parsed arguments to an exit code:

    parser = subparsers.add_parser("data", help="list and fetch data sets")
    parser.set_defaults(run=run, computes=True)

`computes` is for commands that use torch: what the processor gets wrong is found out before torch is imported.
Import heavy things (torch, models) inside `run`, so that `lecturelib --help` answers at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import lecturelib
from lecturelib.cli import chat, check, data, grade, info, release, review, sample, similarity, train, translate
from lecturelib.machine.bf16 import settle_bf16

COMMANDS = (data, train, sample, chat, translate, info, check, release, grade, review, similarity)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line, one subcommand for each module in COMMANDS."""
    parser = argparse.ArgumentParser(
        prog="lecturelib",
        description="Train, use and grade the models of a course on attention and transformers.",
        epilog="`lecturelib COMMAND --help` explains one. Set LECTURELIB_TRACEBACK=1 to see the traceback of an error.",
    )
    parser.add_argument("--version", action="version", version=f"lecturelib {lecturelib.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; a mistake of the user's is one line on stderr and exit code 2.

    The package raises ValueError, LookupError or OSError for what a user can put right. Anything else is a bug of
    ours and keeps its traceback, as everything does under LECTURELIB_TRACEBACK=1.
    """
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    if rest and (not hasattr(arguments, "texts") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # `translate FOLDER --beam 8 TEXT`: argparse takes no list of words after an option
        arguments.texts += rest
    try:
        if getattr(arguments, "computes", False):
            settle_bf16()
        return arguments.run(arguments)
    except KeyboardInterrupt:
        print("lecturelib: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, `head` for one, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - or Python complains again at exit
        return 141
    except (ValueError, LookupError, OSError) as error:
        if os.environ.get("LECTURELIB_TRACEBACK"):
            raise
        message = error.args[0] if isinstance(error, KeyError) and error.args else error
        print(f"lecturelib: {' '.join(str(message).split())}", file=sys.stderr)
        return 2
