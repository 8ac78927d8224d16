"""What a released notebook carries of its visible tests: calls, expected values, and what known mistakes give.

A visible test is run once, at release, against the references and with a fixed seed. The calls it makes and the values
it compares their answers with are all that `check` needs: it makes the same calls on the student's functions and judges
the answers by the same comparison as the grader does. No reference and no mistake comes along, so there is nothing in a
notebook that would answer a test on other inputs.

For that a visible test must compare answers as they came, not something computed from them; `record` says so if not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from lecturelib.grading.rubric.compare import Judgeable, Mismatch, overheard
from lecturelib.grading.rubric.contest import Score
from lecturelib.grading.rubric.rubric import GraderTest, Rubric, TestFunction
from lecturelib.grading.rubric.runner import Recording, answers_of, path_to
from lecturelib.grading.rubric.submission import Submission
from lecturelib.grading.rubric.wording import name_of
from lecturelib.grading.sandbox.worker.calls import Call, Gradients, Reply, seed_torch

SEED = 0


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A comparison of the `answer`-th answer of a test, or of the part of it that `path` leads to."""

    answer: int
    path: tuple[Any, ...]
    comparison: Judgeable


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A visible test as values: calls and judgements in their order, and the answers of each mistake it notices."""

    steps: tuple[Call | Judgement, ...]
    mistakes: dict[str, list[Reply]]


def record(rubric: Rubric, test: GraderTest, seed: int = SEED) -> Recorded:
    """Run a test against the references; ValueError if it does what cannot be recorded."""
    steps: list[Call | Judgement] = []
    submission = _Marking(rubric.solution, steps)

    def listen(got: Any, comparison: Judgeable) -> None:
        for index in reversed(range(len(submission.replies))):
            path = path_to(got, submission.replies[index].value)
            if path is not None:
                steps.append(Judgement(answer=index, path=path, comparison=comparison))
                return
        raise ValueError(
            f"the visible test {test.name} compares {comparison.what!r}, which is computed from an answer. A notebook "
            "carries values only: compare the answer itself, or make the test hidden"
        )

    generator = rubric.generator(test, seed)
    with torch.random.fork_rng(devices=[]), overheard(listen):
        seed_torch(generator.initial_seed())
        test.function(submission, generator)
    judged = {step.answer for step in steps if isinstance(step, Judgement)}
    if judged != set(range(len(submission.replies))):
        raise ValueError(f"the visible test {test.name} makes a call and does not compare its answer by assert_close")
    mistakes = {}
    for mistake in rubric.mistakes:
        replies = answers_of(rubric, test, mistake, seed) if mistake.stands_for in submission.names else None
        if replies is not None:
            mistakes[mistake.name] = [_without_source(reply) for reply in replies]
    return Recorded(steps=tuple(steps), mistakes=mistakes)


def replay(recorded: Recorded) -> TestFunction:
    """The test again, from what was recorded."""

    def test(submission: Submission, rng: torch.Generator) -> Score | None:
        answers: list[Any] = []
        score = None
        for step in recorded.steps:
            if isinstance(step, Call):
                answers.append(submission.answer(step))
            else:
                score = step.comparison.judge(_follow(answers[step.answer], step.path)) or score
        return score

    return test


def _follow(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        try:
            value = getattr(value, key) if isinstance(value, Gradients) else value[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            raise Mismatch(f"the result has no part {key!r}; it is {name_of(value)}", form=True) from None
    return value


def _without_source(reply: Reply) -> Reply:
    return reply if reply.raised is None else replace(reply, raised=replace(reply.raised, where=""))


class _Marking(Recording):
    """Gives each number and string of an answer an identity, so that a comparison can be traced back to it."""

    def __init__(self, inner: Submission, steps: list[Call | Judgement]) -> None:
        super().__init__(inner)
        self._steps = steps

    def perform(self, call: Call) -> Reply:
        self._steps.append(call)
        reply = super().perform(call)
        self.replies[-1] = replace(reply, value=_marked(reply.value))
        return self.replies[-1]


class _Float(float):
    pass


class _Int(int):
    pass


class _Str(str):
    pass


_MARKS: dict[type, Callable[[Any], Any]] = {float: _Float, int: _Int, str: _Str}


def _marked(value: Any) -> Any:
    if type(value) in _MARKS:
        return _MARKS[type(value)](value)
    if isinstance(value, list | tuple):
        return type(value)(_marked(item) for item in value)
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, Gradients):
        return replace(value, value=_marked(value.value))
    return value
