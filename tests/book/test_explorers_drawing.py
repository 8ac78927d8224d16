"""The explorer of images drawn token by token, in a real browser, against what it was given."""

import numpy as np
import pytest

from lecturelib.figures import DrawingExample, DrawingExplorer

GRID, SIZE, CODES, SAMPLES = (2, 3), (8, 12), 7, 2


def example(caption, seed, samples=SAMPLES):
    rng = np.random.default_rng(seed)
    return DrawingExample(
        caption=caption,
        images=[rng.random((3, *SIZE)) for _ in range(samples)],
        ids=[rng.integers(0, CODES, GRID) for _ in range(samples)],
        chances=[rng.random(GRID) for _ in range(samples)],
    )


@pytest.fixture
def examples():
    return [example("a red square", 1), example("a blue cross", 5)]


@pytest.fixture
def colours():
    return np.random.default_rng(2).random((CODES, 3))


@pytest.fixture
def explorer(examples, colours):
    return DrawingExplorer(examples, colours=colours, start=(0, 4))


def numbers(page):
    return page.locator(".ids text").all_text_contents()


def fills(page):
    return page.locator(".ids .cell").evaluate_all("cells => cells.map(cell => cell.getAttribute('fill'))")


def pixels(page):
    """What the canvas shows: (height, width, 4), from 0 to 255."""
    script = "c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)"
    return np.array(page.locator("canvas").evaluate(script)).reshape(*SIZE, 4)


def shown(count):
    """Which pixels belong to the first tokens: regions of 4 × 4 pixels, in reading order."""
    places = np.arange(6).reshape(GRID) < count
    return places.repeat(4, axis=0).repeat(4, axis=1)


def choose(page, group, name):
    page.get_by_role("radiogroup", name=group).get_by_role("radio", name=name, exact=True).click()


def facts(page):
    return page.locator("dd").all_inner_texts()


def check(page, example, sample, count, colours):
    ids, chances = (np.asarray(of[sample]).flatten() for of in (example.ids, example.chances))
    assert numbers(page) == [str(one) if place < count else "" for place, one in enumerate(ids)]
    want = [f"rgb({','.join(str(round(255 * c)) for c in colours[one])})" for one in ids[:count]]
    assert fills(page) == want + ["none"] * (6 - count)
    found, image = pixels(page), np.asarray(example.images[sample]).transpose(1, 2, 0)
    assert (found[..., 3] == 255 * shown(count)).all()
    assert np.abs(found[..., :3] - 255 * image)[shown(count)].max(initial=0) <= 1
    if count:
        assert facts(page)[0] == str(ids[count - 1])
        assert float(facts(page)[2]) == pytest.approx(chances[count - 1], abs=6e-3)
        assert float(facts(page)[3]) == pytest.approx(-np.log2(chances[:count]).sum(), abs=0.52)


def test_drawing_explorer_shows_the_tokens_so_far_and_their_regions(open_page, explorer, examples, colours):
    page = open_page(explorer)
    check(page, examples[0], 0, 4, colours)
    assert "token 4 of 6 is id" in page.locator("p.live").inner_text()
    choose(page, "Caption", "a blue cross")
    check(page, examples[1], 0, 4, colours)
    choose(page, "Sample", "2")
    check(page, examples[1], 1, 4, colours)
    page.locator(".ids .cell").nth(1).click()
    check(page, examples[1], 1, 2, colours)


def test_drawing_explorer_walks_by_keyboard_and_by_itself(open_page, explorer, examples, colours):
    page = open_page(explorer)
    page.get_by_role("slider", name="Tokens").focus()
    page.keyboard.press("Home")
    check(page, examples[0], 0, 0, colours)
    assert "nothing is drawn yet" in page.locator("p.live").inner_text()
    page.get_by_role("button", name="Play: Tokens").click()
    page.wait_for_function(
        "() => document.querySelector('[data-ready]').shadowRoot.querySelector('output').textContent === '6 of 6'"
    )
    check(page, examples[0], 0, 6, colours)


def test_drawing_explorer_works_by_touch_on_a_phone(open_on_phone, explorer, examples, colours, tap):
    page = open_on_phone(explorer)
    tap(page.get_by_role("radio", name="2", exact=True))
    check(page, examples[0], 1, 4, colours)


def test_drawing_explorer_says_its_finding_without_scripts(open_page, explorer, examples):
    page = open_page(explorer, java_script_enabled=False)
    assert explorer.text() in page.locator("body").inner_text()
    least = np.asarray(examples[0].chances[0]).min()
    assert f"had a probability of {least:.2f}" in explorer.text()
    assert explorer._repr_html_() == explorer._repr_html_()


def test_drawing_explorer_explains_what_does_not_fit(examples, colours):
    with pytest.raises(ValueError, match="at least one DrawingExample"):
        DrawingExplorer([], colours=colours)
    with pytest.raises(ValueError, match="must have 2 images, ids and chances"):
        DrawingExplorer([examples[0], example("x", 3, samples=1)], colours=colours)
    with pytest.raises(ValueError, match=f"ids must be from 0 to {CODES - 3}"):
        DrawingExplorer(examples, colours=colours[:-2])
    with pytest.raises(ValueError, match="outside the 2 examples"):
        DrawingExplorer(examples, colours=colours, start=(0, 7))
    wrong = DrawingExample("x", examples[0].images, [ids[:1] for ids in examples[0].ids], examples[0].chances)
    with pytest.raises(ValueError, match=r"ids and chances must be \(2, 3\), got \(1, 3\)"):
        DrawingExplorer([examples[0], wrong], colours=colours)
    sure = DrawingExample("x", examples[0].images, examples[0].ids, [1 + c for c in examples[0].chances])
    with pytest.raises(ValueError, match="must be probabilities"):
        DrawingExplorer([sure], colours=colours)
