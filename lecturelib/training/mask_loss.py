"""The loss of a model that offers several masks: only the best of them learns from the answer."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.data.sets.nested import Asked


def mask_iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union: pixels in both masks, over pixels in at least one; 1 if both are empty.

    Shapes: boolean masks that broadcast to (..., S, S) -> (...)
    """
    both, either = (first & second).sum(dim=(-2, -1)), (first | second).sum(dim=(-2, -1))
    return torch.where(either > 0, both / either.clamp_min(1), 1.0)


def best_of(losses: Tensor, offered: Tensor) -> Tensor:
    """The smallest loss of the masks on offer, and so a gradient for the best one alone: (B, M), (B, M) -> (B,)."""
    return losses.masked_fill(~offered, torch.inf).amin(dim=1)


def mean_of(losses: Tensor, offered: Tensor) -> Tensor:
    """The mean of the masks on offer: each learns from every answer, (B, M), (B, M) -> (B,)."""
    return (losses * offered).sum(dim=1) / offered.sum(dim=1)


def mask_loss(model: Any, batch: Asked, *, choose: Callable[[Tensor, Tensor], Tensor] = best_of) -> tuple[Tensor, int]:
    """Cross-entropy of the pixels of the best mask, and the squared error of every mask's guess of its own IoU.

    Paper: Kirillov et al. 2023 [kirillov2023segment], Section 3 and Appendix A.
    Differs: plain cross-entropy, where the paper has focal and dice loss, 20 to 1. The weights are theirs: 20 for the
    pixels and 1 for the quality. Masks that are not on offer for a prompt learn nothing from it.

    Args:
        model: with `encode(images)`, `decode(image, points, kinds)` and `offered(kinds)`, as `PromptableSegmenter` has
        batch: Q prompts for each image, which is read once
        choose: from the losses of all masks (B, M), and which are on offer, to that of the row (B,); `mean_of` makes
            all masks learn alike
    """
    kinds = batch.kinds.flatten(0, 1)  # (B · Q, P)
    image = model.encode(batch.images).repeat_interleave(batch.kinds.shape[1], dim=0)  # (B · Q, D, rows, columns)
    masks, offered = model.decode(image, batch.points.flatten(0, 1), kinds), model.offered(kinds)  # (B · Q, M)
    targets = batch.targets.flatten(0, 1).unsqueeze(1).expand_as(masks.logits)  # (B · Q, M, S, S)
    errors = F.binary_cross_entropy_with_logits(masks.logits.float(), targets.float(), reduction="none")
    wrong = (masks.quality.float() - mask_iou(masks.logits > 0, targets)).square()  # (B · Q, M)
    loss = 20 * choose(errors.mean(dim=(2, 3)), offered).mean() + mean_of(wrong, offered).mean()
    return loss, len(targets)
