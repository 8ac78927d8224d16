"""Fireflies: colours that say nothing alone, distances as asked, and flashes that stay in their cell."""

import pytest
import torch

from lecturelib.data.sets.fireflies import (
    CELL,
    COLUMNS,
    COUPLES,
    FLASHES,
    FRAMES,
    MOST_DISTANCE,
    ROWS,
    Flash,
    Night,
    draw_nights,
    render_nights,
)
from lecturelib.data.sets.scenes import COLOURS

MOTH = (3.0, 2.0, 1.0)


def test_couples_are_the_colours_of_one_species_in_either_order():
    for a in FLASHES:
        for b in FLASHES:
            night = Night(Flash(a, 0, 0, 0), Flash(b, 1, 0, 0), MOTH)
            assert night.is_couple == ((a, b) in COUPLES or (b, a) in COUPLES)


def test_neither_flash_says_anything_alone():
    nights = draw_nights(8000, seed=1)
    for which in ("first", "second"):
        for colour in FLASHES:
            labels = [night.is_couple for night in nights if getattr(night, which).colour == colour]
            assert len(labels) == pytest.approx(2000, rel=0.1)
            assert sum(labels) / len(labels) == pytest.approx(0.5, abs=0.05), (which, colour)
    assert all(night.first.colour != night.second.colour for night in nights)


@pytest.mark.parametrize("distance", [*range(1, MOST_DISTANCE + 1), None])
def test_flashes_are_as_far_apart_as_asked_and_within_the_video(distance):
    nights = draw_nights(300, distance=distance, seed=2)
    if distance is None:
        assert {night.distance for night in nights} == set(range(1, MOST_DISTANCE + 1))
    else:
        assert {night.distance for night in nights} == {distance}
    for night in nights:
        assert night.first.frame < night.second.frame
        for flash in (night.first, night.second):
            assert 0 <= flash.frame < FRAMES
            assert 0 <= flash.row < ROWS
            assert 0 <= flash.column < COLUMNS
    assert nights == draw_nights(300, distance=distance, seed=2) != draw_nights(300, distance=distance, seed=3)


def test_a_hedge_may_be_longer():
    nights = draw_nights(40, distance=19, columns=20, seed=1)
    assert {night.distance for night in nights} == {19}
    assert {flash.column for night in nights for flash in (night.first, night.second)} == {0, 19}
    assert render_nights(nights[:2], columns=20).shape == (2, FRAMES, 3, ROWS * CELL, 20 * CELL)
    assert {night.distance for night in draw_nights(300, columns=5)} == {1, 2, 3, 4}


def test_flashes_are_painted_in_their_cell_and_nowhere_else():
    night = Night(Flash("red", 2, 1, 3), Flash("green", 5, 0, 9), MOTH)
    other = Night(Flash("blue", 2, 1, 3), Flash("green", 5, 0, 9), MOTH)
    one, two = render_nights([night], seed=4), render_nights([other], seed=4)
    assert one.shape == (1, FRAMES, 3, ROWS * CELL, COLUMNS * CELL)
    differs = (one != two)[0].any(dim=1)  # (frames, height, width)
    frames, rows, columns = differs.nonzero().unbind(1)
    assert set(frames.tolist()) == {2}
    assert rows.min() >= CELL
    assert columns.min() >= 3 * CELL
    assert columns.max() < 4 * CELL
    middle = one[0, 2, :, CELL + 1 : CELL + 3, 3 * CELL + 1 : 3 * CELL + 3]
    assert torch.allclose(middle, torch.tensor(COLOURS["red"])[:, None, None].expand_as(middle), atol=1e-6)
    assert one.min() >= 0
    assert one.max() <= 1


def test_a_moth_flies_and_comes_back_on_the_other_side():
    still = Flash("red", 0, 0, 0), Flash("green", 1, 0, 0)
    flying = render_nights([Night(*still, (25.0, 4.0, 5.0))], seed=4)[0, 2:].mean(dim=1)  # (frames - 2, height, width)
    found = flying.mean(dim=1).argmax(dim=1) + 0.5  # (frames - 2,), the brightest column
    want = (25.0 + 5.0 * torch.arange(2, FRAMES)) % (COLUMNS * CELL)
    assert ((found - want).abs() <= 2).all()
    assert want.min() < 5 < 40 < want.max()


def test_nights_say_what_is_wrong_and_may_be_none():
    with pytest.raises(ValueError, match=r"from 1 to columns - 1, got count=5, columns=12, distance=12"):
        draw_nights(5, distance=12)
    with pytest.raises(ValueError, match=r"count ≥ 0"):
        draw_nights(-1)
    assert render_nights(draw_nights(0)).shape == (0, FRAMES, 3, ROWS * CELL, COLUMNS * CELL)
