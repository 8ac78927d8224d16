"""A progress bar where somebody watches, and silence where nobody does.

A bar in a log file or in the stored output of a chapter is noise that changes from run to run. So the bar looks for
a person first: a terminal on standard error, or a notebook whose frontend could ask its user a question. papermill,
nbconvert and nbval say they can't, and get no bar. LECTURELIB_PROGRESS=on or off overrules.
"""

import importlib.util
import os
import sys
from types import TracebackType
from typing import Any, Self

from tqdm.std import tqdm


class Progress:
    """Count steps on a bar with the newest numbers beside it; a context manager.

    Args:
        total: steps in all
        done: steps done before, when a run is resumed
        show: True or False to decide, None to look for a person
    """

    def __init__(self, total: int, *, done: int = 0, show: bool | None = None) -> None:
        notebook = _notebook()
        show = _somebody_watches(notebook) if show is None else show
        bar = _notebook_bar() if notebook is not None else tqdm
        self._bar: Any = bar(total=total, initial=done, disable=not show, unit="step", dynamic_ncols=True, leave=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._bar.close()

    def advance(self, numbers: dict[str, float]) -> None:
        self._bar.set_postfix({name: f"{value:.4g}" for name, value in numbers.items()}, refresh=False)
        self._bar.update()


def _notebook() -> Any | None:
    """Return the running kernel when this is one (and not a terminal IPython)."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None)


def _somebody_watches(notebook: Any | None) -> bool:
    wish = os.environ.get("LECTURELIB_PROGRESS", "").lower()
    if wish in ("on", "off"):
        return wish == "on"
    if notebook is not None:
        return bool(notebook.get_parent().get("content", {}).get("allow_stdin", True))
    return sys.stderr is not None and sys.stderr.isatty()


def _notebook_bar() -> Any:
    if importlib.util.find_spec("ipywidgets") is None:
        return tqdm  # a plain bar; asking tqdm.auto instead would warn about the missing widgets
    from tqdm.notebook import tqdm as notebook_tqdm

    return notebook_tqdm
