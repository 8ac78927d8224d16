"""Mixup, CutMix and smoothed labels: where the mass of a label goes, and what stays when nothing is mixed."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from lecturelib.data.augment.mixing import ImageBatch, cutmix, mixup, mixup_or_cutmix, smooth_labels

B, K = 6, 11


def batch(count=B, height=8, width=10):
    """Picture i is all i + 1, and its label is i modulo K: what is where can be read off."""
    values = torch.arange(1.0, count + 1)[:, None, None, None].expand(count, 3, height, width)
    return ImageBatch(values.clone(), smooth_labels(torch.arange(count) % K, K))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


MIXES = [mixup, cutmix]


def test_smoothed_labels_spread_their_mass_evenly():
    labels = torch.tensor([2, 0, 4])
    targets = smooth_labels(labels, 5, 0.2)
    assert_close(targets.sum(1), torch.ones(3))
    assert targets[0].tolist() == pytest.approx([0.04, 0.04, 0.84, 0.04, 0.04])
    assert torch.equal(smooth_labels(labels, 5), F.one_hot(labels, 5).float())
    logits = torch.randn(3, 5, generator=seeded())
    assert_close(F.cross_entropy(logits, targets), F.cross_entropy(logits, labels, label_smoothing=0.2))
    with pytest.raises(ValueError, match=r"smoothing must be in \[0, 1\], got 1.5"):
        smooth_labels(labels, 5, 1.5)
    with pytest.raises(ValueError, match=r"\(batch,\) integers, got torch.float32 \(3, 5\)"):
        smooth_labels(logits, 5)


@pytest.mark.parametrize("mix", MIXES)
def test_mixing_with_alpha_zero_is_the_identity(mix):
    given = batch()
    assert_close(mix(given, alpha=0.0, generator=seeded()), given)


@pytest.mark.parametrize("mix", [*MIXES, mixup_or_cutmix])
def test_mixing_is_seeded_keeps_the_mass_and_the_dtype(mix):
    given = batch()
    first, again, other = (mix(given, generator=seeded(s)) for s in (3, 3, 4))
    assert_close(first, again, atol=0, rtol=0)
    assert not torch.equal(first.images, other.images)
    assert_close(first.targets.sum(1), torch.ones(B))
    assert (first.targets >= 0).all()
    assert first.images.shape == given.images.shape
    half = mix(ImageBatch(given.images.bfloat16(), given.targets), generator=seeded(3))
    assert half.images.dtype == torch.bfloat16
    empty = mix(ImageBatch(given.images[:0], given.targets[:0]), generator=seeded())
    assert empty.targets.shape == (0, K)
    torch.manual_seed(5)
    globally = mix(given)
    torch.manual_seed(5)
    assert_close(mix(given), globally, atol=0, rtol=0)


@pytest.mark.parametrize("mix", MIXES)
def test_label_mass_is_the_share_of_the_picture(mix):
    """The mean of a picture is Σ share · value, and the labels must say the same shares."""
    given = batch()
    mixed = mix(given, generator=seeded(1))
    values = torch.arange(1.0, B + 1)
    assert_close(mixed.images.mean(dim=(1, 2, 3)), mixed.targets[:, :B] @ values)
    assert (mixed.targets.amax(1) < 1).any()


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_mixup_keeps_half_on_average_with_the_variance_of_beta(alpha):
    count = 4000
    images = torch.arange(float(count))[:, None, None, None]
    own = torch.eye(count)[:, : count // 2]  # half of the labels are enough to see what is kept
    kept = mixup(ImageBatch(images, own), alpha=alpha, generator=seeded()).targets.diagonal()
    assert kept.mean().item() == pytest.approx(0.5, abs=0.05)
    assert kept.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.15)  # of Beta(α, α)


def test_mixup_blends_pixels_and_cutmix_replaces_them():
    given = batch()
    blended, pasted = mixup(given, generator=seeded()).images, cutmix(given, generator=seeded()).images
    assert all(picture.unique().numel() == 1 for picture in blended)
    assert all(set(picture.unique().tolist()) <= set(range(1, B + 1)) for picture in pasted)
    assert any(picture.unique().numel() == 2 for picture in pasted)


def test_cutmix_pastes_one_box_of_the_expected_area():
    count, side = 3000, 20
    given = batch(count, side, side)
    pasted = cutmix(given, alpha=1.0, generator=seeded()).images[:, 0] != given.images[:, 0]  # (B, side, side)
    rows, columns = pasted.any(2), pasted.any(1)
    assert torch.equal(pasted, rows[:, :, None] & columns[:, None, :])  # every row of the box is the whole box wide
    # λ is uniform; a side of relative length s around a uniform centre keeps s - s²/4 inside, s² = 1 - λ uniform.
    # E[(s - s²/4)²] = E[s²] - E[s³]/2 + E[s⁴]/16 with E[s^k] = 2 / (k + 2)
    want = 2 / 4 - 2 / 5 / 2 + 2 / 6 / 16
    assert pasted.float().mean().item() == pytest.approx(want, abs=0.02)


def test_coin_decides_between_mixup_and_cutmix_for_each_picture():
    given = batch(60)
    out = mixup_or_cutmix(given, generator=seeded())
    whole = torch.tensor([set(p.unique().tolist()) <= set(range(1, 61)) for p in out.images])
    assert 10 < whole.sum() < 50
    only = mixup_or_cutmix(given, cutmix_probability=1.0, generator=seeded())
    assert all(set(p.unique().tolist()) <= set(range(1, 61)) for p in only.images)


def test_mixing_says_what_is_wrong():
    given = batch()
    with pytest.raises(
        ValueError, match=r"probabilities \(6, classes\), got torch.int64 \(6,\); make them with smooth"
    ):
        mixup(ImageBatch(given.images, torch.arange(6)))
    with pytest.raises(ValueError, match=r"real numbers .* got torch.uint8"):
        cutmix(ImageBatch(given.images.byte(), given.targets))
    with pytest.raises(ValueError, match="alpha must be 0 or more, got -1"):
        mixup(given, alpha=-1)
    with pytest.raises(ValueError, match=r"probability must be in \[0, 1\], got 2"):
        mixup_or_cutmix(given, cutmix_probability=2)
