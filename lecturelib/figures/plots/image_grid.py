"""Small pictures in a grid, each under its title, with attention laid over them where there is any."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import ArrayLike

from lecturelib.figures.plots.picture import Picture, house_style, new_figure

# Attention over a picture: from see-through to orange, so that dark and light pixels both stay visible.
OVERLAY_MAP = LinearSegmentedColormap.from_list("overlay", [(1.0, 0.45, 0.0, 0.0), (1.0, 0.45, 0.0, 0.85)])


def image_grid(
    images: Sequence[ArrayLike],
    *,
    alt: str,
    titles: Sequence[str] | None = None,
    overlays: Sequence[ArrayLike | None] | None = None,
    columns: int = 8,
    side: float = 0.95,
) -> Picture:
    """Draw pictures side by side at their own resolution.

    Args:
        images: (height, width) or (1 or 3, height, width) each, numbers from 0 (black) to 1
        alt: the finding in a sentence
        titles: one for each picture
        overlays: for each picture, None or (rows, columns) weights of patches; the largest is the most orange
        columns: pictures in a row
        side: of a picture, in inches
    """
    for name, given in (("titles", titles), ("overlays", overlays)):
        if given is not None and len(given) != len(images):
            raise ValueError(f"{name} must be one for each of {len(images)} pictures, got {len(given)}")
    columns = min(columns, len(images))
    rows = math.ceil(len(images) / columns)
    with house_style():
        height = rows * (side + (0.28 if titles is not None else 0.08))
        figure, axes = new_figure(rows, columns, width=columns * (side + 0.12), height=height)
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
            if titles is not None:
                axes[index].set_title(titles[index], fontsize=8)
        return Picture(figure, alt)


def drawable(image: ArrayLike) -> np.ndarray:
    """A picture as bytes: (height, width), or (height, width, 3) for colours. Numbers outside 0 to 1 are clipped."""
    pixels = np.asarray(image, dtype=float)
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3):
        pixels = pixels[0] if pixels.shape[0] == 1 else pixels.transpose(1, 2, 0)  # (height, width, 3)
    if pixels.ndim != 2 and not (pixels.ndim == 3 and pixels.shape[-1] == 3):
        raise ValueError(f"a picture must be (height, width) or (1 or 3, height, width), got {pixels.shape}")
    return np.rint(pixels.clip(0, 1) * 255).astype(np.uint8)
