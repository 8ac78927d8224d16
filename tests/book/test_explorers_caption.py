"""The explorer of captions in a real browser, against the numbers that it was given."""

import numpy as np
import pytest

from lecturelib.figures import CaptionExample, CaptionExplorer

WORDS = {"soft": ["a", "red", "square"], "hard": ["two", "red", "squares", "here"]}
GRID = (2, 3)


def looks(seed, words):
    scores = np.random.default_rng(seed).normal(size=(len(words), 6))
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return weights.reshape(len(words), *GRID)


def example(name, seed, words=WORDS):
    thing = np.array([[0, 1, 0], [0, 1, 0]])
    return CaptionExample(
        name=name,
        image=np.random.default_rng(seed).random((3, 8, 12)),
        words=words,
        weights={model: looks(seed + place, said) for place, (model, said) in enumerate(words.items())},
        named={model: [thing if word == "red" else None for word in said] for model, said in words.items()},
    )


@pytest.fixture
def examples():
    return [example("first", 1), example("second", 5)]


@pytest.fixture
def explorer(examples):
    return CaptionExplorer(examples, start=(0, 1))


def shown(page):
    return [float(title.split(": ")[1]) for title in page.locator(".stack rect title").all_text_contents()]


def facts(page):
    return [float(text) for text in page.locator("dd").all_inner_texts()]


def choose(page, group, name):
    page.get_by_role("radiogroup", name=group).get_by_role("radio", name=name, exact=True).click()


def test_caption_explorer_shows_where_each_word_looked(open_page, explorer, examples):
    page = open_page(explorer)
    weights = examples[0].weights["soft"]
    assert shown(page) == pytest.approx(weights[1].flatten().tolist(), abs=6e-4)
    assert facts(page) == pytest.approx([weights[1].max(), weights[1][:, 1].sum(), 2 / 6], abs=6e-3)
    assert page.locator(".mark").count() == 2
    choose(page, "Word", "square")
    assert shown(page) == pytest.approx(weights[2].flatten().tolist(), abs=6e-4)
    assert page.locator(".mark").count() == 0
    choose(page, "Image", "second")
    choose(page, "Model", "hard")
    choose(page, "Word", "here")
    assert shown(page) == pytest.approx(examples[1].weights["hard"][3].flatten().tolist(), abs=6e-4)
    assert "“here”: looks most at" in page.locator("p.live").inner_text()


def test_caption_explorer_walks_the_caption_by_keyboard(open_page, explorer, examples):
    page = open_page(explorer)
    page.get_by_role("slider", name="Walk").focus()
    page.keyboard.press("End")
    assert shown(page) == pytest.approx(examples[0].weights["soft"][2].flatten().tolist(), abs=6e-4)
    page.keyboard.press("Home")
    assert page.get_by_role("radio", name="a", exact=True).get_attribute("aria-checked") == "true"


def test_caption_explorer_works_by_touch_on_a_phone(open_on_phone, explorer, examples, tap):
    page = open_on_phone(explorer)
    tap(page.get_by_role("radio", name="square", exact=True))
    assert shown(page) == pytest.approx(examples[0].weights["soft"][2].flatten().tolist(), abs=6e-4)


def test_caption_explorer_says_its_finding_without_scripts(open_page, explorer):
    page = open_page(explorer, java_script_enabled=False)
    assert explorer.text() in page.locator("body").inner_text()
    assert "the soft model wrote “a red square”" in explorer.text()
    assert explorer._repr_html_() == explorer._repr_html_()


def test_caption_explorer_explains_what_does_not_fit(examples):
    with pytest.raises(ValueError, match="at least one CaptionExample"):
        CaptionExplorer([])
    with pytest.raises(ValueError, match="give all the same"):
        CaptionExplorer([examples[0], example("other", 3, {"soft": ["a"]})])
    with pytest.raises(ValueError, match="outside the 2 examples"):
        CaptionExplorer(examples, start=(2, 0))
    wrong = {model: weights[:1] for model, weights in examples[0].weights.items()}
    with pytest.raises(ValueError, match=r"weights must be \(3, 2, 3\), got \(1, 2, 3\)"):
        CaptionExplorer([CaptionExample("x", examples[0].image, WORDS, wrong, examples[0].named)])
