"""The position explorer in a real browser: by mouse, keyboard and touch, with the numbers of lecturelib."""

import math

import pytest
import torch

from lecturelib.figures import PositionExplorer
from lecturelib.layers.positions import frequencies


def an_explorer() -> PositionExplorer:
    draw = torch.Generator().manual_seed(3)
    return PositionExplorer(
        {"learned": torch.randn(24, 6, generator=draw)},
        {"bias": torch.randn(24, 24, generator=draw)},
        num_positions=24,
        d_model=8,
        seed=5,
    )


def shown(page):
    """The numbers of the readout: the score, then the smallest and the largest of its diagonal."""
    return [float(text) for text in page.locator(".facts dd").all_inner_texts()[:3]]


def assert_shows(page, explorer, name, t, k):
    scores = explorer.similarity(name)
    assert shown(page) == pytest.approx([float(scores[t, t + k]), *explorer.spread(name, k)], abs=0.0006)
    inks = page.locator(".matrix .cell").evaluate_all(
        "nodes => nodes.map(node => (node.getAttribute('fill') === 'var(--warm)' ? -1 : 1)"
        " * node.getAttribute('fill-opacity'))"
    )
    drawn = (0.95 * scores / scores.abs().max()).flatten().tolist()
    assert inks == pytest.approx(drawn, abs=0.0006)
    heights = [float(point.split(",")[1]) for point in page.locator(".curve").get_attribute("points").split()]
    row = scores[t].tolist()
    low, high = min(0.0, *row), max(0.0, *row)
    assert heights == pytest.approx([8 + 78 * (high - value) / (high - low) for value in row], abs=0.11)


def press(page, slider, key, times=1):
    page.get_by_role("slider", name=slider).focus()
    for _ in range(times):
        page.keyboard.press(key)


def test_position_explorer_shows_the_similarities_of_lecturelib(open_page):
    explorer = an_explorer()
    page = open_page(explorer)
    assert_shows(page, explorer, "sinusoidal", 8, 2)
    assert "the same wherever they stand" in page.locator(".live").inner_text()
    for name in ("rotary", "ALiBi"):
        page.get_by_role("radio", name=name).click()
        assert_shows(page, explorer, name, 8, 2)
        assert "the same wherever they stand" in page.locator(".live").inner_text()
    for name in ("learned", "bias"):
        page.get_by_role("radio", name=name).click()
        assert_shows(page, explorer, name, 8, 2)
        assert "depending on where they stand" in page.locator(".live").inner_text()


def test_position_explorer_follows_the_keyboard(open_page):
    explorer = an_explorer()
    page = open_page(explorer)
    press(page, "Position t", "ArrowRight", times=7)
    press(page, "Shift k", "ArrowRight", times=3)
    assert_shows(page, explorer, "sinusoidal", 15, 5)
    press(page, "Position t", "End")  # nothing lies beyond the last position: the shift gives way
    assert_shows(page, explorer, "sinusoidal", 23, 0)
    press(page, "Shift k", "Home")
    assert_shows(page, explorer, "sinusoidal", 23, -23)
    page.get_by_role("radio", name="sinusoidal").focus()
    page.keyboard.press("ArrowRight")
    assert_shows(page, explorer, "rotary", 23, -23)


@pytest.mark.parametrize("name", ["sinusoidal", "rotary"])
def test_position_explorer_turns_every_clock_by_the_shift(open_page, name):
    explorer = an_explorer()
    page = open_page(explorer)
    page.get_by_role("radio", name=name).click()
    for t, k in ((8, 0), (8, 5), (11, 5), (15, -8)):
        page.locator(".matrix .cell").nth(24 * t + t + k).click()
        assert page.locator(".facts dd").last.inner_text() == "equal"
        hands = page.locator(".clock").evaluate_all(
            "clocks => clocks.map(clock => ['.before', '.after'].map(hand => ['x2', 'y2'].map("
            "side => Number(clock.querySelector(hand).getAttribute(side)))))"
        )
        for c, (before, after) in enumerate(hands):
            for place, (x, y) in ((t, before), (t + k, after)):
                pair = explorer.vectors[name][place, 2 * c : 2 * c + 2]
                assert (x, -y) == pytest.approx((pair / pair.norm()).tolist(), abs=1e-5)
            turn = math.atan2(after[0], -after[1]) - math.atan2(before[0], -before[1])  # clockwise from upright
            wanted = (1 if name == "sinusoidal" else -1) * k * float(frequencies(8)[c])
            assert math.cos(turn - wanted) == pytest.approx(1, abs=1e-6)


def test_position_explorer_shows_no_clocks_where_nothing_turns(open_page):
    page = open_page(an_explorer())
    assert page.locator(".clocks").is_visible()
    page.get_by_role("radio", name="learned").click()
    assert not page.locator(".clocks").is_visible()
    assert page.locator(".facts dd").count() == 3


def test_position_explorer_takes_a_click_on_the_map(open_page):
    explorer = an_explorer()
    page = open_page(explorer)
    for i, j in ((10, 3), (2, 4), (0, 23), (23, 0), (23, 23)):
        page.locator(".matrix .cell").nth(24 * i + j).click()
        assert_shows(page, explorer, "sinusoidal", i, j - i)


def test_position_explorer_starts_where_it_is_told(open_page):
    bias = torch.arange(81.0).view(9, 9)
    explorer = PositionExplorer(scores={"bias": bias}, num_positions=9, d_model=4, start=("bias", -3))
    page = open_page(explorer)
    assert_shows(page, explorer, "bias", 3, -3)
    assert page.get_by_role("slider", name="Shift k").get_attribute("aria-valuetext") == "k = −3"


def test_position_explorer_works_by_touch_on_a_phone(open_on_phone, tap):
    explorer = an_explorer()
    page = open_on_phone(explorer)
    tap(page.get_by_role("radio", name="ALiBi"))
    slider = page.get_by_role("slider", name="Position t")
    box = slider.bounding_box()
    tap(slider, position={"x": box["width"] - 1, "y": box["height"] / 2})
    assert_shows(page, explorer, "ALiBi", 23, 0)
