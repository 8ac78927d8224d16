"""The explorer of budgets: what it says, and what it refuses."""

import pytest

from lecturelib.evaluation import CHINCHILLA, kaplan_optimum
from lecturelib.figures import BudgetExplorer

LAWS = {"Chinchilla": CHINCHILLA.optimum, "Kaplan": kaplan_optimum}


def test_budget_explorer_holds_the_optimum_of_every_budget():
    explorer = BudgetExplorer(LAWS, [(1e13, 2e5, 5e6, 1.4)], lowest=12, highest=14)
    data = explorer.data()
    assert len(data["powers"]) == 9
    assert data["powers"][data["start"]] == 13
    for law in data["laws"]:
        for power, values in zip(data["powers"], law["values"], strict=True):
            assert values == pytest.approx(LAWS[law["name"]](10**power), rel=1e-4)
    best = CHINCHILLA.optimum(1e13)
    assert f"Chinchilla: {best.parameters:.3g} parameters" in explorer.text()


def test_budget_explorer_refuses_no_law_and_no_range():
    with pytest.raises(ValueError, match="got 0"):
        BudgetExplorer({})
    with pytest.raises(ValueError, match="start=30"):
        BudgetExplorer(LAWS, start=30)
