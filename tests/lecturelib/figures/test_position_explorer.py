"""The position explorer's numbers, against the formulas."""

import pytest
import torch

from lecturelib.figures import PositionExplorer
from lecturelib.layers.positions import frequencies


@pytest.fixture(scope="module")
def explorer() -> PositionExplorer:
    table = torch.arange(30.0).view(10, 3)  # (T, D)
    return PositionExplorer({"mine": table}, {"flat": torch.full((10, 10), 2.0)}, num_positions=10, d_model=6, seed=4)


def test_position_explorer_sinusoidal_similarity_is_a_sum_of_cosines(explorer: PositionExplorer) -> None:
    apart = torch.arange(10)[:, None] - torch.arange(10)
    wanted = (apart[..., None] * frequencies(6)).cos().sum(dim=-1)
    torch.testing.assert_close(explorer.similarity("sinusoidal"), wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["sinusoidal", "rotary", "ALiBi", "flat"])
def test_position_explorer_relative_encodings_are_constant_on_every_diagonal(
    explorer: PositionExplorer, name: str
) -> None:
    for shift in range(-9, 10):
        low, high = explorer.spread(name, shift)
        assert high - low < 1e-5


def test_position_explorer_rotary_similarity_is_no_constant(explorer: PositionExplorer) -> None:
    scores = explorer.similarity("rotary")
    assert float(scores[0].std()) > 0.05
    assert not torch.allclose(scores, scores.T, atol=1e-3)  # a query and a key of its own


def test_position_explorer_takes_tables_by_dot_product(explorer: PositionExplorer) -> None:
    assert float(explorer.similarity("mine")[1, 2]) == 3 * 6 + 4 * 7 + 5 * 8
    low, high = explorer.spread("mine", 1)
    assert high > low
    assert "mine: from" in explorer.text()


def test_position_explorer_is_the_same_bytes_for_the_same_seed() -> None:
    first, again, other = (PositionExplorer(num_positions=6, d_model=4, seed=seed)._repr_html_() for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"num_positions": 5}, "must be at least 6, got 5"),
        ({"scores": {"rotary": torch.zeros(48, 48)}}, "choose another for: rotary"),
        ({"scores": {"x": torch.zeros(48, 48)}, "tables": {"x": torch.zeros(48, 2)}}, "choose another for: x"),
        ({"start": ("other", 1)}, "must name one of sinusoidal, rotary, ALiBi"),
        ({"start": ("rotary", 17)}, "a shift of at most 16"),
        ({"tables": {"x": torch.zeros(5, 3)}}, r"table 'x' must be \(48, D\), got \(5, 3\)"),
        ({"scores": {"x": torch.zeros(48, 3)}}, r"scores 'x' must be \(48, 48\), got \(48, 3\)"),
    ],
)
def test_position_explorer_refuses_what_does_not_fit(arguments: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PositionExplorer(**arguments)
