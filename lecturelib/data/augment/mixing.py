"""Pictures that are two at once: mixup and CutMix, with labels to match, and smoothed labels."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.data.augment.draws import beta, choose, uniform


class ImageBatch(NamedTuple):
    """Pictures (B, channels, height, width), and classes (B,) or probabilities of classes (B, classes)."""

    images: Tensor
    targets: Tensor


def smooth_labels(labels: Tensor, num_classes: int, smoothing: float = 0.0) -> Tensor:
    """Give each label 1 - smoothing of the mass, and spread the rest evenly over all classes, its own included.

    Paper: Szegedy et al. 2016 [szegedy2016rethinking], Section 7.
    Differs: nothing; cross-entropy with these targets is `F.cross_entropy(..., label_smoothing=smoothing)`.

    Shapes: (B,) -> (B, classes), each row summing to 1
    """
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"smoothing must be in [0, 1], got {smoothing}")
    if labels.dim() != 1 or labels.is_floating_point():
        raise ValueError(f"labels must be (batch,) integers, got {labels.dtype} {tuple(labels.shape)}")
    return F.one_hot(labels, num_classes) * (1.0 - smoothing) + smoothing / num_classes


def mixup(batch: ImageBatch, *, alpha: float = 0.8, generator: torch.Generator | None = None) -> ImageBatch:
    """Blend each picture with another of the batch, and their labels by the same λ ~ Beta(alpha, alpha).

    Paper: Zhang et al. 2018 [zhang2018mixup], Equation 1; DeiT takes alpha = 0.8.
    Differs: nothing; each pair has a λ of its own. alpha = 0 changes nothing.

    Args:
        batch: images, and targets as probabilities (B, classes): see `smooth_labels`
        alpha: small ones leave most pairs nearly pure, 1 is uniform
        generator: for the same mixture again
    """
    images, targets = _checked(batch)
    keep = beta(alpha, len(images), images, generator)  # (B,)
    partner = _permutation(images, generator)
    return ImageBatch(_blend(images, partner, keep), _blend(targets, partner, keep))


def cutmix(batch: ImageBatch, *, alpha: float = 1.0, generator: torch.Generator | None = None) -> ImageBatch:
    """Paste a box of another picture of the batch over each, and mix the labels by the area that was pasted.

    Paper: Yun et al. 2019 [yun2019cutmix], Section 3.1.
    Differs: nothing; each pair has a box of its own, and λ is corrected to the area inside the picture, as in the
    authors' code. alpha = 0 changes nothing.

    Args:
        batch: images, and targets as probabilities (B, classes): see `smooth_labels`
        alpha: the box covers 1 - λ of the picture before it is clipped, λ ~ Beta(alpha, alpha)
        generator: for the same boxes again
    """
    images, targets = _checked(batch)
    count, _, height, width = images.shape
    wanted = beta(alpha, count, images, generator)  # (B,)
    partner = _permutation(images, generator)
    pasted = cutmix_boxes(wanted, uniform((2, count), images, generator), (height, width))[:, None]
    keep = 1.0 - pasted.float().mean(dim=(1, 2, 3))  # (B,)
    return ImageBatch(torch.where(pasted, images[partner], images), _blend(targets, partner, keep))


def cutmix_boxes(keep: Tensor, centre: Tensor, size: tuple[int, int]) -> Tensor:
    """Mark the pixels that CutMix pastes: a box of 1 - λ of the picture around a centre, clipped at the border.

    Paper: Yun et al. 2019 [yun2019cutmix], Equation 2.
    Differs: nothing.

    Args:
        keep: λ, the part that is to be left alone, (B,)
        centre: from 0 to 1, down and across, (2, B)
        size: height and width of the pictures

    Shapes: -> (B, height, width), boolean
    """
    height, width = size
    side = (1.0 - keep).sqrt()  # (B,) of the box, as a part of the picture's
    rows = _inside(centre[0] * height, side * height, height)  # (B, height)
    columns = _inside(centre[1] * width, side * width, width)  # (B, width)
    return rows[:, :, None] & columns[:, None, :]  # (B, height, width)


def mixup_or_cutmix(
    batch: ImageBatch,
    *,
    mixup_alpha: float = 0.8,
    cutmix_alpha: float = 1.0,
    cutmix_probability: float = 0.5,
    generator: torch.Generator | None = None,
) -> ImageBatch:
    """For each picture a coin decides which of the two it goes through.

    Paper: Touvron et al. 2021 [touvron2021training], Table 9, which has both.
    Differs: the coin is thrown for each picture; the authors' code throws one for the batch.
    """
    blended = mixup(batch, alpha=mixup_alpha, generator=generator)
    pasted = cutmix(batch, alpha=cutmix_alpha, generator=generator)
    chosen = choose(cutmix_probability, len(batch.images), batch.images, generator)  # (B,)
    return ImageBatch(
        torch.where(chosen[:, None, None, None], pasted.images, blended.images),
        torch.where(chosen[:, None], pasted.targets, blended.targets),
    )


def _checked(batch: ImageBatch) -> ImageBatch:
    images, targets = batch
    if images.dim() != 4 or not images.is_floating_point():
        raise ValueError(
            f"images must be real numbers (batch, channels, height, width), got {images.dtype} {tuple(images.shape)}"
        )
    if targets.dim() != 2 or len(targets) != len(images) or not targets.is_floating_point():
        raise ValueError(
            f"targets must be probabilities ({len(images)}, classes), got {targets.dtype} {tuple(targets.shape)}; "
            "make them with smooth_labels(labels, num_classes)"
        )
    return batch


def _permutation(images: Tensor, generator: torch.Generator | None) -> Tensor:
    return uniform((len(images),), images, generator).argsort()  # (B,)


def _blend(tensor: Tensor, partner: Tensor, keep: Tensor) -> Tensor:
    keep = keep.view(-1, *(1 for _ in tensor.shape[1:])).to(tensor.dtype)  # (B, 1, ...)
    return keep * tensor + (1 - keep) * tensor[partner]


def _inside(centre: Tensor, length: Tensor, size: int) -> Tensor:
    """Which of `size` pixels lie in a stretch around the centre, in whole pixels. Shapes: (B,), (B,) -> (B, size)"""
    first = (centre - length / 2).round()
    where = torch.arange(size, device=centre.device)
    return (where >= first[:, None]) & (where < (first + length.round())[:, None])
