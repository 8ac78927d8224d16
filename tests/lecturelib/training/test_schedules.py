"""Schedules against their formulas and at their corners."""

import math

import pytest

from lecturelib.training import Constant, Cosine, Linear, Noam


def test_noam_equals_the_paper() -> None:
    schedule = Noam(d_model=512, warmup=4000)
    for step in (1, 100, 4000, 100_000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert schedule(step - 1) == pytest.approx(paper)


@pytest.mark.parametrize("schedule", [Constant(warmup=5), Linear(steps=20, warmup=5), Cosine(steps=20, warmup=5)])
def test_warmup_rises_in_a_straight_line(schedule) -> None:
    assert [schedule(step) for step in range(4)] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert max(schedule(step) for step in range(30)) == pytest.approx(1.0, abs=0.02)


def test_linear_and_cosine_end_at_the_floor_and_meet_halfway() -> None:
    for schedule in (Linear(steps=20, floor=0.2), Cosine(steps=20, floor=0.2)):
        assert schedule(19) == pytest.approx(0.2)
        assert schedule(1000) == pytest.approx(0.2)
        assert schedule(9) == pytest.approx(0.6)
    assert Cosine(steps=20, floor=0.0)(4) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cosine(steps=5, warmup=5), "steps=5 must be more than warmup=5"),
        (lambda: Constant(warmup=-1), "warmup=-1"),
        (lambda: Linear(steps=5, floor=2.0), "floor=2.0"),
        (lambda: Noam(d_model=0), "d_model=0"),
    ],
)
def test_schedules_name_the_wrong_field(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
