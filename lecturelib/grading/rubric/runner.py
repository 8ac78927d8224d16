"""Run a rubric's tests against a submission, in this process or through the sandbox."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from lecturelib.grading.rubric.compare import Mismatch, assert_close
from lecturelib.grading.rubric.contest import Score
from lecturelib.grading.rubric.results import NOT_DEFINED, SAME_AGAIN, Outcome, Picture, TestResult
from lecturelib.grading.rubric.rubric import GraderTest, Mistake, Rubric
from lecturelib.grading.rubric.submission import LocalSubmission, MissingName, StudentError, Submission, SubmissionError
from lecturelib.grading.rubric.wording import call_text
from lecturelib.grading.sandbox.tiers import SandboxFailed
from lecturelib.grading.sandbox.worker.calls import Call, Gradients, Reply, seed_torch

LONGEST_MESSAGE = 3_000
MOST_NAMED = 3  # mistakes that give the same answers
OR_THIS = " Or this, which gives the same numbers here: "

# Where a test's own hint would mislead: the answer was not wrong, there was none
HINTS: dict[Outcome, str] = {
    "pass": "",
    "error": "",
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
    the next), and neither is to blame. A released notebook has no references: there such a test says what it waits for.
    """
    for name in exercises or ():
        rubric.tests_of(name)  # an unknown exercise says so before anything runs
    tests = [test for test in rubric.tests if test.visible or not visible_only]
    done: dict[int, tuple[TestResult, set[str]]] = {}

    def result_of(index: int) -> tuple[TestResult, set[str]]:
        if index not in done:
            test = tests[index]
            needs = tuple(name for name in test.needs if name in rubric.references)
            broken = tuple(name for name in needs if not is_sound(name, before=index))
            result, called = attempt(index, broken)
            if result.outcome in ("fail", "error") and broken != needs:
                again = attempt(index, needs)
                result, called = again if again[0].passed else (result, called)
            if not result.passed and needs != test.needs:
                waits = [name for name in test.needs if name not in needs and not is_sound(name, before=index)]
                result = _waiting(result, waits) if waits else result
            if result.hint == test.hint and not result.mistake and fails_above(index, called):
                result = replace(result, hint=SAME_AGAIN)
            done[index] = result, called
        return done[index]

    def attempt(index: int, replaced: tuple[str, ...]) -> tuple[TestResult, set[str]]:
        recording = Recording(submission, {name: rubric.references[name] for name in replaced})
        named = named_above(index)
        return run_test(rubric, tests[index], recording, seed=seed, replaced=replaced, named=named), recording.names

    def named_above(index: int) -> frozenset[str]:
        own = [i for i in range(index) if tests[i].exercise == tests[index].exercise and tests[i].visible]
        above = [result_of(i)[0] for i in own]
        return frozenset(result.mistake for result in above if result.mistake and OR_THIS not in result.hint)

    def is_sound(name: str, before: int) -> bool:
        earlier = [result_of(i) for i in range(before) if tests[i].exercise == rubric.owner_of(name)]
        verdicts = [result.passed for result, called in earlier if name in called]
        return bool(verdicts) and all(verdicts)

    def fails_above(index: int, called: set[str]) -> bool:
        above = [result_of(i) for i in range(index) if tests[i].exercise == tests[index].exercise]
        return any(result.outcome in ("fail", "error") and called & names for result, names in above)

    for index, test in enumerate(tests):
        if exercises is None or test.exercise in exercises:
            yield result_of(index)[0]


def _waiting(result: TestResult, names: list[str]) -> TestResult:
    listed = " and ".join(f"`{name}`" for name in names)
    message = f"this builds on {listed}, which {'does' if len(names) == 1 else 'do'} not pass yet: mend that first"
    return replace(result, outcome="fail", message=message, hint="", mistake="", picture=None, call="")


def run_test(
    rubric: Rubric,
    test: GraderTest,
    recording: "Recording",
    *,
    seed: int,
    replaced: tuple[str, ...] = (),
    named: frozenset[str] = frozenset(),
) -> TestResult:
    """Run one test, and if it fails ask each known mistake whether it would have answered the same.

    `named` are the mistakes that other tests of the exercise have found, each of them alone.
    """
    start = time.perf_counter()
    verdict = _attempt(rubric, test, recording, seed)
    mistakes = _recognise(rubric, test, recording, seed, named) if verdict.outcome in ("fail", "error") else []
    hint = HINTS.get(verdict.outcome, "" if verdict.form else test.hint)
    return TestResult(
        name=test.name,
        exercise=test.exercise,
        points=test.points,
        outcome=verdict.outcome,
        visible=test.visible,
        message=verdict.message[:LONGEST_MESSAGE],  # it may quote the answer
        hint=OR_THIS.join(dict.fromkeys(mistake.hint for mistake in mistakes)) or hint,
        mistake=mistakes[0].name if mistakes else "",
        replaced=replaced,
        seconds=time.perf_counter() - start,
        picture=verdict.picture,
        call=verdict.call[:LONGEST_MESSAGE],
        topic=test.topic,
        share=verdict.score.share if verdict.score else 1.0,
        measured=verdict.score.measured if verdict.score else (),
    )


@dataclass(frozen=True, kw_only=True)
class _Verdict:
    outcome: Outcome
    message: str = ""
    picture: Picture | None = None
    call: str = ""
    form: bool = False  # what is wrong is not the numbers: the message says it all
    score: Score | None = None  # where a metric decides


def _attempt(rubric: Rubric, test: GraderTest, recording: "Recording", seed: int) -> _Verdict:
    generator = rubric.generator(test, seed)
    try:
        with torch.random.fork_rng(devices=[]):
            seed_torch(generator.initial_seed())  # what a test draws globally is reproducible too
            score = test.function(recording, generator)
    except SandboxFailed:
        raise  # says nothing about the answer
    except Mismatch as error:
        call = recording.call_text(error.got)
        return _Verdict(outcome="fail", message=str(error), picture=error.picture, call=call, form=error.form)
    except AssertionError as error:
        message = str(error) or f"{test.name.replace('_', ' ')}: not so"
        return _Verdict(outcome="fail", message=message, call=recording.call_text(None))
    except MissingName as error:
        return _Verdict(outcome="missing", message=f"`{error.name}` {NOT_DEFINED}")
    except StudentError as error:
        if error.raised.is_stub:
            return _Verdict(outcome="missing", message=f"`{error.name}` is not written yet.")
        where = f" ({error.raised.where})" if error.raised.where else ""
        return _Verdict(outcome="error", message=f"{error}{where}", call=recording.call_text(None))
    except SubmissionError as error:
        return _Verdict(outcome=error.outcome, message=str(error), call=recording.call_text(None))
    except Exception as error:
        # The test stumbled over an answer of a kind it did not foresee: unpacked a tensor, divided by a zero. Whatever
        # a stranger's answer makes it raise is a failed test, and never the end of the run.
        message = f"the answer is not of the expected kind ({type(error).__name__}: {error})"
        return _Verdict(outcome="fail", message=message, call=recording.call_text(None), form=True)
    return _Verdict(outcome="pass", message=score.told if score else "", score=score)


def _recognise(
    rubric: Rubric, test: GraderTest, recording: "Recording", seed: int, named: frozenset[str]
) -> list[Mistake]:
    """The known mistakes that give, on the same inputs, the same answers as the student gave: mostly none, or one.

    Where several do, nobody can tell which it was, and naming the first could send a student the wrong way; unless
    another test has told already, and then the others need not be asked.
    """
    found: list[Mistake] = []
    for mistake in sorted(rubric.mistakes, key=lambda mistake: mistake.name not in named):
        if found and found[-1].name in named and mistake.name not in named:
            break
        if mistake.stands_for in recording.names:
            replies = answers_of(rubric, test, mistake, seed, like=recording.replies)
            if replies is not None and _same(replies, recording.replies, test.noise):
                found.append(mistake)
    return found[:MOST_NAMED]


def answers_of(
    rubric: Rubric, test: GraderTest, mistake: Mistake, seed: int, like: "list[Reply] | None" = None
) -> list[Reply] | None:
    """What a mistake answers in a test, call by call; None if the test does not notice it.

    With `like`, None also for one that answers otherwise: most do at the first call, and the test ends there.
    """
    if test.recorded is not None:
        return test.recorded.get(mistake.name)
    if mistake.function is None:
        return None
    impostor = _Impostor(LocalSubmission({**rubric.references, mistake.stands_for: mistake.function}), like, test.noise)
    try:
        return None if _attempt(rubric, test, impostor, seed).outcome == "pass" else impostor.replies
    except _Unlike:
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
    """Passes every call on and keeps names, calls and replies, so that two runs of a test can be compared.

    References stand in for names that the tested code calls. A call of such a name by the test itself is the student's
    to answer, so no test can be passed by the reference that it is about.
    """

    def __init__(self, inner: Submission, references: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._inner, self._references = inner, dict(references or {})
        self.names: set[str] = set()
        self.calls: list[Call] = []
        self.replies: list[Reply] = []

    def perform(self, call: Call) -> Reply:
        self.names.add(call.name)
        self.calls.append(call)
        stand_ins = {name: reference for name, reference in self._references.items() if name != call.name}
        reply = (self._inner.with_replacements(stand_ins) if stand_ins else self._inner).perform(call)
        self.replies.append(reply)
        return reply

    def with_replacements(self, references: Mapping[str, Callable[..., Any]]) -> "Recording":
        return Recording(self._inner, {**self._references, **references})

    def call_text(self, got: Any) -> str:
        """The call that an answer came from, in words; the last one if that cannot be said."""
        if not self.calls:
            return ""
        found = [index for index, reply in enumerate(self.replies) if path_to(got, reply.value) is not None]
        return call_text(self.calls[found[-1] if found and got is not None else len(self.calls) - 1])


class _Unlike(BaseException):
    """A mistake gives another answer than the student: past whatever a test catches."""


class _Impostor(Recording):
    """A known mistake in the student's place, as long as its answers are like theirs."""

    def __init__(self, inner: Submission, like: list[Reply] | None, noise: float) -> None:
        super().__init__(inner)
        self._like, self._noise = like, noise

    def perform(self, call: Call) -> Reply:
        reply = super().perform(call)
        if self._like is not None:
            theirs = self._like[len(self.replies) - 1 : len(self.replies)]
            if not theirs or not _same_reply(reply, theirs[0], self._noise):
                raise _Unlike
        return reply


def path_to(part: Any, whole: Any) -> tuple[Any, ...] | None:
    """The indices, keys and field names that lead from an answer to this very part of it; None if it is none."""
    if part is whole:
        return ()
    if isinstance(whole, Gradients):
        items: Iterable[tuple[Any, Any]] = [(name, getattr(whole, name)) for name in ("value", "inputs", "parameters")]
    elif isinstance(whole, dict):
        items = whole.items()
    elif isinstance(whole, list | tuple):
        items = enumerate(whole)
    else:
        return None
    for key, item in items:
        rest = path_to(part, item)
        if rest is not None:
            return key, *rest
    return None
