"""Checks for students, grading for instructors."""

from lecturelib.grading.check import load_checks
from lecturelib.grading.compare import assert_close, assert_finite, assert_shape, raises
from lecturelib.grading.results import SubmissionResult, TestResult
from lecturelib.grading.rubric import Rubric, load_rubric
from lecturelib.grading.runner import run
from lecturelib.grading.submission import LocalSubmission, Submission

__all__ = [
    "LocalSubmission",
    "Rubric",
    "Submission",
    "SubmissionResult",
    "TestResult",
    "assert_close",
    "assert_finite",
    "assert_shape",
    "load_checks",
    "load_rubric",
    "raises",
    "run",
]
