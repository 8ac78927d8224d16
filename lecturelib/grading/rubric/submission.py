"""A submission as a test sees it: `submission.attention(q, k, v)` is a call into the student's code.

Two backends share this face: `LocalSubmission` calls functions in the same process, for `check` in the student's own
kernel; the sandbox makes each call in a fresh fork of a confined worker. A test cannot tell them apart, because it
only ever holds plain values (tensors, numbers, strings, lists, tuples, dicts) and exceptions:

    weights = submission.softmax(scores, dim=-1)                     # a function; keywords, tuples, dicts all pass
    result = submission.attention.gradients(q, k, v, upstream=g)     # result.value, result.inputs, result.parameters
    first = submission.batches.take(3, data)                         # the first three items of a generator
    layer = submission.MultiHeadAttention(d_model=12, num_heads=3)   # a capital: a class, as PEP 8 has it
    layer.load_state_dict(state); layer.eval()
    out = layer(x, mask=mask)                                        # replayed: construct, load, call
    layer.gradients(x, upstream=g); layer.state_dict(); layer.after(x0)(x1); layer.method.split(x)
    submission.value("best_scale")                                   # a variable

A module handle is a recipe, not an object: constructor, seed, state, steps. Every call replays it in a fresh process,
so nothing leaks from one call to the next. When a test is about something that must persist (a key-value cache, a
running mean), `after` adds a step to the recipe.
"""

import contextlib
import io
import random
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from lecturelib.grading.rubric.results import Outcome
from lecturelib.grading.sandbox.worker.calls import Call, Gradients, Raised, Reply, Step, perform


class SubmissionError(Exception):
    """A call gave no value. Its `outcome` is what the test's result will say, unless the test expected it."""

    outcome: ClassVar[Outcome] = "error"


class StudentError(SubmissionError):
    """The student's code raised."""

    def __init__(self, raised: Raised, name: str) -> None:
        super().__init__(f"{name} raised {raised.types[0]}: {raised.message}")
        self.raised, self.name = raised, name


class MissingName(SubmissionError):
    """The submission does not define the name."""

    outcome = "missing"

    def __init__(self, name: str) -> None:
        super().__init__(f"`{name}` is not defined")
        self.name = name


class CallTimeout(SubmissionError):
    """The call took longer than it may."""

    outcome = "timeout"


class CallCrashed(SubmissionError):
    """The process died, broke a limit, or answered with something that is not an answer."""

    outcome = "crash"


class Submission(ABC):
    """What a backend provides: one method that makes a call, and one that puts references in place of names."""

    @abstractmethod
    def perform(self, call: Call) -> Reply:
        """Make the call. May raise `CallTimeout` or `CallCrashed`; what student code raises is in the reply."""

    @abstractmethod
    def with_replacements(self, references: Mapping[str, Callable[..., Any]]) -> "Submission":
        """The same submission in which these global names are the reference's, whatever the student wrote.

        A test of a later exercise is then not lost by a mistake in an earlier one.
        """

    def answer(self, call: Call) -> Any:
        """Make the call; its value, or a `SubmissionError`."""
        reply = self.perform(call)
        if reply.missing:
            raise MissingName(call.name)
        if reply.raised is not None:
            raise StudentError(reply.raised, call.name)
        return reply.value

    def value(self, name: str) -> Any:
        """The value of a variable."""
        return self.answer(Call(name=name, kind="value"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return ClassHandle(self, name) if name[0].isupper() else FunctionHandle(self, name)


class FunctionHandle:
    """A function of the submission."""

    def __init__(self, submission: Submission, name: str) -> None:
        self._submission, self._name = submission, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._submission.answer(Call(name=self._name, args=recipes(args), kwargs=recipes(kwargs)))

    def gradients(self, *args: Any, upstream: Any = None, **kwargs: Any) -> Gradients:
        """Call and differentiate sum(upstream * result), by every floating-point tensor among the arguments."""
        call = Call(name=self._name, args=recipes(args), kwargs=recipes(kwargs), returns="gradients", upstream=upstream)
        return self._submission.answer(call)

    def arguments_after(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call, and return the positional arguments as the call left them: for a function that may not change them."""
        call = Call(name=self._name, args=recipes(args), kwargs=recipes(kwargs), returns="arguments")
        return self._submission.answer(call)

    def take(self, count: int, /, *args: Any, **kwargs: Any) -> list[Any]:
        """The first `count` items of the generator that the call returns."""
        return self._submission.answer(Call(name=self._name, args=recipes(args), kwargs=recipes(kwargs), take=count))


class ClassHandle:
    """A class of the submission; calling it starts a recipe and runs nothing yet."""

    def __init__(self, submission: Submission, name: str) -> None:
        self._submission, self._name = submission, name

    def __call__(self, *args: Any, **kwargs: Any) -> "ObjectHandle":
        call = Call(name=self._name, kind="object", args=recipes(args), kwargs=recipes(kwargs))
        return ObjectHandle(self._submission, call)


class ObjectHandle:
    """An object of a student's class, as a recipe that each call replays."""

    def __init__(self, submission: Submission, recipe: Call) -> None:
        self._submission, self.recipe = submission, recipe

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """From here on the recipe loads this state; a key or shape that does not fit is raised by the next call."""
        self.recipe = replace(self.recipe, state={name: tensor.detach().clone() for name, tensor in state.items()})

    def train(self, mode: bool = True) -> "ObjectHandle":
        self.recipe = replace(self.recipe, training=mode)
        return self

    def eval(self) -> "ObjectHandle":
        return self.train(False)

    def state_dict(self) -> dict[str, Any]:
        """The state after all steps so far; the attributes, for an object that is not a module."""
        return self._submission.answer(replace(self.recipe, returns="state"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._submission.answer(self._with(Step(args=recipes(args), kwargs=recipes(kwargs))))

    def gradients(self, *args: Any, upstream: Any = None, **kwargs: Any) -> Gradients:
        """Call and differentiate sum(upstream * result), by the floating-point arguments and the parameters."""
        call = self._with(Step(args=recipes(args), kwargs=recipes(kwargs)))
        return self._submission.answer(replace(call, returns="gradients", upstream=upstream))

    def after(self, *args: Any, **kwargs: Any) -> "ObjectHandle":
        """The object after one more call, whose result is dropped."""
        return ObjectHandle(self._submission, self._with(Step(args=recipes(args), kwargs=recipes(kwargs))))

    @property
    def method(self) -> "Methods":
        """Methods other than the call itself: `layer.method.split(x)`."""
        return Methods(self)

    def _with(self, step: Step) -> Call:
        return replace(self.recipe, steps=(*self.recipe.steps, step))


class Methods:
    """The methods of an object handle, apart so that their names cannot clash with the handle's own."""

    def __init__(self, handle: ObjectHandle) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            step = Step(method=name, args=recipes(args), kwargs=recipes(kwargs))
            return self._handle._submission.answer(self._handle._with(step))

        return call


def recipes(value: Any) -> Any:
    """Arguments as the wire wants them: an object handle becomes its recipe."""
    if isinstance(value, ObjectHandle):
        return value.recipe
    if isinstance(value, dict):
        return {key: recipes(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(recipes(item) for item in value)
    return value


class LocalSubmission(Submission):
    """Calls into a namespace of this very process: a student's own kernel, or a set of reference functions.

    Gives no protection at all; that is the sandbox's business. It does leave the kernel as it found it: random
    generators, threads and replaced names are restored, and what student code prints or warns meanwhile is not shown.
    """

    def __init__(
        self, namespace: MutableMapping[str, Any], replacements: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        self._namespace, self._replacements = namespace, dict(replacements or {})

    def with_replacements(self, references: Mapping[str, Callable[..., Any]]) -> "LocalSubmission":
        return LocalSubmission(self._namespace, {**self._replacements, **references})

    def perform(self, call: Call) -> Reply:
        with (
            _replaced(self._namespace, self._replacements),
            _same_randomness(),
            _one_thread(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(record=True),
        ):
            return perform(self._namespace, call)


@contextlib.contextmanager
def _replaced(namespace: MutableMapping[str, Any], replacements: Mapping[str, Any]) -> Iterator[None]:
    before = {name: namespace[name] for name in replacements if name in namespace}
    namespace.update(replacements)
    try:
        yield
    finally:
        for name in replacements:
            if name in before:
                namespace[name] = before[name]
            else:
                del namespace[name]


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The tensors of a test are small, and on a busy machine two threads mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _same_randomness() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the student's generator, not ours
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
