"""Expected beside got: two small heat maps as inline SVG, or as text for a terminal.

Ink is opacity on the page's own background and text is the page's own colour, so both read on light and dark. A
value that differs has a thick frame, so colour alone never carries the meaning; the alt text states the finding.
"""

import html
import math

from lecturelib.grading.rubric.results import Picture

WIDTH, HEIGHT, GAP, TOP = 42, 30, 30, 30  # of a cell, between the two maps, and above them
BLUE, ORANGE, WRONG = "#2f7ed8", "#d2691e", "#d64550"


def alt_text(picture: Picture) -> str:
    """One sentence: how many of the shown values differ, and where the first is."""
    if picture.got_shape != picture.want_shape:
        return f"Your result has shape {picture.got_shape}; the expected one has shape {picture.want_shape}."
    differ = differing(picture)
    total = sum(map(len, picture.want))
    if not differ:
        return f"Your {total} values and the expected ones agree in the part shown."
    row, column = min(differ)
    got, want = picture.got[row][column], picture.want[row][column]
    return (
        f"{len(differ)} of the {total} values shown differ visibly, the first in row {row}, column {column}: "
        f"yours is {short(got)}, expected {short(want)}."
    )


def differing(picture: Picture) -> set[tuple[int, int]]:
    """Row and column of every shown value that differs visibly; empty when the shapes do."""
    if picture.got_shape != picture.want_shape:
        return set()
    return {
        (i, j)
        for i, (ours, theirs) in enumerate(zip(picture.got, picture.want, strict=True))
        for j, (got, want) in enumerate(zip(ours, theirs, strict=True))
        if not (got == want or (math.isnan(got) and math.isnan(want)) or abs(got - want) <= 2e-3 * abs(want) + 1e-4)
    }


def svg(picture: Picture) -> str:
    """The two matrices side by side, frames around what differs."""
    largest = max((abs(x) for row in (*picture.want, *picture.got) for x in row if math.isfinite(x)), default=0.0)
    wrong = differing(picture)
    width = WIDTH * max(len(picture.got[0]), 4)
    other = WIDTH * max(len(picture.want[0]), 4)
    height = TOP + HEIGHT * max(len(picture.got), len(picture.want)) + 4
    parts = [
        _matrix(picture.got, f"yours {_shape(picture.got_shape)}", 2, wrong, largest),
        _matrix(picture.want, f"expected {_shape(picture.want_shape)}", width + GAP, set(), largest),
    ]
    total = width + GAP + other + 4
    return (
        f'<svg role="img" aria-label="{html.escape(alt_text(picture))}" viewBox="0 0 {total} {height}" '
        f'width="{total}" height="{height}" style="max-width:100%;height:auto" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def _matrix(
    rows: tuple[tuple[float, ...], ...], title: str, left: int, wrong: set[tuple[int, int]], largest: float
) -> str:
    parts = [f'<text x="{left}" y="18" fill="currentColor" font-size="13" font-weight="600">{title}</text>']
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            x, y = left + j * WIDTH, TOP + i * HEIGHT
            ink = 0.75 * min(abs(value) / largest, 1.0) if largest and math.isfinite(value) else 0.0
            colour = ORANGE if value < 0 else BLUE
            frame = f'stroke="{WRONG}" stroke-width="3"' if (i, j) in wrong else 'stroke="#848484" stroke-width="0.5"'
            inset = 2 if (i, j) in wrong else 0
            parts.append(
                f'<rect x="{x + inset}" y="{y + inset}" width="{WIDTH - 2 * inset}" height="{HEIGHT - 2 * inset}" '
                f'fill="{colour}" fill-opacity="{ink:.2f}" {frame}/>'
                f'<text x="{x + WIDTH / 2}" y="{y + HEIGHT / 2 + 4}" text-anchor="middle" fill="currentColor" '
                f'font-size="11">{short(value)}</text>'
            )
    return "".join(parts)


def short(value: float) -> str:
    """A number in at most six characters."""
    if not math.isfinite(value):
        return str(value).replace("inf", "∞").replace("nan", "NaN")
    text = f"{value:.2f}" if abs(value) < 100 and value != int(value) else f"{value:.0f}"
    if len(text) > 6:
        text = f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return text.replace("-", "−")


def text(picture: Picture) -> str:
    """The two matrices one below the other; a star marks what differs."""
    wrong = differing(picture)
    lines = []
    for title, rows, marks in (
        (f"yours, {_shape(picture.got_shape)}", picture.got, wrong),
        (f"expected, {_shape(picture.want_shape)}", picture.want, set()),
    ):
        lines.append(f"{title}:")
        for i, row in enumerate(rows):
            lines.append(
                "  " + " ".join(f"{short(x) + ('*' if (i, j) in marks else ' '):>7}" for j, x in enumerate(row))
            )
    return "\n".join(lines)
