"""The explorers of chapter 11 in a real browser: by mouse, keyboard and touch, with the numbers of lecturelib."""

import pytest

from lecturelib.figures import ScheduleExplorer, SharpnessExplorer

STEPS = 200


def shown(page):
    return [float(text.split()[0]) for text in page.locator(".facts dd").all_inner_texts()]


def assert_shows_schedule(page, explorer, kind, warmup, step):
    rate, share, mean = shown(page)
    factors = [explorer.factor(kind, index, warmup) for index in range(STEPS)]
    assert share == pytest.approx(factors[step - 1], abs=0.0006)
    assert mean == pytest.approx(sum(factors) / STEPS, abs=0.0006)
    drawn = page.locator("svg.plot .rate").get_attribute("points").split()
    heights = [float(point.split(",")[1]) for point in drawn]
    assert heights == pytest.approx([14 + 206 * (1 - factor) for factor in factors], abs=0.1)
    return rate


def test_schedule_explorer_draws_every_schedule_of_lecturelib(open_page):
    explorer = ScheduleExplorer(steps=STEPS, warmup=40)
    page = open_page(explorer)
    for kind in ("constant", "linear", "cosine", "Noam", "RAdam"):
        page.get_by_role("radio", name=kind).click()
        assert_shows_schedule(page, explorer, kind, 40, 10)
    assert "momentum alone at first" in page.locator(".live").inner_text()


def test_schedule_explorer_follows_the_keyboard(open_page):
    explorer = ScheduleExplorer(steps=STEPS, warmup=40)
    page = open_page(explorer)
    page.get_by_role("slider", name="Warm-up").focus()
    page.keyboard.press("Home")
    assert_shows_schedule(page, explorer, "cosine", 0, 10)
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("End")
    page.get_by_role("slider", name="Peak rate").focus()
    page.keyboard.press("End")
    assert assert_shows_schedule(page, explorer, "cosine", 0, STEPS) == pytest.approx(0.1 * 0.1, abs=1e-4)


def runs():
    def points(*sharpness):
        return [
            {"step": 10 * n, "loss": 3.0 - n, "sharpness": value, "slice": [4.0, 3.0 - n, 3.5]}
            for n, value in enumerate(sharpness)
        ]

    return {"without": points(5, 80, 40), "with": points(5, 6, 7)}


def test_sharpness_explorer_shows_each_step_of_each_run(open_page):
    page = open_page(SharpnessExplorer(runs(), [-1, 0, 1]))
    assert shown(page) == pytest.approx([1.0, 40], abs=0.01)
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("ArrowLeft")
    assert shown(page) == pytest.approx([2.0, 80], abs=0.01)
    page.get_by_role("radio", name="with", exact=True).click()
    assert shown(page) == pytest.approx([2.0, 6], abs=0.01)
    assert "with, step 10: the loss is 2.00" in page.locator(".live").inner_text()


def test_sharpness_explorer_works_by_touch_on_a_phone(open_on_phone, tap):
    page = open_on_phone(SharpnessExplorer(runs(), [-1, 0, 1]))
    tap(page.get_by_role("radio", name="with", exact=True))
    assert shown(page) == pytest.approx([1.0, 7], abs=0.01)
