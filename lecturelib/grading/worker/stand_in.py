"""What `import lecturelib` gives inside the sandbox: something with every name, that does nothing.

A notebook's `check("attention")` must not fail there, and there is nothing to check: tests are the grader's business.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any


class Inert:
    """Takes any call, gives any attribute, holds nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> "Inert":
        return self

    def __getattr__(self, name: str) -> "Inert":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> "Inert":
        return self

    def __exit__(self, *args: object) -> None:
        return None

    def __repr__(self) -> str:
        return ""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for lecturelib and everything below it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != "lecturelib":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def exec_module(self, module: types.ModuleType) -> None:
        inert = Inert()

        def attribute(name: str) -> Inert:
            if name.startswith("__"):
                raise AttributeError(name)
            return inert

        module.__dict__["__getattr__"] = attribute
        module.__dict__["__all__"] = []


def install() -> None:
    """From here on `lecturelib` is the stand-in; the worker's own modules are already loaded and stay as they are."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "lecturelib"]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
