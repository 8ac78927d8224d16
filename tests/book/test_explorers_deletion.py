"""The deletion explorer and the one for two texts that are read, in a real browser."""

import pytest
import torch

from lecturelib.figures import AlignmentExample, DeletionExample, DeletionExplorer, ReadingExplorer
from lecturelib.layers import attention_weights
from lecturelib.models.esim import ESIM, ESIMConfig

SENTENCES = [["a", "fine", "film"], ["no", "plot", "though"]]


def example(name="short", verdict="good", weights=(0.1, 0.5, 0.2, 0.05, 0.1, 0.05)):
    return DeletionExample(
        SENTENCES,
        weights,
        sentence_weights=(0.7, 0.3),
        orders={"attention": [1, 2, 0], "gradient": [3, 1, 5], "chance": [5, 4, 3]},
        curves={"attention": [0.9, 0.4, 0.35, 0.3], "gradient": [0.9, 0.7, 0.2, 0.1], "chance": [0.9, 0.91, 0.88, 0.8]},
        verdict=verdict,
        name=name,
    )


EXAMPLES = [example(), example("second", "bad", (0.3, 0.1, 0.1, 0.3, 0.1, 0.1))]


def assert_shows(page, which, ranking, count):
    shown = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert shown == pytest.approx([curve[count] for curve in which.curves.values()], abs=1e-3)
    gone = page.locator(".word").evaluate_all("all => all.map(one => one.classList.contains('gone'))")
    assert [index for index, is_gone in enumerate(gone) if is_gone] == sorted(which.orders[ranking][:count])
    said = page.locator("p.live").inner_text()
    assert f"called {which.verdict} with a probability of {which.curves[ranking][0]:.3f}" in said
    assert f"first by {ranking} it is {which.curves[ranking][count]:.3f}" in said
    assert ("the verdict has changed" in said) == (which.curves[ranking][count] < 0.5)


def test_deletion_explorer_strikes_words_and_moves_the_verdict(open_page):
    page = open_page(DeletionExplorer(EXAMPLES, start=(0, 1)))
    assert_shows(page, EXAMPLES[0], "attention", 1)
    assert page.locator(".word").all_inner_texts() == [word for sentence in SENTENCES for word in sentence]
    page.get_by_role("radio", name="gradient").click()
    assert_shows(page, EXAMPLES[0], "gradient", 1)
    page.get_by_role("slider").fill("3")
    assert_shows(page, EXAMPLES[0], "gradient", 3)
    page.get_by_role("radio", name="second").click()
    assert_shows(page, EXAMPLES[1], "gradient", 0)


def test_deletion_explorer_gives_the_heaviest_word_the_most_ink(open_page):
    page = open_page(DeletionExplorer(EXAMPLES))
    styles = page.locator(".word").evaluate_all("all => all.map(one => one.style.backgroundColor)")
    ink = [float(style.split("%")[0].rsplit(" ", 1)[1]) for style in styles]
    assert ink == pytest.approx([85 * weight / 0.5 for weight in EXAMPLES[0].weights], abs=0.1)


def test_deletion_explorer_shows_how_much_each_sentence_weighs(open_page):
    shares = open_page(DeletionExplorer(EXAMPLES)).locator(".sentence .share")
    assert shares.all_inner_texts() == ["70 %", "30 %"]
    styles = shares.evaluate_all("all => all.map(one => one.style.borderRightColor)")
    assert [float(style.split("%")[0].rsplit(" ", 1)[1]) for style in styles] == pytest.approx([85, 36.4], abs=0.1)


def test_deletion_explorer_follows_the_keyboard_and_fits_a_phone(open_page, open_on_phone):
    page = open_page(DeletionExplorer(EXAMPLES))
    for key in ("Tab", "ArrowRight", "Tab", "End", "Tab", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert_shows(page, EXAMPLES[1], "chance", 2)
    open_on_phone(DeletionExplorer(EXAMPLES))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [1.0]}, "6 words need as many weights"),
        ({"sentence_weights": [1.0]}, "2 sentences need as many sentence_weights"),
        ({"orders": {"attention": [0]}}, "all need those of the first one"),
        ({"orders": {**example().orders, "chance": [0, 0, 1]}}, "distinct indices below 6"),
        ({"curves": {**example().curves, "chance": [0.5]}}, "3 deletions need 4 probabilities"),
    ],
)
def test_deletion_explorer_refuses_what_does_not_fit(change, message):
    wrong = DeletionExample(**{**vars(example()), **change})
    with pytest.raises(ValueError, match=message):
        DeletionExplorer([example(), wrong])
    with pytest.raises(ValueError, match="outside the 1 examples"):
        DeletionExplorer([example()], start=(0, 9))


def test_reading_explorer_shows_where_esim_looks(open_page):
    torch.manual_seed(0)
    model = ESIM(ESIMConfig(vocab_size=9, embedding_dim=7, hidden_dim=6)).eval()
    premise, hypothesis = ["the", "red", "dog", "sleeps"], ["an", "animal", "rests"]
    with torch.no_grad(), attention_weights(model) as seen:
        model(torch.arange(4)[None], torch.tensor([4]), torch.arange(5, 8)[None], torch.tensor([3]))
    weights = seen["hypothesis_reads"][0, 0]
    explorer = ReadingExplorer([AlignmentExample(premise, hypothesis, {"ESIM": weights}, {(1, 2)})], start=(0, 1))
    page = open_page(explorer)
    shown = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert shown == pytest.approx(weights[1].tolist(), abs=0.0006)
    best = premise[int(weights[1].argmax())]
    assert f"For “animal”, ESIM looks most at “{best}”" in page.locator("p.live").inner_text()
    assert "for “animal”" in explorer.text()
    page.get_by_role("radiogroup", name="Look from").get_by_role("radio", name="rests").click()
    assert "For “rests”, ESIM looks most at" in page.locator("p.live").inner_text()
