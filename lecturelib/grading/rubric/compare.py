"""Comparing what came back with what was expected, on the trusted side only.

Every value is first reduced to plain builtins and tensors (`calls.plain`), so a tensor subclass that says it equals
everything is compared by its numbers. The dtype policy: any floating-point dtype may answer a floating-point question
(a float64 answer is right), any integer an integer one, and a boolean mask must be boolean, because `~mask` means
something else on integers.
"""

import contextlib
import math
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from lecturelib.grading.rubric.results import Picture
from lecturelib.grading.rubric.submission import StudentError
from lecturelib.grading.sandbox.worker.calls import Gradients, Opaque, plain

MAX_ROWS, MAX_COLUMNS = 12, 16  # of a picture


class Mismatch(AssertionError):
    """An answer that is not the expected one; says how in words and, for tensors, in a picture."""

    def __init__(self, message: str, picture: Picture | None = None) -> None:
        super().__init__(message)
        self.picture = picture


def assert_close(got: Any, want: Any, *, what: str = "the result", rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Pass if `got` is `want` up to rounding: shape, finiteness and every value, through tuples, lists and dicts.

    Args:
        got: from the submission; anything at all
        want: from the reference; a tensor, number, bool, str, None, `Gradients`, or a tuple, list or dict of them
        what: how to call it in the message, such as "the weights" or "the gradient by the keys"
    """
    got = got if isinstance(got, Gradients) else plain(got)
    want = want if isinstance(want, Gradients) else plain(want)
    _compare(got, want, what, rtol, atol)


def _compare(got: Any, want: Any, what: str, rtol: float, atol: float) -> None:
    if isinstance(want, Gradients):
        _compare_gradients(got, want, what, rtol, atol)
    elif isinstance(want, Tensor):
        _compare_tensors(got, want, what, rtol, atol)
    elif isinstance(want, Opaque):
        if not isinstance(got, Opaque):
            raise Mismatch(f"{what} should be a {want.type}, got {name_of(got)}")
    elif isinstance(want, bool) or want is None or isinstance(want, str):
        if isinstance(got, Tensor) and got.dim() == 0 and got.dtype == torch.bool:
            got = bool(got)
        if type(got) is not type(want) or got != want:
            raise Mismatch(f"{what} should be {want!r}, got {name_of(got)}")
    elif isinstance(want, int | float):
        _compare_numbers(got, want, what, rtol, atol)
    elif isinstance(want, list | tuple):
        if isinstance(got, Tensor) and got.dim() == 1 and all(type(item) in (int, float) for item in want):
            got = got.tolist()  # numbers in a row, however they are held
        if not isinstance(got, list | tuple) or len(got) != len(want):
            raise Mismatch(f"{what} should be {name_of(want)}, got {name_of(got)}")
        for index, (one, other) in enumerate(zip(got, want, strict=True)):
            _compare(one, other, f"{what}, item {index}" if len(want) > 1 else what, rtol, atol)
    elif isinstance(want, dict):
        if not isinstance(got, dict) or set(got) != set(want):
            keys = ", ".join(map(str, got)) if isinstance(got, dict) else name_of(got)
            raise Mismatch(f"{what} should be a dict with keys {', '.join(map(str, want))}; got {keys}")
        for key, value in want.items():
            _compare(got[key], value, f"{what}[{key!r}]", rtol, atol)
    else:
        raise TypeError(f"cannot compare with an expected value of type {type(want).__name__}")


def _compare_gradients(got: Any, want: Gradients, what: str, rtol: float, atol: float) -> None:
    if not isinstance(got, Gradients):
        raise Mismatch(f"{what} should come with gradients, got {name_of(got)}")
    _compare(plain(got.value), plain(want.value), what, rtol, atol)
    pairs = [(f"input {i}", g, w) for i, (g, w) in enumerate(zip(got.inputs, want.inputs, strict=True))]
    pairs += [(name, got.parameters.get(name), w) for name, w in want.parameters.items()]
    for name, one, other in pairs:
        flat = other is None or not bool(other.any())
        if flat and (one is None or not bool(one.any())):
            continue  # no gradient and a gradient of zeros are the same
        if one is None:
            raise Mismatch(
                f"no gradient reaches {name}: .detach(), .data, .item(), numpy or torch.tensor(...) on the way cuts it"
            )
        expected = torch.zeros_like(one) if other is None else other
        _compare(plain(one), plain(expected), f"the gradient by {name}", rtol, atol)


def _compare_numbers(got: Any, want: float, what: str, rtol: float, atol: float) -> None:
    if isinstance(got, Tensor) and got.numel() == 1 and got.dtype != torch.bool and not got.is_complex():
        got = got.item()
    if not isinstance(got, int | float) or isinstance(got, bool):
        raise Mismatch(f"{what} should be a number, got {name_of(got)}")
    if not math.isfinite(got) and math.isfinite(want):
        raise Mismatch(f"{what} is {got}, expected {want:.6g}")
    if got != want and not (math.isfinite(want) and abs(got - want) <= atol + rtol * abs(want)):
        raise Mismatch(f"{what} is {got:.6g}, expected {want:.6g}")


def _compare_tensors(got: Any, want: Tensor, what: str, rtol: float, atol: float) -> None:
    if isinstance(got, int | float) and want.dim() == 0:
        got = torch.tensor(got)
    if not isinstance(got, Tensor):
        raise Mismatch(f"{what} should be a tensor of shape {tuple(want.shape)}, got {name_of(got)}")
    if got.shape != want.shape:
        raise Mismatch(
            f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}{_shape_remark(got, want)}",
            picture_of(got, want),
        )
    if _family(got) != _family(want):
        raise Mismatch(f"{what} should hold {_family(want)}, got {got.dtype}{_dtype_remark(want)}")
    one, other = (t.to(torch.complex128 if want.is_complex() else torch.float64) for t in (got, want))
    if want.dtype == torch.bool or not want.is_floating_point():
        wrong = one != other
    else:
        same_special = (one == other) | (one.isnan() & other.isnan())
        wrong = ~(same_special | (other.isfinite() & ((one - other).abs() <= atol + rtol * other.abs())))
    if not bool(wrong.any()):
        return
    raise Mismatch(_value_message(one, other, wrong, what, got), picture_of(one, other, wrong))


def _value_message(got: Tensor, want: Tensor, wrong: Tensor, what: str, original: Tensor) -> str:
    count, total = int(wrong.sum()), wrong.numel()
    for name, test in (("NaN", torch.isnan), ("infinity", torch.isinf)):
        strange = test(got) & ~test(want)
        if bool(strange.any()):
            index = _index(strange.int().argmax(), got.shape)
            return f"{what}: {name} in {int(strange.sum())} of {total} places, the first at {index}"
    gaps = torch.where(wrong, (got - want).abs().nan_to_num(math.inf), 0.0)
    worst = gaps.argmax()
    one, other = got.flatten()[worst].item(), want.flatten()[worst].item()
    shown = (f"{bool(one)}", f"{bool(other)}") if original.dtype == torch.bool else (f"{one:.4g}", f"{other:.4g}")
    if total == 1:
        return f"{what}: got {shown[0]}, expected {shown[1]}."
    low = " Half precision is too coarse here." if original.dtype in (torch.float16, torch.bfloat16) else ""
    place = f"the worst, at {_index(worst, got.shape)}, is {shown[0]} and should be {shown[1]}"
    return f"{what}: {count} of {total} values differ; {place}.{low}"


def _shape_remark(got: Tensor, want: Tensor) -> str:
    if sorted(got.shape) == sorted(want.shape) and got.dim() == want.dim():
        swapped = [axis for axis in range(got.dim()) if got.shape[axis] != want.shape[axis]]
        if len(swapped) == 2:
            return f": axes {swapped[0]} and {swapped[1]} look swapped"
        return ": the axes are in another order"
    if [n for n in got.shape if n != 1] == [n for n in want.shape if n != 1]:
        return ": an axis of size 1 is " + ("missing" if got.dim() < want.dim() else "too many")
    if got.numel() == want.numel():
        return ": the right number of values, in another shape"
    return ""


def _family(tensor: Tensor) -> str:
    if tensor.dtype == torch.bool:
        return "booleans"
    if tensor.is_complex():
        return "complex numbers"
    return "real numbers" if tensor.is_floating_point() else "integers"


def _dtype_remark(want: Tensor) -> str:
    return "; a comparison such as `a <= b` gives them, and so does .bool()" if want.dtype == torch.bool else ""


def _index(flat: Tensor, shape: torch.Size) -> str:
    return "[" + ", ".join(str(int(i)) for i in torch.unravel_index(flat, shape)) + "]"


def name_of(value: Any) -> str:
    """A value in a few words, for a message."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Opaque):
        return f"a {value.type}"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def assert_shape(got: Any, shape: tuple[int, ...], *, what: str = "the result") -> None:
    """Pass if `got` is a tensor of this shape; for tests whose values cannot be known."""
    got = plain(got)
    if not isinstance(got, Tensor) or tuple(got.shape) != tuple(shape):
        raise Mismatch(f"{what} should be a tensor of shape {tuple(shape)}, got {name_of(got)}")


def assert_finite(got: Any, *, what: str = "the result") -> None:
    """Pass if every number in a tensor is finite."""
    got = plain(got)
    if not isinstance(got, Tensor):
        raise Mismatch(f"{what} should be a tensor, got {name_of(got)}")
    if not bool(got.isfinite().all()):
        bad = int((~got.isfinite()).sum())
        raise Mismatch(f"{what}: NaN or infinity in {bad} of {got.numel()} places", picture_of(got, got))


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


def picture_of(got: Tensor, want: Tensor, wrong: Tensor | None = None) -> Picture | None:
    """The two matrices that show the worst difference, cut to a size that a heat map can show."""
    if got.is_complex() or want.is_complex() or not got.numel() or not want.numel():
        return None
    lead: tuple[int, ...] = ()
    if wrong is not None and got.dim() > 2:
        place = torch.unravel_index(wrong.int().argmax(), got.shape)
        lead = tuple(int(i) for i in place[:-2])
    where = "[" + ", ".join([*map(str, lead), ":", ":"]) + "]" if lead else ""
    return Picture(
        got=_matrix(got, lead),
        want=_matrix(want, lead),
        got_shape=tuple(got.shape),
        want_shape=tuple(want.shape),
        where=where,
    )


def _matrix(tensor: Tensor, lead: tuple[int, ...]) -> tuple[tuple[float, ...], ...]:
    tensor = tensor.to(torch.float64)
    while tensor.dim() > 2:
        tensor = tensor[lead[0] if lead else 0]
        lead = lead[1:]
    matrix = tensor.reshape(1, -1) if tensor.dim() < 2 else tensor
    return tuple(tuple(float(f"{x:.4g}") for x in row) for row in matrix[:MAX_ROWS, :MAX_COLUMNS].tolist())
