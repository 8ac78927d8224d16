"""Explorers: small interactive figures that need no kernel, in the page, in JupyterLab and in Colab.

To write one, subclass `Explorer` in a folder of its own, give the card a question and a thing to try, and return its
data:

    class NGramExplorer(Explorer):
        title = "What comes next?"
        hint = "type a word, then raise n until the counts run out."

        def data(self) -> dict[str, object]:
            return {"words": self.words, "probabilities": pack(self.probabilities)}

        def text(self) -> str:
            return "After 'the' the likeliest word is 'cat' (0.31)."

`explorer.js` beside the Python file is the body of a function with two names in scope, `data` (what you returned) and
`kit` (see the shared `explorer.js`: elements, sliders, players, choices, bars, matrices, facts, an announcement line).
`kit.root` is the element to fill. Style it with an `explorer.css` beside it, if the shared one is not enough.
"""

import base64
import hashlib
import html
import inspect
import json
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

_HERE = Path(__file__).parent

# On a dark page some themes put a white card behind HTML output; an explorer inherits the page's own colours.
_PAGE_STYLE = (
    "<style>html[data-theme=dark] .bd-content div.cell_output .text_html:has(.lecturelib-explorer)"
    "{background-color:transparent!important;color:inherit!important}</style>"
)


class Explorer(ABC):
    """Base of all explorers: one self-contained HTML fragment, the same bytes for the same data.

    The fragment keeps to its own Shadow DOM, asks no other host for anything, and until its script runs (or where
    scripts are stripped) shows `text()` instead.
    """

    title: ClassVar[str]
    """The question that the card answers."""
    hint: ClassVar[str]
    """One thing to try first; the card writes "Try:" before it."""

    @abstractmethod
    def data(self) -> dict[str, object]:
        """What the script draws: plain JSON values, and arrays through `pack`."""

    @abstractmethod
    def text(self) -> str:
        """The finding in a sentence or two, for readers without scripts and for screen readers."""

    def __repr__(self) -> str:
        return f"[{type(self).__name__}: {self.text()}]"

    def _repr_html_(self) -> str:
        data = json.dumps(self.data(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        name = type(self).__name__
        frame = json.dumps({"title": self.title, "hint": self.hint}, ensure_ascii=False)
        script = Path(inspect.getfile(type(self))).with_name("explorer.js")
        style = script.with_suffix(".css")
        identity = f"{name}-{hashlib.sha256(data.encode()).hexdigest()[:10]}"
        css = _read(_HERE / "explorer.css") + (_read(style) if style.exists() else "")
        return (
            f'<div class="lecturelib-explorer" data-explorer="{identity}"><p>{html.escape(self.text())}</p></div>'
            f"{_PAGE_STYLE}<script>(function () {{\n{_read(_HERE / 'explorer.js')}\n"
            f"mount({json.dumps(identity)}, {json.dumps(css)}, {frame}, {data}, function (data, kit) {{\n"
            f"{_read(script)}\n}});\n"
            "})();</script>"
        )


def pack(array: ArrayLike) -> dict[str, object]:
    """An array as a shape and base64 float32, which `kit.unpack` reads back: exact, and smaller than digits."""
    values = np.ascontiguousarray(array, dtype="<f4")
    return {"shape": list(values.shape), "f4": base64.b64encode(values.tobytes()).decode()}


@cache
def _read(path: Path) -> str:
    """A script or a style without indentation and lines of comment: a page may hold it many times."""
    lines = map(str.strip, path.read_text(encoding="utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))
