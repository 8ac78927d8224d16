"""Checks for students, grading for instructors.

The names below are loaded when they are first used, because they need torch: a worker of the grader first starts its
sandbox, and the two then load torch side by side.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lecturelib.grading.check.checker import load_checks
    from lecturelib.grading.rubric.compare import assert_close, raises
    from lecturelib.grading.rubric.contest import Contest, Score, assert_scores
    from lecturelib.grading.rubric.results import SubmissionResult, TestResult
    from lecturelib.grading.rubric.rubric import Rubric, draw, draw_ids, load_rubric
    from lecturelib.grading.rubric.runner import run
    from lecturelib.grading.rubric.submission import LocalSubmission, Submission

__all__ = [
    "Contest",
    "LocalSubmission",
    "Rubric",
    "Score",
    "Submission",
    "SubmissionResult",
    "TestResult",
    "assert_close",
    "assert_scores",
    "draw",
    "draw_ids",
    "load_checks",
    "load_rubric",
    "raises",
    "run",
]

_HOME = {
    **dict.fromkeys(("LocalSubmission", "Submission"), "rubric.submission"),
    **dict.fromkeys(("Rubric", "draw", "draw_ids", "load_rubric"), "rubric.rubric"),
    **dict.fromkeys(("Contest", "Score", "assert_scores"), "rubric.contest"),
    **dict.fromkeys(("SubmissionResult", "TestResult"), "rubric.results"),
    **dict.fromkeys(("assert_close", "raises"), "rubric.compare"),
    "load_checks": "check.checker",
    "run": "rubric.runner",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
