"""Controls for a reader with a live kernel; a still picture for everybody else."""

from collections.abc import Callable
from typing import Any


def live(draw: Callable[..., object], **controls: Any) -> None:
    """Show `draw` with ipywidgets controls where somebody can turn them, and its starting picture where nobody can.

    Args:
        draw: makes what is shown from the values of the controls
        controls: name -> (starting value, what `ipywidgets.interact` takes: a range, a list, a widget, a text)
    """
    from IPython import get_ipython
    from IPython.display import display

    kernel = getattr(get_ipython(), "kernel", None)
    # papermill, nbconvert and nbval run a kernel too, but say that nobody is there to answer.
    watched = kernel is not None and kernel.get_parent().get("content", {}).get("allow_stdin", True)
    start = {name: value for name, (value, _) in controls.items()}
    if not watched:
        display(draw(**start))
        return
    import ipywidgets

    widgets = {name: ipywidgets.interactive.widget_from_abbrev(given) for name, (_, given) in controls.items()}
    for name, widget in widgets.items():
        widget.value, widget.description = start[name], name
    ipywidgets.interact(draw, **widgets)
