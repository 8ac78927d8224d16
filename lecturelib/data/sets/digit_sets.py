"""Sets of handwritten digits, with their sum and their maximum: questions that do not depend on any order."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lecturelib.data.sets.images import Images


@dataclass(frozen=True)
class DigitSets:
    """Sets of pictures, padded with zeros to one size.

    Shapes: x (B, T, pixels) from 0 to 1; lengths, sums, maxima (B,)
    """

    x: Tensor
    lengths: Tensor
    sums: Tensor
    maxima: Tensor


def digit_sets(images: Images, count: int, *, sizes: tuple[int, int] = (1, 10), seed: int = 0) -> DigitSets:
    """Draw sets of the pictures; how many are in each is drawn from `sizes`, first to last. Same seed, same sets."""
    first, last = sizes
    if not (count >= 1 <= first <= last):
        raise ValueError(f"count must be at least 1 and sizes 1 ≤ first ≤ last, got {count} and {sizes}")
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(first, last + 1, (count,), generator=generator)
    chosen = torch.randint(len(images), (count, last), generator=generator)  # (B, T)
    real = torch.arange(last) < lengths[:, None]  # (B, T)
    pixels = images.scaled().flatten(1)[chosen]  # (B, T, pixels)
    labels = images.labels[chosen] * real  # (B, T); padding counts as zero in sum and maximum
    return DigitSets(pixels * real[:, :, None], lengths, labels.sum(dim=1), labels.amax(dim=1))
