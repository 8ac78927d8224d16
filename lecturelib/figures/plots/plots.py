"""The plots of the course: attention maps, lines, bars. Each returns a `Picture` and asks for its alt text."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from lecturelib.figures.plots.picture import (
    COLOURS,
    DASHES,
    INK,
    INK_MAP,
    MARKERS,
    SIGNED_MAP,
    Picture,
    house_style,
    new_figure,
)

Line = tuple[ArrayLike, ArrayLike]


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
        weights: (Tq, Tk) or (number of maps, Tq, Tk); small maps are also written out in numbers
        queries, keys: names of the rows and of the columns
        titles: one for each map
        signed: for scores rather than weights: orange below zero, blue above
        axes_names: what rows and columns are, where they are not queries and keys
    """
    maps = np.asarray(weights, dtype=float)
    maps = maps[None] if maps.ndim == 2 else maps
    if maps.ndim != 3:
        raise ValueError(f"weights must be (Tq, Tk) or (maps, Tq, Tk), got shape {np.shape(weights)}")
    for name, labels, size in (("queries", queries, maps.shape[1]), ("keys", keys, maps.shape[2])):
        if labels is not None and len(labels) != size:
            raise ValueError(f"{name} must name all {size} of them, got {len(labels)} names")
    count, num_queries, num_keys = maps.shape
    width = min(7.4, 2.0 + 2.6 * count)
    if height is None:
        height = min(5.0, 1.0 + (width / count - 0.6) * num_queries / max(num_keys, 1))
    with house_style():
        figure, axes = new_figure(1, count, width=width, height=max(1.4, height))
        top = float(np.abs(maps).max(initial=1e-9)) if signed else max(1.0, float(maps.max(initial=0.0)))
        for index, ax in enumerate(axes):
            _heat(ax, maps[index], -top if signed else 0.0, top, signed)
            _name_axis(ax, queries if index == 0 else None, keys)
            if titles is not None:
                ax.set_title(titles[index])
            if index == 0:
                ax.set_ylabel(axes_names[0])
            ax.set_xlabel(axes_names[1])
        return Picture(figure, alt)


def line_plot(
    lines: Mapping[str, Line],
    *,
    x: str,
    y: str,
    alt: str,
    log: str = "",
    markers: bool = True,
    width: float = 6.4,
    height: float = 3.0,
) -> Picture:
    """Draw named lines over one pair of axes; `log` is "", "x", "y" or "xy"."""
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f'log must be "", "x", "y" or "xy", got {log!r}')
    with house_style():
        figure, (ax,) = new_figure(width=width, height=height)
        draw_lines(ax, lines, markers=markers)
        ax.set(xlabel=x, ylabel=y)
        if "x" in log:
            ax.set_xscale("log", base=2)
        if "y" in log:
            ax.set_yscale("log")
        return Picture(figure, alt)


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
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
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
        ax.legend()


def _heat(ax: Axes, matrix: np.ndarray, low: float, high: float, signed: bool) -> None:
    ax.imshow(
        matrix, cmap=SIGNED_MAP if signed else INK_MAP, vmin=low, vmax=high, interpolation="nearest", aspect="auto"
    )
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.6)
    if max(matrix.shape) <= 10:
        for (row, column), value in np.ndenumerate(matrix):
            text = (
                f"{round(value, 1) + 0.0:.1f}"
                if signed
                else (f"{value:.2f}".removeprefix("0") if value >= 0.005 else "0")
            )
            ax.text(column, row, text, ha="center", va="center", fontsize=8, color=INK)


def _name_axis(ax: Axes, queries: Sequence[str] | None, keys: Sequence[str] | None) -> None:
    ax.tick_params(length=0)
    if keys is None:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        ax.set_xticks(range(len(keys)), keys, rotation=45, ha="right", rotation_mode="anchor")
    if queries is None:
        ax.set_yticks([])
    else:
        ax.set_yticks(range(len(queries)), queries)
