"""Pictures that carry their own alt text and read well on light and on dark pages.

A picture is drawn by matplotlib, stored as inline SVG, and takes the colour of the text around it: black on a
white page, white on a dark one. Weight is ink: zero is paper, whatever colour the paper has. Lines differ in dash
and marker as well as in colour. It fills the column: it is laid out twice, for a page and for a phone, because one
layout that scales would have text too small on the phone or too large on the page.
"""

import base64
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
from PIL import Image

# Each has a contrast of at least 3:1 both on white and on the dark page.
BLUE, ORANGE, GREEN, PURPLE, RED, GREY = "#2f7ed8", "#d2691e", "#2b9258", "#a05bd0", "#d64550", "#848484"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "x")

WIDE, NARROW = 7.2, 4.6  # inches of 72 units; a page shows the wide layout larger than that, a phone the narrow one
FONT_SIZE = 11  # units, and so at least as many pixels on both

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
    "font.size": FONT_SIZE,
    **dict.fromkeys(
        (f"{part}size" for part in ("axes.title", "axes.label", "xtick.label", "ytick.label", "legend.font")), FONT_SIZE
    ),
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
PAGE_STYLE = (
    "<style>.lecturelib-figure{margin:0.5em 0;color:inherit}"
    ".lecturelib-figure svg{width:100%;height:auto}.lecturelib-figure svg.for-phone{display:none}"
    ".lecturelib-figure svg.for-both{display:block;max-width:30rem;margin:auto}"
    "@media(max-width:600px){.lecturelib-figure svg.for-page{display:none}"
    ".lecturelib-figure svg.for-phone{display:block}}"
    "html[data-theme=dark] .bd-content div.cell_output .text_html:has(.lecturelib-figure)"
    "{background-color:transparent!important;color:inherit!important}</style>"
)


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the style of the course: figures made inside take it, and the caller's settings come back after."""
    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = WIDE, height: float = 2.8, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure and its axes in reading order; use it inside `house_style`. It is never shown twice: no pyplot.

    Leave the width as it is: then the text is as large as in every other figure.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared)
    return figure, list(axes.flat)


class Picture:
    """A figure together with the sentence that says what it shows; the last line of a cell displays it.

    The alt text is required, and should state the finding ("loss falls to 0.02 within 300 steps"), not the kind of
    plot. It is the accessible name of the image, what a viewer that strips images shows, and the plain-text output.

    Args:
        figure: as the page shows it
        alt: the finding in a sentence
        narrow: as a phone shows it; without one, the same figure is laid out again in less width
        once: store the narrow layout alone, for pages too, where it is drawn small; half of the bytes
    """

    def __init__(self, figure: Figure, alt: str, narrow: Figure | None = None, *, once: bool = False) -> None:
        self.alt = " ".join(alt.split())
        if len(self.alt) < 20:
            raise ValueError(f"alt text must be a sentence that states what the figure shows, got {alt!r}")
        self.svg = _page_svg(figure, self.alt, "for-page")
        if narrow is None:
            width, height = figure.get_size_inches()
            figure.set_size_inches(NARROW, height * (1 + NARROW / width) / 2)
        self.narrow_svg = _page_svg(narrow or figure, self.alt, "for-both" if once else "for-phone")
        if once:
            self.svg = self.narrow_svg

    def __repr__(self) -> str:
        return f"[picture: {self.alt}]"

    def _repr_html_(self) -> str:
        drawings = self.svg if self.svg == self.narrow_svg else self.svg + self.narrow_svg
        return f'<div class="lecturelib-figure">{drawings}</div>{PAGE_STYLE}'


def _page_svg(figure: Figure, alt: str, kind: str) -> str:
    """Write SVG that is the same bytes every time, has no ids that clash, and inherits the page's colour and font."""
    salt = hashlib.sha256(f"{kind} {alt}".encode()).hexdigest()[:12]
    buffer = io.StringIO()
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r' id="image[0-9a-f]+"', "", svg)  # one bitmap drawn twice would give its id twice
    svg = re.sub(r"(font: [^;\"]*?px )[^;\"]*", r"\1system-ui, sans-serif", svg)
    svg = re.sub(r"font-family: [^;\"]*(?:; )?", "", svg)  # the whole drawing has one, see below
    svg = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", svg)
    svg = re.sub(r'(?<==")data:image/png;base64,[^"]*', lambda found: _lighter(found.group()), svg)
    svg = re.sub(r' (?:d|points|viewBox|x|y|width|height)="[^"]*"', lambda found: _rounded(found.group()), svg)
    svg = re.sub(r'="(?!data:)[^"]*"', lambda quoted: re.sub(r"(\.\d{3})\d+", r"\1", quoted.group()), svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r">\s+<", "><", svg)
    svg = re.sub(r"<g>(<(?:path|use|image)\b[^<>]*/>|<text\b[^<>]*>[^<>]*</text>)</g>", r"\1", svg)
    svg = re.sub(r'style="[^"]*"', lambda found: found.group().replace(": ", ":").replace("; ", ";"), svg)
    label = html.escape(alt)
    return svg.replace(
        "<svg", f'<svg class="{kind}" font-family="system-ui, sans-serif" role="img" aria-label="{label}"', 1
    ).strip()


def _rounded(attribute: str) -> str:
    """Coordinates on one line and to a tenth of a point, small ones to a hundredth: most of a plot's bytes."""

    def shorter(found: re.Match[str]) -> str:
        value = float(found.group())
        return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"

    return re.sub(r"\s+", " ", re.sub(r"-?\d+\.\d{2,}", shorter, attribute)).replace(' "', '"')


def _lighter(address: str) -> str:
    """The same pixels in a smaller PNG: no alpha channel where nothing shines through, a palette for few colours."""
    kind, _, data = address.partition(",")
    image = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")
    if image.getchannel("A").getextrema() != (255, 255):
        return address
    image = image.convert("RGB")
    few = image.getcolors(256)
    if few is not None:
        painted = image.quantize(max(2, len(few)), dither=Image.Dither.NONE)
        image = painted if painted.convert("RGB").tobytes() == image.tobytes() else image
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    light = base64.b64encode(buffer.getvalue()).decode()
    return f"{kind},{light}" if len(light) < len(data) else address
