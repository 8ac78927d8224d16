"""How an answer, a difference and a call are put into words and pictures for a student."""

import math
from typing import Any

import torch
from torch import Tensor

from lecturelib.grading.rubric.results import Picture
from lecturelib.grading.sandbox.worker.calls import Call, Opaque

MAX_ROWS, MAX_COLUMNS = 12, 16  # of a picture
MOST_SHOWN = 12  # numbers of an argument


def value_message(got: Tensor, want: Tensor, wrong: Tensor, what: str, original: Tensor) -> str:
    """How many values differ, and the worst of them."""
    count, total = int(wrong.sum()), wrong.numel()
    for name, test in (("NaN", torch.isnan), ("infinity", torch.isinf)):
        strange = test(got) & ~test(want)
        if bool(strange.any()):
            index = _index(strange.int().argmax(), got.shape)
            return f"{what}: {name} in {int(strange.sum())} of {total} places, the first at {index}"
    gaps = torch.where(wrong, (got - want).abs().nan_to_num(math.inf), 0.0)
    worst = gaps.argmax()
    one, other = got.flatten()[worst].item(), want.flatten()[worst].item()
    shown = (f"{bool(one)}", f"{bool(other)}") if original.dtype == torch.bool else told_apart(one, other)
    if total == 1:
        return f"{what}: got {shown[0]}, expected {shown[1]}{precision_remark(one, other)}."
    low = " Half precision is too coarse here." if original.dtype in (torch.float16, torch.bfloat16) else ""
    place = f"the worst, at {_index(worst, got.shape)}, is {shown[0]} and should be {shown[1]}"
    return f"{what}: {count} of {total} values differ; {place}.{low}"


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with four digits, or as many as it takes to see that they differ."""
    pairs = ((f"{one:.{digits}g}", f"{other:.{digits}g}") for digits in range(4, 17))
    return next((pair for pair in pairs if pair[0] != pair[1]), (repr(one), repr(other)))


def precision_remark(got: float, want: float) -> str:
    """What to say of a number that is nearly right and has lost its last digits on the way; "" of any other."""
    near = math.isfinite(want) and abs(got - want) <= abs(want) / 100
    if not near or float(10 * got).is_integer():  # a number with few digits is just simple
        return ""
    if any(math.isclose(got, round(want, digits), rel_tol=1e-6) for digits in (2, 3, 4)):
        return ". That is nearly it, and looks rounded: return all of its digits"
    mantissa = math.frexp(got)[0]
    if (mantissa * 2**11).is_integer() and not (mantissa * 2**5).is_integer():  # so is one with few bits
        return ". That is nearly it, with the few digits of half precision: compute in float32 at least"
    return ""


def shape_remark(got: Tensor, want: Tensor) -> str:
    """What a wrong shape looks like: swapped axes, a missing axis."""
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


def family(tensor: Tensor) -> str:
    """Which kind of numbers a tensor holds; any dtype of the kind will do."""
    if tensor.dtype == torch.bool:
        return "booleans"
    if tensor.is_complex():
        return "complex numbers"
    return "real numbers" if tensor.is_floating_point() else "integers"


def dtype_remark(want: Tensor) -> str:
    """What to do about a mask that is not one."""
    return "; a comparison such as `a <= b` gives them, and so does .bool()" if want.dtype == torch.bool else ""


def _index(flat: Tensor, shape: torch.Size) -> str:
    return "[" + ", ".join(str(int(i)) for i in torch.unravel_index(flat, shape)) + "]"


def name_of(value: Any) -> str:
    """A value in a few words, for a message."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Opaque) and value.type == "meta tensor":
        return "a tensor on the device `meta`, which has a shape and no numbers"
    if isinstance(value, Opaque):
        return f"a {value.type}"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def call_text(call: Call) -> str:
    """A call as a student would write it, long arguments by their shape."""
    text = call.name if call.kind == "value" else f"{call.name}({_arguments(call.args, call.kwargs)})"
    for step in call.steps:
        text += f"{'' if step.method == '__call__' else '.' + step.method}({_arguments(step.args, step.kwargs)})"
    return text


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(_argument, args), *(f"{name}={_argument(value)}" for name, value in kwargs.items())])


def _argument(value: Any) -> str:
    if isinstance(value, Call):
        return call_text(value)
    if isinstance(value, Tensor):
        if value.dim() <= 1 and value.numel() <= MOST_SHOWN and not value.is_floating_point():
            return str(value.tolist())
        return f"<{'×'.join(map(str, value.shape)) or 'number'} {str(value.dtype).removeprefix('torch.')}>"
    if isinstance(value, list | tuple):
        text = ", ".join(map(_argument, value))
        text = f"[{text}]" if isinstance(value, list) else f"({text}{',' if len(value) == 1 else ''})"
    elif isinstance(value, float):
        text = f"{value:g}"
    elif callable(value):
        return f"<{getattr(value, '__name__', type(value).__name__)}>"
    else:
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}…{text[-1]}"


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
