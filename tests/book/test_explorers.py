"""The explorers in a real browser: mouse, touch, keyboard, and the numbers of lecturelib."""

import math

import pytest
import torch

from lecturelib.figures import AttentionExplorer, SoftmaxExplorer

TOKENS = ["Ernie", "was", "smart", "but"]
KEYS = ["he", "didn't", "know", "the", "answer"]
WEIGHTS = (3 * torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1))).softmax(dim=-1)


def shown_weights(page):
    return [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]


def assert_shows(page, expected):
    shown = shown_weights(page)
    assert shown == pytest.approx([float(value) for value in expected], abs=0.0005 + 1e-6)
    widths = page.locator(".bar").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.width) / 100)")
    assert widths == pytest.approx([float(value) for value in expected], abs=1e-3)


def test_attention_explorer_shows_the_weights_by_mouse(open_page):
    page = open_page(AttentionExplorer(WEIGHTS, TOKENS, KEYS))
    assert_shows(page, WEIGHTS[0, 0, 0])
    page.get_by_role("radiogroup", name="Layer").get_by_role("radio", name="2").click()
    page.get_by_role("radiogroup", name="Head").get_by_role("radio", name="3").click()
    page.get_by_role("radio", name="smart").click()
    assert_shows(page, WEIGHTS[1, 2, 2])
    best = KEYS[int(WEIGHTS[1, 2, 2].argmax())]
    assert f"Layer 2, head 3: “smart” attends most to “{best}”" in page.get_by_role("status").inner_text()
    assert page.get_by_role("row", name=best).locator("th").inner_text() == best


def test_attention_explorer_follows_the_keyboard(open_page):
    page = open_page(AttentionExplorer(WEIGHTS, TOKENS, KEYS))
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert_shows(page, WEIGHTS[1, 0, 0])
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")  # from the first head round to the last
    assert_shows(page, WEIGHTS[1, 2, 0])
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert_shows(page, WEIGHTS[1, 2, 3])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert_shows(page, WEIGHTS[1, 2, 1])
    checked = page.get_by_role("radio", checked=True).all_inner_texts()
    assert checked == ["2", "3", "was"]


def test_attention_explorer_matrix_row_chooses_the_query(open_page):
    page = open_page(AttentionExplorer(WEIGHTS, TOKENS, KEYS))
    page.locator("svg.matrix rect").nth(3 * 5 + 1).click()
    assert_shows(page, WEIGHTS[0, 0, 3])
    title = page.locator("svg.matrix rect").nth(3 * 5 + 1).locator("title").text_content()
    assert title == f"but → didn't: {float(WEIGHTS[0, 0, 3, 1]):.3f}"


def test_attention_explorer_works_by_touch_on_a_phone(open_on_phone, tap):
    page = open_on_phone(AttentionExplorer(WEIGHTS, TOKENS, KEYS))
    tap(page.get_by_role("radio", name="but"))
    tap(page.get_by_role("radiogroup", name="Head").get_by_role("radio", name="2"))
    assert_shows(page, WEIGHTS[0, 1, 3])


def test_attention_explorer_says_when_a_query_attends_to_nothing(open_page):
    weights = WEIGHTS.clone()
    weights[0, 0, 0] = 0
    page = open_page(AttentionExplorer(weights, TOKENS, KEYS))
    assert "“Ernie” attends to nothing" in page.get_by_role("status").inner_text()


def test_explorer_twice_on_a_page_fills_both(open_page):
    page = open_page(AttentionExplorer(WEIGHTS, TOKENS, KEYS), copies=2)
    assert page.get_by_role("status").count() == 2
    page.get_by_role("radio", name="smart").nth(1).click()
    assert "“Ernie”" in page.get_by_role("status").nth(0).inner_text()
    assert "“smart”" in page.get_by_role("status").nth(1).inner_text()


def test_explorer_shows_its_text_without_scripts(open_page):
    explorer = AttentionExplorer(WEIGHTS, TOKENS, KEYS)
    page = open_page(explorer, java_script_enabled=False)
    assert explorer.text() in page.locator("body").inner_text()


def test_softmax_explorer_shows_what_dot_product_attention_gives(open_page):
    explorer = SoftmaxExplorer(seed=3)
    page = open_page(explorer)
    assert_shows(page, explorer.weights(64, "none"))
    page.get_by_role("radio", name="1/√d").click()
    assert_shows(page, explorer.weights(64, "1/√d"))
    page.get_by_role("slider", name="Width d").focus()
    page.keyboard.press("End")
    assert_shows(page, explorer.weights(512, "1/√d"))
    page.get_by_role("radio", name="1/d").click()
    assert_shows(page, explorer.weights(512, "1/d"))


def test_softmax_explorer_temperature_follows_the_keyboard_and_the_mouse(open_page):
    explorer = SoftmaxExplorer(seed=3)
    page = open_page(explorer)
    page.get_by_role("radio", name="1/√d").click()
    slider = page.get_by_role("slider", name="Temperature τ")
    slider.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "τ = 2.00"
    expected = explorer.weights(64, "1/√d", 10 ** (6 / 20))
    assert_shows(page, expected)
    entropy = float(-(expected * expected.log2()).sum())
    facts = page.locator("dd").all_inner_texts()
    assert facts[2] == f"{entropy:.2f} of {math.log2(6):.2f}"
    assert float(facts[1]) == pytest.approx(float(expected.max()), abs=6e-4)
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 1, box["y"] + box["height"] / 2)
    assert_shows(page, explorer.weights(64, "1/√d", 0.1))


def test_softmax_explorer_walks_through_the_widths_by_itself(open_page):
    explorer = SoftmaxExplorer(widths=(1, 4, 64), seed=3)
    page = open_page(explorer)
    page.get_by_role("slider", name="Width d").focus()
    page.keyboard.press("Home")
    assert_shows(page, explorer.weights(1, "none"))
    page.get_by_role("button", name="Play: Width d").click()
    page.get_by_role("button", name="Stop: Width d").wait_for()
    page.get_by_role("button", name="Play: Width d").wait_for()  # it stops by itself at the last width
    assert_shows(page, explorer.weights(64, "none"))


def test_softmax_explorer_works_by_touch(open_on_phone, tap):
    explorer = SoftmaxExplorer(seed=3)
    page = open_on_phone(explorer)
    slider = page.get_by_role("slider", name="Width d")
    tap(slider, position={"x": 1, "y": slider.bounding_box()["height"] / 2})
    assert_shows(page, explorer.weights(1, "none"))
