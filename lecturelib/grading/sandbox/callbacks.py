"""Trusted side: answers for the references that stand in place of a student's names.

The student's process sends arguments and receives values, so it can use a reference without ever having its code. It
could also send arguments made to exhaust the grader; `_bounded` refuses those that no exercise needs, and what small
arguments can still make of a reference, `within_bounds` stops.
"""

import contextlib
import copy
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from lecturelib.grading.sandbox.worker.calls import leaves, plain, tensors
from lecturelib.grading.sandbox.worker.wire import Malformed

if sys.platform != "win32":
    import resource

MOST_NUMBERS = 1 << 17  # in all tensors of one question
LONGEST_SIDE = 8192  # what a question costs is bounded by MOST_NUMBERS
LARGEST_INTEGER = 4096
LONGEST_TEXT = 100_000
MOST_PARAMETERS = 1 << 22
MOST_QUESTIONS = 2_000  # in one call
MOST_KEPT = 256  # objects, and graphs for gradients
MOST_SECONDS = 10.0  # of our own computing, for one question
MOST_MEMORY = 1 << 30  # more than this process had before, for all questions of a call
MOST_BYTES = 64 << 20  # in one answer
MOST_KEPT_BYTES = 512 << 20  # of objects, and of what graphs begin and end with, in one call
_ONE_AT_A_TIME = threading.RLock()  # limits are the process's, and a Dask worker grades in several threads


class _Method(nn.Module):
    """A module whose forward is a given method of another, so that `functional_call` can reach it."""

    def __init__(self, inner: nn.Module, method: str) -> None:
        super().__init__()
        self.inner, self.method = inner, method

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return (
            self.inner(*args, **kwargs)
            if self.method == "__call__"
            else getattr(self.inner, self.method)(*args, **kwargs)
        )


class References:
    """The callables that one call has been given, the objects built from them, and what is needed for gradients."""

    def __init__(self) -> None:
        self._callables: list[Callable[..., Any]] = []
        self._objects: list[Any] = []
        self._graphs: list[tuple[list[Tensor], list[Tensor]]] = []
        self._questions = 0
        self._kept_bytes = 0
        self._before = address_space()

    def register(self, function: Any) -> tuple[int, str]:
        """A callable's number, and what kind of proxy it needs: what `wire.encode` asks for."""
        self._callables.append(function)
        if isinstance(function, type):
            kind = "module" if issubclass(function, nn.Module) else "class"
        else:
            kind = "function"
        return len(self._callables) - 1, kind

    def answer(self, question: Any) -> dict[str, Any]:
        """The answer to one question. What the reference raises is in it; a question we do not take is `Malformed`."""
        self._questions += 1
        if self._questions > MOST_QUESTIONS:
            raise Malformed(f"more than {MOST_QUESTIONS} questions to references in one call")
        if not isinstance(question, dict):
            raise Malformed("a question that is not a dict")
        do = {
            "call": self._call,
            "build": self._build,
            "use": self._use,
            "backward": self._backward,
            "across": self._across,
        }
        try:
            handler = do[question["do"]]
        except (KeyError, TypeError):
            raise Malformed("a question of unknown kind") from None
        _bounded(question)
        try:
            with within_bounds(self._before):
                answer = handler(question)
            if sum(tensor.nbytes for tensor in tensors(answer)) > MOST_BYTES:
                raise Malformed(f"a question whose answer has more than {MOST_BYTES >> 20} MB")
            return {"answer": answer, "error": None}
        except Malformed:
            raise
        except Exception as error:  # whatever the reference raises is the student's to see, as if it were local
            return {"answer": None, "error": (type(error).__name__, str(error)[:500])}

    def _call(self, question: dict[str, Any]) -> dict[str, Any]:
        function = _chosen(self._callables, question, "callable")
        args, kwargs = self._arguments(question)
        return self._keep(question, function(*args, **kwargs))

    def _build(self, question: dict[str, Any]) -> dict[str, Any]:
        build = _chosen(self._callables, question, "callable")
        args, kwargs = self._arguments(question)
        if len(self._objects) >= MOST_KEPT:
            raise Malformed(f"more than {MOST_KEPT} objects of references in one call")
        if isinstance(build, type) and issubclass(build, nn.Module):
            with torch.device("meta"):  # costs no memory, and shows how much the real one would
                size = sum(parameter.numel() for parameter in build(*args, **kwargs).parameters())
            if size > MOST_PARAMETERS:
                raise Malformed(f"a reference module of {size} parameters, more than {MOST_PARAMETERS}")
        made = build(*args, **kwargs)
        self._objects.append(made)
        module = made if isinstance(made, nn.Module) else None
        for tensor in module.state_dict().values() if module else tensors(list(vars(made).values())):
            self._count(tensor)
        return {
            "object": len(self._objects) - 1,
            "methods": _public_methods(made),
            "attributes": {
                name: value
                for name, value in vars(made).items()
                if not name.startswith("_") and name != "training" and type(value) in (bool, int, float, str)
            },
            "parameters": dict(module.named_parameters()) if module else {},
            "buffers": dict(module.named_buffers()) if module else {},
            "parts": _parts(module) if module else {},
        }

    def _use(self, question: dict[str, Any]) -> dict[str, Any]:
        made = _chosen(self._objects, question, "object")
        method = question.get("method")
        if method != "__call__" and method not in _public_methods(made):
            raise Malformed("a method that the reference does not have")
        args, kwargs = self._arguments(question)
        if not isinstance(made, nn.Module):
            return self._keep(question, (made if method == "__call__" else getattr(made, method))(*args, **kwargs))
        state = question.get("state")
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise Malformed("a state that is not a dict of names")
        made.train(question.get("training") is True)
        named = {f"inner.{name}": tensor for name, tensor in state.items()}
        return self._keep(question, torch.func.functional_call(_Method(made, method), named, args, kwargs))

    def _arguments(self, question: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = question.get("args"), question.get("kwargs")
        if not isinstance(args, tuple) or not isinstance(kwargs, dict) or not all(isinstance(k, str) for k in kwargs):
            raise Malformed("arguments that are not a tuple and a dict")
        return self._with_our_own(args), self._with_our_own(kwargs)

    def _with_our_own(self, value: Any) -> Any:
        """The value, with our own function, or our own module in the student's state, wherever it names one."""
        if isinstance(value, dict) and value.keys() == {"reference function"}:
            function = _chosen(self._callables, value, "reference function")
            if isinstance(function, type):
                raise Malformed("an argument that is no function of ours")
            return function
        if isinstance(value, dict) and value.keys() == {"reference object", "state"}:
            made, state = _chosen(self._objects, value, "reference object"), value["state"]
            if not isinstance(made, nn.Module) or not isinstance(state, dict):
                raise Malformed("an argument that is no module of ours with its state")
            module = copy.deepcopy(made)
            shapes = {name: tensor.shape for name, tensor in (*module.named_parameters(), *module.named_buffers())}
            if {name: getattr(tensor, "shape", None) for name, tensor in state.items()} != shapes:
                raise Malformed("a state that does not fit the module it was given for")
            for name, tensor in state.items():
                path, _, leaf = name.rpartition(".")
                owner = module.get_submodule(path)
                delattr(owner, leaf)
                setattr(owner, leaf, tensor)  # no parameter of its own, so that gradients reach the student's
            return module
        if isinstance(value, dict):
            return {key: self._with_our_own(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._with_our_own(item) for item in value)
        return value

    def _keep(self, question: dict[str, Any], value: Any) -> dict[str, Any]:
        inputs = [tensor for tensor in tensors(question) if tensor.requires_grad]
        if not inputs:
            return {"value": plain(value), "graph": -1, "link": None}
        if len(self._graphs) >= MOST_KEPT:
            raise Malformed(f"more than {MOST_KEPT} differentiable results of references in one call")
        outputs = [tensor for tensor in tensors(value) if tensor.is_floating_point()]
        for tensor in (*inputs, *outputs):
            self._count(tensor)
        self._graphs.append((inputs, outputs))
        return {"value": plain(value), "graph": len(self._graphs) - 1, "link": _link(outputs)}

    def _count(self, tensor: Tensor) -> None:
        """Count a tensor that lives as long as the call. What a graph holds beside these, `within_bounds` bounds."""
        self._kept_bytes += tensor.nbytes
        if self._kept_bytes > MOST_KEPT_BYTES:
            raise Malformed(f"questions whose answers keep more than {MOST_KEPT_BYTES >> 20} MB in one call")

    def forget(self) -> None:
        """Let go of everything: the call is over."""
        self._graphs.clear()
        self._objects.clear()
        self._callables.clear()

    def _backward(self, question: dict[str, Any]) -> dict[str, Any]:
        inputs, outputs = _chosen(self._graphs, question, "graph")
        gradients = question.get("gradients")
        if not isinstance(gradients, list) or len(gradients) != len(outputs):
            raise Malformed("gradients that do not match the outputs")
        pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if o.requires_grad and isinstance(g, Tensor)]
        if any(o.shape != g.shape for o, g in pairs):
            raise Malformed("a gradient whose shape is not its output's")
        if not pairs:
            return {"value": [None] * len(inputs)}
        found = torch.autograd.grad(
            [o for o, _ in pairs], inputs, [g.to(o.dtype) for o, g in pairs], retain_graph=True, allow_unused=True
        )
        return {"value": list(found)}

    def _across(self, question: dict[str, Any]) -> dict[str, Any]:
        """What a gradient with respect to the linked output is for the output that it was computed from."""
        _, outputs = _chosen(self._graphs, question, "graph")
        link, gradient = _link(outputs), question.get("gradient")
        if link is None or not isinstance(gradient, Tensor) or gradient.shape != outputs[link[0]].shape:
            raise Malformed("a gradient that goes across no link of ours")
        late, early = (outputs[index] for index in link)
        (found,) = torch.autograd.grad(late, early, gradient.to(late.dtype), retain_graph=True)
        return {"value": found}


def address_space() -> int:
    """How much of it this process has, in bytes; 0 where that cannot be bounded."""
    if sys.platform != "linux":
        return 0
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()


@contextlib.contextmanager
def within_bounds(before: int) -> Iterator[None]:
    """While a reference works for a student: so much memory, then it fails to allocate; so long, then `Malformed`.

    Memory is counted from what this process had `before` the call, so that what one question leaves, such as a graph
    that waits for its way back, is missing in the next.

    Time is kept where this thread may: a signal reaches the main one only.
    """
    with _ONE_AT_A_TIME, _bounded_memory(before + MOST_MEMORY):
        if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
            with _bounded_time():
                yield
        else:
            yield


@contextlib.contextmanager
def _bounded_memory(most: int) -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([most, *held]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _bounded_time() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise Malformed(f"a question that takes the reference longer than {MOST_SECONDS:g} seconds")

    handler = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)


def _chosen(things: list[Any], question: dict[str, Any], key: str) -> Any:
    number = question.get(key)
    if type(number) is not int or not 0 <= number < len(things):
        raise Malformed(f"a {key} that we did not give")
    return things[number]


def _link(outputs: list[Tensor]) -> tuple[int, int] | None:
    """Which output was computed from which other, if there is one such pair: an LSTM's h from its c."""
    pairs = [
        (late, early)
        for late, o in enumerate(outputs)
        for early, e in enumerate(outputs)
        if o is not e and o.requires_grad and e.requires_grad
        if torch.autograd.grad(o.sum(), e, retain_graph=True, allow_unused=True)[0] is not None
    ]
    return pairs[0] if len(pairs) == 1 else None


def _parts(module: nn.Module) -> dict[str, tuple[Any, ...]]:
    """PyTorch's own layers inside a module, and what they are made with: a student's code may call them one by one."""
    parts: dict[str, tuple[Any, ...]] = {}
    for name, part in module.named_modules():
        if type(part) is nn.Linear:
            parts[name] = ("Linear", part.in_features, part.out_features, part.bias is not None)
        elif type(part) is nn.LayerNorm:
            parts[name] = ("LayerNorm", part.normalized_shape, part.eps, part.elementwise_affine, part.bias is not None)
        elif type(part) is nn.Embedding:
            parts[name] = ("Embedding", part.num_embeddings, part.embedding_dim, part.padding_idx)
    return parts


def _public_methods(made: Any) -> list[str]:
    """Methods of the reference's own, not those that every module or object has."""
    own = [cls for cls in type(made).__mro__ if cls not in (nn.Module, object)]
    return sorted(
        {n for cls in own for n, f in vars(cls).items() if callable(f) and not n.startswith("_")} - {"forward"}
    )


def _bounded(question: dict[str, Any]) -> None:
    state = question.get("state")
    for name, part in question.items():
        if name == "state":
            continue
        if sum(tensor.numel() for tensor in tensors(part)) > MOST_NUMBERS:
            raise Malformed(f"a question of more than {MOST_NUMBERS} numbers")
        for value in leaves(part):
            if isinstance(value, Tensor) and any(side > LONGEST_SIDE for side in value.shape):
                raise Malformed(f"a tensor of shape {tuple(value.shape)}, with a side of more than {LONGEST_SIDE}")
            if type(value) is int and abs(value) > LARGEST_INTEGER:
                raise Malformed(f"the integer {value}, more than {LARGEST_INTEGER}")
            if isinstance(value, str) and len(value) > LONGEST_TEXT:
                raise Malformed(f"a text of {len(value)} characters")
    if sum(tensor.numel() for tensor in tensors(state)) > MOST_PARAMETERS:
        raise Malformed(f"a state of more than {MOST_PARAMETERS} numbers")
