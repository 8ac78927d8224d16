"""A rubric: the exercises of one set, the tests that grade them, and the mistakes it can name.

    rubric = Rubric("08_attention_layer", title="The attention layer")
    rubric.exercise("attention", title="Scaled dot-product attention", minutes=5, difficulty=1)

    @rubric.reference
    def attention(q, k, v): ...                      # a right answer, on the trusted side

    @rubric.mistake("attention", "Did you divide the scores by √d?")
    def unscaled(q, k, v): ...                       # a wrong answer we have seen before

    @rubric.test("attention", points=2, visible=True, hint="Compare with the formula on paper.")
    def matches_the_formula(submission, rng):
        q, k, v = (torch.randn(2, 5, 3, generator=rng) for _ in range(3))
        assert_close(submission.attention(q, k, v), attention(q, k, v))

    rubric.written("why", title="Why √d?", minutes=5, difficulty=1, items={"speaks of the variance": 2})

is an exercise that is answered in words: a reader awards the items' points, with `lecturelib review`.

When a test fails it is run again, on the same inputs, against each mistake in a name that it called; if one gives the
same answers as the student, its hint is the one shown. Nothing in the test itself has to know about mistakes.
"""

import hashlib
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from lecturelib.grading.rubric.outline import Item, Outline, OutlinedExercise, OutlinedTest
from lecturelib.grading.rubric.submission import LocalSubmission, Submission
from lecturelib.grading.sandbox.worker.calls import Reply

if TYPE_CHECKING:
    from lecturelib.grading.rubric.contest import Score

TestFunction = Callable[[Submission, torch.Generator], "Score | None"]  # a score, where a metric decides
Named = TypeVar("Named", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise: what the student defines for it, how long it takes, how hard it is (1 to 5).

    A written one defines nothing and has items instead: what its answer, a Markdown cell, is read for.
    `hidden_points` are those of tests that are not here, because a released notebook has the visible ones only.
    """

    name: str
    title: str
    minutes: int
    difficulty: int
    defines: tuple[str, ...]
    items: tuple[Item, ...] = ()
    hidden_points: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.difficulty <= 5:
            raise ValueError(f"exercise {self.name}: difficulty must be 1 to 5, got {self.difficulty}")
        if self.minutes < 1:
            raise ValueError(f"exercise {self.name}: minutes must be at least 1, got {self.minutes}")


@dataclass(frozen=True, kw_only=True)
class GraderTest:
    """One test: a function of a submission and a generator of fresh inputs, worth points."""

    name: str
    exercise: str
    points: float
    visible: bool
    hint: str
    needs: tuple[str, ...]
    noise: float
    topic: str
    function: TestFunction
    recorded: Mapping[str, list[Reply]] | None = None  # by mistake; None: run the mistakes to know


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A known wrong answer in place of one name, and what to say to somebody who gave it.

    In the checks of a released notebook there is no function, only what it gave in each test.
    """

    name: str
    exercise: str
    stands_for: str
    hint: str
    function: Callable[..., Any] | None


class Rubric:
    """The exercises, references, mistakes and tests of one set, in the order they were written."""

    def __init__(self, name: str, *, title: str) -> None:
        self.name, self.title = name, title
        self.exercises: dict[str, Exercise] = {}
        self.references: dict[str, Callable[..., Any]] = {}
        self.givens: dict[str, type] = {}
        self.source = ""
        self.mistakes: list[Mistake] = []
        self.tests: list[GraderTest] = []

    def exercise(
        self, name: str, *, title: str, minutes: int, difficulty: int, defines: tuple[str, ...] | None = None
    ) -> Exercise:
        """Declare an exercise; it defines one thing of its own name, unless `defines` says otherwise."""
        return self._declare(
            Exercise(name=name, title=title, minutes=minutes, difficulty=difficulty, defines=defines or (name,))
        )

    def written(self, name: str, *, title: str, minutes: int, difficulty: int, items: Mapping[str, float]) -> Exercise:
        """Declare an exercise that is answered in a Markdown cell, tagged `answer:NAME` in the solution.

        Args:
            items: what a reader looks for in the answer, and the points each is worth
        """
        if not items or min(items.values()) < 0:
            raise ValueError(f"written exercise {name}: items need a name and points of at least 0, got {dict(items)}")
        read_for = tuple(Item(name=item, points=points) for item, points in items.items())
        return self._declare(
            Exercise(name=name, title=title, minutes=minutes, difficulty=difficulty, defines=(), items=read_for)
        )

    def _declare(self, exercise: Exercise) -> Exercise:
        if exercise.name in self.exercises:
            raise ValueError(f"rubric {self.name}: exercise {exercise.name!r} is declared twice")
        self.exercises[exercise.name] = exercise
        return exercise

    def reference(self, function: Named) -> Named:
        """Register a right answer under its own name."""
        self.references[function.__name__] = function
        return function

    def given(self, kind: type) -> type:
        """Register a class whose objects, or their methods, tests hand to students' functions: a model to decode with.

        It is an input, so a released notebook carries its source. It may use torch, math and plain constants of the
        file, holds plain values, and must not be an answer.
        """
        self.givens[kind.__name__] = kind
        return kind

    @property
    def solution(self) -> LocalSubmission:
        """All references as a submission: `rubric.solution.attention.gradients(q, k, v)` is what to expect."""
        return LocalSubmission(dict(self.references))

    def mistake(self, stands_for: str, hint: str) -> Callable[[Named], Named]:
        """Register a known wrong answer for a name that some exercise defines, and what to say to it."""
        exercise = self.owner_of(stands_for)
        if exercise is None:
            known = ", ".join(name for e in self.exercises.values() for name in e.defines) or "none yet"
            raise ValueError(f"rubric {self.name}: no exercise defines {stands_for!r}; they define {known}")

        def register(function: Named) -> Named:
            name = function.__name__
            made = Mistake(name=name, exercise=exercise, stands_for=stands_for, hint=hint, function=function)
            self.mistakes.append(made)
            return function

        return register

    def test(
        self,
        exercise: str,
        *,
        points: float,
        visible: bool,
        hint: str = "",
        needs: tuple[str, ...] = (),
        noise: float = 1e-3,
        topic: str = "",
    ) -> Callable[[TestFunction], TestFunction]:
        """Register a test.

        Args:
            exercise: whose points these are
            points: earned if it passes, else nothing
            visible: True also gives it to the student in `check`; False keeps it on the grader's side
            hint: shown when it fails and no known mistake gives the same answers
            needs: names of earlier exercises that the tested code calls; each is the reference's in this test if
                the student's own does not pass
            noise: difference, relative or absolute, up to which two answers count as the same mistake; larger than
                rounding only where the answer is itself an average over random draws
            topic: of a hidden test, all that a student who fails it is told: "gradients", "empty rows"
        """
        self._require(exercise)
        if points < 0:
            raise ValueError(f"a test of {exercise!r} is worth {points} points; points cannot be negative")

        def register(function: TestFunction) -> TestFunction:
            name = function.__name__
            if any(test.name == name and test.exercise == exercise for test in self.tests):
                raise ValueError(f"rubric {self.name}: {exercise} has two tests called {name!r}")
            made = GraderTest(
                name=name,
                exercise=exercise,
                points=points,
                visible=visible,
                hint=hint,
                needs=needs,
                noise=noise,
                topic=topic,
                function=function,
            )
            self.tests.append(made)
            return function

        return register

    def tests_of(self, exercise: str) -> list[GraderTest]:
        self._require(exercise)
        return [test for test in self.tests if test.exercise == exercise]

    def points_of(self, exercise: str) -> float:
        self._require(exercise)
        return self.outline.points_of(exercise)

    @property
    def points(self) -> float:
        return self.outline.points

    @property
    def outline(self) -> Outline:
        """What is asked, as plain data."""
        return Outline(
            name=self.name,
            title=self.title,
            exercises={
                e.name: OutlinedExercise(name=e.name, title=e.title, items=e.items) for e in self.exercises.values()
            },
            tests=tuple(
                OutlinedTest(name=test.name, exercise=test.exercise, points=test.points, visible=test.visible)
                for test in self.tests
            ),
        )

    def owner_of(self, name: str) -> str | None:
        """The exercise that defines a name."""
        return next((e.name for e in self.exercises.values() if name in e.defines), None)

    def generator(self, test: GraderTest, seed: int) -> torch.Generator:
        """Fresh inputs for one test: the same for a given seed, whichever other tests run, in whatever order."""
        text = f"{seed}/{self.name}/{test.exercise}/{test.name}"
        digest = hashlib.sha256(text.encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def _require(self, exercise: str) -> None:
        if exercise not in self.exercises:
            known = ", ".join(self.exercises) or "none yet"
            raise ValueError(f"rubric {self.name} has no exercise {exercise!r}; it has {known}")


def draw(rng: torch.Generator, *shape: int) -> torch.Tensor:
    """Numbers from the standard normal distribution: what most tests feed a function with."""
    return torch.randn(*shape, generator=rng)


def draw_ids(rng: torch.Generator, low: int, high: int, *shape: int) -> torch.Tensor:
    """Whole numbers from low to high, high not among them."""
    return torch.randint(low, high, shape, generator=rng)


def load_rubric(path: Path | str) -> Rubric:
    """The `rubric` that a grader file defines. The file is trusted: it is run."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no rubric at {path}")
    return rubric_from_source(path.read_text(encoding="utf-8"), path.stem)


def rubric_from_source(source: str, name: str) -> Rubric:
    """The `rubric` that the text of a grader file defines: what a worker on another machine is sent. It is run."""
    module = types.ModuleType(f"rubric_{name}")
    try:
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    except Exception as error:  # whatever it is, it is to be put right in that file
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == f"{name}.py"]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = f"{name}.py, line {line}" if line else f"{name}.py"
        raise ValueError(f"the rubric does not load: {where}: {type(error).__name__}: {error}") from error
    rubric = getattr(module, "rubric", None)
    if not isinstance(rubric, Rubric):
        raise ValueError(f"{name}.py does not define `rubric = Rubric(...)`")
    rubric.source = source
    return rubric
