"""The alignment explorer in a real browser: what it shows is what the model's attention was."""

import pytest
import torch

from lecturelib.figures import AlignmentExample, AlignmentExplorer
from lecturelib.models import BahdanauConfig, BahdanauSeq2Seq, LuongConfig, LuongSeq2Seq

WORDS = {
    "short": (["der", "Hund", "bellt"], ["the", "dog", "barks", "now"], {(0, 0), (1, 1), (2, 2)}),
    "long": (["heute", "geht", "es", "mir", "gut", "."], ["I", "am", "well", "today", "."], None),
}


@pytest.fixture(scope="module")
def examples():
    """Two pairs with the attention of two untrained models, one of them local, whose rows do not add up to one."""
    torch.manual_seed(4)
    models = {
        "Bahdanau": BahdanauSeq2Seq(BahdanauConfig(source_vocab_size=9, target_vocab_size=8, hidden_dim=11)).eval(),
        "local-p": LuongSeq2Seq(
            LuongConfig(source_vocab_size=9, target_vocab_size=8, d_model=11, alignment="local-p", window=2)
        ).eval(),
    }
    for parameter in models["Bahdanau"].attention.parameters():
        parameter.data *= 6  # so that the weights differ from one another
    made = []
    for name, (source, target, links) in WORDS.items():
        ids = torch.arange(len(source))[None], torch.tensor([len(source)]), torch.arange(len(target))[None]
        with torch.no_grad():
            weights = {key: model.aligned(*ids)[1][0] for key, model in models.items()}
        made.append(AlignmentExample(source, target, weights, links, name))
    return made


def assert_shows(page, example, model, word):
    expected = example.weights[model][word].tolist()
    shown = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert shown == pytest.approx(expected, abs=0.0005 + 1e-6)
    linked = [(word, j) in (example.links or ()) for j in range(len(example.source))]
    names = page.locator("table.bars tbody th").all_inner_texts()
    assert names == [name + " ◆" * gold for name, gold in zip(example.source, linked, strict=True)]
    ink = page.locator("svg.matrix .cell").evaluate_all("all => all.map(one => +one.getAttribute('fill-opacity'))")
    assert ink == pytest.approx((0.95 * example.weights[model].flatten()).tolist(), abs=1e-3)
    best = example.source[int(example.weights[model][word].argmax())]
    assert f"To write “{example.target[word]}”, {model} looks most at “{best}”" in page.locator("p.live").inner_text()


def test_alignment_explorer_shows_the_models_weights_by_mouse(open_page, examples):
    page = open_page(AlignmentExplorer(examples, start=(0, 1)))
    assert_shows(page, examples[0], "Bahdanau", 1)
    assert page.locator("svg.matrix .gold").count() == 3
    page.get_by_role("radio", name="local-p").click()
    assert_shows(page, examples[0], "local-p", 1)
    page.get_by_role("radio", name="long").click()
    assert_shows(page, examples[1], "local-p", 0)
    assert page.locator("svg.matrix .gold").count() == 0
    page.locator("svg.matrix .cell").nth(3 * 6 + 2).click()  # the fourth target word
    assert_shows(page, examples[1], "local-p", 3)


def test_alignment_explorer_follows_the_pointer_over_target_words(open_page, examples):
    page = open_page(AlignmentExplorer(examples))
    page.get_by_role("radiogroup", name="Write").get_by_role("radio", name="barks").hover()
    assert_shows(page, examples[0], "Bahdanau", 2)
    assert "The reference links it to “bellt”." in page.locator("p.live").inner_text()
    page.get_by_role("radiogroup", name="Write").get_by_role("radio", name="now").hover()
    assert_shows(page, examples[0], "Bahdanau", 3)
    assert "The reference links it to nothing." in page.locator("p.live").inner_text()
    title = page.locator("svg.matrix .cell").nth(3 * 3 + 1).locator("title").text_content()
    assert title == f"now ← Hund: {float(examples[0].weights['Bahdanau'][3, 1]):.3f}"


def test_alignment_explorer_follows_the_keyboard(open_page, examples):
    page = open_page(AlignmentExplorer(examples))
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")  # the second example
    page.keyboard.press("Tab")
    page.keyboard.press("End")  # the second model
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert_shows(page, examples[1], "local-p", 2)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")  # from the first word round to the last
    assert_shows(page, examples[1], "local-p", 4)
    assert page.get_by_role("radio", checked=True).all_inner_texts() == ["long", "local-p", "."]


def test_alignment_explorer_works_by_touch_on_a_phone(open_on_phone, examples, tap):
    page = open_on_phone(AlignmentExplorer(examples))
    tap(page.get_by_role("radio", name="long"))
    tap(page.get_by_role("radiogroup", name="Write").get_by_role("radio", name="well"))
    assert_shows(page, examples[1], "Bahdanau", 2)


def test_alignment_explorer_plays_the_words_one_after_the_other(open_page, examples):
    page = open_page(AlignmentExplorer(examples, start=(0, 2)))
    page.get_by_role("button", name="Play: Word").click()
    page.get_by_role("radiogroup", name="Write").get_by_role("radio", name="now", checked=True).wait_for()
    page.get_by_role("button", name="Play: Word").wait_for()  # it stops by itself at the last word
    assert_shows(page, examples[0], "Bahdanau", 3)


def test_alignment_explorer_names_the_words_on_both_axes(open_page, examples):
    page = open_page(AlignmentExplorer(examples))
    names = page.locator("svg.matrix > text").all_text_contents()
    assert {"target →", "source →", *examples[0].source, *examples[0].target} == set(names)


def test_alignment_explorer_leaves_out_choices_of_one(open_page, examples):
    one = AlignmentExample(examples[0].source, examples[0].target, {"A": examples[0].weights["Bahdanau"]})
    page = open_page(AlignmentExplorer([one]))
    assert page.get_by_role("radiogroup").count() == 1
    assert "The reference" not in page.locator("p.live").inner_text()


def test_alignment_explorer_says_its_finding_without_scripts(open_page, examples):
    explorer = AlignmentExplorer(examples, start=(1, 3))
    page = open_page(explorer, java_script_enabled=False)
    weights = examples[1].weights["Bahdanau"][3]
    best = examples[1].source[int(weights.argmax())]
    assert f"to write “today”, Bahdanau looks most at “{best}” ({float(weights.max()):.3f})" in explorer.text()
    assert explorer.text() in page.locator("body").inner_text()


def test_alignment_explorer_says_what_it_cannot_show(examples):
    short = examples[0]
    with pytest.raises(ValueError, match="at least one AlignmentExample"):
        AlignmentExplorer([])
    with pytest.raises(ValueError, match=r"must be \(4, 3\) \(target, source\), got \(3, 4\)"):
        AlignmentExplorer([AlignmentExample(short.source, short.target, {"A": short.weights["Bahdanau"].T})])
    with pytest.raises(ValueError, match="not negative"):
        AlignmentExplorer([AlignmentExample(short.source, short.target, {"A": -short.weights["Bahdanau"]})])
    with pytest.raises(ValueError, match="all examples need the same models"):
        AlignmentExplorer([short, AlignmentExample(["a"], ["b"], {"other": [[1.0]]})])
    with pytest.raises(ValueError, match="link lies outside"):
        AlignmentExplorer([AlignmentExample(short.source, short.target, short.weights, {(0, 3)})])
    with pytest.raises(ValueError, match="outside"):
        AlignmentExplorer(examples, start=(0, 4))
