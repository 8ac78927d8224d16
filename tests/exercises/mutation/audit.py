"""Run the tests of a set on every mutant of its right answers: which does nobody notice?

    python -m tests.exercises.mutation.audit            # all sets, all mutants: where the list is not right
    python -m tests.exercises.mutation.audit 08         # one set

`survivors/NN_name.txt` lists the mutants that are the same function, each with the reason.
"""

import ast
import contextlib
import re
import signal
import sys
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from lecturelib.grading import LocalSubmission, Rubric, load_rubric
from lecturelib.grading.release.notebooks import Paths, load_notebook, sets_in
from lecturelib.grading.rubric.answers import definitions, namespace_of
from lecturelib.grading.rubric.rubric import GraderTest
from lecturelib.grading.rubric.runner import Recording, run_test
from lecturelib.grading.sandbox.worker.calls import Call, leaves
from tests.exercises.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).parents[3]
SEEDS = (0, 1, 2)
CPU_SECONDS = 20  # for one mutant in one test; a loop without an end is noticed too


class Endless(BaseException):
    """A mutant does not come to an end."""


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Endless

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@dataclass(frozen=True)
class Suspect:
    """A mutant in the namespace of everything else that is right, and the tests that call it."""

    mutant: Mutant
    namespace: dict[str, Any]
    tests: tuple[GraderTest, ...]

    def survives(self, rubric: Rubric) -> bool:
        """Whether every test gives all its points for it, at every seed."""
        for seed in SEEDS:
            for test in self.tests:
                try:
                    with in_time():
                        result = run_test(rubric, test, Recording(LocalSubmission(self.namespace)), seed=seed)
                except Endless:
                    return False
                if result.earned < result.points:
                    return False
        return True


@cache
def rubric_of(paths: Paths) -> Rubric:
    """The set's rubric without its mistakes: they change hints, never points, and take most of the time."""
    rubric = load_rubric(paths.rubric)
    rubric.mistakes = []
    return rubric


def suspects(paths: Paths) -> Iterator[Suspect]:
    """The mutants of a set: of the solution's definitions, and of the references that are written otherwise."""
    rubric = rubric_of(paths)
    defined = {name for exercise in rubric.exercises.values() for name in exercise.defines}
    callers = tests_by_name(rubric)
    source = definitions(paths.solution)
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    nodes = {node.name: node for node in found if node.name not in handed_out(paths)}
    right, tried = namespace_of(source), set()
    for name in reachable(nodes, defined):
        for mutant in compilable(mutants(nodes[name])):
            tried.add(mutant.source)
            if name in defined:
                namespace = dict(right)
                exec(compile(mutant.source, "<mutant>", "exec"), namespace)
                yield Suspect(mutant, namespace, callers.get(name, ()))
            else:  # others call it: they must be defined where it is
                yield Suspect(mutant, namespace_of(source, mutant.source), tuple(rubric.tests))
    trees = ast.parse(Path(paths.rubric).read_text(encoding="utf-8")).body
    for node in trees:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in rubric.references:
            if not any(ast.unparse(decorator) == "rubric.reference" for decorator in node.decorator_list):
                continue
            for mutant in compilable(mutants(node)):
                if mutant.source in tried:
                    continue
                namespace = dict(rubric.tests[0].function.__globals__)
                exec(compile(mutant.source, "<mutant>", "exec"), namespace)
                answers = {**rubric.references, node.name: namespace[node.name]}
                yield Suspect(mutant, answers, callers.get(node.name, ()))


def handed_out(paths: Paths) -> set[str]:
    """What a notebook defines for its readers in a cell that is a module of the package, which has its own tests."""
    cells = load_notebook(paths.solution).cells
    given = [cell for cell in cells if any(tag.startswith("source:") for tag in cell.metadata.get("tags", []))]
    return {getattr(node, "name", "") for cell in given for node in ast.parse(cell.source).body}


def compilable(found: list[Mutant]) -> Iterator[Mutant]:
    """Those that Python takes without a word; the others are noticed when their cell is run."""
    for mutant in found:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)
            try:
                compile(mutant.source, "<mutant>", "exec")
            except SyntaxError:
                continue
        yield mutant


def reachable(nodes: dict[str, Any], names: set[str]) -> list[str]:
    """The definitions that an answer consists of, in the order of the source; the others only show something."""
    waiting, found = [name for name in names if name in nodes], set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            called = [node.func for node in ast.walk(nodes[name]) if isinstance(node, ast.Call)]
            used = [*called, *getattr(nodes[name], "bases", ())]
            waiting += [node.id for node in used if isinstance(node, ast.Name) and node.id in nodes]
    return [name for name in nodes if name in found]


def tests_by_name(rubric: Rubric) -> dict[str, tuple[GraderTest, ...]]:
    """By name, the tests that call it themselves or build an object of it."""
    found: dict[str, list[GraderTest]] = {}
    for test in rubric.tests:
        recording = Recording(rubric.solution)
        test.function(recording, rubric.generator(test, 0))
        given = [c for call in recording.calls for c in leaves([call.args, call.kwargs]) if isinstance(c, Call)]
        for name in recording.names | {call.name for call in given}:
            found.setdefault(name, []).append(test)
    return {name: tuple(tests) for name, tests in found.items()}


def list_of(paths: Paths) -> Path:
    return Path(__file__).parent / "survivors" / f"{paths.name}.txt"


def listed(paths: Paths) -> dict[str, str]:
    """The mutants that are known to be the same function, with the reason of each."""
    found, reason = {}, ""
    for line in list_of(paths).read_text(encoding="utf-8").splitlines() if list_of(paths).is_file() else ():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found[line] = reason
    return found


def in_sample(mutant: Mutant, share: int) -> bool:
    """Every `share`-th mutant, the same ones each time."""
    return zlib.crc32(str(mutant).encode()) % share == 0


def unlisted_survivors(paths: Paths, share: int = 1) -> list[str]:
    """Of every `share`-th mutant, those that no test notices and that are not known to be the same function."""
    rubric, known = rubric_of(paths), listed(paths)
    chosen = (s for s in suspects(paths) if in_sample(s.mutant, share) and str(s.mutant) not in known)
    return sorted({str(suspect.mutant) for suspect in chosen if suspect.survives(rubric)})


def noticed(paths: Paths) -> list[str]:
    """The listed mutants that a test does notice: to be struck off the list."""
    rubric, known = rubric_of(paths), listed(paths)
    return sorted({str(s.mutant) for s in suspects(paths) if str(s.mutant) in known and not s.survives(rubric)})


if __name__ == "__main__":
    for chosen in sets_in(ROOT):
        if not sys.argv[1:] or re.match("|".join(sys.argv[1:]), chosen.name):
            left, gone = unlisted_survivors(chosen), noticed(chosen)
            print(f"# {chosen.name}: {len(left)} survive and are not listed", *left, sep="\n", flush=True)
            print(f"# {chosen.name}: {len(gone)} are listed and do not survive", *gone, sep="\n", flush=True)
