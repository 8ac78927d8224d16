"""Run a rubric's tests against a submission, in this process or through the sandbox."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from lecturelib.grading.rubric.compare import Mismatch, assert_close
from lecturelib.grading.rubric.results import Outcome, Picture, TestResult
from lecturelib.grading.rubric.rubric import GraderTest, Mistake, Rubric
from lecturelib.grading.rubric.submission import LocalSubmission, MissingName, StudentError, Submission, SubmissionError
from lecturelib.grading.sandbox.tiers import SandboxFailed
from lecturelib.grading.sandbox.worker.calls import Call, Reply

LONGEST_MESSAGE = 3_000

# Where a test's own hint would mislead: the answer was not wrong, there was none
HINTS: dict[Outcome, str] = {
    "pass": "",
    "timeout": "Look for a loop that does not end, or for work that grows much faster than its input.",
    "crash": "Something ended the process that ran your code: a call such as os._exit, too much memory, a very large "
    "answer, or a crash below Python.",
}


def run(
    rubric: Rubric,
    submission: Submission,
    *,
    seed: int,
    exercises: tuple[str, ...] | None = None,
    visible_only: bool = False,
) -> tuple[TestResult, ...]:
    """Results of the chosen tests, in the rubric's order; see `iterate` for them as they come."""
    return tuple(iterate(rubric, submission, seed=seed, exercises=exercises, visible_only=visible_only))


def iterate(
    rubric: Rubric,
    submission: Submission,
    *,
    seed: int,
    exercises: tuple[str, ...] | None = None,
    visible_only: bool = False,
) -> Iterator[TestResult]:
    """Run the tests one by one and yield each result.

    A name that a test needs from earlier work is replaced by the reference when the student's own does not pass the
    tests that call it, so one mistake costs its own points only. Those tests are the ones written above, in the
    exercise that defines the name; they are run for that, even if not asked for. A test that still fails is tried once
    more with all its needs replaced: two right parts need not fit each other (float64 out of one, float32 weights in
    the next), and neither is to blame.
    """
    for name in exercises or ():
        rubric.tests_of(name)  # an unknown exercise says so before anything runs
    tests = [test for test in rubric.tests if test.visible or not visible_only]
    done: dict[int, tuple[TestResult, set[str]]] = {}

    def result_of(index: int) -> tuple[TestResult, set[str]]:
        if index not in done:
            needs = tuple(name for name in tests[index].needs if name in rubric.references)
            broken = tuple(name for name in needs if not is_sound(name, before=index))
            done[index] = attempt(index, broken)
            if done[index][0].outcome in ("fail", "error") and broken != needs:
                again = attempt(index, needs)
                done[index] = again if again[0].passed else done[index]
        return done[index]

    def attempt(index: int, replaced: tuple[str, ...]) -> tuple[TestResult, set[str]]:
        recording = Recording(submission.with_replacements({name: rubric.references[name] for name in replaced}))
        return run_test(rubric, tests[index], recording, seed=seed, replaced=replaced), recording.names

    def is_sound(name: str, before: int) -> bool:
        earlier = [result_of(i) for i in range(before) if tests[i].exercise == rubric.owner_of(name)]
        verdicts = [result.passed for result, called in earlier if name in called]
        return bool(verdicts) and all(verdicts)

    for index, test in enumerate(tests):
        if exercises is None or test.exercise in exercises:
            yield result_of(index)[0]


def run_test(
    rubric: Rubric, test: GraderTest, recording: "Recording", *, seed: int, replaced: tuple[str, ...] = ()
) -> TestResult:
    """Run one test, and if it fails ask each known mistake whether it would have answered the same."""
    start = time.perf_counter()
    outcome, message, picture = _attempt(rubric, test, recording, seed)
    message = message[:LONGEST_MESSAGE]  # it may quote the answer
    mistake = _recognise(rubric, test, recording, seed) if outcome in ("fail", "error") else None
    hint = HINTS.get(outcome, test.hint)
    return TestResult(
        name=test.name,
        exercise=test.exercise,
        points=test.points,
        outcome=outcome,
        visible=test.visible,
        message=message,
        hint=mistake.hint if mistake else hint,
        mistake=mistake.name if mistake else "",
        replaced=replaced,
        seconds=time.perf_counter() - start,
        picture=picture,
    )


def _attempt(
    rubric: Rubric, test: GraderTest, submission: Submission, seed: int
) -> tuple[Outcome, str, Picture | None]:
    generator = rubric.generator(test, seed)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator.initial_seed())  # what a test draws globally is reproducible too
            test.function(submission, generator)
    except SandboxFailed:
        raise  # says nothing about the answer
    except Mismatch as error:
        return "fail", str(error), error.picture
    except AssertionError as error:
        return "fail", str(error) or f"{test.name.replace('_', ' ')}: not so", None
    except MissingName as error:
        return "missing", f"`{error.name}` is not defined. Run its cell, and keep its name as it is.", None
    except StudentError as error:
        if error.raised.is_stub:
            return "missing", f"`{error.name}` is not written yet.", None
        where = f" ({error.raised.where})" if error.raised.where else ""
        return "error", f"{error}{where}", None
    except SubmissionError as error:
        return error.outcome, str(error), None
    except Exception as error:
        # The test stumbled over an answer of a kind it did not foresee: unpacked a tensor, divided by a zero. Whatever
        # a stranger's answer makes it raise is a failed test, and never the end of the run.
        return "fail", f"the answer is not of the expected kind ({type(error).__name__}: {error})", None
    return "pass", "", None


def _recognise(rubric: Rubric, test: GraderTest, recording: "Recording", seed: int) -> Mistake | None:
    """The first known mistake that gives, on the same inputs, the same answers as the student gave."""
    for mistake in rubric.mistakes:
        if mistake.stands_for not in recording.names:
            continue
        impostor = Recording(LocalSubmission({**rubric.references, mistake.stands_for: mistake.function}))
        if _attempt(rubric, test, impostor, seed)[0] != "pass" and _same(
            impostor.replies, recording.replies, test.noise
        ):
            return mistake
    return None


def _same(ours: list[Reply], theirs: list[Reply], noise: float) -> bool:
    if len(ours) != len(theirs):
        return False
    return all(_same_reply(one, other, noise) for one, other in zip(ours, theirs, strict=True))


def _same_reply(one: Reply, other: Reply, noise: float) -> bool:
    if one.missing or other.missing:
        return False
    if one.raised or other.raised:
        kinds = [(reply.raised.types[0], reply.raised.message) for reply in (one, other) if reply.raised]
        return len(kinds) == 2 and kinds[0] == kinds[1]
    try:
        assert_close(other.value, one.value, rtol=noise, atol=max(noise - 1e-3, 1e-5))
    except Mismatch:
        return False
    return True


class Recording(Submission):
    """Passes every call on and keeps the names and the replies, so that two runs of a test can be compared."""

    def __init__(self, inner: Submission) -> None:
        self._inner = inner
        self.names: set[str] = set()
        self.replies: list[Reply] = []

    def perform(self, call: Call) -> Reply:
        self.names.add(call.name)
        reply = self._inner.perform(call)
        self.replies.append(reply)
        return reply

    def with_replacements(self, references: Mapping[str, Callable[..., Any]]) -> "Recording":
        return Recording(self._inner.with_replacements(references))
