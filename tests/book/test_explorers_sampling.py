"""The sampling explorer in a real browser, against the numbers of `Sampler`."""

import math

import pytest
import torch

from lecturelib.evaluation import Sampler
from lecturelib.figures import SamplingExplorer
from lecturelib.figures.explorers.sampling.explorer import SHARES, TEMPERATURES

TOKENS = list("\n abcdefghijkl")


def explorer_of(seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    logits = {prompt: 2 * torch.randn(len(TOKENS), generator=generator) for prompt in ("to be", "the\n", "q")}
    return SamplingExplorer(logits, TOKENS, **{"num_bars": 9, **options})


def visible(token):
    return TOKENS[token].replace(" ", "␣").replace("\n", "⏎")


def set_slider(page, name, value):
    slider = page.get_by_role("slider", name=name)
    slider.fill(str(value))


def assert_shows(page, explorer, prompt, temperature, top_k, top_p):
    sampler = Sampler(temperature=temperature, top_k=top_k, top_p=top_p)
    after = sampler.probabilities(explorer.logits[prompt][None])[0].tolist()
    before = (explorer.logits[prompt].double() / temperature).softmax(-1).tolist()
    ranked = sorted(range(len(before)), key=lambda token: -before[token])[:9]
    assert page.locator("table.bars tbody th").all_inner_texts() == [visible(token) for token in ranked]
    cells = page.locator("table.bars td.number").all_inner_texts()
    assert [float(cell) for cell in cells[::2]] == pytest.approx([before[t] for t in ranked], abs=0.0005 + 1e-5)
    drawn = [0.0 if cell == "cut" else float(cell) for cell in cells[1::2]]
    assert drawn == pytest.approx([after[t] for t in ranked], abs=0.0005 + 1e-5)
    assert [cell == "cut" for cell in cells[1::2]] == [after[t] == 0 for t in ranked]
    widths = page.locator(".bar.after").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.width) / 100)")
    assert widths == pytest.approx([after[t] for t in ranked], abs=1e-3)
    left, kept, entropy_before, entropy_after = page.locator("dd").all_inner_texts()
    assert left == f"{sum(p > 0 for p in after)} of {len(TOKENS)}"
    assert float(kept) == pytest.approx(sum(before[t] for t, p in enumerate(after) if p > 0), abs=0.0005 + 1e-5)
    for shown, values in ((entropy_before, before), (entropy_after, after)):
        bits = -sum(p * math.log2(p) for p in values if p > 0)
        assert float(shown.removesuffix(" bits")) == pytest.approx(bits, abs=0.005 + 1e-4)


@pytest.mark.parametrize("seed", [0, 1])
def test_sampling_explorer_shows_what_the_sampler_draws_from(open_page, seed):
    explorer = explorer_of(seed)
    page = open_page(explorer)
    assert_shows(page, explorer, "to be", 1.0, None, 1.0)
    settings = [(0.3, 14, 0.9), (1.0, 4, 1.0), (2.0, 14, 0.7), (1.4, 6, 0.5), (0.1, 1, 0.05), (3.0, 10, 0.95)]
    for index, prompt in enumerate(explorer.logits):
        page.get_by_role("radio").nth(index).click()
        for temperature, top_k, top_p in settings:
            set_slider(page, "Temperature τ", TEMPERATURES.index(temperature))
            set_slider(page, "Top-k", top_k)
            set_slider(page, "Top-p", SHARES.index(top_p))
            assert_shows(page, explorer, prompt, temperature, top_k, top_p)


def test_sampling_explorer_works_by_keyboard_alone(open_page):
    explorer = explorer_of(2)
    page = open_page(explorer)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")  # the second prompt
    assert_shows(page, explorer, "the\n", 1.0, None, 1.0)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert page.get_by_role("slider", name="Temperature τ").get_attribute("aria-valuetext") == "τ = 0.9"
    assert_shows(page, explorer, "the\n", 0.9, None, 1.0)
    page.keyboard.press("Tab")  # the button that plays the temperatures
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert_shows(page, explorer, "the\n", 0.9, 1, 1.0)
    assert "1 of 14 tokens left" in page.locator("p.live").inner_text()
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert_shows(page, explorer, "the\n", 0.9, None, 0.99)


def test_sampling_explorer_draws_only_what_is_left(open_page):
    explorer = explorer_of(3, start=(1.0, 3, 1.0))
    page = open_page(explorer)
    assert_shows(page, explorer, "to be", 1.0, 3, 1.0)
    page.get_by_role("button", name="Draw 40 times").click()
    drawn = page.locator("p.drawn").inner_text().split(" ")
    allowed = {visible(token) for token in explorer.logits["to be"].topk(3).indices.tolist()}
    assert len(drawn) == 40
    assert set(drawn) <= allowed
    assert len(set(drawn)) > 1
    set_slider(page, "Top-k", 1)
    assert page.locator("p.drawn").inner_text() == "", "a new setting has drawn nothing yet"


def test_sampling_explorer_fits_a_phone_and_is_touched(open_on_phone, tap):
    explorer = explorer_of(1)
    page = open_on_phone(explorer)
    tap(page.get_by_role("radio").nth(2))
    assert_shows(page, explorer, "q", 1.0, None, 1.0)


def test_sampling_explorer_says_its_finding_without_scripts(open_page):
    explorer = explorer_of()
    page = open_page(explorer, java_script_enabled=False)
    assert "top-p 0.9 keeps" in page.locator("body").inner_text()
