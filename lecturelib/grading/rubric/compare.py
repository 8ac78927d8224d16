"""Comparing what came back with what was expected, on the trusted side only.

Every value is first reduced to plain builtins and tensors (`calls.plain`), so a tensor subclass that says it equals
everything is compared by its numbers. The dtype policy: any floating-point dtype may answer a floating-point question
(a float64 answer is right), any integer an integer one, and a boolean mask must be boolean, because `~mask` means
something else on integers.
"""

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from lecturelib.grading.rubric.results import Picture
from lecturelib.grading.rubric.submission import StudentError
from lecturelib.grading.rubric.wording import (
    dtype_remark,
    family,
    name_of,
    picture_of,
    precision_remark,
    shape_remark,
    value_message,
)
from lecturelib.grading.sandbox.worker.calls import Gradients, Opaque, plain


class Mismatch(AssertionError):
    """An answer that is not the expected one; says how in words and, for tensors, in a picture.

    `form` is True when it is not the numbers that are wrong but what holds them: a type, a shape, nothing at all. `got`
    is the answer as the test had it, so that the call it came from can be found.
    """

    def __init__(self, message: str, picture: Picture | None = None, *, form: bool = False) -> None:
        super().__init__(message)
        self.picture, self.form = picture, form
        self.got: Any = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What one `assert_close` was asked."""

    want: Any
    what: str | tuple[str, ...]
    rtol: float
    atol: float
    floor: float | None

    def judge(self, got: Any) -> None:
        """Raise `Mismatch` if `got` is not what is wanted."""
        plainly, want = (value if isinstance(value, Gradients) else plain(value) for value in (got, self.want))
        near = _Near(self.rtol, self.atol, self.floor)
        try:
            if isinstance(self.what, tuple):
                _compare_parts(plainly, want, self.what, near)
            else:
                _compare(plainly, want, self.what, near)
        except Mismatch as error:
            error.got = got
            raise


class _Near(NamedTuple):
    rtol: float
    atol: float
    floor: float | None


class Judgeable(Protocol):
    """Something that an answer can be held to: what it is called, and whether it is right."""

    @property
    def what(self) -> str | tuple[str, ...]: ...
    def judge(self, got: Any) -> Any: ...


_LISTENERS: list[Callable[[Any, Judgeable], None]] = []


@contextlib.contextmanager
def overheard(listener: Callable[[Any, Judgeable], None]) -> Iterator[None]:
    """Meanwhile every `assert_close`, and all that announces itself so, tells the listener what is held to what."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def announce(got: Any, held_to: Judgeable) -> None:
    """Tell whoever listens that an answer is about to be judged."""
    for listener in _LISTENERS:
        listener(got, held_to)


def assert_close(
    got: Any,
    want: Any,
    *,
    what: str | tuple[str, ...] = "the result",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    floor: float | None = None,
) -> None:
    """Pass if `got` is `want` up to rounding: shape, finiteness and every value, through tuples, lists and dicts.

    Args:
        got: from the submission; anything at all
        want: from the reference; a tensor, number, bool, str, None, `Gradients`, or a tuple, list or dict of them
        what: how to call it in the message, such as "the weights"; for several things returned together, the name of
            each. They are then compared from the last to the first: what is returned last was mostly computed first.
        floor: numbers at or below it count as minus infinity
    """
    comparison = Comparison(want=want, what=what, rtol=rtol, atol=atol, floor=floor)
    announce(got, comparison)
    comparison.judge(got)


def _compare_parts(got: Any, want: Any, names: tuple[str, ...], near: _Near) -> None:
    if isinstance(got, Tensor) and got.dim() and len(got) == len(names):
        got = list(got)
    if not isinstance(got, list | tuple) or len(got) != len(names):
        given = f"{len(got)} things" if isinstance(got, list | tuple) else name_of(got)
        raise Mismatch(f"return {_NUMBERS[len(names)]}, {_listed(names)}; you return {given}", form=True)
    wrong: list[Mismatch] = []
    for name, one, other in zip(reversed(names), reversed(got), reversed(want), strict=True):
        try:
            _compare(one, other, name, near)
        except Mismatch as error:
            wrong.append(error)
    if not wrong:
        return
    if len(wrong) < len(names):
        right = [name for name in names if not any(str(error).startswith(name) for error in wrong)]
        message = f"{wrong[0]} (Right: {' and '.join(right)}.)" if right else str(wrong[0])
        raise Mismatch(message, wrong[0].picture, form=wrong[0].form)
    raise wrong[0]


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_NUMBERS = ("nothing", "one thing", "a pair", "three things", "four things")


def _compare(got: Any, want: Any, what: str, near: _Near) -> None:
    if got is None and want is not None:
        raise Mismatch(f"{what} is None: is a `return` missing?", form=True)
    if isinstance(want, Gradients):
        _compare_gradients(got, want, what, near)
    elif isinstance(want, Tensor):
        _compare_tensors(got, want, what, near)
    elif isinstance(want, Opaque):
        if not isinstance(got, Opaque):
            raise Mismatch(f"{what} should be a {want.type}, got {name_of(got)}", form=True)
    elif isinstance(want, bool) or want is None or isinstance(want, str):
        if isinstance(got, Tensor) and got.dim() == 0 and got.dtype == torch.bool:
            got = bool(got)
        if type(got) is not type(want) or got != want:
            raise Mismatch(f"{what} should be {want!r}, got {name_of(got)}", form=type(got) is not type(want))
    elif isinstance(want, int | float):
        _compare_numbers(got, want, what, near)
    elif isinstance(want, list | tuple):
        _compare_rows(got, want, what, near)
    elif isinstance(want, dict):
        if not isinstance(got, dict) or set(got) != set(want):
            keys = ", ".join(map(str, got)) if isinstance(got, dict) else name_of(got)
            raise Mismatch(f"{what} should be a dict with keys {', '.join(map(str, want))}; got {keys}", form=True)
        for key, value in want.items():
            _compare(got[key], value, f"{what}[{key!r}]", near)
    else:
        raise TypeError(f"cannot compare with an expected value of type {type(want).__name__}")


def _compare_rows(got: Any, want: list[Any] | tuple[Any, ...], what: str, near: _Near) -> None:
    if isinstance(got, Tensor) and got.dim():
        got = got.tolist() if got.dim() == 1 else list(got)  # things in a row, however they are held
    if not isinstance(got, list | tuple):
        raise Mismatch(f"{what} should be {name_of(want)}, got {name_of(got)}", form=True)
    for index, (one, other) in enumerate(zip(got, want, strict=False)):
        _compare(one, other, f"{what}, item {index}" if len(want) > 1 else what, near)
    if len(got) != len(want):
        raise Mismatch(f"{what} should have {_items(len(want))}, got {_items(len(got))}", form=True)


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _compare_gradients(got: Any, want: Gradients, what: str, near: _Near) -> None:
    if not isinstance(got, Gradients):
        raise Mismatch(f"{what} should come with gradients, got {name_of(got)}", form=True)
    if isinstance(got.value, int | float) and not isinstance(got.value, bool) and isinstance(want.value, Tensor):
        raise Mismatch(
            f"{what} is a plain number, and no gradient flows through a number: return the tensor itself, without "
            ".item() or float(...)",
            form=True,
        )
    _compare(plain(got.value), plain(want.value), what, near)
    pairs = [(f"input {i}", g, w) for i, (g, w) in enumerate(zip(got.inputs, want.inputs, strict=True))]
    pairs += [(name, got.parameters.get(name), w) for name, w in want.parameters.items()]
    for name, one, other in pairs:
        flat = other is None or not bool(other.any())
        if flat and (one is None or not bool(one.any())):
            continue  # no gradient and a gradient of zeros are the same
        if one is None:
            raise Mismatch(
                f"no gradient reaches {name}: .detach(), .data, .item(), numpy or torch.tensor(...) on the way cuts it",
                form=True,
            )
        expected = torch.zeros_like(one) if other is None else other
        _compare(plain(one), plain(expected), f"the gradient with respect to {name}", near)


def _compare_numbers(got: Any, want: float, what: str, near: _Near) -> None:
    if isinstance(got, Tensor) and got.numel() == 1 and got.dtype != torch.bool and not got.is_complex():
        got = got.item()
    if not isinstance(got, int | float) or isinstance(got, bool):
        raise Mismatch(f"{what} should be a number, got {name_of(got)}", form=True)
    rtol, atol, floor = near
    got = -math.inf if floor is not None and got <= floor else got
    if not math.isfinite(got) and math.isfinite(want):
        raise Mismatch(f"{what} is {got}, expected {want:.6g}")
    if got != want and not (math.isfinite(want) and abs(got - want) <= atol + rtol * abs(want)):
        remark = precision_remark(got, want)
        raise Mismatch(f"{what} is {got:.6g}, expected {want + 0:.6g}{remark}", form=bool(remark))


def _compare_tensors(got: Any, want: Tensor, what: str, near: _Near) -> None:
    if isinstance(got, int | float) and want.dim() == 0:
        got = torch.tensor(got)
    if not isinstance(got, Tensor):
        raise Mismatch(f"{what} should be a tensor of shape {tuple(want.shape)}, got {name_of(got)}", form=True)
    if got.shape != want.shape:
        raise Mismatch(
            f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}{shape_remark(got, want)}",
            picture_of(got, want),
            form=True,
        )
    if family(got) != family(want):
        raise Mismatch(f"{what} should hold {family(want)}, got {got.dtype}{dtype_remark(want)}", form=True)
    rtol, atol, floor = near
    one, other = (t.to(torch.complex128 if want.is_complex() else torch.float64) for t in (got, want))
    if floor is not None:
        one = one.masked_fill(one <= floor, -math.inf)
    if want.dtype == torch.bool or not want.is_floating_point():
        wrong = one != other
    else:
        same_special = (one == other) | (one.isnan() & other.isnan())
        wrong = ~(same_special | (other.isfinite() & ((one - other).abs() <= atol + rtol * other.abs())))
    if not bool(wrong.any()):
        return
    raise Mismatch(value_message(one, other, wrong, what, got), picture_of(one, other, wrong))


@contextlib.contextmanager
def raises(*types: type[BaseException], match: str = "") -> Iterator[None]:
    """Pass if the student's code raises one of these, with a message in which the pattern `match` is found.

    An untouched stub raises NotImplementedError; that never counts, so a blank answer earns nothing here.
    """
    names = " or ".join(cls.__name__ for cls in types)
    try:
        yield
    except StudentError as error:
        if error.raised.is_stub:
            raise
        if not {cls.__name__ for cls in types} & set(error.raised.types):
            raise Mismatch(
                f"should raise {names} here, raised {error.raised.types[0]}: {error.raised.message}"
            ) from None
        if match and not re.search(match, error.raised.message):
            raise Mismatch(f"the {names} should mention {match!r}; it says {error.raised.message!r}") from None
    else:
        raise Mismatch(f"should raise {names} here, and did not")
