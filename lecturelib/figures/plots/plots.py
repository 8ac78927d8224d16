"""The plots of the course: attention maps, lines, bars. Each returns a `Picture` and asks for its alt text."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from lecturelib.figures.plots.picture import (
    COLOURS,
    DASHES,
    FONT_SIZE,
    INK,
    INK_MAP,
    MARKERS,
    NARROW,
    SIGNED_MAP,
    WIDE,
    Picture,
    house_style,
    new_figure,
)

Line = tuple[ArrayLike, ArrayLike]
LINE = FONT_SIZE / 72 * 1.3  # inches that a line of text takes
BESIDE = 0.56  # inches left of the axes, which the name and the ticks of the axis take at least


def attention_map(
    weights: ArrayLike,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    alt: str,
    titles: Sequence[str] | None = None,
    signed: bool = False,
    height: float | None = None,
    axes_names: tuple[str, str] = ("query", "key"),
) -> Picture:
    """Draw one matrix, or several side by side: a row for each query, a column for each key, more ink for more weight.

    Args:
        weights: (Tq, Tk) or (number of maps, Tq, Tk); where there is room, small maps are also written in numbers
        queries, keys: names of the rows and of the columns
        titles: one for each map
        signed: for scores rather than weights: orange below zero, blue above
        height: of one map with its labels, in inches
        axes_names: what rows and columns are, where they are not queries and keys
    """
    maps = np.asarray(weights, dtype=float)
    maps = maps[None] if maps.ndim == 2 else maps
    if maps.ndim != 3:
        raise ValueError(f"weights must be (Tq, Tk) or (maps, Tq, Tk), got shape {np.shape(weights)}")
    for name, labels, size in (("queries", queries, maps.shape[1]), ("keys", keys, maps.shape[2])):
        if labels is not None and len(labels) != size:
            raise ValueError(f"{name} must name all {size} of them, got {len(labels)} names")
    with house_style():
        wide, narrow = (
            _draw_maps(maps, queries, keys, titles, axes_names, signed, width, height) for width in (WIDE, NARROW)
        )
        return Picture(wide, alt, narrow)


def _draw_maps(
    maps: np.ndarray,
    queries: Sequence[str] | None,
    keys: Sequence[str] | None,
    titles: Sequence[str] | None,
    axes_names: tuple[str, str],
    signed: bool,
    width: float,
    height: float | None,
) -> Figure:
    """Lay the maps out in as many rows as their labels need in this width."""
    count, num_queries, num_keys = maps.shape
    if width == NARROW and queries is not None:
        queries = [textwrap.fill(name, 14) for name in queries]
    names = max((len(part) for name in queries or [""] for part in name.split("\n")), default=0) * LINE * 0.45 + 0.3
    columns = max(1, min(count, int((width - names) / max(1.1, LINE * num_keys if keys is not None else 0))))
    rows, side = math.ceil(count / columns), (width - names) / columns
    if height is None:
        height = min(5.0, 1.0 + 0.4 * num_queries, 1.0 + side * num_queries / max(num_keys, 1))
    if queries is not None:
        height = max(height, 1.0 + LINE * sum(name.count("\n") + 1 for name in queries))
    figure, axes = new_figure(rows, columns, width=width, height=rows * max(1.6, height))
    top = float(np.abs(maps).max(initial=1e-9)) if signed else max(1.0, float(maps.max(initial=0.0)))
    has_numbers = max(num_queries, num_keys) <= 10 and side / max(num_keys, 1) > (0.36 if signed else 0.29)
    for ax in axes[count:]:
        ax.set_axis_off()
    for index, ax in enumerate(axes[:count]):
        _heat(ax, maps[index], -top if signed else 0.0, top, signed, has_numbers)
        _name_axis(ax, queries if index % columns == 0 else None, keys, side)
        if titles is not None:
            ax.set_title(titles[index])
        if index % columns == 0:
            ax.set_ylabel(axes_names[0])
        ax.set_xlabel(axes_names[1])
    return figure


def line_plot(
    lines: Mapping[str, Line],
    *,
    x: str,
    y: str,
    alt: str,
    log: str = "",
    markers: bool = True,
    height: float = 3.0,
) -> Picture:
    """Draw named lines over one pair of axes; `log` is "", "x", "y" or "xy". Ticks are plain numbers: 128, not 2⁷."""
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f'log must be "", "x", "y" or "xy", got {log!r}')

    def draw(width: float) -> Figure:
        legend = LINE * math.ceil(len(lines) / _legend_columns(lines, width)) if len(lines) > 1 else 0.0
        figure, (ax,) = new_figure(width=width, height=height * (0.85 if width == NARROW else 1.0) + legend)
        draw_lines(ax, lines, markers=markers)
        ax.set(xlabel=x, ylabel=y)
        if "x" in log:
            ax.set_xscale("log", base=2)
            _say_ticks(ax.xaxis)
        elif all(np.issubdtype(np.asarray(line[0]).dtype, np.integer) for line in lines.values()):
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if "y" in log:
            ax.set_yscale("log")
            low, high = ax.get_ylim()
            if high < 100 * low:  # powers of ten alone would be a tick or two
                ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            _say_ticks(ax.yaxis)
        return figure

    with house_style():
        return Picture(draw(WIDE), alt, draw(NARROW))


def sequence_grid(
    panels: Sequence[Mapping[str, ArrayLike]],
    *,
    alt: str,
    columns: int = 2,
    titles: Sequence[str] | None = None,
    height: float = 1.7,
) -> Picture:
    """Draw small panels of one-dimensional sequences, each a few named curves over the same positions."""
    rows = math.ceil(len(panels) / columns)
    with house_style():
        figure, axes = new_figure(rows, columns, height=height * rows + 0.3, shared=True)
        for index, (ax, panel) in enumerate(zip(axes, panels, strict=False)):
            draw_lines(
                ax, {name: (np.arange(len(np.asarray(c))), c) for name, c in panel.items()}, markers=False, legend=False
            )
            if titles is not None:
                ax.set_title(titles[index])
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=_legend_columns(labels, NARROW))
        return Picture(figure, alt)


def draw_lines(ax: Axes, lines: Mapping[str, Line], *, markers: bool = True, legend: bool = True) -> None:
    """Add lines to axes of your own, each with its own colour, dash and (if wanted) marker."""
    for index, (name, (xs, ys)) in enumerate(lines.items()):
        style = index % len(COLOURS)
        ax.plot(
            np.asarray(xs),
            np.asarray(ys),
            label=name,
            color=COLOURS[style],
            linestyle=DASHES[style],
            marker=MARKERS[style] if markers else None,
        )
    if legend and len(lines) > 1:
        width = ax.figure.bbox.width / ax.figure.dpi
        for columns in range(_legend_columns(lines, width), 0, -1):
            drawn = ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=columns)
            if drawn.get_window_extent().width / ax.figure.dpi < width - BESIDE:
                break


def _heat(ax: Axes, matrix: np.ndarray, low: float, high: float, signed: bool, has_numbers: bool) -> None:
    ax.imshow(
        matrix, cmap=SIGNED_MAP if signed else INK_MAP, vmin=low, vmax=high, interpolation="nearest", aspect="auto"
    )
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.6)
    if has_numbers:
        for (row, column), value in np.ndenumerate(matrix):
            text = (
                f"{round(value, 1) + 0.0:.1f}"
                if signed
                else (f"{value:.2f}".removeprefix("0") if value >= 0.005 else "0")
            )
            ax.text(column, row, text, ha="center", va="center", color=INK)


def _say_ticks(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis as the numbers they are, and only those."""
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:.6g}")
    axis.set_minor_formatter(NullFormatter())


def _legend_columns(names: Iterable[str], width: float) -> int:
    """How many names fit side by side in a width in inches."""
    longest = max((len(name) for name in names), default=0)
    return max(1, int((72 * width - 50) // (0.55 * FONT_SIZE * longest + 40)))


def _name_axis(ax: Axes, queries: Sequence[str] | None, keys: Sequence[str] | None, side: float) -> None:
    """Name rows and columns, or number the columns as often as a map this wide, in inches, has room for."""
    ax.tick_params(length=0)
    if keys is None:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=max(2, min(9, int(side / 0.5))), integer=True))
    else:
        longest = max(map(len, keys), default=0)
        is_short = longest <= 2 and side / max(len(keys), 1) > LINE * (0.5 * longest + 0.25)  # digits, side by side
        ax.set_xticks(range(len(keys)), keys)
        if not is_short:
            for label in ax.get_xticklabels():
                label.set(rotation=45, ha="right", rotation_mode="anchor")
    if queries is None:
        ax.set_yticks([])
    else:
        ax.set_yticks(range(len(queries)), queries)
