"""The explorers of heads, of patching and of the logit lens in a real browser: they show what a model computed."""

import numpy as np
import pytest
import torch

from lecturelib.evaluation import attention_of, induction_scores, logit_lens, previous_token_scores
from lecturelib.figures import HeadsExample, HeadsExplorer, LensExplorer, PatchingExplorer
from lecturelib.models import Llama, LlamaConfig

WORDS = ["when", "Mary", "and", "John", "met", "again"]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(5)
    config = LlamaConfig(vocab_size=11, max_len=9, d_model=24, num_heads=4, num_kv_heads=2, num_layers=3)
    built = Llama(config).eval()
    for parameter in built.parameters():
        parameter.data *= 8  # so that weights differ from one another
    return built


@pytest.fixture(scope="module")
def examples(model):
    made = []
    for length in (6, 4):
        weights = attention_of(model, torch.arange(length)[None])
        scores = {"previous": previous_token_scores(weights), "copy": -induction_scores(weights, period=2)}
        made.append(HeadsExample(WORDS[:length], weights[:, :, 0], scores, f"{length} words"))
    return made


def inks(matrix):
    return matrix.locator(".cell").evaluate_all("all => all.map(one => +one.getAttribute('fill-opacity'))")


def assert_shows(page, example, score, layer, head, query):
    weights = np.asarray(example.weights)[layer, head]
    shown = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert shown == pytest.approx(weights[query].tolist(), abs=0.005 + 1 / 510)
    assert inks(page.locator("svg.matrix").last) == pytest.approx((0.95 * weights).flatten().tolist(), abs=3e-3)
    values = np.asarray(example.scores[score])
    assert inks(page.locator("svg.matrix").first) == pytest.approx(
        (0.95 * np.abs(values) / np.abs(values).max()).flatten().tolist(), abs=2e-3
    )
    said = page.locator("p.live").inner_text()
    assert f"Layer {layer}, head {head}, {score}:" in said
    assert f"{values[layer, head]:.2f}" in said
    assert f"it looks most at “{example.tokens[int(weights[query].argmax())]}”" in said


def test_heads_explorer_shows_the_models_weights_by_mouse(open_page, examples):
    page = open_page(HeadsExplorer(examples, start=(0, 1, 2, 5)))
    assert_shows(page, examples[0], "previous", 1, 2, 5)
    page.locator("svg.matrix").first.locator(".cell").nth(2 * 4 + 3).click()  # layer 2, head 3
    assert_shows(page, examples[0], "previous", 2, 3, 5)
    page.get_by_role("radio", name="copy").click()
    page.get_by_role("radiogroup", name="From").get_by_role("radio", name="John").click()
    assert_shows(page, examples[0], "copy", 2, 3, 3)
    page.get_by_role("radio", name="4 words").click()
    assert_shows(page, examples[1], "copy", 2, 3, 3)
    page.locator("svg.matrix").last.locator(".cell").nth(1 * 4).click()  # the second token
    assert_shows(page, examples[1], "copy", 2, 3, 1)


@pytest.mark.parametrize("width", [760, 390])
def test_heads_explorer_writes_no_name_over_another(open_page, width):
    words = [f"metaphysical{number}" for number in range(13)]
    example = HeadsExample(words, np.tril(np.ones((2, 3, 13, 13))), {"previous": np.ones((2, 3))}, "long words")
    page = open_page(HeadsExplorer([example], start=(0, 0, 0, 0)), viewport={"width": width, "height": 800})
    names = page.locator("svg.matrix").last.locator("text[text-anchor=end]")
    middles = names.evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => (box.top + box.bottom) / 2)"
    )
    assert len(middles) == len(words)
    assert np.diff(middles).min() >= 13  # letters of 12 pixels


def test_heads_explorer_marks_the_chosen_head(open_page, examples):
    page = open_page(HeadsExplorer(examples, start=(0, 1, 2, 5)))
    mark, cell = page.locator(".mark"), page.locator("svg.matrix").first.locator(".cell").nth(1 * 4 + 2)
    for side in ("x", "y"):
        assert mark.get_attribute(side) == cell.get_attribute(side)


def test_heads_explorer_follows_the_keyboard_and_fits_a_phone(open_page, open_on_phone, examples):
    page = open_page(HeadsExplorer(examples))
    for key in ("Tab", "Tab", "Tab", "ArrowRight", "ArrowRight", "Tab", "ArrowRight"):  # text, score, layer, head
        page.keyboard.press(key)
    assert_shows(page, examples[0], "previous", 2, 1, 0)
    open_on_phone(HeadsExplorer(examples))


def test_patching_explorer_speaks_of_effects(open_page, examples):
    explorer = PatchingExplorer(examples[:1], start=(0, 0, 1, 5))
    page = open_page(explorer)
    assert_shows(page, examples[0], "previous", 0, 1, 5)
    assert "previous: effect" in page.locator("p.live").inner_text()
    assert page.get_by_role("radiogroup", name="Text").count() == 0
    assert "the largest effect, previous, is that of layer" in explorer.text()


@pytest.fixture(scope="module")
def lens(model):
    tokens = torch.tensor([[3, 1, 4, 0, 9]]), torch.tensor([[2, 7, 1]])
    return [([f"w{int(i)}" for i in row[0]], logit_lens(model, row)[:, 0]) for row in tokens]


def assert_reads(page, given, layer, token):
    logits = given[1][layer, token]
    best = logits.softmax(-1).topk(4)
    shown = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert shown == pytest.approx(best.values.tolist(), abs=5e-4 + 1e-6)
    assert page.locator("table.bars tbody th").all_inner_texts() == [f"w{int(i)}" for i in best.indices]
    words = [f"w{int(i)}" for i in given[1].argmax(-1).flatten()]
    assert page.locator("table.lens td").all_inner_texts() == words
    chosen = page.locator("table.lens td").evaluate_all("all => all.map(one => one.classList.contains('chosen'))")
    assert [index for index, is_chosen in enumerate(chosen) if is_chosen] == [layer * len(given[0]) + token]
    said = page.locator("p.live").inner_text()
    assert f"at “{given[0][token]}”: the likeliest next token is “w{int(best.indices[0])}”" in said


def test_lens_explorer_shows_what_the_model_would_say(open_page, lens):
    page = open_page(LensExplorer(lens, lambda token: f"w{token}", num_bars=4, start=(0, 3, 4)))
    assert_reads(page, lens[0], 3, 4)
    page.locator("table.lens td").nth(1 * 5 + 2).click()
    assert_reads(page, lens[0], 1, 2)
    page.get_by_role("radio", name="w2w7w1").click()
    assert_reads(page, lens[1], 1, 2)
    page.get_by_role("slider").fill("0")
    assert_reads(page, lens[1], 0, 2)
    assert "After embedding" in page.locator("p.live").inner_text()


def test_lens_explorer_plays_through_the_layers_and_fits_a_phone(open_page, open_on_phone, lens):
    page = open_page(LensExplorer(lens, lambda token: f"w{token}", num_bars=4, start=(0, 2, 4)))
    page.get_by_role("button", name="Play: Layer").click()
    page.get_by_text("3 of 3").wait_for()
    page.get_by_role("button", name="Play: Layer").wait_for()  # it stops by itself after the last layer
    assert_reads(page, lens[0], 3, 4)
    open_on_phone(LensExplorer(lens, lambda token: f"w{token}", num_bars=4))


def test_explorers_say_their_findings_without_scripts(open_page, examples, lens):
    for explorer in (HeadsExplorer(examples), LensExplorer(lens, str, start=(1, 3, 2))):
        page = open_page(explorer, java_script_enabled=False)
        assert explorer.text() in page.locator("body").inner_text()


def test_explorers_say_what_they_cannot_show(examples, lens):
    good = examples[0]
    with pytest.raises(ValueError, match="at least one HeadsExample"):
        HeadsExplorer([])
    with pytest.raises(ValueError, match=r"\(3, 4, 5, 5\), got \(3, 4, 6, 6\)"):
        HeadsExplorer([HeadsExample(WORDS[:5], good.weights, good.scores)])
    with pytest.raises(ValueError, match="none above the diagonal"):
        HeadsExplorer([HeadsExample(WORDS, np.full((3, 4, 6, 6), 1 / 6), good.scores)])
    with pytest.raises(ValueError, match="the same scores"):
        HeadsExplorer([good, HeadsExample(WORDS, good.weights, {"other": good.scores["copy"]})])
    with pytest.raises(ValueError, match=r"'copy' must be \(layers, heads\) = \(3, 4\), got \(4, 3\)"):
        HeadsExplorer([HeadsExample(WORDS, good.weights, {"copy": np.asarray(good.scores["copy"]).T})])
    with pytest.raises(ValueError, match="outside"):
        HeadsExplorer(examples, start=(1, 0, 0, 4))
    with pytest.raises(ValueError, match="at least one text"):
        LensExplorer([], str)
    with pytest.raises(ValueError, match="with 2 tokens"):
        LensExplorer([(["a", "b"], lens[0][1])], str)
    with pytest.raises(ValueError, match="outside"):
        LensExplorer(lens, str, start=(0, 4, 0))
