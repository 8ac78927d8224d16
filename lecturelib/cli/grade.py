"""`lecturelib grade`: grade a folder or a zip of notebooks, safely, and write everything an instructor needs."""

import argparse
import contextlib
import hashlib
import math
import os
import secrets
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lecturelib.grading.batch.grader import Grader
    from lecturelib.grading.batch.intake import Found, Intake
    from lecturelib.grading.batch.journal import Journal
    from lecturelib.grading.batch.late import LatePolicy
    from lecturelib.grading.batch.record import Record
    from lecturelib.grading.batch.roster import Roster
    from lecturelib.grading.batch.schedule import FaultTolerantPool
    from lecturelib.grading.rubric.results import Graded
    from lecturelib.grading.rubric.rubric import Rubric
    from lecturelib.grading.sandbox.limits import Limits

EXIT_CODES = """\
exit codes
  0    every submission has a result (an unreadable one has a result that says so)
  2    nothing was graded: the command, the folder or the rubric is wrong
  3    this machine cannot confine submissions as well as --require-tier asks
  4    the output folder belongs to another run, or another grader is at work in it
  5    a result could not be written, such as to a full disk; the same command goes on where it stopped
  6    the rows that came out are not the people who went in; the message names them
  130  stopped with Ctrl-C; the same command goes on where it stopped
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "grade",
        help="grade a folder or a zip of submissions",
        description="Run each notebook confined, test it, and write feedback pages, gradebooks and an item report. "
        "Tests and solutions never enter the process that runs a submission. Results are kept as they come: "
        "interrupted, the same command goes on where it stopped.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "submissions", type=Path, help="a folder, a zip (also as Canvas or Moodle make it), or one notebook"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the results go")
    parser.add_argument("--exercise", metavar="NAME", help="the exercise set, such as 08_attention_layer")
    parser.add_argument(
        "--rubrics",
        type=Path,
        default=Path("tests/exercises/graders"),
        metavar="DIR",
        help="where the rubric files are (default: %(default)s)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes to grade with (default: one for each core)")
    parser.add_argument(
        "--seed", type=int, help="the run's secret, from which test inputs are drawn (default: drawn, and kept)"
    )
    parser.add_argument(
        "--new-seed", action="store_true", help="grade everything again, on other inputs; what was reviewed is kept"
    )
    parser.add_argument(
        "--roster", type=Path, metavar="FILE", help="everybody in the class, as CSV of Canvas, of Moodle or your own"
    )
    parser.add_argument(
        "--attempts", choices=("last", "best"), help="which of a student's notebooks counts, by time or by points"
    )
    parser.add_argument(
        "--late", metavar="RULES", help="such as 'due 2026-11-01 23:59; grace 15 minutes; 10%% per day; at most 50%%'"
    )
    parser.add_argument(
        "--times", type=Path, metavar="FILE", help="a CSV of when students handed in, and by when they had to"
    )
    parser.add_argument(
        "--column", default="", metavar="NAME", help="the assignment in Canvas, such as 'Attention (4711)'"
    )
    parser.add_argument(
        "--require-tier", choices=("minimal", "reduced", "full"), help="refuse to grade with weaker confinement"
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="grade on this Dask cluster, such as tcp://host:8786")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="S", help="seconds for each call (default: 10)")
    parser.add_argument("--memory", type=int, default=1024, metavar="MB", help="for each submission (default: 1024)")
    parser.add_argument(
        "--gradescope-zip", type=Path, metavar="FILE", help="also write the zip that Gradescope's autograder is made of"
    )
    parser.set_defaults(run=run, computes=True)


def run(arguments: argparse.Namespace) -> int:
    from lecturelib.grading.sandbox.tiers import TierError, check_platform

    if not arguments.dask:
        try:
            check_platform()
        except TierError as error:
            print(f"lecturelib: {error}", file=sys.stderr)
            return 3
    from lecturelib.grading.batch.journal import Journal, JournalError, Run, held_run
    from lecturelib.grading.batch.record import Record, read_record
    from lecturelib.grading.batch.roster import NOTHING
    from lecturelib.grading.batch.run import RowsDiffer
    from lecturelib.grading.batch.schedule import is_all_graded

    rubric_file = find_rubric(arguments.rubrics, arguments.exercise)
    source = rubric_file.read_text(encoding="utf-8")
    intake, roster = _taken_in(arguments, rubric_file.stem)
    late, nobodys = _policy(arguments, roster, intake)
    limits = _limits(arguments.timeout, arguments.memory)
    if arguments.workers is not None and arguments.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {arguments.workers}")
    if arguments.gradescope_zip:
        from lecturelib.grading.reports.gradescope import autograder_zip

        arguments.gradescope_zip.write_bytes(autograder_zip(rubric_file))
    held = held_run(arguments.out)
    seed = arguments.seed
    if arguments.new_seed and held and held.seed == seed:
        raise ValueError(f"--new-seed: {arguments.out} has the results of seed {seed}; give another, or no --seed")
    if seed is None:
        seed = held.seed if held and not arguments.new_seed else secrets.randbits(128)
    this_run = Run(
        exercise=rubric_file.stem,
        rubric=hashlib.sha256(source.encode()).hexdigest(),
        seed=seed,
        timeout=arguments.timeout,
        memory=arguments.memory,
    )
    for warning in (*intake.warnings, *nobodys):
        _tell(warning)
    kept = read_record(arguments.out)
    lines = {person.student: person.cells for person in roster.people} if roster else {}
    try:
        with Journal(arguments.out, this_run, anew=arguments.new_seed) as journal:
            if kept and kept.rubric == this_run.rubric and is_all_graded(intake.found, journal):
                record = replace(kept, column=arguments.column or kept.column)
                rows = _grade(intake, arguments.out, record, None, journal, seed=seed, late=late, roster=lines)
            else:
                with _pool(arguments, rubric_file.stem, source, seed, limits, intake.found) as (grader, pool):
                    record = Record(rubric=this_run.rubric, outline=grader.rubric.outline, column=arguments.column)
                    rows = _grade(intake, arguments.out, record, pool, journal, seed=seed, late=late, roster=lines)
                for warning in _doubts(grader.rubric, rows, seed):
                    _tell(warning)
    except RowsDiffer as error:
        _tell(f"lecturelib: {error}")
        return 6
    except TierError as error:
        print(f"lecturelib: {error}", file=sys.stderr)
        return 3
    except JournalError as error:
        print(f"lecturelib: {error}", file=sys.stderr)
        return 4
    except CouldNotWrite as error:
        print(f"lecturelib: a result could not be written to {arguments.out}: {error.__cause__}", file=sys.stderr)
        print("put that right, and the same command goes on from here", file=sys.stderr)
        return 5
    except KeyboardInterrupt:
        without = " without --new-seed" if arguments.new_seed else ""
        print(f"stopped; the same command{without} goes on from here", file=sys.stderr)
        return 130
    handed_in = [row for row in rows if row.flag != NOTHING]
    unread = sum(not row.result.tests for row in handed_in)
    waiting = sum(row.waits > 0 for row in rows)
    for line in _of_another_set(rows):
        _tell(line)
    count = "1 submission" if len(handed_in) == 1 else f"{len(handed_in)} submissions"
    print(f"{count} graded with seed {seed}, {unread} of them unreadable; see {arguments.out}")
    if waiting:
        print(f"{waiting} with written answers to read: lecturelib review {arguments.out}")
    return 0


def _tell(line: str) -> None:
    """A line for the instructor's terminal, which names of files and people must not steer."""
    from lecturelib.grading.batch.owners import look

    print(look(line), file=sys.stderr)


def _of_another_set(rows: "list[Graded]", most: int = 8) -> list[str]:
    """Whose notebook was graded and looks like another set's; many together may mean that --exercise is wrong."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.result.tests and row.result.reason:
            found.setdefault(row.result.reason, []).append(row.student)
    more = {reason: f" and {len(who) - most} more" if len(who) > most else "" for reason, who in found.items()}
    return [f"{', '.join(who[:most])}{more[reason]}: {reason}" for reason, who in found.items()]


class CouldNotWrite(RuntimeError):
    """A result could not be written; the cause says why."""


def _taken_in(arguments: argparse.Namespace, exercise: str) -> "tuple[Intake, Roster | None]":
    """What was handed in, by everybody on the roster if there is one."""
    from lecturelib.grading.batch.intake import take_in
    from lecturelib.grading.batch.roster import read_roster

    roster = read_roster(arguments.roster) if arguments.roster else None
    intake = take_in(
        arguments.submissions,
        exercise,
        out=arguments.out,
        attempts=arguments.attempts,
        is_student=roster.has if roster else lambda name: False,
    )
    return (roster.call(intake) if roster else intake), roster


def _policy(
    arguments: argparse.Namespace, roster: "Roster | None", intake: "Intake"
) -> "tuple[LatePolicy | None, list[str]]":
    """What being late costs, with everybody's times; and what an instructor should look at first."""
    from lecturelib.grading.batch.late import Times, parse_policy, read_times, roster_times

    if not arguments.late:
        if arguments.times:
            raise ValueError("--times is about when students handed in; say with --late what being late costs")
        return None, []
    times = roster_times(roster, arguments.roster) if roster else Times()
    nobodys: list[str] = []
    if arguments.times:
        own, nobodys = read_times(arguments.times).of_people(intake.found, roster)
        times = own.over(times)
    said = [f"times of nobody who is graded: {', '.join(nobodys)}"] if nobodys else []
    return replace(parse_policy(arguments.late), times=times), said


@contextlib.contextmanager
def _pool(
    arguments: argparse.Namespace, exercise: str, source: str, seed: int, limits: "Limits", found: "list[Found]"
) -> "Iterator[tuple[Grader, FaultTolerantPool]]":
    """Processes to grade in; what confines them is said before the first submission."""
    from lecturelib.grading.batch.grader import Grader
    from lecturelib.grading.batch.schedule import FaultTolerantPool, dask_pool, dask_size, local_pool

    workers = arguments.workers
    if workers is None:
        workers = dask_size(arguments.dask) if arguments.dask else os.cpu_count() or 1
    make_pool = partial(dask_pool, arguments.dask) if arguments.dask else partial(local_pool, workers)
    grader = Grader(
        exercise=exercise,
        source=source,
        seed=seed,
        limits=limits,
        require_tier=arguments.require_tier,
        imports=likely_imports(found),
    )
    with FaultTolerantPool(grader, make_pool, 2 * workers) as pool:
        tier = pool.ask(grader.describe_tier)
        _ = grader.rubric  # loads torch here too, meanwhile, and says what is wrong with the rubric
        print(tier(), file=sys.stderr)
        yield grader, pool


def likely_imports(found: "list[Found]") -> tuple[str, ...]:
    """What the first notebook that can be read needs: others of its class will need it too."""
    from lecturelib.grading.notebook import NotebookError, parse_notebook
    from lecturelib.grading.sandbox.sandbox import imports_for

    for entry in found:
        with contextlib.suppress(NotebookError):
            return imports_for(parse_notebook(entry.load()))
    return ()


def _doubts(rubric: "Rubric", rows: "list[Graded]", seed: int) -> list[str]:
    """Tests that nobody passes, not even the rubric's own references: there the test is wrong, not the students."""
    from lecturelib.grading.rubric.runner import run

    passed = {(test.exercise, test.name) for row in rows for test in row.result.tests if test.passed}
    unsolved = [test for test in rubric.tests if (test.exercise, test.name) not in passed]
    if not unsolved or not rubric.references:
        return []
    exercises = tuple(dict.fromkeys(test.exercise for test in unsolved))
    return [
        f"nobody passes {test.exercise}/{test.name}, and neither does the rubric's own reference: {test.message}"
        for test in run(rubric, rubric.solution, seed=seed, exercises=exercises)
        if (test.exercise, test.name) not in passed and test.outcome in ("fail", "error")
    ]


def _limits(timeout: float, memory: int) -> "Limits":
    from lecturelib.grading.sandbox.limits import Limits

    if not 0 < timeout < math.inf:
        raise ValueError(f"--timeout is in seconds and must be more than 0, got {timeout:g}")
    if memory < 1:
        raise ValueError(f"--memory is in MB and must be at least 1, got {memory}")
    return Limits(call_seconds=timeout, memory_mb=memory)


def _grade(
    intake: "Intake",
    out: Path,
    record: "Record",
    pool: "FaultTolerantPool | None",
    journal: "Journal",
    **options: Any,
) -> "list[Graded]":
    from tqdm import tqdm

    from lecturelib.grading.batch.run import grade_batch

    with tqdm(total=len(intake.found), unit="submission", disable=None) as bar:
        full = 0

        def progress(row: "Graded") -> None:
            nonlocal full
            full += row.result.earned == record.outline.points
            bar.set_postfix_str(f"{full} with full points")
            bar.update()

        try:
            return grade_batch(intake, out, record, pool, journal, progress=progress, **options)
        except OSError as error:
            raise CouldNotWrite(str(error)) from error


def find_rubric(folder: Path, exercise: str | None) -> Path:
    """The rubric file of a set; without a name there must be just one."""
    known = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    if not known:
        raise ValueError(f"no rubrics in {folder}: say where they are with --rubrics")
    names = ", ".join(path.stem for path in known)
    if exercise is None:
        if len(known) > 1:
            raise ValueError(f"say which exercise set with --exercise; there are {names}")
        return known[0]
    for path in known:
        if path.stem == exercise.removesuffix(".py"):
            return path
    raise ValueError(f"no rubric for {exercise!r} in {folder}; there are {names}")
