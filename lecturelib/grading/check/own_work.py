"""Whether an answer is the student's own: what is not there when a notebook is graded must not pass a check either."""

import dis
import types
from collections.abc import Iterator, MutableMapping
from typing import Any

from lecturelib.grading.rubric.submission import LocalSubmission
from lecturelib.grading.sandbox.worker.calls import Call, Raised, Reply
from lecturelib.grading.sandbox.worker.stand_in import NOT_THERE


class OwnWork(LocalSubmission):
    """Calls into a student's kernel, with the answer that the grader gives to a call of lecturelib from there."""

    def perform(self, call: Call) -> Reply:
        if uses_lecturelib(self._namespace, call.name):
            return Reply(raised=Raised(types=("ImportError", "Exception", "BaseException"), message=NOT_THERE))
        return super().perform(call)


def uses_lecturelib(namespace: MutableMapping[str, Any], name: str) -> bool:
    """Whether a function or class, or one of the notebook that it calls, names something of lecturelib."""
    waiting, seen = [name], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in namespace:
            continue
        seen.add(name)
        if _is_lecturelibs(namespace[name]):
            return True
        for code in _codes(namespace[name]):
            for instruction in dis.get_instructions(code):
                if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    waiting.append(instruction.argval)
                elif instruction.opname == "IMPORT_NAME" and _is_within(instruction.argval):
                    return True
    return False


def _is_lecturelibs(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return _is_within(value.__name__)
    if isinstance(value, type):
        return any(_is_within(base.__module__) for base in value.__mro__)
    return isinstance(value, types.FunctionType) and _is_within(value.__module__ or "")


def _is_within(module: str) -> bool:
    return module.partition(".")[0] == "lecturelib"


def _codes(value: Any) -> Iterator[types.CodeType]:
    """The code of a function, of a class's methods, and of what is defined inside them."""
    parts = vars(value).values() if isinstance(value, type) else [value]
    waiting = [part.__code__ for part in parts if isinstance(part, types.FunctionType)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
