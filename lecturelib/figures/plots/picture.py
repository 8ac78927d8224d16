"""Pictures that carry their own alt text and read well on light and on dark pages.

A picture is drawn by matplotlib, stored as inline SVG, and takes the colour of the text around it: black on a
white page, white on a dark one. Weight is ink: zero is paper, whatever colour the paper has. Lines differ in dash
and marker as well as in colour.
"""

import hashlib
import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

# Each has a contrast of at least 3:1 both on white and on the dark page.
BLUE, ORANGE, GREEN, PURPLE, RED, GREY = "#2f7ed8", "#d2691e", "#2b9258", "#a05bd0", "#d64550", "#848484"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "x")

INK = "#010203"  # stands for "the text colour of the page" until the SVG is written

# From paper to ink, and from orange through paper to blue, by opacity alone.
INK_MAP = LinearSegmentedColormap.from_list("ink", [(0.18, 0.49, 0.85, 0.0), (0.18, 0.49, 0.85, 0.9)])
SIGNED_MAP = LinearSegmentedColormap.from_list(
    "signed",
    [
        (0.0, (0.82, 0.41, 0.12, 0.9)),
        (0.5, (0.82, 0.41, 0.12, 0.0)),
        (0.5, (0.18, 0.49, 0.85, 0.0)),
        (1.0, (0.18, 0.49, 0.85, 0.9)),
    ],
)

_STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 5.0,
    "svg.fonttype": "none",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}

# Some themes put a white card behind HTML output on a dark page; ours needs none.
_PAGE_STYLE = (
    "<style>.lecturelib-figure{margin:0.5em 0;color:inherit}"
    ".lecturelib-figure svg{max-width:100%;height:auto}"
    "html[data-theme=dark] .bd-content div.cell_output .text_html:has(.lecturelib-figure)"
    "{background-color:transparent!important;color:inherit!important}</style>"
)


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the style of the course: figures made inside take it, and the caller's settings come back after."""
    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 7.0, height: float = 2.8, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure and its axes in reading order; use it inside `house_style`. It is never shown twice: no pyplot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared)
    return figure, list(axes.flat)


class Picture:
    """A figure together with the sentence that says what it shows; the last line of a cell displays it.

    The alt text is required, and should state the finding ("loss falls to 0.02 within 300 steps"), not the kind of
    plot. It is the accessible name of the image, what a viewer that strips images shows, and the plain-text output.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        self.alt = " ".join(alt.split())
        if len(self.alt) < 20:
            raise ValueError(f"alt text must be a sentence that states what the figure shows, got {alt!r}")
        self.svg = _page_svg(figure, self.alt)

    def __repr__(self) -> str:
        return f"[picture: {self.alt}]"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        caption = f"<figcaption hidden>{html.escape(self.alt)}</figcaption>"
        return {
            "text/html": f'<figure class="lecturelib-figure">{self.svg}{caption}</figure>{_PAGE_STYLE}',
            "text/plain": repr(self),
        }


def _page_svg(figure: Figure, alt: str) -> str:
    """Write SVG that is the same bytes every time, has no ids that clash, and inherits the page's colour and font."""
    salt = hashlib.sha256(alt.encode()).hexdigest()[:12]
    buffer = io.StringIO()
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r' id="image[0-9a-f]+"', "", svg)  # one bitmap drawn twice would give its id twice
    svg = re.sub(r"(font: [^;\"]*?px )[^;\"]*", r"\1system-ui, sans-serif", svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r">\s+<", "><", svg)
    label = html.escape(alt)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1).strip()
