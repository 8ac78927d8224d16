"""The gradient explorer's numbers, against arithmetic and against its own prediction."""

import pytest
import torch

from lecturelib.figures import GradientExplorer


@pytest.fixture(scope="module")
def explorer() -> GradientExplorer:
    return GradientExplorer((0.6, 1.0, 1.3), num_steps=12, hidden_dim=48, batch=5, seed=3)


@pytest.mark.parametrize("radius", [0.6, 1.0, 1.3])
def test_gradient_explorer_without_input_is_a_power_of_the_radius(explorer: GradientExplorer, radius: float) -> None:
    torch.testing.assert_close(explorer.norms(radius), radius ** torch.arange(13, dtype=torch.float64))


@pytest.mark.parametrize("inputs", ["gentle", "strong"])
def test_gradient_explorer_prediction_matches_the_run(explorer: GradientExplorer, inputs: str) -> None:
    for radius in (0.6, 1.0, 1.3):
        norms = explorer.norms(radius, inputs)
        assert float(norms[-1] / norms[0]) ** (1 / 12) == pytest.approx(explorer.factor(radius, inputs), rel=0.05)
        assert explorer.factor(radius, inputs) < radius  # tanh only ever flattens


def test_gradient_explorer_is_the_same_bytes_for_the_same_seed() -> None:
    first, again, other = (GradientExplorer((0.9,), num_steps=4, seed=seed)._repr_html_() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_gradient_explorer_refuses_radii_that_are_not_positive() -> None:
    with pytest.raises(ValueError, match="positive radii"):
        GradientExplorer((0.5, 0.0))
