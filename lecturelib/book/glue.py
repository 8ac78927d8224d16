"""Numbers for the prose: computed in a cell, and glued into the sentences of the page."""

_PREFIX = "application/papermill.record/"


def glue(**values: object) -> None:
    """Store each value under its name, so that {glue:text}`name` in the prose prints it; the cell shows nothing.

    The record is the one `myst_nb.glue` writes, so the site needs nothing more and a notebook needs no Sphinx.
    Pass text when the number should be rounded: `glue(error=f"{error:.3f}")`.
    """
    from IPython.display import display  # only a notebook calls this, and every notebook has it

    for name, value in values.items():
        display(
            {f"{_PREFIX}text/plain": repr(value)},
            metadata={"scrapbook": {"name": name, "mime_prefix": _PREFIX}},
            raw=True,
        )
