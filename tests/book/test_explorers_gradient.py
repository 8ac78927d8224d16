"""The gradient explorer in a real browser: by mouse, keyboard and touch, with the numbers of lecturelib."""

import pytest

from lecturelib.figures import GradientExplorer


def shown_gradient(page):
    """The readouts of the gradient explorer as numbers: the gradient, its factor measured, predicted, and ρ."""
    powers = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    texts = page.locator(".facts dd").all_inner_texts()
    return [float(text.replace(" · 10", "e").translate(powers)) for text in texts]


def assert_shows_gradient(page, explorer, radius, inputs, distance):
    norms = explorer.norms(radius, inputs)
    gradient, measured, predicted, alone = shown_gradient(page)
    assert gradient == pytest.approx(float(norms[distance]), rel=0.06, abs=0.0006)  # two digits in powers of ten
    assert measured == pytest.approx(float(norms[-1] / norms[0]) ** (1 / (len(norms) - 1)), abs=0.0006)
    assert predicted == pytest.approx(explorer.factor(radius, inputs), abs=0.0006)
    assert alone == pytest.approx(radius, abs=1e-6)
    drawn = page.locator("svg.plot .measured").get_attribute("points").split()
    heights = [float(point.split(",")[1]) for point in drawn]
    powers = norms.log10().tolist()
    scale = (heights[-1] - heights[0]) / (powers[-1] - powers[0]) if powers[-1] != pytest.approx(powers[0]) else 0.0
    assert heights == pytest.approx([heights[0] + scale * (power - powers[0]) for power in powers], abs=0.2)


def test_gradient_explorer_shows_the_norms_of_lecturelib(open_page):
    explorer = GradientExplorer(seed=2)
    page = open_page(explorer)
    assert_shows_gradient(page, explorer, 0.9, "silent", 20)
    assert "the gradient vanishes" in page.locator(".live").inner_text()
    page.get_by_role("radio", name="strong").click()
    assert_shows_gradient(page, explorer, 0.9, "strong", 20)
    page.get_by_role("slider", name="Radius ρ").focus()
    page.keyboard.press("End")
    assert_shows_gradient(page, explorer, 1.6, "strong", 20)
    page.get_by_role("radio", name="silent").click()
    page.get_by_role("slider", name="Distance").focus()
    page.keyboard.press("End")
    assert_shows_gradient(page, explorer, 1.6, "silent", 40)
    assert "the gradient explodes" in page.locator(".live").inner_text()


def test_gradient_explorer_stands_still_at_radius_one_and_follows_the_keyboard(open_page):
    explorer = GradientExplorer(seed=2)
    page = open_page(explorer)
    slider = page.get_by_role("slider", name="Radius ρ")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "ρ = 1.00"
    assert_shows_gradient(page, explorer, 1.0, "silent", 20)
    assert "keeps its length" in page.locator(".live").inner_text()
    page.get_by_role("slider", name="Distance").focus()
    page.keyboard.press("ArrowLeft")
    assert "gradient 19 steps back" in page.locator(".facts dt").all_inner_texts()


def test_gradient_explorer_works_by_touch_on_a_phone(open_on_phone, tap):
    explorer = GradientExplorer(seed=2)
    page = open_on_phone(explorer)
    tap(page.get_by_role("radio", name="gentle"))
    slider = page.get_by_role("slider", name="Radius ρ")
    tap(slider, position={"x": 1, "y": slider.bounding_box()["height"] / 2})
    assert_shows_gradient(page, explorer, 0.5, "gentle", 20)
