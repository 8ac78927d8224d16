"""The explorer of chapter 13 in a real browser: by keyboard and touch, with the numbers of lecturelib."""

import pytest

from lecturelib.evaluation import CHINCHILLA, kaplan_optimum
from lecturelib.figures import BudgetExplorer

LAWS = {"Chinchilla": CHINCHILLA.optimum, "Kaplan": kaplan_optimum}
UNITS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


def explorer():
    return BudgetExplorer(LAWS, [(1e20, 4e8, 8e9, 2.8)], lowest=18, highest=24, start=20)


def number(text):
    value, _, unit = text.replace(",", "").partition(" ")
    return float(value) * UNITS.get(unit, 1)


def assert_advises(page, flops):
    for row, law in zip(page.locator("table.advice tbody tr").all(), LAWS.values(), strict=True):
        got = [number(text) for text in row.locator("td").all_inner_texts()]
        best = law(flops)
        want = [best.parameters, best.tokens, best.tokens / best.parameters]
        assert got[:3] == pytest.approx(want, rel=0.006)
        assert got[3] == pytest.approx(best.loss, abs=0.006)


def test_budget_explorer_follows_the_keyboard(open_page):
    page = open_page(explorer())
    assert_advises(page, 1e20)
    page.get_by_role("slider", name="Budget").focus()
    page.keyboard.press("ArrowRight")
    assert_advises(page, 10**20.25)
    page.keyboard.press("End")
    assert_advises(page, 1e24)
    assert "10²⁴ operations: Chinchilla advises" in page.locator(".live").inner_text()


def test_budget_explorer_draws_what_is_chosen(open_page):
    page = open_page(explorer())
    assert page.locator("svg.plot polyline").count() == 2
    seen = set()
    for what in ("tokens", "loss", "parameters"):
        page.get_by_role("radio", name=what).click()
        seen.add(page.locator("svg.plot polyline").first.get_attribute("points"))
        point, dot = page.locator("circle.measured"), page.locator("circle.dot.law0")
        assert point.get_attribute("cx") == dot.get_attribute("cx")  # both at 10²⁰
        assert f" {what}" in page.locator(".live").inner_text()
    assert len(seen) == 3


def test_budget_explorer_works_by_touch_on_a_phone(open_on_phone, tap):
    page = open_on_phone(explorer())
    tap(page.get_by_role("radio", name="loss"))
    assert page.get_by_role("radio", name="loss").get_attribute("aria-checked") == "true"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
