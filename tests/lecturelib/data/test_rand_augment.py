"""RandAugment's operations against Pillow's, and its draws."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch.testing import assert_close

from lecturelib.data.augment.rand_augment import GEOMETRIC, OPERATIONS, apply_operation, rand_augment


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def smooth_pictures(count=2, height=24, width=32):
    """Soft blobs in whole levels, so that Pillow and we start from the same."""
    rough = torch.rand(count, 3, 4, 5, generator=seeded(9))
    soft = torch.nn.functional.interpolate(rough, (height, width), mode="bicubic", align_corners=False)
    return (soft.clamp(0, 1) * 200 + 20).round() / 255


def as_pillow(picture):
    return Image.fromarray((picture * 255).round().byte().permute(1, 2, 0).numpy())


def from_pillow(picture):
    return torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1).float() / 255


PILLOW = {
    "auto_contrast": lambda picture, level: ImageOps.autocontrast(picture),
    "equalize": lambda picture, level: ImageOps.equalize(picture),
    "solarize": lambda picture, level: ImageOps.solarize(picture, math.ceil(255 * (1 - abs(level)))),
    "posterize": lambda picture, level: ImageOps.posterize(picture, 8 - round(4 * abs(level))),
    "color": lambda picture, level: ImageEnhance.Color(picture).enhance(1 + 0.9 * level),
    "contrast": lambda picture, level: ImageEnhance.Contrast(picture).enhance(1 + 0.9 * level),
    "brightness": lambda picture, level: ImageEnhance.Brightness(picture).enhance(1 + 0.9 * level),
    "sharpness": lambda picture, level: ImageEnhance.Sharpness(picture).enhance(1 + 0.9 * level),
}


@pytest.mark.parametrize("level", [0.9, -0.5])
@pytest.mark.parametrize("operation", PILLOW)
def test_operation_matches_pillow(operation, level):
    images = (torch.rand(2, 3, 20, 24, generator=seeded(9)) * 200 + 20).round() / 255
    got = apply_operation(images, operation, torch.full((2,), level))
    want = torch.stack([from_pillow(PILLOW[operation](as_pillow(picture), level)) for picture in images])
    assert_close(got, want, atol=2.1 / 255, rtol=0)  # Pillow rounds at every step
    assert not torch.allclose(got, images, atol=2.5 / 255)


@pytest.mark.parametrize("level", [0.8, -0.4])
@pytest.mark.parametrize("operation", GEOMETRIC)
def test_geometric_operation_matches_pillow(operation, level):
    images = smooth_pictures()
    height, width = images.shape[-2:]
    got = apply_operation(images, operation, torch.full((2,), level))
    a, b, d, e = {
        "rotate": (
            math.cos(level * math.pi / 6),
            -math.sin(level * math.pi / 6),
            math.sin(level * math.pi / 6),
            math.cos(level * math.pi / 6),
        ),
        "shear_x": (1, 0.3 * level, 0, 1),
        "shear_y": (1, 0, 0.3 * level, 1),
    }.get(operation, (1, 0, 0, 1))
    moved_x = 0.45 * level * width if operation == "translate_x" else 0.0
    moved_y = 0.45 * level * height if operation == "translate_y" else 0.0
    c = width / 2 - a * width / 2 - b * height / 2 + moved_x  # Pillow turns about the corner, we about the centre
    f = height / 2 - d * width / 2 - e * height / 2 + moved_y
    grey = (128, 128, 128)
    want = torch.stack(
        [
            from_pillow(
                as_pillow(picture).transform(
                    (width, height),
                    Image.Transform.AFFINE,
                    (a, b, c, d, e, f),
                    Image.Resampling.BILINEAR,
                    fillcolor=grey,
                )
            )
            for picture in images
        ]
    )
    close = ((got - want).abs() < 3 / 255).float().mean().item()
    assert close > 0.93  # Pillow cuts hard at the border, where we fade to grey
    assert not torch.allclose(got, images, atol=5 / 255)


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"auto_contrast", "equalize"}))
def test_operation_at_level_zero_is_the_identity(operation):
    images = torch.rand(3, 3, 7, 10, generator=seeded())
    assert_close(apply_operation(images, operation, torch.zeros(3)), images, atol=1e-5, rtol=1e-4)


def test_rand_augment_is_the_identity_at_magnitude_zero_or_without_operations():
    images = torch.rand(3, 1, 7, 10, generator=seeded())
    assert rand_augment(images, magnitude=0.0) is images
    assert torch.equal(rand_augment(images, num_operations=0), images)


def test_rand_augment_draws_for_each_picture_and_is_seeded():
    picture = smooth_pictures(1).expand(40, -1, -1, -1)
    out = rand_augment(picture, generator=seeded(1))
    assert torch.equal(out, rand_augment(picture, generator=seeded(1)))
    assert not torch.equal(out, rand_augment(picture, generator=seeded(2)))
    assert len({tuple(p.flatten().tolist()) for p in out}) > 30
    assert out.min() >= 0
    assert out.max() <= 1


def test_rand_augment_uses_every_operation_equally_often():
    """With two operations and two draws, a quarter of the pictures draws the identity both times."""
    picture = torch.full((4000, 1, 3, 4), 0.5)
    out = rand_augment(picture, operations=("identity", "brightness"), magnitude=5.0, generator=seeded())
    same = (out == picture).flatten(1).all(1).float().mean().item()
    assert same == pytest.approx(0.25, abs=0.03)
    assert out.mean().item() == pytest.approx(0.5, abs=0.01)  # darker as often as lighter


def test_rand_augment_takes_grey_pictures_and_no_pictures():
    assert rand_augment(torch.rand(20, 1, 8, 8, generator=seeded()), generator=seeded()).isfinite().all()
    assert rand_augment(torch.rand(0, 3, 8, 8)).shape == (0, 3, 8, 8)


def test_rand_augment_keeps_half_precision():
    images = torch.rand(40, 3, 8, 9, generator=seeded())  # enough for every operation
    got = rand_augment(images.bfloat16(), generator=seeded())
    assert got.dtype == torch.bfloat16
    assert (got.float() - rand_augment(images, generator=seeded())).abs().mean() < 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"magnitude": 11.0}, "magnitude 0 to 10"),
        ({"operations": ("blur",)}, r"unknown operations \['blur'\]; there are identity, auto_contrast"),
    ],
)
def test_rand_augment_says_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        rand_augment(torch.rand(2, 3, 8, 8), **options)
