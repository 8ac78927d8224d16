"""One trip to a student's code: what is asked, what comes back, and how it is carried out.

This file is the only part of grading that runs beside student code, so it needs nothing but the standard library,
numpy and torch, and knows nothing of tests or expected values. `LocalSubmission` runs it in the student's own kernel;
the sandbox may ship it, as one file, to the worker.
"""

import contextlib
import inspect
import itertools
import os
import random
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

DEFAULT_TAKE = 1000  # items drawn from a generator before we stop asking


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of a method of an object that was built from a student's class."""

    method: str = "__call__"
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Call:
    """All that a fresh process needs to make one call; nothing is remembered from the call before.

    An object is therefore a recipe: construct `name` under `seed`, load `state`, take all `steps`, answer with the
    last one's result. The recipe is replayed for every call, with the same seed, so its weights are the same each time.

    Args may hold tensors, arrays, numbers, strings, None, and lists, tuples and dicts of them; a `Call` of kind
    "object", which is built first and passed on as an object; and a callable, which a remote backend replaces by a
    proxy that calls back to the trusted side.

    Args:
        name: the global name in the submission
        kind: call a function, build an object of a class and take steps, or read a value
        args, kwargs: of the function, or of the class's constructor
        state: loaded with `load_state_dict` (strictly, but a buffer that it does not name keeps its value) before the
            first step
        training: put a module in training mode (torch's default) or in evaluation mode
        steps: of the object, in order; without any the object itself is the result, which is not a plain value
        returns: "value", "gradients" (a `Gradients`), "state" (the state dict after all the steps), or "arguments" (the
            positional ones, as the call left them)
        upstream: for "gradients", what the result is multiplied by before summing; ones when None
        take: how many items to keep when the result is a generator, another iterator or a list; None for all of a list
            and the first DEFAULT_TAKE of a generator
        seed: set before anything runs
    """

    name: str
    kind: Literal["function", "object", "value"] = "function"
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Tensor] | None = None
    training: bool = True
    steps: tuple[Step, ...] = ()
    returns: Literal["value", "gradients", "state", "arguments"] = "value"
    upstream: Any = None
    take: int | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """The result of a call and its gradients.

    `inputs` has one entry for each floating-point tensor among the arguments of the function (or of the last step),
    positional before keyword, depth first; None where no gradient arrives. `parameters` is by state-dict name.
    """

    value: Any
    inputs: tuple[Tensor | None, ...]
    parameters: dict[str, Tensor | None]


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An exception from student code, as text: its class names from the most derived, its message, where it was."""

    types: tuple[str, ...]
    message: str
    where: str = ""

    @property
    def is_stub(self) -> bool:
        """Whether this is an exercise not written yet; torch, too, raises NotImplementedError (softmax of integers)."""
        said = self.message == "" or "yours to write" in self.message or "raise NotImplementedError" in self.where
        return self.types[0] == "NotImplementedError" and said


@dataclass(frozen=True, kw_only=True)
class Opaque:
    """Stands for a returned thing that is not a plain value: a module, a function, an object of the student's."""

    type: str


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back: a plain value (or `Gradients`), or what was raised, or that the name does not exist."""

    value: Any = None
    raised: Raised | None = None
    missing: bool = False


def perform(namespace: Mapping[str, Any], call: Call) -> Reply:
    """Make the call and reduce its result to plain values; whatever student code raises is in the reply."""
    if call.name not in namespace:
        return Reply(missing=True)
    try:
        random.seed(call.seed)
        seed_torch(call.seed)
        np.random.seed(call.seed % 2**32)  # noqa: NPY002 - student code may well draw from numpy's global state
        with torch_as_imported():
            return Reply(value=_perform(namespace, call))
    except (Exception, SystemExit) as error:
        return Reply(raised=describe(error))


def seed_torch(seed: int) -> None:
    """As `torch.manual_seed`, which also files a stack trace for each kind of device that is missing."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


@contextlib.contextmanager
def torch_as_imported() -> Iterator[None]:
    """Every switch as it is after `import torch`, whatever a cell has turned for an experiment; put back afterwards."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        if torch.is_anomaly_enabled():
            stack.enter_context(torch.autograd.set_detect_anomaly(False))
        for ask, tell, as_imported in _SWITCHES:
            before = ask()
            if before != as_imported:
                stack.callback(tell, before)
                tell(as_imported)
        if (deepest := sys.getrecursionlimit()) < _DEEPEST:
            stack.callback(sys.setrecursionlimit, deepest)
            sys.setrecursionlimit(_DEEPEST)
        yield


_DEEPEST = 1000  # calls within calls, in a fresh Python; whoever has asked for more keeps it
_SWITCHES: tuple[tuple[Callable[[], Any], Callable[[Any], Any], Any], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 0),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
)


def _perform(namespace: Mapping[str, Any], call: Call) -> Any:
    if call.kind == "value":
        return plain(namespace[call.name], call.take)
    module = None
    if call.kind == "object":
        *before, last = call.steps or (Step(method=""),)
        module = build(namespace, replace(call, steps=tuple(before)))
        if call.returns == "state" or not last.method:
            if last.method:
                _take(namespace, module, last)
            return plain(_state(module), call.take) if call.returns == "state" else plain(module)
        function = module if last.method == "__call__" else getattr(module, last.method)
        args, kwargs = last.args, last.kwargs
    else:
        function, args, kwargs = namespace[call.name], call.args, call.kwargs
    args, kwargs = _ready(namespace, args), _ready(namespace, kwargs)
    if call.returns == "arguments":
        plain(function(*args, **kwargs), call.take)  # a generator works only when asked
        return plain(args, call.take)
    if call.returns != "gradients":
        return plain(function(*args, **kwargs), call.take)
    return _gradients(function, args, kwargs, call.upstream, module)


def build(namespace: Mapping[str, Any], call: Call) -> Any:
    """Follow an object's recipe: construct, load the state, set the mode, take the steps; the object itself."""
    made = namespace[call.name](*_ready(namespace, call.args), **_ready(namespace, call.kwargs))
    if call.state is not None:
        state = {name: tensor.clone() for name, tensor in call.state.items()}
        own = dict(made.named_buffers()) if isinstance(made, nn.Module) else {}
        made.load_state_dict({**{name: own[name] for name in made.state_dict() if name in own}, **state})
    if isinstance(made, nn.Module):
        made.train(call.training)
    for step in call.steps:
        _take(namespace, made, step)
    return made


def _take(namespace: Mapping[str, Any], made: Any, step: Step) -> Any:
    function = made if step.method == "__call__" else getattr(made, step.method)
    return function(*_ready(namespace, step.args), **_ready(namespace, step.kwargs))


def _state(made: Any) -> dict[str, Any]:
    if hasattr(made, "state_dict"):
        return dict(made.state_dict())
    return dict(vars(made))


def _gradients(
    function: Callable[..., Any], args: Any, kwargs: Any, upstream: Any, module: nn.Module | None
) -> Gradients:
    inputs = [t for t in tensors((args, kwargs)) if t.is_floating_point()]
    for tensor in inputs:
        tensor.requires_grad_()
    value = function(*_inside_a_graph(args), **_inside_a_graph(kwargs))
    outputs = [t for t in tensors(value) if t.is_floating_point()]
    weights = [torch.ones_like(t) for t in outputs] if upstream is None else list(tensors(upstream))
    pairs = zip(outputs, weights, strict=True) if len(outputs) == len(weights) else ()  # no tensor, no gradient
    total = sum(((t * w.to(t.dtype)).sum() for t, w in pairs), torch.zeros(()))
    named = dict(module.named_parameters()) if isinstance(module, nn.Module) else {}
    if isinstance(total, Tensor) and total.requires_grad:
        total.backward()
    return Gradients(
        value=plain(value),
        inputs=tuple(plain(tensor.grad) for tensor in inputs),
        parameters={name: plain(parameter.grad) for name, parameter in named.items()},
    )


def _inside_a_graph(value: Any) -> Any:
    """The value with a differentiable copy of each tensor, as one layer gets it from another: `+=` works on it."""
    if isinstance(value, Tensor):
        return value.clone() if value.requires_grad else value
    if isinstance(value, dict):
        return {key: _inside_a_graph(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_inside_a_graph(item) for item in value)
    return value


def _ready(namespace: Mapping[str, Any], value: Any) -> Any:
    """Copy an argument, so that student code cannot change ours, and build the objects it holds."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Call):
        return build(namespace, value)
    if isinstance(value, dict):
        return {key: _ready(namespace, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_ready(namespace, item) for item in value)
    return value


def leaves(value: Any) -> Iterator[Any]:
    """What is in nested lists, tuples and dicts, depth first: the order in which the wire sends it."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors among the leaves."""
    return (leaf for leaf in leaves(value) if isinstance(leaf, Tensor))


def plain(value: Any, take: int | None = None, depth: int = 0) -> Any:
    """Reduce a value to exact builtins and plain CPU tensors, by what it is and never by what it says it is.

    A tensor subclass loses its overrides, an array becomes a tensor, an iterator the list of its first items, and
    anything else becomes an `Opaque`. `take` is how many items to keep of an iterator, or of the list or tuple that
    stands in its place; what is inside the items stays whole.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str, Opaque):
        return value
    if depth > 20:
        return Opaque(type="nested too deeply")
    if isinstance(value, Tensor):
        return plain_tensor(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("=")))
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return np.generic.item(value)
    if isinstance(value, int):  # from here on a subclass: keep the value, drop the class
        return int.__add__(value, 0)
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if isinstance(value, str):
        return str.__str__(value)[:]
    if kind is Fraction:
        return value.numerator / value.denominator
    if isinstance(value, dict):
        return {
            plain(key, depth=depth + 1): plain(item, depth=depth + 1)
            for key, item in dict.items(value)
            if isinstance(key, str | int | float | bool | tuple)
        }
    if isinstance(value, tuple):
        return tuple(plain(item, depth=depth + 1) for item in itertools.islice(tuple.__iter__(value), take))
    if isinstance(value, list):
        return [plain(item, depth=depth + 1) for item in itertools.islice(list.__iter__(value), take)]
    if inspect.isgenerator(value) or (isinstance(value, Iterator) and not isinstance(value, nn.Module)):
        most = DEFAULT_TAKE if take is None else take
        return [plain(item, depth=depth + 1) for item in itertools.islice(value, most)]
    return Opaque(type=kind.__name__)


def plain_tensor(value: Tensor) -> Tensor | Opaque:
    """The numbers of a tensor in an ordinary dense CPU tensor, whatever subclass it came in."""
    with torch._C.DisableTorchFunctionSubclass():
        tensor = value.detach()
        for kind in ("meta", "quantized", "nested"):
            if getattr(tensor, f"is_{kind}"):
                return Opaque(type=f"{kind} tensor")
        if tensor.layout != torch.strided:
            tensor = tensor.to_dense()
        if type(tensor) is not Tensor:
            tensor = tensor.as_subclass(Tensor)
        return tensor.cpu().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def describe(error: BaseException) -> Raised:
    """An exception as text: class names, message, and the last line of student code it passed through."""
    types = tuple(cls.__name__[:200] for cls in type(error).__mro__ if cls is not object)[:40]
    not_own = ("site-packages", "dist-packages", os.path.dirname(__file__))
    own = [f for f in traceback.extract_tb(error.__traceback__) if not any(part in f.filename for part in not_own)]
    where = f"line {own[-1].lineno}, in {own[-1].name}: {own[-1].line}" if own and own[-1].line else ""
    if not where and own:
        where = f"line {own[-1].lineno}, in {own[-1].name}"
    try:
        message = str(error)
    except BaseException as broken:  # the student's `__str__`: whatever it does, there is an error to describe
        message = f"(its message could not be read: {type(broken).__name__})"
    return Raised(types=types, message=message[:2000], where=where[:400])
