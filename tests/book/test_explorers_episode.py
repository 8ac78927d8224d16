"""The explorer that plays episodes, in a real browser."""

import numpy as np
import pytest

from lecturelib.figures import EpisodeExample, EpisodeExplorer

GRID = ("K.#.", "..SD")
ACTIONS = ("left", "down", "right", "up")


def example(name="asked for 0.5", steps=3, seed=0, earned=0.5):
    draw = np.random.default_rng(seed)
    weights = draw.random((2, steps, 3, steps)) * np.tril(np.ones((steps, steps)))[:, None]
    weights[:, np.arange(steps), 2, np.arange(steps)] = 0.0  # its own action is not there yet
    weights /= weights.sum(axis=(2, 3), keepdims=True)
    return EpisodeExample(
        name=name,
        cells=[(1, 2), (1, 1), (1, 0), (0, 0)][:steps],
        notes=["", "", "", "with the key"][:steps],
        asked=np.linspace(0.5, 0.25, steps),
        actions=["left", "left", "up", "right"][:steps],
        chances=draw.dirichlet(np.ones(4), size=steps),
        weights=weights,
        earned=earned,
    )


EXAMPLES = [example(), example("asked for 0.9", 4, seed=1, earned=0.75)]


def explorer(**options):
    return EpisodeExplorer(EXAMPLES, grid=GRID, actions=ACTIONS, **options)


def assert_shows(page, which, step, layer):
    chances, weights = np.asarray(which.chances), np.asarray(which.weights)[layer, step]
    shown = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert shown == pytest.approx(chances[step].tolist(), abs=0.006)
    kind, when = np.unravel_index(weights.argmax(), weights.shape)
    said = page.locator("p.live").inner_text()
    assert f"it takes {which.actions[step]} ({chances[step][ACTIONS.index(which.actions[step])]:.2f})" in said
    names = ("return-to-go", "state", "action")
    assert f"Layer {layer + 1} looks most at the {names[kind]} of step {when + 1} ({weights.max():.2f})" in said
    assert ("The episode ends" in said) == (step == len(which.actions) - 1)
    ink = page.locator("rect.cell").evaluate_all("all => all.map(one => Number(one.getAttribute('fill-opacity')))")
    assert ink == pytest.approx((0.95 * weights / weights.max()).flatten().tolist(), abs=0.002)
    row, column = which.cells[step]
    agent = page.locator("circle.agent").evaluate("one => [one.getAttribute('cx'), one.getAttribute('cy')]")
    side = float(page.locator("rect.free").first.get_attribute("width"))
    assert [float(value) for value in agent] == pytest.approx([(column + 0.5) * side, (row + 0.5) * side])
    trail = page.locator("polyline.trail").get_attribute("points").split()
    assert len(trail) == step + 1


def test_episode_explorer_walks_and_shows_what_was_attended(open_page):
    page = open_page(explorer(start=(0, 1)))
    assert_shows(page, EXAMPLES[0], 1, layer=1)
    page.get_by_role("slider").fill("3")
    assert_shows(page, EXAMPLES[0], 2, layer=1)
    page.get_by_role("radiogroup", name="Layer").get_by_role("radio", name="1").click()
    assert_shows(page, EXAMPLES[0], 2, layer=0)
    page.get_by_role("radio", name="asked for 0.9").click()
    assert_shows(page, EXAMPLES[1], 0, layer=0)
    page.get_by_role("slider").fill("4")
    assert "with the key" in page.locator("dl.facts").inner_text()
    assert "with the key" in page.locator("svg.floor").get_attribute("aria-label")
    assert page.locator("svg.floor text").all_text_contents() == ["K", "S", "D"]
    assert page.locator("rect.wall").count() == 1


def test_episode_explorer_names_every_row_of_a_long_episode(open_page):
    long = [*range(14)]
    many = EpisodeExample(
        name="long",
        cells=[(1, 2)] * 14,
        notes=[""] * 14,
        asked=np.zeros(14),
        actions=["down"] * 14,
        chances=np.full((14, 4), 0.25),
        weights=np.ones((1, 14, 3, 14)),
        earned=0.0,
    )
    words = (
        open_page(EpisodeExplorer([many], grid=GRID, actions=ACTIONS)).locator("svg.matrix text").all_text_contents()
    )
    assert {"return-to-go", "state", "action"} <= set(words)
    assert [word for word in words if word.isdigit()] == [str(step + 1) for step in long[::5]]


def test_episode_explorer_goes_to_the_step_of_a_clicked_cell(open_page):
    page = open_page(explorer(start=(0, 1)))
    page.locator("svg.matrix .cell").nth(2).click()
    assert_shows(page, EXAMPLES[0], 2, layer=1)


def test_episode_explorer_follows_the_keyboard_and_fits_a_phone(open_page, open_on_phone):
    page = open_page(explorer())
    for key in ("Tab", "ArrowRight", "Tab", "ArrowRight", "Tab", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert_shows(page, EXAMPLES[1], 2, layer=0)
    open_on_phone(explorer())


def test_episode_explorer_says_its_finding_without_a_script():
    text = explorer(start=(1, 0)).text()
    assert "“asked for 0.5”: 3 steps, earned 0.50" in text
    assert "In “asked for 0.9”, before step 1 (left)" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"asked": [1.0]}, r"asked must be \(3,\), got \(1,\)"),
        ({"notes": []}, r"notes must be \(3,\), got \(0,\)"),
        ({"weights": np.zeros((2, 3, 3, 4))}, r"weights must be \(2, 3, 3, 3\)"),
        ({"actions": ["left", "left", "jump"]}, "has actions"),
        ({"cells": [(0, 0), (0, 1), (0, 2)]}, r"stands at \(0, 2\), which is no free cell"),
    ],
)
def test_episode_explorer_refuses_what_does_not_fit(change, message):
    with pytest.raises(ValueError, match=message):
        EpisodeExplorer([example(), EpisodeExample(**{**vars(example()), **change})], grid=GRID, actions=ACTIONS)
    with pytest.raises(ValueError, match="outside the 2 episodes"):
        explorer(start=(0, 3))
    with pytest.raises(ValueError, match="at least one"):
        EpisodeExplorer([], grid=GRID, actions=ACTIONS)
