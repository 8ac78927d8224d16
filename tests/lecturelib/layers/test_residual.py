"""Stochastic depth, layer scale, and how matrices start."""

import pytest
import torch
from torch import nn

from lecturelib.layers.initialisation import initialise, truncated_normal_
from lecturelib.layers.residual import StochasticDepth, depth_rates


def test_stochastic_depth_keeps_the_mean_and_drops_whole_rows():
    gate, branch = StochasticDepth(0.3), torch.ones(20_000, 2, 3)
    out = gate(branch)
    rows = out.flatten(1)
    assert (rows == rows[:, :1]).all()
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    kept = (rows[:, 0] > 0).float().mean().item()
    assert kept == pytest.approx(0.7, abs=0.015)  # more than four deviations
    assert out.mean().item() == pytest.approx(1.0, abs=0.025)


def test_stochastic_depth_is_the_identity_at_rate_zero_and_in_evaluation():
    branch = torch.randn(5, 3)
    assert StochasticDepth(0.0)(branch) is branch
    assert StochasticDepth(0.9).eval()(branch) is branch
    assert StochasticDepth(0.5)(branch[:0]).shape == (0, 3)
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\), got 1.0"):
        StochasticDepth(1.0)


def test_stochastic_depth_keeps_the_dtype():
    assert StochasticDepth(0.5)(torch.ones(7, 2, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_depth_rates_grow_evenly_from_nothing():
    assert depth_rates(0.4, 5) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert depth_rates(0.4, 1) == [0.0]


def test_truncated_normal_has_the_moments_of_a_cut_bell():
    values = truncated_normal_(torch.empty(100_000), std=0.5, cut=2.0)
    assert values.abs().max() <= 1.0
    assert values.mean().item() == pytest.approx(0.0, abs=0.007)
    assert values.std().item() == pytest.approx(0.5 * 0.8796, rel=0.01)  # sqrt(1 - 2 · 2 φ(2) / (2 Φ(2) - 1))


def test_initialise_leaves_norms_and_empties_biases():
    model = nn.Sequential(nn.Conv2d(3, 40, 5), nn.LayerNorm(7), nn.Linear(60, 70))
    model.apply(initialise)
    assert model[0].weight.std().item() == pytest.approx(0.0176, rel=0.1)
    assert model[2].weight.std().item() == pytest.approx(0.0176, rel=0.1)
    assert not model[0].bias.any()
    assert not model[2].bias.any()
    assert (model[1].weight == 1).all()
