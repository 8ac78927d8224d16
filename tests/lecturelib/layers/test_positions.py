"""Positions that are added to embeddings: the paper's formula, the rotation by a shift, the table."""

import math

import pytest
import torch

from lecturelib.layers import LearnedPositions, SinusoidalPositions, fourier_positions


def test_sinusoidal_positions_matches_the_formula_of_the_paper():
    d_model, length = 10, 7
    table = SinusoidalPositions(d_model)(torch.arange(length))
    for position in range(length):
        for pair in range(d_model // 2):
            angle = position / 10_000 ** (2 * pair / d_model)
            assert table[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("shift", [1, 4])
def test_sinusoidal_positions_shift_is_one_linear_map(shift):
    table = SinusoidalPositions(12)(torch.arange(40)).double()
    here, there = table[:-shift], table[shift:]
    shift_matrix = torch.linalg.lstsq(here, there).solution  # (D, D)
    torch.testing.assert_close(here @ shift_matrix, there, atol=1e-5, rtol=0)
    inner = table @ table.T
    torch.testing.assert_close(inner.diagonal(shift), inner[0, shift].expand(40 - shift), atol=1e-5, rtol=0)


def test_sinusoidal_positions_stay_precise_in_a_half_precision_model():
    positions = torch.tensor([[1000, 1001, 1002]])
    half = SinusoidalPositions(8).to(torch.bfloat16)(positions)
    torch.testing.assert_close(half, SinusoidalPositions(8)(positions))
    assert half.shape == (1, 3, 8)


def test_sinusoidal_positions_needs_an_even_width():
    with pytest.raises(ValueError, match=r"even.*7"):
        SinusoidalPositions(7)


def test_learned_positions_gives_its_rows_and_sends_gradients_only_to_them():
    positions = LearnedPositions(9, 4)
    where = torch.tensor([[0, 3, 4], [2, 3, 3]])
    out = positions(where)
    torch.testing.assert_close(out[1, 2], positions.weight[3])
    out.sum().backward()
    torch.testing.assert_close(positions.weight.grad[:, 0], torch.tensor([1.0, 0, 1, 3, 1, 0, 0, 0, 0]))


def test_fourier_positions_match_transformers():
    peer = pytest.importorskip("transformers.models.perceiver.modeling_perceiver")
    for grid in ((3, 5), (7, 4), (2, 3, 4)):
        where = peer.build_linear_positions(grid).flatten(0, -2)[None]  # (1, N, dims)
        want = peer.generate_fourier_features(where, num_bands=6, max_resolution=grid)[0]
        torch.testing.assert_close(fourier_positions(grid, 6), want)


def test_fourier_positions_tell_all_points_apart_and_say_what_is_wrong():
    found = fourier_positions((6, 9), 4)
    assert found.shape == (54, 2 * (1 + 2 * 4))
    distances = torch.cdist(found, found) + 10 * torch.eye(54)
    assert distances.min() > 0.5
    assert found[0, :2].tolist() == [-1, -1]
    assert found[8, :2].tolist() == [-1, 1], "points are read row by row"
    with pytest.raises(ValueError, match=r"grid=\(3, 0\), num_bands=2"):
        fourier_positions((3, 0), 2)
