"""The explorer of words and regions in a real browser, against the numbers that it was given."""

from dataclasses import replace

import numpy as np
import pytest

from lecturelib.figures import GroundingExample, GroundingExplorer

LAYERS, HEADS = 2, 3
REGIONS = ["whole image", "red circle", "ground", "blue cross"]
BOXES = [[0, 0, 16, 16], [1, 1, 7, 7], [9, 1, 15, 6], [2, 9, 8, 15]]


def softmax(seed, *shape):
    raised = np.exp(np.random.default_rng(seed).normal(size=(LAYERS, HEADS, *shape)))
    return raised / raised.sum(axis=-1, keepdims=True)


def example(name, seed, words=("a", "red", "circle")):
    return GroundingExample(
        name=name,
        image=np.random.default_rng(seed).random((3, 16, 16)),
        words=words,
        boxes=BOXES,
        regions=REGIONS,
        word_reads=softmax(seed, len(words), 4),
        region_reads=softmax(seed + 1, 4, len(words)),
        verdict=f"it matches (0.{seed}3)",
    )


@pytest.fixture
def examples():
    return [example("first", 1), example("second", 5, ("two", "blue", "crosses", "here", "now"))]


@pytest.fixture
def explorer(examples):
    return GroundingExplorer(examples, start=(0, 1), layer=1)


def shown(page, words):
    """The matrix as the page has it: (words, regions)."""
    titles = page.locator(".matrix rect title").all_text_contents()
    return np.array([float(title.split(": ")[1]) for title in titles if ": " in title]).reshape(words, 4)


def choose(page, group, name):
    page.get_by_role("radiogroup", name=group).get_by_role("radio", name=name, exact=True).click()


def test_a_word_shows_the_regions_it_reads_in_each_layer_and_head(open_page, explorer, examples):
    page = open_page(explorer)
    reads = examples[0].word_reads
    np.testing.assert_allclose(shown(page, 3), reads[1].mean(axis=0), atol=6e-4)
    best = int(reads[1, :, 1].mean(axis=0).argmax())
    said = page.locator("p.live").inner_text()
    assert f"“red” reads most of region {best + 1} {REGIONS[best]}" in said
    widths = [float(box.get_attribute("stroke-width")) for box in page.locator(".box").all()]
    by_area = np.argsort([-(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in BOXES], kind="stable")
    np.testing.assert_allclose(widths, 1 + 5 * reads[1, :, 1].mean(axis=0)[by_area], atol=6e-3)
    choose(page, "Layer", "1")
    choose(page, "Head", "3")
    choose(page, "A word reads", "circle")
    np.testing.assert_allclose(shown(page, 3), reads[0, 2], atol=6e-4)
    assert "Layer 1, head 3: “circle” reads" in page.locator("p.live").inner_text()


def test_a_region_shows_the_words_it_reads(open_page, explorer, examples):
    page = open_page(explorer)
    choose(page, "Pair", "second")
    choose(page, "A region reads", "4 blue cross")
    reads = examples[1].region_reads
    np.testing.assert_allclose(shown(page, 5), reads[1].mean(axis=0).T, atol=6e-4)
    best = int(reads[1, :, 3].mean(axis=0).argmax())
    assert f"region 4 blue cross reads most of “{examples[1].words[best]}”" in page.locator("p.live").inner_text()
    assert page.locator(".box.chosen").count() == 1
    choose(page, "A word reads", "two")
    assert page.locator(".box.chosen").count() == 0
    np.testing.assert_allclose(shown(page, 5), examples[1].word_reads[1].mean(axis=0), atol=6e-4)
    assert page.locator("dd").inner_text() == examples[1].verdict


def test_a_click_on_the_image_chooses_the_smallest_box_there(open_page, explorer):
    page = open_page(explorer)
    picture = page.locator(".picture").bounding_box()
    page.mouse.click(picture["x"] + picture["width"] * 4 / 16, picture["y"] + picture["height"] * 4 / 16)
    assert "region 2 red circle reads most" in page.locator("p.live").inner_text()
    page.mouse.click(picture["x"] + picture["width"] * 12 / 16, picture["y"] + picture["height"] * 12 / 16)
    assert "region 1 whole image reads most" in page.locator("p.live").inner_text()


def test_words_and_regions_are_walked_by_keyboard(open_page, explorer):
    page = open_page(explorer)
    page.get_by_role("radio", name="red", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="circle", exact=True).get_attribute("aria-checked") == "true"
    page.get_by_role("radio", name="1 whole image", exact=True).focus()
    page.keyboard.press("End")
    said = page.locator("p.live").inner_text()
    assert "region 4 blue cross reads most" in said
    assert said in page.locator(".picture").get_attribute("aria-label")
    assert said in page.locator(".matrix").get_attribute("aria-label")


def test_words_are_chosen_by_touch_on_a_phone(open_on_phone, explorer, tap):
    page = open_on_phone(explorer)
    tap(page.get_by_role("radio", name="circle", exact=True))
    assert "“circle” reads most" in page.locator("p.live").inner_text()


def test_grounding_explorer_says_its_finding_without_scripts(open_page, explorer):
    page = open_page(explorer, java_script_enabled=False)
    assert explorer.text() in page.locator("body").inner_text()
    assert "in layer 2, “red” reads most of region" in explorer.text()
    assert explorer._repr_html_() == explorer._repr_html_()


def test_grounding_explorer_explains_what_does_not_fit(examples):
    first = examples[0]
    with pytest.raises(ValueError, match="at least one GroundingExample"):
        GroundingExplorer([])
    with pytest.raises(ValueError, match="outside the 2 examples"):
        GroundingExplorer(examples, start=(0, 3))
    with pytest.raises(ValueError, match="layer=2 is not one of the 2 layers"):
        GroundingExplorer(examples, layer=2)
    with pytest.raises(ValueError, match=r"names 4 regions, so boxes must be \(4, 4\), got \(2, 4\)"):
        GroundingExplorer([replace(first, boxes=BOXES[:2])])
    with pytest.raises(ValueError, match=r"region_reads must be \(2, 3, 4, 3\), got \(2, 3, 3, 4\)"):
        GroundingExplorer([replace(first, region_reads=first.word_reads)])
    with pytest.raises(ValueError, match="each row of word_reads must be a softmax"):
        GroundingExplorer([replace(first, word_reads=2 * first.word_reads)])
