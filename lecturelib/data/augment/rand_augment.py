"""RandAugment: a few simple changes to each picture, picked at random, all of one strength."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.data.augment.draws import uniform

GREY = 0.5
GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
PHOTOMETRIC = (
    "identity",
    "auto_contrast",
    "equalize",
    "solarize",
    "posterize",
    "color",
    "contrast",
    "brightness",
    "sharpness",
)
OPERATIONS = (*PHOTOMETRIC, *GEOMETRIC)


def rand_augment(
    images: Tensor,
    *,
    num_operations: int = 2,
    magnitude: float = 9.0,
    operations: tuple[str, ...] = OPERATIONS,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Put each picture through `num_operations` changes, each drawn anew from `operations`.

    Paper: Cubuk et al. 2020 [cubuk2020randaugment], Figure 2, with N and M as `num_operations` and `magnitude`.
    Differs: magnitude runs from 0 to 10, 10 being the strongest of AutoAugment's ranges, and DeiT's 9 the default. At 0
    nothing changes at all, though auto-contrast and equalize have no strength of their own. What comes in from outside
    the picture is grey.

    Args:
        images: (B, channels, height, width), numbers from 0 to 1
        num_operations: for each picture, one after the other
        magnitude: strength of all of them, 0 to 10; signs are drawn
        operations: to draw from, see `OPERATIONS`
        generator: for the same changes again; one on the CPU keeps a GPU from waiting

    Shapes: -> the same, numbers from 0 to 1
    """
    if images.dim() != 4 or not images.is_floating_point():
        given = f"{images.dtype} {tuple(images.shape)}"
        raise ValueError(f"images must be real numbers from 0 to 1, (batch, channels, height, width), got {given}")
    if not 0.0 <= magnitude <= 10.0 or num_operations < 0:
        raise ValueError(f"need magnitude 0 to 10 and num_operations of 0 or more, got {magnitude}, {num_operations}")
    if unknown := set(operations) - set(OPERATIONS):
        raise ValueError(f"unknown operations {sorted(unknown)}; there are {', '.join(OPERATIONS)}")
    if magnitude == 0:
        return images
    for _ in range(num_operations):
        number = torch.randint(len(operations), (len(images),), generator=generator, device=_device(generator)).tolist()
        sign = 1 - 2 * (uniform((len(images),), images, generator) < 0.5).float()  # (B,)
        out = images.clone()
        for which in sorted(set(number)):
            rows = torch.tensor([row for row, n in enumerate(number) if n == which], device=images.device)
            changed = apply_operation(images[rows], operations[which], magnitude / 10 * sign[rows])
            out[rows] = changed.to(out.dtype)
        images = out
    return images


def apply_operation(images: Tensor, operation: str, level: Tensor) -> Tensor:
    """Put all pictures through one operation, each at its own level from -1 to 1; 0 is no change.

    Shapes: (B, channels, height, width), (B,) -> (B, channels, height, width)
    """
    if operation in GEOMETRIC:
        return _warp(images, _matrices(operation, level))
    return _PHOTOMETRIC[operation](images, level[:, None, None, None]).clamp(0.0, 1.0)


def _device(generator: torch.Generator | None) -> torch.device:
    return torch.device("cpu") if generator is None else generator.device


def _matrices(operation: str, level: Tensor) -> Tensor:
    """Where each new pixel is fetched from, in coordinates from -1 to 1. Shapes: (B,) -> (B, 2, 3)"""
    zero, one = torch.zeros_like(level), torch.ones_like(level)
    if operation == "rotate":  # up to 30 degrees
        angle = level * math.pi / 6
        rows = (angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero)
    elif operation == "shear_x":  # up to 0.3
        rows = (one, 0.3 * level, zero, zero, one, zero)
    elif operation == "shear_y":
        rows = (one, zero, zero, 0.3 * level, one, zero)
    elif operation == "translate_x":  # up to 0.45 of the width, which is 2 units wide
        rows = (one, zero, 0.9 * level, zero, one, zero)
    else:
        rows = (one, zero, zero, zero, one, 0.9 * level)
    return torch.stack(rows, dim=1).view(-1, 2, 3)  # (B, 2, 3)


def _warp(images: Tensor, matrices: Tensor) -> Tensor:
    height, width = images.shape[-2:]
    stretch = torch.tensor([[1.0, height / width, 1.0], [width / height, 1.0, 1.0]], device=images.device)
    grid = F.affine_grid((matrices * stretch).to(images.dtype), list(images.shape), align_corners=False)
    moved = F.grid_sample(images - GREY, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return (moved + GREY).clamp(0.0, 1.0)


def _grey_picture(images: Tensor) -> Tensor:
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True).expand_as(images)
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device, dtype=images.dtype)
    return (images * weights[:, None, None]).sum(dim=1, keepdim=True).expand_as(images)


def _enhance(images: Tensor, dull: Tensor, level: Tensor) -> Tensor:
    """Towards the dull picture below 0 and away from it above, by up to 0.9."""
    return images + 0.9 * level * (images - dull)


def _auto_contrast(images: Tensor, level: Tensor) -> Tensor:
    low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)  # (B, channels, 1, 1)
    stretched = (images - low) / (high - low).clamp(min=1e-6)
    return torch.where(high > low, stretched, images)


def _equalize(images: Tensor, level: Tensor) -> Tensor:
    """Spread the 256 levels of each channel so that they are used evenly."""
    levels = (images * 255).round().clamp(0, 255).long().flatten(2)  # (B, channels, pixels)
    counts = torch.zeros(*levels.shape[:2], 256, dtype=torch.long, device=images.device)
    counts.scatter_add_(2, levels, torch.ones_like(levels))  # (B, channels, 256)
    last = counts.gather(2, levels.amax(dim=2, keepdim=True))  # pixels at the highest level in use
    step = (levels.shape[2] - last).div(255, rounding_mode="floor")  # (B, channels, 1)
    before = counts.cumsum(dim=2) - counts  # pixels at lower levels
    table = ((before + step // 2) // step.clamp(min=1)).clamp(max=255)  # (B, channels, 256)
    equal = table.gather(2, levels).view_as(images).to(images.dtype) / 255
    return torch.where((step > 0)[..., None], equal, images)


def _solarize(images: Tensor, level: Tensor) -> Tensor:
    """Turn what is lighter than a threshold into its negative."""
    return torch.where((images >= 1 - level.abs()) & (level != 0), 1 - images, images)


def _posterize(images: Tensor, level: Tensor) -> Tensor:
    """Keep 8 bits at level 0, and 4 at level 1."""
    bits = 8 - (4 * level.abs()).round()
    step = 2 ** (8 - bits)
    return torch.where(step > 1, ((images * 255).round() / step).floor() * step / 255, images)


def _contrast(images: Tensor, level: Tensor) -> Tensor:
    return _enhance(images, _grey_picture(images).mean(dim=(1, 2, 3), keepdim=True).expand_as(images), level)


def _sharpness(images: Tensor, level: Tensor) -> Tensor:
    """Towards or away from a smoothed picture, whose border is the picture's own."""
    channels = images.shape[1]
    kernel = torch.ones(channels, 1, 3, 3, device=images.device, dtype=images.dtype)
    kernel[:, :, 1, 1] = 5.0
    smooth = images.clone()
    if min(images.shape[-2:]) > 2:
        smooth[:, :, 1:-1, 1:-1] = F.conv2d(images, kernel / 13, groups=channels)
    return _enhance(images, smooth, level)


_PHOTOMETRIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "identity": lambda images, level: images,
    "auto_contrast": _auto_contrast,
    "equalize": _equalize,
    "solarize": _solarize,
    "posterize": _posterize,
    "color": lambda images, level: _enhance(images, _grey_picture(images), level),
    "contrast": _contrast,
    "brightness": lambda images, level: _enhance(images, torch.zeros_like(images), level),
    "sharpness": _sharpness,
}
