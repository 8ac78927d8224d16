"""`lecturelib data`: see which data sets the course uses, and fetch them ahead of time."""

import argparse


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `data` and its own subcommands."""
    parser = subparsers.add_parser("data", help="list and fetch the data sets of the course")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Say what can be had."""
    print("dates (generated)")
    return 0
