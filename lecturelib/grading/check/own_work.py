"""Whether an answer is the student's own: what is not there when a notebook is graded must not pass a check either."""

import dis
import types
from collections.abc import Iterator, MutableMapping
from typing import Any

from lecturelib.grading.rubric.submission import LocalSubmission
from lecturelib.grading.sandbox.worker.calls import Call, Raised, Reply
from lecturelib.grading.sandbox.worker.packages import may_import, not_there
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
    waiting, seen = [name], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in namespace:
            continue
        seen.add(name)
        if package := _foreign(_packages(namespace[name])):
            return package
        for code in _codes(namespace[name]):
            for instruction in dis.get_instructions(code):
                if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    waiting.append(instruction.argval)
                elif instruction.opname == "IMPORT_NAME" and (package := _foreign([instruction.argval])):
                    return package
    return ""


def _packages(value: Any) -> list[str]:
    if isinstance(value, types.ModuleType):
        return [value.__name__]
    if isinstance(value, type):
        return [base.__module__ for base in value.__mro__]
    return [value.__module__ or "__main__"] if isinstance(value, types.FunctionType) else []


def _foreign(modules: list[str]) -> str:
    """The first package among modules that a submission may not import; "" if it may import all."""
    roots = (module.partition(".")[0] for module in modules)
    return next((root for root in roots if root and not may_import(root)), "")


def _codes(value: Any) -> Iterator[types.CodeType]:
    """The code of a function, of a class's methods, and of what is defined inside them."""
    parts = vars(value).values() if isinstance(value, type) else [value]
    waiting = [part.__code__ for part in parts if isinstance(part, types.FunctionType)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
