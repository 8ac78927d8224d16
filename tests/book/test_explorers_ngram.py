"""The n-gram explorer in a real browser: typing, keyboard, touch, and the numbers of `NGramModel`."""

import pytest

from lecturelib.figures import NGramExplorer
from lecturelib.models import AddK, NGramModel

ALPHABET = list(" 'abcdefghijklmnopqrstuvwxyz")
TEXT = "to be or not to be that is the question whether 'tis nobler in the mind to suffer the slings and arrows"


def model(n=4, k=0.0):
    return NGramModel(n, len(ALPHABET), AddK(k)).fit([[ALPHABET.index(symbol) for symbol in TEXT]])


@pytest.fixture
def explorer():
    return NGramExplorer(model(), ALPHABET, "the ", start=(2, 0.0))


def assert_shows(page, text, n, k):
    """The bars are the likeliest characters of the model itself, in order, with their probabilities."""
    ids = [ALPHABET.index(symbol) for symbol in text]
    expected = model(n, k).distribution(ids).tolist()
    ranked = sorted(range(len(expected)), key=lambda token: (-expected[token], token))[:8]
    names = page.locator("table.bars tbody th").all_inner_texts()
    assert names == [ALPHABET[token].replace(" ", "␣") for token in ranked]
    numbers = [float(shown) for shown in page.locator("table.bars td.number").all_inner_texts()]
    assert numbers == pytest.approx([expected[token] for token in ranked], abs=0.0005 + 1e-6)
    widths = page.locator(".bar").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.width) / 100)")
    assert widths == pytest.approx([expected[token] for token in ranked], abs=1e-3)


def test_ngram_explorer_shows_the_models_probabilities_for_every_n(open_page, explorer):
    page = open_page(explorer)
    assert_shows(page, "the ", 2, 0.0)
    for n in (1, 3, 4):
        page.get_by_role("radio", name=str(n)).click()
        assert_shows(page, "the ", n, 0.0)
    facts = page.locator("dd").all_inner_texts()
    assert facts[0] == f"{TEXT.count('he ')} times"
    assert facts[3] == f"{model().seen_cells} of {28**4:,}"


def test_ngram_explorer_follows_what_is_typed_and_the_smoothing(open_page, explorer):
    page = open_page(explorer)
    field = page.get_by_role("textbox", name="Text")
    field.fill("Whe")  # capitals are the same letters, and the model has no others
    assert_shows(page, "whe", 2, 0.0)
    field.press("End")
    page.keyboard.type("t7h")  # a digit is in no alphabet, so it is passed over
    assert_shows(page, "wheth", 2, 0.0)
    page.get_by_role("slider", name="Add k").focus()
    for k in (0.001, 0.01, 0.1, 1.0):
        page.keyboard.press("ArrowRight")
        assert_shows(page, "wheth", 2, k)


def test_ngram_explorer_says_when_the_counts_run_out(open_page, explorer):
    page = open_page(explorer)
    page.get_by_role("textbox", name="Text").fill("xq")
    page.get_by_role("radio", name="3").click()
    assert "“xq” was never seen" in page.locator("p.live").inner_text()
    assert "every probability is 0" in page.locator("p.live").inner_text()
    page.get_by_role("button", name="Take the likeliest").click()
    assert page.get_by_role("textbox", name="Text").input_value() == "xq", "nothing to take"
    page.get_by_role("slider", name="Add k").focus()
    page.keyboard.press("ArrowRight")
    assert_shows(page, "xq", 3, 0.001)
    assert "equally likely" in page.locator("p.live").inner_text()


def test_ngram_explorer_completes_by_its_first_choice_and_by_draws(open_page, explorer):
    page = open_page(explorer)
    field = page.get_by_role("textbox", name="Text")
    page.get_by_role("radio", name="4").click()
    field.fill("ques")
    for _ in range(4):
        page.get_by_role("button", name="Take the likeliest").click()
    assert field.input_value() == "question"
    page.get_by_role("button", name="Delete one").click()
    assert field.input_value() == "questio"
    page.get_by_role("radio", name="2").click()
    page.get_by_role("button", name="Draw 20").click()
    page.get_by_role("button", name="Draw one").click()
    written = field.input_value()
    assert len(written) == len("questio") + 21
    assert model(2).log_probability([ALPHABET.index(symbol) for symbol in written[6:]]) > -float("inf")
    assert_shows(page, written, 2, 0.0)


def test_ngram_explorer_works_by_keyboard_alone_and_by_touch(open_on_phone, explorer, tap):
    page = open_on_phone(explorer)
    tap(page.get_by_role("radio", name="3"))
    assert_shows(page, "the ", 3, 0.0)
    page.keyboard.press("Home")  # the buttons of n have the focus
    assert_shows(page, "the ", 1, 0.0)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert_shows(page, "the ", 1, 10.0)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    best = max(explorer.probabilities("the ", 1, 10.0))
    taken = page.get_by_role("textbox", name="Text").input_value()
    assert taken[:4] == "the "
    assert explorer.probabilities("the ", 1, 10.0)[ALPHABET.index(taken[4])] == best


def test_ngram_explorer_shows_its_text_without_scripts(open_page, explorer):
    page = open_page(explorer, java_script_enabled=False)
    assert explorer.text() in page.locator("body").inner_text()
