"""The explorers of chapter 11: what they say, and what they refuse."""

import pytest

from lecturelib.figures import ScheduleExplorer, SharpnessExplorer
from lecturelib.training import Cosine, Noam, rectification


def test_schedule_explorer_has_the_factors_of_lecturelib():
    explorer = ScheduleExplorer(steps=50, warmup=7, beta2=0.95)
    assert explorer.factor("cosine", 11, 7) == Cosine(steps=50, warmup=7)(11)
    noam = Noam(d_model=3, warmup=7)
    assert explorer.factor("Noam", 20, 7) == pytest.approx(noam(20) / noam(6))
    assert explorer.factor("RAdam", 0, 7) == 0.0
    assert explorer.factor("RAdam", 30, 7) == rectification(31, 0.95)
    assert "beta2 = 0.95" in explorer.text()


def test_schedule_explorer_refuses_a_warm_up_past_the_end():
    with pytest.raises(ValueError, match="warmup=60"):
        ScheduleExplorer(steps=50, warmup=60)


def points(*sharpness: float) -> list[dict[str, object]]:
    return [
        {"step": 10 * n, "loss": 1.0, "sharpness": value, "slice": [2.0, 1.0, 2.0]} for n, value in enumerate(sharpness)
    ]


def test_sharpness_explorer_says_where_it_was_sharpest():
    text = SharpnessExplorer({"steep": points(5, 80, 40), "flat": points(5, 6, 7)}, [-1, 0, 1]).text()
    assert "steep: 80 at most, 40 at the end" in text


def test_sharpness_explorer_refuses_runs_that_do_not_fit():
    with pytest.raises(ValueError, match="same number of steps"):
        SharpnessExplorer({"a": points(1, 2), "b": points(1)}, [-1, 0, 1])
    with pytest.raises(ValueError, match="3 losses for 2 distances"):
        SharpnessExplorer({"a": points(1, 2)}, [-1, 0])
