"""Grade one notebook at a time, in this process, through its sandbox.

A `Grader` is plain data that travels to a worker process of this machine or another; the rubric goes along as source,
so a cluster needs no copy of the tests. Each process starts one sandbox, at its first submission, and keeps it; what
needs torch is imported after that, so that this process and its sandbox load it side by side.
"""

import atexit
import hashlib
import importlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from lecturelib.grading.notebook import Notebook, NotebookError, parse_notebook
from lecturelib.grading.rubric.results import NOT_DEFINED, SubmissionResult, TestResult
from lecturelib.grading.sandbox.limits import Limits
from lecturelib.grading.sandbox.sandbox import WARM_IMPORTS, Sandbox
from lecturelib.grading.sandbox.tiers import SandboxFailed, Tier

if TYPE_CHECKING:
    from lecturelib.grading.rubric.rubric import Rubric

# The reference side uses torch's global random state, so one process grades one submission at a time.
_ONE_AT_A_TIME = threading.Lock()


def seed_for(secret: int, student: str, notebook: bytes) -> int:
    """The seed of one submission's inputs.

    Whoever hands in again, changed by a space, meets new inputs, so that answers cannot be learnt by trying. Whoever
    knows the run's secret, which is its `--seed`, can draw the same inputs again.
    """
    parts = (str(secret).encode(), student.encode("utf-8", "surrogatepass"), notebook)
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
    return int.from_bytes(digest[:6], "big")


@dataclass(frozen=True, kw_only=True)
class Grader:
    """What it takes to grade a notebook of one exercise set.

    Args:
        exercise: the set's name
        source: the rubric file's text
        seed: the run's secret, from which each submission's inputs are drawn
        limits: of each submission
        require_tier: refuse to grade below this tier of confinement
        imports: what its notebooks are expected to need, for sandboxes to load as they start
    """

    exercise: str
    source: str
    seed: int
    limits: Limits
    require_tier: Tier | None = None
    imports: tuple[str, ...] = ()

    @property
    def rubric(self) -> "Rubric":
        return _rubric(self.exercise, self.source)

    def __call__(self, student: str, notebook: bytes) -> str:
        """Grade one notebook; the result as JSON. Whatever is in the notebook, this returns a result.

        `SandboxFailed` is not about the notebook: whoever tries again gets a new sandbox.
        """
        with _ONE_AT_A_TIME:
            box = _sandbox(self.limits, self.require_tier, self.imports)
            from lecturelib.grading.rubric.runner import run

            start = time.perf_counter()
            rubric, seed = self.rubric, seed_for(self.seed, student, notebook)
            try:
                parsed = parse_notebook(notebook)
                with box.open(parsed) as submission:
                    tests = run(rubric, submission, seed=seed)
                    notes = submission.notes
                reason = of_another_set(rubric, parsed, tests)
            except NotebookError as error:
                return SubmissionResult(submission=student, rubric=rubric.name, seed=seed, reason=str(error)).to_json()
            except SandboxFailed:
                _sandbox.cache_clear()
                box.close()
                raise
        return SubmissionResult(
            submission=student,
            rubric=rubric.name,
            seed=seed,
            tests=tests,
            reason=reason,
            notes=tuple(notes),
            seconds=time.perf_counter() - start,
            answers=tuple(
                one for one in parsed.answers if one[0] in rubric.exercises and rubric.exercises[one[0]].items
            ),
        ).to_json()

    def describe_tier(self) -> str:
        """Start this process's sandbox and say how strong it is; raises TierError below the required tier."""
        box = _sandbox(self.limits, self.require_tier, self.imports)
        importlib.import_module("lecturelib.grading.rubric.runner")  # torch, meanwhile
        box.wait_until_warm()
        return box.proof.describe()


def of_another_set(rubric: "Rubric", notebook: Notebook, tests: Sequence[TestResult]) -> str:
    """The sentence for whoever handed in another set's notebook; nothing for whoever handed in this one's."""
    from lecturelib.grading.check.packing import packed_name

    if not tests or any(test.passed for test in tests):
        return ""
    name = packed_name(notebook.checks) if notebook.checks else ""
    if name and name != rubric.name:
        return f"this looks like a notebook of set {name}, and it was graded as {rubric.name}"
    if not notebook.checks and all(test.message.endswith(NOT_DEFINED) for test in tests):
        asked = ", ".join(name for exercise in rubric.exercises.values() for name in exercise.defines)
        return f"nothing that this set asks for is in the notebook ({asked}); is it one of another set?"
    return ""


@lru_cache(maxsize=1)
def _sandbox(limits: Limits, require_tier: Tier | None, imports: tuple[str, ...]) -> Sandbox:
    box = Sandbox(limits, require_tier=require_tier, imports=(*WARM_IMPORTS, *imports))
    box.__enter__()
    atexit.register(box.close)
    return box


@lru_cache(maxsize=8)
def _rubric(exercise: str, source: str) -> "Rubric":
    from lecturelib.grading.rubric.rubric import rubric_from_source

    return rubric_from_source(source, exercise)
