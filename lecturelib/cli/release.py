"""`lecturelib release`: write exercises/ from solutions/, or say what has drifted."""

import argparse
import sys
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `release`."""
    parser = subparsers.add_parser(
        "release",
        help="write the exercise notebooks from the solution notebooks",
        description="For every solutions/NAME.ipynb with its rubric tests/exercises/graders/NAME.py, write "
        "exercises/NAME.ipynb: stubs in place of solutions, points, time, difficulty, and checks. With --check "
        "nothing is written, and the exit code is 1 if an exercise is out of step with its solution.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="sets to release, such as 08_attention_layer")
    parser.add_argument("--check", action="store_true", help="write nothing; name what has drifted")
    parser.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="write the exercises to this zip, to hand out: no solutions, tests or rubrics; exercises/ stays as it is",
    )
    parser.add_argument(
        "--rubrics",
        type=Path,
        metavar="DIR",
        help="a folder of your own rubrics, such as a private one (default: tests/exercises/graders); needs --bundle",
    )
    parser.add_argument("--root", type=Path, default=Path(), help="the root of the course (default: this folder)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Release, or check."""
    from lecturelib.grading.release.notebooks import drift, release, renew, sets_in, strays

    if arguments.rubrics and not arguments.bundle:
        raise ValueError("--rubrics goes with --bundle FILE: exercises/ is made from the course's own rubrics")
    sets = sets_in(arguments.root, arguments.names, arguments.rubrics)
    if arguments.bundle:
        from lecturelib.grading.release.bundle import write_bundle

        write_bundle(arguments.bundle, {f"exercises/{paths.name}.ipynb": release(paths) for paths in sets})
        print(arguments.bundle)
        return 0
    if arguments.check:
        found = [line for paths in sets for line in drift(paths)]
        found += [] if arguments.names else strays(arguments.root)
        for line in found:
            print(line, file=sys.stderr)
        if found:
            print("Run `lecturelib release` and commit what it writes.", file=sys.stderr)
        return 1 if found else 0
    for paths in sets:
        text = renew(paths)
        paths.exercise.parent.mkdir(exist_ok=True)
        paths.exercise.write_text(text, encoding="utf-8")
        print(paths.exercise)
    return 0
