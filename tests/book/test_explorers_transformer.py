"""The all-heads explorer in a real browser: every map drawn; chosen by mouse, touch and keyboard."""

import pytest
import torch

from lecturelib.figures import TransformerExplorer
from lecturelib.layers import attention_weights
from lecturelib.models import Transformer, TransformerConfig

SOURCE = ["εν", "αρχη", "ην", "ο", "λογος", "⟨eos⟩"]
READ = ["⟨bos⟩", "in", "the", "beginn", "ing"]
WRITTEN = ["in", "the", "beginn", "ing", "⟨eos⟩"]


@pytest.fixture(scope="module")
def weights():
    torch.manual_seed(2)
    model = Transformer(
        TransformerConfig(vocab_size=19, d_model=12, num_heads=3, num_layers=2, d_ff=16, wiring="pre_norm")
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)  # sharper maps than an untrained model has
        with attention_weights(model) as seen:
            model(torch.randint(3, 19, (1, 6)), None, torch.randint(3, 19, (1, 5)))
    names = {"encoder": "encoder.{}.mixer", "decoder": "decoder.{}.mixer", "cross": "decoder.{}.cross"}
    return {kind: torch.cat([seen[name.format(i)] for i in range(2)]) for kind, name in names.items()}  # (2, 3, Tq, Tk)


@pytest.fixture
def explorer(weights):
    return TransformerExplorer(
        weights["encoder"],
        weights["decoder"],
        weights["cross"],
        source=SOURCE,
        read=READ,
        written=WRITTEN,
        start=("cross", 1, 0, 2),
    )


def thumb(page, kind, layer, head):
    return page.get_by_role("radio", name=f"{kind}, layer {layer}, head {head}", exact=True)


def assert_shows(page, row, names):
    texts = page.locator("table.bars tbody th").all_inner_texts()
    numbers = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert texts == names
    assert numbers == pytest.approx(row.tolist(), abs=0.0005 + 1e-6)


def test_transformer_explorer_draws_every_map(open_page, explorer, weights):
    page = open_page(explorer)
    assert page.locator("button.thumb").count() == 18
    read = "canvas => Array.from(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data)"
    for kind, maps in weights.items():
        for layer in range(2):
            for head in range(3):
                pixels = torch.tensor(thumb(page, kind, layer + 1, head + 1).locator("canvas").evaluate(read))
                ink = pixels.view(*maps.shape[2:], 4)[..., 3] / 255  # (Tq, Tk)
                torch.testing.assert_close(ink, maps[layer, head], atol=0.003, rtol=0)


def test_transformer_explorer_enlarges_what_is_clicked(open_page, explorer, weights):
    page = open_page(explorer)
    assert_shows(page, weights["cross"][1, 0, 2], SOURCE)
    thumb(page, "encoder", 2, 3).click()
    assert_shows(page, weights["encoder"][1, 2, 0], SOURCE)
    page.get_by_role("radio", name="λογος", exact=True).click()
    assert_shows(page, weights["encoder"][1, 2, 4], SOURCE)
    squares = page.locator("svg.matrix .cell title")
    assert squares.count() == 36
    assert squares.nth(4 * 6 + 1).text_content() == f"λογος → αρχη: {float(weights['encoder'][1, 2, 4, 1]):.3f}"
    thumb(page, "decoder", 1, 2).click()
    assert_shows(page, weights["decoder"][0, 1, 0], READ)
    best = READ[int(weights["decoder"][0, 1, 0].argmax())]
    said = page.get_by_role("status").inner_text()
    assert said.startswith(f"Layer 1, head 2 (decoder): “⟨bos⟩”, about to write “in”, attends most to “{best}”")


def test_transformer_explorer_row_of_the_large_map_chooses_the_query(open_page, explorer, weights):
    page = open_page(explorer)
    page.locator("svg.matrix .cell").nth(3 * 6 + 2).click()
    assert_shows(page, weights["cross"][1, 0, 3], SOURCE)
    assert page.get_by_role("radio", name="beginn → ing").get_attribute("aria-checked") == "true"
    thumb(page, "cross", 2, 2).click()  # another head of the same kind keeps the query
    assert_shows(page, weights["cross"][1, 1, 3], SOURCE)


def test_transformer_explorer_follows_the_keyboard(open_page, explorer, weights):
    page = open_page(explorer)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert_shows(page, weights["cross"][1, 1, 2], SOURCE)
    page.keyboard.press("End")
    assert_shows(page, weights["cross"][1, 2, 2], SOURCE)
    page.keyboard.press("ArrowDown")  # from the last layer round to the first of the encoder
    assert_shows(page, weights["encoder"][0, 2, 0], SOURCE)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert_shows(page, weights["cross"][0, 2, 2], SOURCE)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert_shows(page, weights["cross"][0, 2, 0], SOURCE)
    assert page.get_by_role("radio", checked=True).count() == 2


def test_transformer_explorer_works_by_touch_on_a_phone(open_on_phone, explorer, weights, tap):
    page = open_on_phone(explorer)
    tap(thumb(page, "decoder", 2, 1))
    tap(page.get_by_role("radio", name="ing → ⟨eos⟩"))
    assert_shows(page, weights["decoder"][1, 0, 4], READ)


def test_transformer_explorer_shows_its_text_without_scripts(open_page, explorer):
    page = open_page(explorer, java_script_enabled=False)
    assert "All 18 attention maps" in explorer.text()
    assert explorer.text() in page.locator("body").inner_text()
