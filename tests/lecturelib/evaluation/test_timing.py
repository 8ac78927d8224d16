"""Timing takes the undisturbed run; the fit finds the exponent it was given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.evaluation.timing import fit_power_law, seconds


@given(factor=st.floats(1e-6, 1e6), exponent=st.floats(-3, 3))
def test_fit_power_law_recovers_an_exact_law(factor, exponent):
    sizes = [3, 10, 41, 160]
    got_factor, got_exponent = fit_power_law(sizes, [factor * size**exponent for size in sizes])
    assert got_factor == pytest.approx(factor, rel=1e-6)
    assert got_exponent == pytest.approx(exponent, abs=1e-6)


@pytest.mark.parametrize(
    ("sizes", "costs", "words"),
    [
        ([1, 2], [1], "got 2 and 1"),
        ([2, 2], [1, 3], "two or more different sizes"),
        ([1, 2], [1, 0], "must be positive"),
    ],
)
def test_fit_power_law_refuses_what_has_no_logarithm_or_slope(sizes, costs, words):
    with pytest.raises(ValueError, match=words):
        fit_power_law(sizes, costs)


def test_seconds_is_the_shortest_run_and_leaves_the_first_out():
    ticks = iter([0.0, 5.0, 10.0, 12.0, 20.0, 23.0])
    calls = []
    assert seconds(lambda: calls.append(1), repeats=3, clock=lambda: next(ticks)) == 2.0
    assert len(calls) == 4


def test_seconds_needs_a_run():
    with pytest.raises(ValueError, match="got 0"):
        seconds(lambda: None, repeats=0)
