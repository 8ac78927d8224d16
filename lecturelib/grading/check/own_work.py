"""Whether an answer is the student's own: what is not there when a notebook is graded must not pass a check either."""

import dis
import functools
import types
from collections.abc import Iterator, MutableMapping
from itertools import chain
from typing import Any

from torch import nn

from lecturelib.grading.rubric.submission import LocalSubmission
from lecturelib.grading.sandbox.worker.calls import Call, Raised, Reply
from lecturelib.grading.sandbox.worker.packages import MAY_IMPORT, may_import, not_there
from lecturelib.grading.sandbox.worker.stand_in import NOT_THERE


class OwnWork(LocalSubmission):
    """Calls into a student's kernel, with the answer that the grader gives to a call of what is not there."""

    def perform(self, call: Call) -> Reply:
        if package := foreign_package(self._namespace, call.name):
            message = NOT_THERE if package == "lecturelib" else not_there(package)
            return Reply(raised=Raised(types=("ImportError", "Exception", "BaseException"), message=message))
        return super().perform(call)


def foreign_package(namespace: MutableMapping[str, Any], name: str) -> str:
    """The package of which a function or class, or one of the notebook that it calls, names something; "" if none."""
    waiting, seen = [namespace.get(name)], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        packages = _packages(value)
        if package := _foreign(packages):
            return package
        if packages[0].partition(".")[0] in MAY_IMPORT:
            continue  # what it calls is its own business
        waiting += _within(value)
        for instruction in chain.from_iterable(map(dis.get_instructions, _codes(value))):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                waiting.append(namespace.get(instruction.argval))
            elif instruction.opname == "IMPORT_NAME" and (package := _foreign([instruction.argval])):
                return package
    return ""


def _packages(value: Any) -> list[str]:
    """The module that a value is, or that made it or its type."""
    if isinstance(value, types.ModuleType):
        return [value.__name__]
    if isinstance(value, types.FunctionType):
        return [value.__module__ or "__main__"]
    kind = value if isinstance(value, type) else type(value)
    return [str(base.__module__) for base in kind.__mro__ if base.__module__ != "pybind11_builtins"]


def _foreign(modules: list[str]) -> str:
    """The first package among modules that a submission may not import; "" if it may import all."""
    roots = (module.partition(".")[0] for module in modules)
    return next((root for root in roots if root and not may_import(root)), "")


def _within(value: Any) -> list[Any]:
    """What a function, a class or an object was made of, by decorators, defaults, `partial` and the like."""
    if isinstance(value, types.FunctionType):
        kept = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values()]
        return kept + [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
    if isinstance(value, type):
        return list(vars(value).values())
    if isinstance(value, staticmethod | classmethod | types.MethodType):
        return [value.__func__, getattr(value, "__self__", None)]
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    return list(value.modules()) if isinstance(value, nn.Module) else []


def _codes(value: Any) -> Iterator[types.CodeType]:
    """The code of a function, and of what is defined inside it."""
    waiting = [value.__code__] if isinstance(value, types.FunctionType) else []
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
