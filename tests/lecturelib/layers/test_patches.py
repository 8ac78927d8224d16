"""Patches and their positions."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from lecturelib.layers.patches import PatchEmbedding, pad_to_patches
from lecturelib.layers.positions.grid import GridPositions, interpolate_positions


def test_patch_embedding_is_one_matrix_for_every_patch():
    embed, images = PatchEmbedding(3, 7, 4), torch.randn(2, 3, 8, 12)
    flat = images.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(3)  # (B, 2, 3, 3 · 4 · 4)
    want = F.linear(flat, embed.project.weight.flatten(1), embed.project.bias)
    assert_close(embed(images), want, atol=1e-5, rtol=1e-4)


def test_pad_to_patches_adds_black_on_the_right_and_below():
    images = torch.randn(2, 3, 5, 8)
    padded = pad_to_patches(images, 4)
    assert padded.shape == (2, 3, 8, 8)
    assert torch.equal(padded[:, :, :5], images)
    assert not padded[:, :, 5:].any()
    assert pad_to_patches(padded, 4) is padded


def test_interpolated_positions_keep_what_is_flat_or_linear_and_the_prefix():
    rows, columns = torch.arange(6.0)[:, None].expand(6, 8), torch.arange(8.0).expand(6, 8)
    table = torch.stack((torch.full((6, 8), 3.0), rows, columns), dim=-1).view(1, 48, 3)
    table = torch.cat((torch.randn(1, 2, 3), table), dim=1)
    larger = interpolate_positions(table, (6, 8), (12, 16), num_prefix=2)
    assert torch.equal(larger[:, :2], table[:, :2])
    grid = larger[:, 2:].view(12, 16, 3)
    assert_close(grid[..., 0], torch.full((12, 16), 3.0))
    inside = (torch.arange(12.0) + 0.5) / 2 - 0.5  # where the new rows lie among the old ones
    assert_close(grid[4:8, 5, 1], inside[4:8], atol=0.05, rtol=0.0)  # a ramp stays one, nearly: torch's cubic is sharp
    assert interpolate_positions(table, (6, 8), (6, 8), num_prefix=2) is table
    with pytest.raises(ValueError, match="2 prefix tokens and a grid of 6 × 7 has 44 rows, got 50"):
        interpolate_positions(table, (6, 7), (6, 8), num_prefix=2)


def test_grid_positions_resized_in_place_are_those_interpolated_on_the_fly():
    positions = GridPositions((3, 4), 5, num_prefix=1)
    torch.nn.init.normal_(positions.weight)
    want = positions((6, 2)).detach()
    positions.resize_((6, 2))
    assert positions.grid == (6, 2)
    assert torch.equal(positions((6, 2)), want)
    assert positions.weight.requires_grad
