"""Stands where the grader put a reference in place of a student's name, and asks the grader for every value.

The reference's code never comes here: its arguments go out, its result comes in, and gradients take the same way back.
A class that is a `torch.nn.Module` becomes a module with the reference's parameters, which the student's code can list,
load and train like any other, and with PyTorch's own layers where the reference has them; only its `forward` is
elsewhere. Given to another reference as an argument, it goes out as its number and its state, and a function as its
number.
"""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from lecturelib.grading.sandbox.worker import wire
from lecturelib.grading.sandbox.worker.calls import tensors


class Grader:
    """The other end, while it waits for our answer to its call."""

    def __init__(self, connection: socket.socket, nonce: str) -> None:
        self._connection, self.nonce = connection, nonce
        self._caps = wire.Caps()

    def ask(self, question: dict[str, Any]) -> Any:
        """Send a question; its answer, or the exception that the reference raised."""
        wire.send(self._connection, wire.encode({"nonce": self.nonce, "ask": question}))
        answer = wire.Decoder(self._caps).decode(*wire.receive(self._connection, self._caps))
        if answer.get("error"):
            kind, message = answer["error"]
            raise _ERRORS.get(kind, RuntimeError)(message)
        return answer["answer"]

    def proxy(self, number: int, kind: str) -> Any:
        """Something to call in place of the grader's callable `number`."""
        if kind == "module":
            return type("Reference", (ReferenceModule,), {"_grader": self, "_number": number})
        if kind == "class":
            return lambda *args, **kwargs: ReferenceObject(self, number, args, kwargs)
        return ReferenceFunction(self, number)


_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (ValueError, TypeError, IndexError, KeyError, NotImplementedError, AssertionError)
}


def differentiable(grader: Grader, question: dict[str, Any]) -> Any:
    """Ask, and connect the floating-point tensors of the answer to those of the question for autograd."""
    question = _as_numbers(question)
    inputs = [tensor for tensor in tensors(question) if tensor.requires_grad]
    if not inputs or not torch.is_grad_enabled():
        return grader.ask(question)["value"]
    kept: list[Any] = []
    outputs = list(_Asked.apply(grader, question, kept, *inputs))
    value, graph, link = kept
    if link:
        late, early = link
        inside, outputs[early] = outputs[early], outputs[early].view_as(outputs[early])
        outputs[late] = _Across.apply(grader, graph, outputs[late], inside, outputs[early])
    return _with_tensors(value, iter(outputs))


class _Asked(torch.autograd.Function):
    """Forward: the question. Backward: the grader's gradients of it."""

    @staticmethod
    def forward(ctx: Any, grader: Grader, question: dict[str, Any], kept: list[Any], *inputs: Tensor) -> Any:
        answer = grader.ask(question)
        ctx.grader, ctx.graph, ctx.count = grader, answer["graph"], len(inputs)
        kept += [answer["value"], answer["graph"], answer["link"]]
        return tuple(tensor for tensor in tensors(answer["value"]) if tensor.is_floating_point())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        question = {"do": "backward", "graph": ctx.graph, "gradients": [g.detach() for g in gradients]}
        return (None, None, None, *ctx.grader.ask(question)["value"])


class _Across(torch.autograd.Function):
    """An output computed from another: its gradient with respect to that one can be asked for, and counts once."""

    @staticmethod
    def forward(ctx: Any, grader: Grader, graph: int, late: Tensor, inside: Tensor, early: Tensor) -> Tensor:
        ctx.grader, ctx.graph = grader, graph
        return late.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        question = {"do": "across", "graph": ctx.graph, "gradient": gradients[0].detach()}
        by_early = ctx.grader.ask(question)["value"]
        return None, None, gradients[0], -by_early, by_early  # the grader's way back goes through `early` already


class ReferenceFunction:
    """A function of the grader's: a reference, or what a test hands to the student's function to call."""

    def __init__(self, grader: Grader, number: int) -> None:
        self._grader, self._number = grader, number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        question = {"do": "call", "callable": self._number, "args": args, "kwargs": kwargs}
        return differentiable(self._grader, question)


class ReferenceModule(nn.Module):
    """A module whose parameters are here and whose forward is the grader's; `_grader` and `_number` are the class's."""

    _grader: Grader
    _number: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        question = {"do": "build", "callable": self._number, "args": args, "kwargs": kwargs}
        made = self._grader.ask(question)
        self._object, self._methods = made["object"], made["methods"]
        for name, value in made["attributes"].items():
            setattr(self, name, value)
        for path, (kind, *sizes) in made["parts"].items():
            owner, leaf = _owner(self, path)
            owner.add_module(leaf, getattr(nn, kind)(*sizes))
        for name, tensor in made["parameters"].items():
            owner, leaf = _owner(self, name)
            owner.register_parameter(leaf, nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad))
        for name, tensor in made["buffers"].items():
            owner, leaf = _owner(self, name)
            owner.register_buffer(leaf, tensor)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._use("__call__", args, kwargs)

    def _use(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        question = {"do": "use", "object": self._object, "method": method, "args": args, "kwargs": kwargs}
        return differentiable(self._grader, {**question, "state": self._all_state(), "training": self.training})

    def _all_state(self) -> dict[str, Tensor]:
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self.__dict__.get("_methods", ()):
            return lambda *args, **kwargs: self._use(name, args, kwargs)
        return super().__getattr__(name)


class ReferenceObject:
    """An object of a reference's class that is not a module: its methods are the grader's."""

    def __init__(self, grader: Grader, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        made = grader.ask({"do": "build", "callable": number, "args": args, "kwargs": kwargs})
        self._grader, self._object, self._methods = grader, made["object"], made["methods"]
        for name, value in made["attributes"].items():
            setattr(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._method("__call__")(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(name)
        return self._method(name)

    def _method(self, name: str) -> Callable[..., Any]:
        question = {"do": "use", "object": self._object, "method": name, "state": {}, "training": False}
        return lambda *args, **kwargs: differentiable(self._grader, {**question, "args": args, "kwargs": kwargs})


def _owner(module: nn.Module, dotted: str) -> tuple[nn.Module, str]:
    """The submodule that holds a dotted name, made of empty modules on the way, and the name's last part."""
    *path, leaf = dotted.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    return module, leaf


def _as_numbers(value: Any) -> Any:
    """The value, with the number of every function that is the grader's in its place, and a module's with its state."""
    if isinstance(value, ReferenceFunction):
        return {"reference function": value._number}
    if isinstance(value, ReferenceModule):
        return {"reference object": value._object, "state": value._all_state()}
    if isinstance(value, dict):
        return {key: _as_numbers(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_as_numbers(item) for item in value)
    return value


def _with_tensors(value: Any, replacements: Iterator[Tensor]) -> Any:
    """The value with its floating-point tensors exchanged for the given ones, in order."""
    if isinstance(value, Tensor):
        return next(replacements) if value.is_floating_point() else value
    if isinstance(value, list | tuple):
        return type(value)(_with_tensors(item, replacements) for item in value)
    if isinstance(value, dict):
        return {key: _with_tensors(item, replacements) for key, item in value.items()}
    return value
