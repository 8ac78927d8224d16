"""Keep the site self-contained: MathJax from a pip package, and no script with a remote address inside."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

MATHJAX_PACKAGE = "sphinx-mathjax-offline"  # its import name, hyphens and all
MATHJAX_PARTS = (
    "tex-mml-chtml.js",
    "output/chtml/fonts",
    "input/tex/extensions",
    "a11y",
    "sre/mathmaps/en.json",
    "sre/mathmaps/base.json",
)
MATHJAX_TARGET = "mathjax/tex-mml-chtml.js"  # inside _static


def mathjax_folder() -> Path:
    """The folder of the installed MathJax distribution."""
    spec = find_spec(MATHJAX_PACKAGE)
    if spec is None or spec.origin is None:
        raise ExtensionError(f"MathJax is not installed: pip install {MATHJAX_PACKAGE}")
    return Path(spec.origin).parent / "static" / "mathjax"


def copy_mathjax(app: Sphinx) -> None:
    """Copy the parts of MathJax that a page with TeX can ask for."""
    if app.builder.format != "html":
        return
    source, target = mathjax_folder(), Path(app.outdir) / "_static" / "mathjax"
    for part in MATHJAX_PARTS:
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            shutil.copy(source / part, target / part)


def drop_thebe(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Jupyter Book loads sphinx-thebe even when it is off, with the address of a remote script inside: leave it out."""

    def is_thebe(script: object) -> bool:
        body = getattr(script, "attributes", {}).get("body") or ""
        return "THEBE_JS_URL" in body or "thebe" in str(script)

    for kind in ("script_files", "css_files"):
        context[kind][:] = [file for file in context.get(kind, []) if not is_thebe(file)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.config.mathjax_path = MATHJAX_TARGET
    app.connect("builder-inited", copy_mathjax)
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
