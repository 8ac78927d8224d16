"""Changes to batches of pictures that leave their labels alone: flips, crops, erased boxes, repeated pictures.

Pictures are (B, channels, height, width) tensors on any device; every picture draws its own numbers.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.data.augment.draws import choose, uniform


def random_flip(images: Tensor, *, probability: float = 0.5, generator: torch.Generator | None = None) -> Tensor:
    """Mirror some of the pictures, left for right. Shapes: (B, channels, height, width) -> the same"""
    flipped = choose(probability, len(images), images, generator)
    return torch.where(flipped[:, None, None, None], images.flip(-1), images)


def random_crop(images: Tensor, *, padding: int, generator: torch.Generator | None = None) -> Tensor:
    """Move each picture by up to `padding` pixels in each direction, black coming in.

    Paper: He et al. 2016 [he2016deep], Section 4.2, with a padding of 4.
    Differs: nothing.

    Shapes: (B, channels, height, width) -> the same
    """
    count, _, height, width = images.shape
    offset = (uniform((2, count), images, generator) * (2 * padding + 1)).long()  # (2, B), 0 ... 2 · padding
    padded = F.pad(images, (padding, padding, padding, padding))
    rows = offset[0][:, None] + torch.arange(height, device=images.device)  # (B, height)
    columns = offset[1][:, None] + torch.arange(width, device=images.device)  # (B, width)
    row = torch.arange(count, device=images.device)[:, None, None]
    cropped = padded.permute(0, 2, 3, 1)[row, rows[:, :, None], columns[:, None, :]]  # (B, height, width, channels)
    return cropped.permute(0, 3, 1, 2)  # (B, channels, height, width)


def random_erasing(
    images: Tensor,
    *,
    probability: float = 0.25,
    area: tuple[float, float] = (0.02, 0.33),
    aspect: float = 3.3,
    fill: float | None = None,
    attempts: int = 10,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Erase one box of random place, size and shape from some of the pictures.

    Paper: Zhong et al. 2020 [zhong2020random], Algorithm 1; the probability is DeiT's.
    Differs: height / width is even in its logarithm, so that flat boxes are as likely as tall ones. Of `attempts` boxes
    the first that fits is taken; if none does, the picture stays as it is.

    Args:
        images: (B, channels, height, width)
        probability: of erasing anything, for each picture
        area: least and most, as parts of the picture
        aspect: most of height / width, and of width / height
        fill: what the box is filled with; noise from 0 to 1 when left out
        attempts: boxes to draw for each picture
        generator: for the same boxes again

    Shapes: -> the same
    """
    low, high = area
    if not 0.0 <= low <= high <= 1.0 or aspect < 1.0 or attempts < 1:
        raise ValueError(
            f"need 0 <= least <= most area <= 1, aspect and attempts of at least 1, got {area}, {aspect}, {attempts}"
        )
    count, _, height, width = images.shape
    chosen = choose(probability, count, images, generator)  # (B,)
    drawn = uniform((4, count, attempts), images, generator)
    pixels = (low + (high - low) * drawn[0]) * height * width  # (B, attempts)
    shape = torch.exp((2 * drawn[1] - 1) * math.log(aspect))
    tall, wide = (pixels * shape).sqrt().round(), (pixels / shape).sqrt().round()
    fits = (tall <= height) & (wide <= width)
    first = fits.int().argmax(dim=1, keepdim=True)  # (B, 1)
    tall, wide, fits = (x.gather(1, first) for x in (tall, wide, fits))
    top = (drawn[2].gather(1, first) * (height - tall + 1)).floor()
    left = (drawn[3].gather(1, first) * (width - wide + 1)).floor()
    row, column = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    rows, columns = (row >= top) & (row < top + tall), (column >= left) & (column < left + wide)
    box = rows[:, :, None] & columns[:, None, :] & (fits & chosen[:, None])[:, :, None]  # (B, height, width)
    filling = uniform(tuple(images.shape), images, generator) if fill is None else torch.full_like(images[:1], fill)
    return torch.where(box[:, None], filling.to(images.dtype), images)


def repeated_indices(num_examples: int, batch_size: int, *, repeats: int, step: int, seed: int = 0) -> Tensor:
    """Which examples are in batch `step`, each of them `repeats` times, to be augmented differently each time.

    Walks through a new shuffle of the data in every pass; a pass takes `repeats` times as many batches as a plain one.

    Paper: Hoffer et al. 2020 [hoffer2020augment]; DeiT has 3 repeats.
    Differs: the copies are in one batch of one process, which is where they matter; DeiT's code deals them out to
    several.

    Args:
        num_examples: in the data
        batch_size: must be a multiple of `repeats`
        repeats: 1 for plain batches
        step: number of the batch, from 0; the same number gives the same batch
        seed: of the run

    Shapes: -> (batch_size,)
    """
    if repeats < 1 or batch_size % repeats:
        raise ValueError(f"batch_size must be a multiple of repeats, got {batch_size} and {repeats}")
    distinct = batch_size // repeats
    if not 1 <= distinct <= num_examples:
        raise ValueError(f"a batch has {distinct} different examples, and the data {num_examples}")
    batches = num_examples // distinct
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step // batches)
    order = torch.randperm(num_examples, generator=generator)
    begin = (step % batches) * distinct
    return order[begin : begin + distinct].repeat_interleave(repeats)  # (batch_size,)
