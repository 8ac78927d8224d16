"""Fits find the constants of laws that are known, and optima are where no other way to spend a budget is better."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lecturelib.evaluation import laws
from lecturelib.evaluation.timing import fit_power_law

LAW = laws.LossLaw(floor=0.8, size_factor=12.0, size_exponent=0.31, data_factor=90.0, data_exponent=0.36)
SIZES = [3e3, 9e3, 2.5e4, 8e4, 2e5, 7e5]
BUDGETS = [1e11, 4e11, 2e12, 9e12]
GRID = [(size, budget / (6 * size)) for size in SIZES for budget in BUDGETS]


def noisy(deviation: float, seed: int = 0) -> list[tuple[float, float, float]]:
    chance = np.random.default_rng(seed)
    return [(n, d, LAW(n, d) * (1 + deviation * chance.standard_normal())) for n, d in GRID]


def test_fit_loss_law_recovers_its_constants():
    found = laws.fit_loss_law(*zip(*noisy(0.0), strict=True))
    for name in LAW.__dataclass_fields__:
        assert getattr(found, name) == pytest.approx(getattr(LAW, name), rel=2e-3), name


def test_bootstrap_interval_covers_the_truth_and_shrinks_with_the_noise():
    widths = []
    for deviation in (0.004, 0.001):
        fits = laws.bootstrap(
            noisy(deviation), lambda rows: laws.fit_loss_law(*zip(*rows, strict=True)), draws=40, seed=1
        )
        low, high = laws.interval([fit.growth for fit in fits])
        assert low - 0.02 < LAW.growth < high + 0.02
        widths.append(high - low)
    assert 0 < widths[1] < widths[0]


@settings(max_examples=25, deadline=None)
@given(floor=st.floats(0.1, 3), factor=st.floats(0.5, 50), exponent=st.floats(0.05, 0.9))
def test_fit_decay_recovers_its_constants(floor, factor, exponent):
    law = laws.DecayLaw(floor=floor, factor=factor, exponent=exponent)
    x = [2.0, 7.0, 40.0, 300.0, 5000.0]
    found = laws.fit_decay(x, [law(value) for value in x])
    assert found.exponent == pytest.approx(exponent, rel=0.01, abs=1e-3)
    assert [found(value) for value in x] == pytest.approx([law(value) for value in x], rel=1e-3)


def test_optimum_is_better_than_its_neighbours_and_equals_the_search():
    for flops in BUDGETS:
        best = LAW.optimum(flops)
        assert 6 * best.parameters * best.tokens == pytest.approx(flops)
        for factor in (0.9, 1.1):
            assert LAW(best.parameters * factor, best.tokens / factor) > best.loss
        searched = LAW.optimum(flops, flops_per_token=lambda size: 6 * size)
        assert searched.parameters == pytest.approx(best.parameters, rel=0.02)
    heavier = LAW.optimum(1e12, flops_per_token=lambda size: 6 * size + 2e4)  # a head that costs, however small N is
    assert heavier.parameters > LAW.optimum(1e12).parameters
    _, growth = fit_power_law(BUDGETS, [LAW.optimum(flops).parameters for flops in BUDGETS])
    assert growth == pytest.approx(LAW.growth)


def test_slices_of_a_law_are_its_limits():
    assert LAW(5e4, 1e30) == pytest.approx(LAW.of_size(5e4))
    assert LAW(1e40, 5e4) == pytest.approx(LAW.of_data(5e4))


def test_iso_flop_minimum_finds_the_lowest_point():
    sizes = [1e4, 3e4, 1e5, 4e5]
    losses = [1.5 + 0.02 * np.log(size / 6e4) ** 2 for size in sizes]
    assert laws.iso_flop_minimum(sizes, losses) == pytest.approx((6e4, 1.5))
    found = []
    for budget in BUDGETS:
        best = LAW.optimum(budget).parameters
        near = [best * factor for factor in (0.4, 0.7, 1.0, 1.5, 2.5)]
        found.append(laws.iso_flop_minimum(near, [LAW(n, budget / 6 / n) for n in near])[0])
    assert fit_power_law(BUDGETS, found)[1] == pytest.approx(LAW.growth, abs=0.01)


def test_published_laws_give_published_numbers():
    chinchilla = laws.CHINCHILLA_REFITTED.optimum(5.76e23)  # Gopher's budget; about 70 B and 1.4 T were trained
    assert chinchilla.tokens / chinchilla.parameters == pytest.approx(20, rel=0.3)
    assert 5e10 < chinchilla.parameters < 9e10
    assert laws.CHINCHILLA.growth == pytest.approx(0.45, abs=0.005)  # Table 2 of the paper: 0.46
    kaplan = laws.kaplan_optimum(3.14e23)  # GPT-3's: 175 B parameters were trained, on 300 B tokens
    assert 1e11 < kaplan.parameters < 1e12
    assert laws.KAPLAN_OF_SIZE(8.8e13) == pytest.approx(1.0)
    assert laws.KAPLAN_OF_COMPUTE(3.1e8 * laws.PF_DAY) == pytest.approx(1.0)
    assert laws.KAPLAN_OF_DATA(5.4e13) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("x", "losses", "words"),
    [
        ([1, 2], [3, 2], "3 or more losses"),
        ([1, 2, 3], [3, 2, -1], "must be positive"),
        ([2, 2, 2], [3, 2, 1], "two or more different sizes"),
        ([1, 2, 3, 4], [1, 2, 3, 4], "do they fall"),
    ],
)
def test_fit_decay_refuses_what_is_no_decay(x, losses, words):
    with pytest.raises(ValueError, match=words):
        laws.fit_decay(x, losses)


def test_other_mistakes_are_explained():
    with pytest.raises(ValueError, match="three different sizes or more"):
        laws.iso_flop_minimum([1, 2, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="bend downwards"):
        laws.iso_flop_minimum([1, 2, 3], [1, 2, 1])
    with pytest.raises(ValueError, match="only 0 of 40 draws"):
        laws.bootstrap([1, 2], lambda rows: laws.iso_flop_minimum(rows, rows), draws=2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        laws.interval([1, 2], inside=90)
    with pytest.raises(ValueError, match="flops=0"):
        LAW.optimum(0)
