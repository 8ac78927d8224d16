"""Click-to-segment in a real browser: the page's own arithmetic against torch, and clicks by mouse, touch and keys."""

from dataclasses import replace

import pytest
import torch

from lecturelib.figures import SegmentExplorer
from lecturelib.models import ConvEncoderConfig, PromptableSegmenter, PromptableSegmenterConfig

CONFIG = PromptableSegmenterConfig(
    image=ConvEncoderConfig(widths=(4, 6, 7), layers=(1, 1, 1)), d_model=24, num_heads=3, num_layers=2, d_ff=17
)
HEIGHT, WIDTH = 20, 28
NAMES = ("first", "second")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(4)
    model = PromptableSegmenter(CONFIG).eval()
    with torch.no_grad():
        for parameter in model.decoder.hypernetworks.parameters():
            parameter.mul_(3)  # larger logits than an untrained model gives
    return model


@pytest.fixture(scope="module")
def inputs():
    return torch.randn(2, 3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def explorer(model, inputs):
    images = {name: image.sigmoid() for name, image in zip(NAMES, inputs, strict=True)}
    return SegmentExplorer(model, images, inputs, start=(1, 9, 4))


def wanted(model, features, points):
    """What torch gives: points are x, y and kind."""
    placed = torch.tensor([[*((x, y) for x, y, _ in points), (0, 0)]], dtype=torch.float32)
    kinds = torch.tensor([[*(kind for _, _, kind in points), -1]])
    with torch.no_grad():
        return model.decode(features[None].float(), placed, kinds)


def assert_answers(page, want, points):
    read = "stage => [Array.from(stage.answer.logits), Array.from(stage.answer.quality)]"
    logits, quality = page.locator(".stage").evaluate(read)
    torch.testing.assert_close(torch.tensor(logits).view_as(want.logits), want.logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(torch.tensor(quality), want.quality[0], atol=1e-4, rtol=0)
    assert want.logits.std() > 0.1
    now = [0] if points > 1 else [1, 2, 3]
    shown = [float(text) for text in page.locator(".share:visible").all_inner_texts()]
    assert shown == pytest.approx(want.quality[0, now].tolist(), abs=0.0051)
    if points == 1:
        best = int(want.quality[0, now].argmax())
        assert page.locator(".offers button").nth(best).get_attribute("aria-checked") == "true"


def click(page, x, y):
    box = page.locator(".stage").bounding_box()
    at = {"x": (x + 0.5) * box["width"] / WIDTH, "y": (y + 0.5) * box["height"] / HEIGHT}
    page.locator(".stage").click(position=at)


def test_segment_explorer_computes_what_torch_computes(open_page, explorer):
    page = open_page(explorer)
    points = [(9, 4, 1)]
    assert_answers(page, wanted(explorer.model, explorer.features[1], points), len(points))
    for x, y, kind in ((20, 15, 1), (3, 17, 0), (27, 0, 0)):
        page.get_by_role("radio", name="this belongs" if kind else "this does not").click()
        click(page, x, y)
        points.append((x, y, kind))
        assert_answers(page, wanted(explorer.model, explorer.features[1], points), len(points))
    page.get_by_role("radio", name="first", exact=True).click()
    click(page, 13, 7)  # still with a background click
    assert_answers(page, wanted(explorer.model, explorer.features[0], [(13, 7, 0)]), 1)


def test_segment_explorer_click_changes_the_mask(open_page, explorer):
    page = open_page(explorer)

    def drawn():
        return page.locator(".stage .edge").get_attribute("d"), page.locator("p.live").inner_text()

    before = drawn()
    want = wanted(explorer.model, explorer.features[1], [(9, 4, 1)])
    best = int(want.quality[0, 1:].argmax())
    number = (best + 1) % 3  # another one than is ranked first
    page.locator(".offers button").nth(number).click()
    area = int((want.logits[0, 1 + number] > 0).sum())
    assert f"One point. Mask {number + 1} of 3, ranked" in drawn()[1]
    assert f": {area} pixels." in drawn()[1]
    click(page, 20, 15)
    assert all(new != old for new, old in zip(drawn(), before, strict=True))
    assert page.locator(".belongs").count() == 2
    area = int((wanted(explorer.model, explorer.features[1], [(9, 4, 1), (20, 15, 1)]).logits[0, 0] > 0).sum())
    assert "2 points, one mask, predicted IoU" in drawn()[1]
    assert f": {area} pixels." in drawn()[1]
    page.get_by_role("button", name="Take back").click()
    assert drawn() == before
    page.get_by_role("button", name="Start anew").click()
    assert drawn() == ("", "No points yet. Click on something in the image.")
    assert page.get_by_role("button", name="Take back").is_disabled()


def test_segment_explorer_works_by_keyboard_alone(open_page, explorer):
    page = open_page(explorer)
    page.get_by_role("application").focus()
    page.keyboard.press("Backspace")
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowDown", "ArrowUp", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    assert_answers(page, wanted(explorer.model, explorer.features[1], [(6, 8, 1)]), 1)
    for _ in range(9):
        page.keyboard.press("Shift+ArrowUp")  # stops at the edge
    page.keyboard.press("Space")
    assert_answers(page, wanted(explorer.model, explorer.features[1], [(6, 8, 1), (6, 0, 1)]), 2)
    page.keyboard.press("ArrowDown")
    assert "Cursor at column 7, row 2," in page.locator("p.live").inner_text()


def test_segment_explorer_works_by_touch_on_a_phone(open_on_phone, explorer, inputs, tap):
    page = open_on_phone(explorer)
    box = page.locator(".stage").bounding_box()
    assert box["width"] > 250
    at = {"x": 5.5 * box["width"] / WIDTH, "y": 11.5 * box["height"] / HEIGHT}
    tap(page.locator(".stage"), position=at)
    assert_answers(page, wanted(explorer.model, explorer.features[1], [(9, 4, 1), (5, 11, 1)]), 2)


def test_segment_explorer_of_one_mask_offers_it_for_every_prompt(open_page, inputs):
    torch.manual_seed(6)
    model = PromptableSegmenter(replace(CONFIG, num_masks=1))
    explorer = SegmentExplorer(model, {"first": inputs[0].sigmoid()}, inputs[:1], start=(0, 9, 4))
    page = open_page(explorer)
    for points in ([(9, 4, 1)], [(9, 4, 1), (20, 15, 1)]):
        want = wanted(explorer.model, explorer.features[0], points)
        area = int((want.logits[0, 0] > 0).sum())
        assert (
            f"one mask, predicted IoU {want.quality[0, 0]:.2f}: {area} pixels." in page.locator("p.live").inner_text()
        )
        assert page.locator(".share:visible").count() == 1
        click(page, 20, 15)


def test_segment_explorer_shows_its_text_without_scripts(open_page, explorer):
    page = open_page(explorer, java_script_enabled=False)
    assert explorer.text() in page.locator("body").inner_text()
    assert "second, one click at column 10, row 5" in explorer.text()


def test_segment_explorer_has_the_model_in_eight_bits_and_changes_it_little(explorer, model, inputs):
    before, after = model.decoder.state_dict(), explorer.model.decoder.state_dict()
    large = [name for name, weight in before.items() if weight.dim() > 1 and weight.numel() >= 256]
    assert large
    for name in large:
        assert not torch.equal(before[name], after[name]), "the model that was given stays as it is"
        rows = before[name].abs().flatten(1).amax(dim=1)
        error = (before[name] - after[name]).abs().flatten(1).amax(dim=1)
        assert (error <= rows / 127 * 0.51 + 1e-7).all(), name
    again = SegmentExplorer(explorer.model, {"first": inputs[0].sigmoid()}, inputs[:1])
    assert all(torch.equal(again.weights[name], explorer.weights[name]) for name in again.weights)
    want, got = (wanted(one, explorer.features[1], [(9, 4, 1)]).logits for one in (model, explorer.model))
    assert 0 < (want - got).abs().max() < 0.1 * want.std()


def test_segment_explorer_refuses_what_it_cannot_show(model, inputs):
    images = {name: image.sigmoid() for name, image in zip(NAMES, inputs, strict=True)}
    with pytest.raises(ValueError, match="as many inputs"):
        SegmentExplorer(model, images, inputs[:1])
    with pytest.raises(ValueError, match="outside the 2 images of 28 × 20 pixels"):
        SegmentExplorer(model, images, inputs, start=(0, 28, 3))
