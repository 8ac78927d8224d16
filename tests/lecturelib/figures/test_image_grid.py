import re

import numpy as np
import pytest

from lecturelib.figures import image_grid
from lecturelib.figures.plots.image_grid import drawable

ALT = "Three pictures of which the second is darker than the first."


def test_image_grid_draws_each_picture_and_each_overlay():
    images = [np.full((5, 4), value) for value in (0.1, 0.5, 0.9)]
    plain = image_grid(images, alt=ALT, titles=["one", "two", "three"], columns=2)
    assert plain.svg.count("<image") == 3
    assert all(f">{title}<" in plain.svg for title in ("one", "two", "three"))
    laid = image_grid(images, alt=ALT, overlays=[None, np.eye(2), np.zeros((2, 2))])
    assert laid.svg.count("<image") == 5
    assert plain.svg == image_grid(images, alt=ALT, titles=["one", "two", "three"], columns=2).svg


def test_image_grid_draws_boxes_where_they_say():
    """A box of half the sides in the middle: its corners are a quarter in, whatever the picture's shape."""
    pictures = [np.zeros((8, 4)), np.zeros((8, 4))]
    boxed = image_grid(pictures, alt=ALT, boxes=[[[0.5, 0.5, 0.5, 0.5]], None])
    plain = image_grid(pictures, alt=ALT)
    assert boxed.svg.count("stroke:#ffffff") - plain.svg.count("stroke:#ffffff") == 1
    (path,) = re.findall(r'<path d="([^"]*)"[^>]*stroke:#ffffff', boxed.svg)
    found = np.array(re.findall(r"[ML] ([\d.]+) ([\d.]+)", path), dtype=float)
    frame = re.search(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', boxed.svg)
    x, y, width, height = map(float, frame.groups())
    np.testing.assert_allclose(found.min(axis=0), (x + width / 4, y + height / 4), atol=0.1)
    np.testing.assert_allclose(found.max(axis=0), (x + 3 * width / 4, y + 3 * height / 4), atol=0.1)


def test_drawable_rounds_and_clips_and_puts_colours_last():
    grey = drawable(np.array([[[-0.5, 0.5, 2.0]]]))  # (1, 1, 3)
    assert grey.tolist() == [[0, 128, 255]]
    colour = np.arange(3 * 2 * 5).reshape(3, 2, 5) / 255
    assert drawable(colour)[1, 4].tolist() == [9, 19, 29]


def test_image_grid_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="titles must be one for each of 2"):
        image_grid([np.zeros((2, 2))] * 2, alt=ALT, titles=["one"])
    with pytest.raises(ValueError, match=r"got \(2, 3, 4\)"):
        image_grid([np.zeros((2, 3, 4))], alt=ALT)


def test_image_grid_may_show_a_picture_twice():
    svg = image_grid([np.eye(4)] * 2, alt=ALT).svg
    assert svg.count("<image") == 2
    ids = re.findall(r' id="([^"]*)"', svg)
    assert len(ids) == len(set(ids))


def test_image_grid_of_one_layout_is_stored_once_and_shown_everywhere():
    """Half of the bytes; nothing of it may be hidden on a page or on a phone, or the picture would be missing there."""
    page = image_grid([np.eye(4)] * 2, alt=ALT, once=True)._repr_html_()
    assert page.count("<svg") == 1
    assert image_grid([np.eye(4)] * 2, alt=ALT)._repr_html_().count("<svg") == 2
    (name,) = re.findall(r'<svg class="([^"]*)"', page)
    assert name not in re.findall(r"svg\.([\w-]+)\{display:none", page)
