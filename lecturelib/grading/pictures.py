"""Draw what came back beside what was expected: two small heat maps in one self-contained SVG."""

import html
import math
from collections.abc import Iterable

from lecturelib.grading.results import Picture

SIDE, GAP, TOP = 20, 28, 22  # of a cell, between the maps, above them


def svg(picture: Picture) -> str:
    """Both matrices on one scale; entries that differ carry a dot, so colour is not alone in saying so.
    An infinity is drawn as ∞ and a NaN as a question mark.

    Ink is `currentColor` and cells are a mid-tone of varying opacity, so it reads on light and on dark.
    """
    finite = [abs(x) for x in _entries(picture) if math.isfinite(x)]
    largest = max(finite, default=0.0) or 1.0
    left = _map(picture.got, picture.want, "yours", picture.got_shape, 0, largest)
    offset = max(_width(picture.got), 90) + GAP
    right = _map(picture.want, picture.want, "expected", picture.want_shape, offset, largest)
    width = offset + max(_width(picture.want), 90)
    height = TOP + SIDE * max(len(picture.got), len(picture.want)) + 4
    return (
        f'<svg role="img" aria-label="{html.escape(describe(picture))}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="11" fill="currentColor">'
        f"{left}{right}</svg>"
    )


def describe(picture: Picture) -> str:
    """The picture in a sentence, for readers who do not see it."""
    part = f" at {picture.where}" if picture.where else ""
    shapes = f"Your result has shape {picture.got_shape}, the expected one {picture.want_shape}"
    wrong = sum(_differs(picture.got, picture.want, i, j) for i, row in enumerate(picture.got) for j in range(len(row)))
    total = sum(len(row) for row in picture.got)
    first = _numbers(picture.got[0]) if picture.got else "empty"
    other = _numbers(picture.want[0]) if picture.want else "empty"
    return f"{shapes}; {wrong} of the {total} entries shown{part} differ. First row: {first}; expected {other}."


def _map(
    matrix: tuple[tuple[float, ...], ...],
    want: tuple[tuple[float, ...], ...],
    title: str,
    shape: tuple[int, ...],
    offset: int,
    largest: float,
) -> str:
    shown = "×".join(map(str, shape)) or "scalar"
    parts = [f'<text x="{offset}" y="13">{title}, {shown}</text>']
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            x, y = offset + j * SIDE, TOP + i * SIDE
            parts.append(_cell(x, y, value, largest))
            if math.isfinite(value) and _differs(matrix, want, i, j):
                parts.append(f'<circle cx="{x + SIDE / 2:g}" cy="{y + SIDE / 2:g}" r="2.5"/>')
    return "".join(parts)


def _cell(x: int, y: int, value: float, largest: float) -> str:
    if not math.isfinite(value):
        label = "∞" if math.isinf(value) else "?"
        return f'<text x="{x + SIDE / 2:g}" y="{y + 14}" text-anchor="middle">{label}</text>'
    hue = "#3b76c4" if value >= 0 else "#c4622d"  # blue for positive, orange for negative
    title = f"<title>{value:g}</title>"
    opacity = 0.06 + 0.9 * min(abs(value) / largest, 1.0)
    box = f'x="{x}" y="{y}" width="{SIDE - 1}" height="{SIDE - 1}"'
    return f'<rect {box} fill="{hue}" fill-opacity="{opacity:.2f}">{title}</rect>'


def _differs(matrix: tuple[tuple[float, ...], ...], want: tuple[tuple[float, ...], ...], i: int, j: int) -> bool:
    if i >= len(want) or j >= len(want[i]):
        return True
    one, other = matrix[i][j], want[i][j]
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) != math.isnan(other)
    return one != other and not abs(one - other) <= 1e-4 + 1e-3 * abs(other)


def _entries(picture: Picture) -> Iterable[float]:
    for matrix in (picture.got, picture.want):
        for row in matrix:
            yield from row


def _numbers(row: tuple[float, ...]) -> str:
    shown = ", ".join(f"{x:.3g}" for x in row[:6])
    return f"{shown}, …" if len(row) > 6 else shown


def _width(matrix: tuple[tuple[float, ...], ...]) -> int:
    return SIDE * max((len(row) for row in matrix), default=1)
