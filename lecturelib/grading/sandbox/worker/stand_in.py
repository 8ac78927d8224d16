"""What a notebook finds inside the sandbox in place of what is not there.

`import lecturelib` gives something with every name, that does nothing: a notebook's `check("attention")` must not fail,
and there is nothing to check, because tests are the grader's business. A `DataLoader` has no workers: they would hand
their batches over through sockets, and the cell would wait for ever. Where site-packages cannot be left out of the root
directory, a package that submissions may not import is as good as not installed.
"""

import functools
import importlib.abc
import importlib.machinery
import inspect
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader

from lecturelib.grading.sandbox.worker.packages import not_there

NOT_THERE = "lecturelib is not there when your notebook is graded: what an exercise asks for is yours to write"


class Inert:
    """Takes any call, gives any attribute, holds nothing. While a test calls the student's code it takes no call."""

    refuses = False

    def __call__(self, *args: Any, **kwargs: Any) -> "Inert":
        if Inert.refuses:
            raise ImportError(NOT_THERE)
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


class NotThere:
    """In place of a name imported from a package that is not there: whatever is done with it says so."""

    def __init__(self, package: str) -> None:
        self.__dict__["package"] = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(not_there(self.__dict__["package"]))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ImportError(not_there(self.__dict__["package"]))


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


class _Readable(importlib.machinery.PathFinder):
    """Finds modules as Python does, but not one whose file must not be read: that one is not there."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = super().find_spec(name, path, target)
        if path is None and spec is not None and spec.has_location and spec.origin:
            try:
                open(spec.origin, "rb").close()
            except PermissionError:
                return None
        return spec


def install() -> None:
    """From here on `lecturelib` is the stand-in; the worker's own modules are already loaded and stay as they are."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "lecturelib"]:
        del sys.modules[name]
    finders = [_Readable if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
    sys.meta_path[:] = [_Finder(), *finders]
    _without_workers(DataLoader)


def _without_workers(loader: Any) -> None:
    make = loader.__init__
    signature = inspect.signature(make)
    about_workers = ("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")

    @functools.wraps(make)
    def made_without(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        make(**{name: value for name, value in given.arguments.items() if name not in about_workers})

    loader.__init__ = made_without
