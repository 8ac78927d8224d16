"""Small pictures in a grid, each under its title, with attention or boxes laid over them where there are any."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from lecturelib.figures.plots.picture import FONT_SIZE, NARROW, WIDE, Picture, house_style, new_figure

# Attention over a picture: from see-through to orange, so that dark and light pixels both stay visible.
OVERLAY_MAP = LinearSegmentedColormap.from_list("overlay", [(1.0, 0.45, 0.0, 0.0), (1.0, 0.45, 0.0, 0.85)])

LARGEST_SIDE = 1.5  # inches; a few pictures stand in the middle rather than fill the screen


def image_grid(
    images: Sequence[ArrayLike],
    *,
    alt: str,
    titles: Sequence[str] | None = None,
    overlays: Sequence[ArrayLike | None] | None = None,
    boxes: Sequence[ArrayLike | None] | None = None,
    columns: int = 8,
    once: bool = False,
) -> Picture:
    """Draw pictures side by side at their own resolution.

    Args:
        images: (height, width) or (1 or 3, height, width) each, numbers from 0 (black) to 1
        alt: the finding in a sentence
        titles: one for each picture
        overlays: for each picture, None or (rows, columns) weights of patches; the largest is the most orange
        boxes: for each picture, None or (boxes, 4): middle x and y, width and height, as parts of the picture's sides
        columns: pictures in a row; fewer where the titles need more room
        once: one small layout for page and phone, where a page has many bitmaps
    """
    for name, given in (("titles", titles), ("overlays", overlays), ("boxes", boxes)):
        if given is not None and len(given) != len(images):
            raise ValueError(f"{name} must be one for each of {len(images)} pictures, got {len(given)}")
    title_width = (0.6 * FONT_SIZE * max(map(len, titles or [""])) + 6) / 72  # inches
    with house_style():
        wide, narrow = (
            _draw(images, titles, overlays, boxes, max(1, min(columns, len(images), int(width / title_width))), width)
            for width in (WIDE, NARROW)
        )
        return Picture(wide, alt, narrow, once=once)


def _draw(
    images: Sequence[ArrayLike],
    titles: Sequence[str] | None,
    overlays: Sequence[ArrayLike | None] | None,
    boxes: Sequence[ArrayLike | None] | None,
    columns: int,
    width: float,
) -> Figure:
    rows = math.ceil(len(images) / columns)
    side = min(width / columns, LARGEST_SIDE)
    figure, axes = new_figure(rows, columns, width=width, height=rows * (side + (0.22 if titles is not None else 0.0)))
    for ax in axes:
        ax.set_axis_off()
    for index, image in enumerate(images):
        pixels = drawable(image)
        extent = (0, pixels.shape[1], pixels.shape[0], 0)
        axes[index].imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="none", extent=extent)
        overlay = None if overlays is None else overlays[index]
        if overlay is not None:
            weights = np.asarray(overlay, dtype=float)
            top = weights.max() if weights.max() > 0 else 1.0
            axes[index].imshow(weights / top, cmap=OVERLAY_MAP, vmin=0, vmax=1, interpolation="none", extent=extent)
        found = None if boxes is None else boxes[index]
        for x, y, wide, high in np.asarray([] if found is None else found, dtype=float).reshape(-1, 4).tolist():
            corner = ((x - wide / 2) * pixels.shape[1], (y - high / 2) * pixels.shape[0])
            for line, colour in ((3.2, "black"), (1.4, "white")):  # to be seen on any pixels
                sides = (wide * pixels.shape[1], high * pixels.shape[0])
                axes[index].add_patch(Rectangle(corner, *sides, fill=False, linewidth=line, edgecolor=colour))
        if titles is not None:
            axes[index].set_title(titles[index])
    return figure


def drawable(image: ArrayLike) -> np.ndarray:
    """A picture as bytes: (height, width), or (height, width, 3) for colours. Numbers outside 0 to 1 are clipped."""
    pixels = np.asarray(image, dtype=float)
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3):
        pixels = pixels[0] if pixels.shape[0] == 1 else pixels.transpose(1, 2, 0)  # (height, width, 3)
    if pixels.ndim != 2 and not (pixels.ndim == 3 and pixels.shape[-1] == 3):
        raise ValueError(f"a picture must be (height, width) or (1 or 3, height, width), got {pixels.shape}")
    return np.rint(pixels.clip(0, 1) * 255).astype(np.uint8)
