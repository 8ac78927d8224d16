"""What grading found, as plain data that survives a trip through JSON."""

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args

Outcome = Literal["pass", "fail", "error", "missing", "timeout", "crash", "written"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


NOT_DEFINED = "is not defined. Run its cell, and keep its name as it is."
SAME_AGAIN = "This may be the same mistake as above: mend that first."


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A matrix that came back beside the one that was expected, cut to what a small heat map can show.

    `where` says which part of the full tensors this is; the two shapes are the full ones.
    """

    got: tuple[tuple[float, ...], ...]
    want: tuple[tuple[float, ...], ...]
    got_shape: tuple[int, ...]
    want_shape: tuple[int, ...]
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """One test's verdict.

    Outcomes: "pass"; "fail", a wrong answer; "error", the student's code raised; "missing", the name is not defined or
    its stub is untouched; "timeout"; "crash", the process died or broke a limit; "written", an item of a written
    answer, which a reader decides.

    `message` says what happened, `hint` what to do about it: the hint of the mistake that gives the same answers,
    else the test's own. `mistake` is that mistake's name, for counting. `replaced` lists the upstream names that were
    the reference's in this test, because the student's own do not pass. `call` is the call whose answer was not right,
    in a few words, and `topic` what a hidden test is about. `share` is the part of the points that a pass is worth, and
    `measured` what was measured, where a test judges by a metric: the metric first, then costs. `awarded` is what a
    reviewer decided to give instead, if one did, and `comment` what they wrote.
    """

    __test__: ClassVar[bool] = False  # not a pytest class, whatever its name says

    name: str
    exercise: str
    points: float
    outcome: Outcome
    visible: bool
    message: str = ""
    hint: str = ""
    mistake: str = ""
    replaced: tuple[str, ...] = ()
    seconds: float = 0.0
    picture: Picture | None = None
    call: str = ""
    topic: str = ""
    share: float = 1.0
    measured: tuple[tuple[str, float], ...] = ()
    awarded: float | None = None
    comment: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome == "pass"

    @property
    def hint_label(self) -> str:
        """A test's own hint says what is asked, and knows nothing of what was answered; any other is about that."""
        told = self.mistake or self.hint == SAME_AGAIN or self.outcome in ("timeout", "crash")
        return "Hint" if told else "What is asked"

    @property
    def waits(self) -> bool:
        """Nobody has read this written answer yet."""
        return self.outcome == "written" and self.awarded is None

    @property
    def earned(self) -> float:
        if self.awarded is not None:
            return self.awarded
        return self.points * self.share if self.passed else 0.0


@dataclass(frozen=True, kw_only=True)
class ExerciseResult:
    """The tests of one exercise, added up; `hidden_points` are those of tests that are known only by their points."""

    name: str
    title: str
    tests: tuple[TestResult, ...]
    hidden_points: float = 0.0

    @property
    def points(self) -> float:
        return sum(test.points for test in self.tests)

    @property
    def earned(self) -> float:
        return sum(test.earned for test in self.tests)

    @property
    def passed(self) -> bool:
        return all(test.passed for test in self.tests)


@dataclass(frozen=True, kw_only=True)
class SubmissionResult:
    """One submission's verdict: exactly one for each that was handed in.

    Args:
        submission: who or what was graded, as the gradebook will name it
        rubric: the set's name, such as "08_attention_layer"
        seed: with the rubric and the submission it reproduces every input
        tests: one result for each test, in the rubric's order
        reason: why there are no tests to speak of (an unreadable notebook, one of another set), else ""
        notes: things worth telling that cost nothing: a cell that failed, a magic that was skipped
        answers: (exercise, text) of each written answer
    """

    submission: str
    rubric: str
    seed: int
    tests: tuple[TestResult, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    answers: tuple[tuple[str, str], ...] = ()

    @property
    def points(self) -> float:
        return sum(test.points for test in self.tests)

    @property
    def earned(self) -> float:
        return sum(test.earned for test in self.tests)

    def exercises(self, titles: dict[str, str] | None = None) -> tuple[ExerciseResult, ...]:
        """The tests by exercise, in the rubric's order."""
        names = dict.fromkeys(test.exercise for test in self.tests)
        return tuple(
            ExerciseResult(
                name=name,
                title=(titles or {}).get(name, name),
                tests=tuple(test for test in self.tests if test.exercise == name),
            )
            for name in names
        )

    def to_json(self) -> str:
        """One line of strict JSON, such as a journal keeps."""
        return json.dumps(_strict(asdict(self)), allow_nan=False, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "SubmissionResult":
        """The inverse of `to_json`; ValueError for anything that is not one."""
        try:
            raw = json.loads(text)
            tests = tuple(_test(entry) for entry in raw.pop("tests"))
            answers = tuple((exercise, answer) for exercise, answer in raw.get("answers", ()))
            return cls(**{**raw, "tests": tests, "notes": tuple(raw["notes"]), "answers": answers})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a submission result: {error}") from error


def _test(raw: dict[str, Any]) -> TestResult:
    if raw["outcome"] not in OUTCOMES:
        raise ValueError(f"outcome must be one of {', '.join(OUTCOMES)}, got {raw['outcome']!r}")
    picture = raw["picture"] and _picture(raw["picture"])
    measured = tuple((str(name), float(value)) for name, value in raw.get("measured", ()))
    return TestResult(**{**raw, "replaced": tuple(raw["replaced"]), "picture": picture, "measured": measured})


def _picture(raw: dict[str, Any]) -> Picture:
    if set(raw) != {one.name for one in fields(Picture)}:
        raise ValueError(f"not a picture: it has {', '.join(raw)}")
    return Picture(
        got=tuple(tuple(float(x) for x in row) for row in raw["got"]),
        want=tuple(tuple(float(x) for x in row) for row in raw["want"]),
        got_shape=tuple(raw["got_shape"]),
        want_shape=tuple(raw["want_shape"]),
        where=raw["where"],
    )


def _strict(value: Any) -> Any:
    """JSON has no NaN and no infinity: they travel as the strings "nan", "inf", "-inf", which float() reads."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


@dataclass(frozen=True, kw_only=True)
class Graded:
    """A result with whose it is: one row of the gradebook.

    Args:
        student: what identifies the student on the platform
        name: how to address them
        path: where the submission was found
        late: it came late
        result: the verdict
        note: what else was handed in and passed over
        flag: what an instructor should look at: not on the roster, handed in nothing
        key: the result's in the journal
        lateness: how late it is, in words
        penalty: points that being late costs, if there are so many
        total: what a reviewer decided to give in all, if one did
        comment: what the reviewer wrote about the whole
        roster: the student's line of the roster, by heading
    """

    student: str
    name: str
    path: str
    late: bool
    result: SubmissionResult
    note: str = ""
    flag: str = ""
    key: str = ""
    lateness: str = ""
    penalty: float = 0.0
    total: float | None = None
    comment: str = ""
    roster: dict[str, str] = field(default_factory=dict)

    @property
    def deducted(self) -> float:
        """What being late did cost."""
        return 0.0 if self.total is not None else min(self.penalty, self.result.earned)

    @property
    def points(self) -> float:
        """What counts in the end: what was earned or awarded, less what being late costs."""
        return self.result.earned - self.deducted if self.total is None else self.total

    @property
    def waits(self) -> int:
        """How many written items nobody has read yet."""
        return sum(test.waits for test in self.result.tests)
