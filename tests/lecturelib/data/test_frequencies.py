"""Coarse and fine parts of pictures, and an adversary that touches the fine part only."""

import math

import pytest
import torch
from torch.testing import assert_close

from lecturelib.data.augment.frequencies import high_frequency_adversary, split_frequencies


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def wave(down, across, height=12, width=15):
    rows, columns = torch.arange(height)[:, None] / height, torch.arange(width) / width
    return torch.cos(2 * math.pi * (down * rows + across * columns))[None, None]


def test_bands_add_up_and_hold_what_they_should():
    slow, fast = wave(2, 1), wave(5, 3)
    low, high = split_frequencies(slow + fast, 3)
    assert_close(low, slow, atol=1e-5, rtol=1e-4)
    assert_close(high, fast, atol=1e-5, rtol=1e-4)
    images = torch.rand(2, 3, 9, 14, generator=seeded())
    assert_close(sum(split_frequencies(images, 2)), images)
    assert_close(split_frequencies(images, 0).low, images.mean(dim=(2, 3), keepdim=True).expand_as(images))
    assert_close(split_frequencies(images, 7).high, torch.zeros_like(images), atol=1e-5, rtol=0)


def test_bands_of_no_pictures_are_empty_and_whole_numbers_are_refused():
    assert [band.shape for band in split_frequencies(torch.zeros(0, 3, 9, 14), 2)] == [(0, 3, 9, 14)] * 2
    with pytest.raises(ValueError, match=r"real numbers.*got torch.uint8"):
        split_frequencies(torch.zeros(2, 3, 9, 14, dtype=torch.uint8), 2)


def test_bands_do_not_share_energy():
    images = torch.rand(2, 3, 9, 14, generator=seeded())
    low, high = split_frequencies(images, 3)
    assert (low * high).sum().abs() < 1e-3
    assert_close(split_frequencies(high, 3).low, torch.zeros_like(low), atol=1e-5, rtol=0)


def test_adversary_raises_the_loss_by_fine_detail_alone():
    images = torch.rand(4, 3, 12, 15, generator=seeded())
    weight = torch.randn(3, 12, 15, generator=seeded(1))

    def loss(x):
        return (x * weight).sum(dim=(1, 2, 3)).square().mean()

    harder = high_frequency_adversary(images, loss, radius=3, strength=0.05, steps=4, generator=seeded(2))
    assert loss(harder) > 1.05 * loss(images)
    change = harder - images
    assert_close(split_frequencies(change, 3).low, torch.zeros_like(change), atol=1e-5, rtol=0)
    assert change.square().mean().sqrt() <= 0.05  # a filter takes energy away
    again = high_frequency_adversary(images, loss, radius=3, strength=0.05, steps=4, generator=seeded(2))
    assert torch.equal(harder, again)


def test_adversary_cannot_do_anything_at_strength_zero_or_without_high_frequencies():
    images = torch.rand(2, 3, 12, 15, generator=seeded())
    assert high_frequency_adversary(images, lambda x: x.sum(), radius=3, strength=0.0) is images
    same = high_frequency_adversary(images, lambda x: x.square().sum(), radius=8, strength=0.1)
    assert_close(same, images, atol=1e-5, rtol=0)


def test_adversary_gives_parameters_no_gradient_and_works_where_gradients_are_off():
    model = torch.nn.Conv2d(3, 2, 3)
    images = torch.rand(2, 3, 12, 15, generator=seeded())
    with torch.no_grad():
        out = high_frequency_adversary(images, lambda x: model(x).square().sum(), radius=2)
    assert not out.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    with pytest.raises(ValueError, match=r"strength must be 0 or more and steps at least 1, got 0\.1 and 0"):
        high_frequency_adversary(images, lambda x: x.sum(), radius=2, strength=0.1, steps=0)
