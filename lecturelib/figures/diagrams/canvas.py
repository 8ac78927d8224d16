"""Where a drawing is written down: boxes, words, wires and small grids as SVG, and as numbers that a test can check.

Colours are tints of the course's palette over whatever the page has, and ink is the page's own text colour, so one
drawing reads on white and on black. A kind is never told by colour alone: every box says in words what it is.
"""

import html
import re
from dataclasses import dataclass, field
from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from lecturelib.figures.plots.picture import BLUE, GREEN, GREY, ORANGE, PURPLE, RED

KINDS = {
    "attention": BLUE,
    "feed": ORANGE,
    "norm": GREY,
    "embed": GREEN,
    "gate": PURPLE,
    "state": RED,
    "plain": "currentColor",
}
NAME, NOTE = 14.0, 12.0  # sizes of the words in boxes, and of all others
_SCRIPT = re.compile(r"(?<=\b[A-Za-zα])_(?:\{([^}]*)\}|(\w))")
_TIP, _ROUND = 7.0, 8.0  # length of an arrow's tip, radius of a wire's corners

STYLE = (
    ".lecturelib-diagram svg{display:block;margin:0 auto;font-family:system-ui,sans-serif}"
    ".lecturelib-diagram text{fill:currentColor;text-anchor:middle;stroke:none}"
    ".lecturelib-diagram .name{font-weight:600}.lecturelib-diagram .soft{fill-opacity:.82}"
    ".lecturelib-diagram .shape{font-family:ui-monospace,Menlo,Consolas,monospace;fill-opacity:.82}"
    ".lecturelib-diagram .wire{fill:none;stroke:currentColor;stroke-opacity:.7;stroke-width:1.5}"
    ".lecturelib-diagram .tip{fill:currentColor;fill-opacity:.75}"
    ".lecturelib-diagram .back{stroke:#d2691e;stroke-opacity:1;stroke-width:2;stroke-dasharray:5 3}"
    ".lecturelib-diagram .back-tip{fill:#d2691e}"
    ".lecturelib-diagram .frame{fill:none;stroke:currentColor;stroke-opacity:.45;stroke-dasharray:5 4}"
    ".lecturelib-diagram .heavy{fill:none;stroke:currentColor;stroke-width:2}"
    ".lecturelib-diagram .faint{opacity:.42}"
)


@dataclass(frozen=True)
class Rect:
    """A rectangle: left, top, width, height."""

    x: float
    y: float
    w: float
    h: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.w / 2, self.y + self.h / 2

    def side(self, name: str, shift: float = 0.0) -> tuple[float, float]:
        """The middle of a side, moved along it by `shift`."""
        x, y = self.middle
        return {
            "top": (x + shift, self.y),
            "bottom": (x + shift, self.y + self.h),
            "left": (self.x, y + shift),
            "right": (self.x + self.w, y + shift),
        }[name]


@dataclass(frozen=True)
class Drawn:
    """A box on the canvas, and what it stands for: modules or parameters by path, or a copy of such a box."""

    rect: Rect
    text: str
    of: tuple[str, ...] = ()
    copy: bool = False


@dataclass(frozen=True)
class Words:
    """A line of text on the canvas; `inside` is the box that it must fit."""

    rect: Rect
    text: str
    size: float
    style: str
    inside: Rect | None = None


def script_size(size: float) -> float:
    """The size of subscripts: smaller than their line, but never too small for a phone."""
    return max(0.82 * size, NOTE)


@cache
def text_width(text: str, size: float, style: str = "") -> float:
    """The width of a line in DejaVu, which is wider than what most readers have."""
    if match := _SCRIPT.search(text):
        script = text_width(match[1] or match[2], script_size(size), style)
        return text_width(text[: match.start()], size, style) + script + text_width(text[match.end() :], size, style)
    family = "DejaVu Sans Mono" if style == "shape" else "DejaVu Sans"
    font = FontProperties(family=family, size=size, weight="bold" if style == "name" else "normal")
    return float(TextToPath().get_text_width_height_descent(text, font, ismath=False)[0]) if text else 0.0


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


@dataclass
class Canvas:
    """Collects the SVG of a drawing, and where everything is."""

    svg: list[str] = field(default_factory=list)
    boxes: list[Drawn] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    wires: list[list[tuple[float, float]]] = field(default_factory=list)
    places: dict[str, Rect] = field(default_factory=dict)
    extents: list[Rect] = field(default_factory=list)

    def box(
        self,
        rect: Rect,
        text: str,
        kind: str = "plain",
        *,
        note: str = "",
        of: tuple[str, ...] = (),
        copy: bool = False,
        name: str = "",
        faint: bool = False,
        shape: str = "",
    ) -> Rect:
        """A box with its name, below it a softer note of one or more lines, then the shape of what comes out."""
        hide = ' class="faint"' if faint else ""
        colour, opacity = KINDS[kind], 0.06 if kind == "plain" else 0.2
        self.svg.append(
            f'<rect x="{_number(rect.x)}" y="{_number(rect.y)}" width="{_number(rect.w)}" height="{_number(rect.h)}" '
            f'rx="8" fill="{colour}" fill-opacity="{opacity}" stroke="{colour}" '
            f'stroke-opacity="{0.6 if kind == "plain" else 1}" stroke-width="1.4"{hide}/>'
        )
        self.boxes.append(Drawn(rect, text, of, copy))
        if name:
            self.places[name] = rect
        lines = [(line, NAME, "name") for line in text.split("\n") if line]
        lines += [(line, NOTE, "soft") for line in note.split("\n") if line]
        lines += [(shape, NOTE, "shape")] if shape else []
        x, y = rect.middle
        y -= sum(size * 1.22 for _, size, _ in lines) / 2
        for line, size, style in lines:
            y += size * 1.22
            self.text(x, y - size * 0.34, line, size=size, style=style, inside=rect, faint=faint)
        return rect

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = NOTE,
        style: str = "soft",
        anchor: str = "middle",
        inside: Rect | None = None,
        faint: bool = False,
    ) -> None:
        """One line whose baseline is at y; `x_t` and `h_{t-1}` are written with subscripts."""
        width = text_width(text, size, style)
        left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
        self.words.append(Words(Rect(left, y - size * 0.78, width, size), text, size, style, inside))
        pieces, last = [], 0
        for match in _SCRIPT.finditer(text):
            small = _number(script_size(size))
            pieces.append(html.escape(text[last : match.start()]))
            pieces.append(f'<tspan dy="3" font-size="{small}">{html.escape(match[1] or match[2])}</tspan>')
            last = match.end()
            rest = text[last:]
            if rest:
                pieces.append(f'<tspan dy="-3">{html.escape(rest[0])}</tspan>')
                last += 1
        pieces.append(html.escape(text[last:]))
        align = "" if anchor == "middle" else f' style="text-anchor:{anchor}"'
        self.svg.append(
            f'<text class="{style}{" faint" if faint else ""}" x="{_number(x)}" y="{_number(y)}" '
            f'font-size="{_number(size)}"{align}>{"".join(pieces)}</text>'
        )

    def wire(
        self,
        *points: tuple[float, float],
        label: str = "",
        label_at: tuple[float, float] | None = None,
        anchor: str = "start",
        style: str = "",
        tip: bool = True,
        faint: bool = False,
    ) -> None:
        """A line along points, its corners rounded, with an arrow tip and the shape that flows along it."""
        self.wires.append(list(points))
        (x1, y1), (x0, y0) = points[-1], points[-2]
        length = max(abs(x1 - x0) + abs(y1 - y0), 1e-6)
        far = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or length
        dx, dy = (x1 - x0) / far, (y1 - y0) / far
        end = (x1 - dx * (_TIP - 1), y1 - dy * (_TIP - 1)) if tip else (x1, y1)
        path = _rounded([*points[:-1], end])
        hide = " faint" if faint else ""
        self.svg.append(f'<path class="wire {style}{hide}" d="{path}"/>')
        if tip:
            side = 0.5 * _TIP
            corners = (
                (x1, y1),
                (x1 - dx * _TIP - dy * side, y1 - dy * _TIP + dx * side),
                (x1 - dx * _TIP + dy * side, y1 - dy * _TIP - dx * side),
            )
            where = " ".join(f"{_number(x)},{_number(y)}" for x, y in corners)
            self.svg.append(f'<polygon class="tip {style and style + "-tip"}{hide}" points="{where}"/>')
        if label:
            x, y = label_at or (x0 + 7, (y0 + y1) / 2)
            self.text(x, y + NOTE * 0.34, label, style="shape", anchor=anchor)

    def dot(self, x: float, y: float, *, faint: bool = False) -> None:
        """Where a wire branches."""
        self.svg.append(f'<circle class="tip{" faint" if faint else ""}" cx="{_number(x)}" cy="{_number(y)}" r="3"/>')

    def operation(self, x: float, y: float, sign: str, *, name: str = "", faint: bool = False) -> Rect:
        """A circle with +, ⊙ or another sign in it."""
        rect = Rect(x - 11, y - 11, 22, 22)
        hide = " faint" if faint else ""
        self.svg.append(f'<circle class="wire{hide}" cx="{_number(x)}" cy="{_number(y)}" r="11"/>')
        strokes = {"+": "M-6 0h12M0 -6v12", "×": "M-4.5 -4.5l9 9M-4.5 4.5l9 -9"}
        if sign == "⊙":
            self.svg.append(f'<circle class="tip{hide}" cx="{_number(x)}" cy="{_number(y)}" r="3.2"/>')
        elif sign in strokes:
            where = f"translate({_number(x)} {_number(y)})"
            self.svg.append(f'<path class="wire{hide}" transform="{where}" d="{strokes[sign]}"/>')
        else:
            self.text(x, y + 4.2, sign, inside=rect, faint=faint)
        self.boxes.append(Drawn(rect, sign))
        if name:
            self.places[name] = rect
        return rect

    def cells(
        self,
        x: float,
        y: float,
        grid: list[list[str]],
        *,
        side: float = 14.0,
        words: list[list[str]] | None = None,
        regions: list[list[int]] | None = None,
    ) -> Rect:
        """A small grid; each entry is a kind, with "" for an empty cell, and may carry a letter.

        Where `regions` differ between neighbours, and around them all, the line is heavy.
        """
        rows, columns = len(grid), len(grid[0])
        rect = Rect(x, y, columns * side, rows * side)
        squares: dict[str, list[str]] = {}  # by kind: one path for all of a kind, which keeps the page small
        for i, row in enumerate(grid):
            for j, kind in enumerate(row):
                corner, long = f"{_number(x + j * side)} {_number(y + i * side)}", _number(side)
                squares.setdefault(kind, []).append(f"M{corner}h{long}v{long}h-{long}z")
        for kind, paths in squares.items():
            fill = f'fill="{KINDS[kind]}" fill-opacity="{0.18 if kind == "plain" else 0.5}"' if kind else 'fill="none"'
            self.svg.append(
                f'<path d="{"".join(paths)}" {fill} stroke="currentColor" stroke-opacity=".5" stroke-width=".8"/>'
            )
        for i, line in enumerate(words or []):
            for j, word in enumerate(line):
                if word:
                    inside = Rect(x + j * side, y + i * side, side, side)
                    self.text(inside.x + side / 2, inside.y + side / 2 + 4.2, word, inside=inside)
        if regions:
            lines = [f"M{_number(x)} {_number(y)}h{_number(rect.w)}v{_number(rect.h)}h{_number(-rect.w)}z"]
            for i, j in ((i, j) for i in range(rows) for j in range(columns)):
                left, top = x + j * side, y + i * side
                if j and regions[i][j] != regions[i][j - 1]:
                    lines.append(f"M{_number(left)} {_number(top)}v{_number(side)}")
                if i and regions[i][j] != regions[i - 1][j]:
                    lines.append(f"M{_number(left)} {_number(top)}h{_number(side)}")
            self.svg.append(f'<path class="heavy" d="{"".join(lines)}"/>')
        self.boxes.append(Drawn(rect, "grid"))
        return rect

    def frame(self, rect: Rect, label: str = "", *, at: str = "end") -> None:
        """A dashed frame around other parts."""
        self.svg.append(
            f'<rect class="frame" x="{_number(rect.x)}" y="{_number(rect.y)}" width="{_number(rect.w)}" '
            f'height="{_number(rect.h)}" rx="12"/>'
        )
        self.extents.append(rect)
        if label:
            x = rect.x + rect.w - 10 if at == "end" else rect.x + 10
            self.text(x, rect.y + 17, label, size=13, style="name", anchor=at)


def _rounded(points: list[tuple[float, float]]) -> str:
    path = [f"M{_number(points[0][0])} {_number(points[0][1])}"]
    for (x0, y0), (x, y), (x1, y1) in zip(points, points[1:], points[2:], strict=False):
        before, after = abs(x - x0) + abs(y - y0), abs(x1 - x) + abs(y1 - y)
        r = min(_ROUND, before / 2, after / 2)
        ax, ay = (x - (x - x0) / before * r, y - (y - y0) / before * r) if before else (x, y)
        bx, by = (x + (x1 - x) / after * r, y + (y1 - y) / after * r) if after else (x, y)
        path.append(f"L{_number(ax)} {_number(ay)}Q{_number(x)} {_number(y)} {_number(bx)} {_number(by)}")
    return "".join(path) + f"L{_number(points[-1][0])} {_number(points[-1][1])}"
