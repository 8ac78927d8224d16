"""Boxes as four numbers, and how well two of them overlap."""

import torch
from torch import Tensor


def box_corners(boxes: Tensor) -> Tensor:
    """From the middle (x, y), width and height of boxes to their left, top, right and bottom: (..., 4) -> (..., 4)."""
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((middle - half, middle + half), dim=-1)


def box_iou(first: Tensor, second: Tensor) -> Tensor:
    """The area that two boxes share, as a part of the area that they cover together (intersection over union).

    Paper: the overlap of Everingham et al. 2010 [everingham2010pascal], Section 4.2.
    Differs: nothing; boxes are given by middle, width and height, and need not be whole pixels.

    Shapes: (..., 4), (..., 4), which broadcast -> (...), from 0 to 1. For all pairs pass `first[:, None], second`.
    """
    shared, union, _ = _areas(first, second)
    return shared / union


def generalised_iou(first: Tensor, second: Tensor) -> Tensor:
    """`box_iou`, less the empty part of the smallest box around both: it falls on, to −1, as two boxes move apart.

    Paper: Rezatofighi et al. 2019 [rezatofighi2019generalized], Algorithm 1.
    Differs: nothing; boxes are given by middle, width and height.

    Shapes: (..., 4), (..., 4), which broadcast -> (...), from −1 to 1
    """
    shared, union, around = _areas(first, second)
    return shared / union - (around - union) / around


def _areas(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What two boxes share, what they cover together, and the smallest box around both."""
    one, other = box_corners(first), box_corners(second)
    low, high = torch.maximum(one[..., :2], other[..., :2]), torch.minimum(one[..., 2:], other[..., 2:])
    shared = (high - low).clamp_min(0).prod(dim=-1)
    union = first[..., 2:].prod(dim=-1) + second[..., 2:].prod(dim=-1) - shared
    low, high = torch.minimum(one[..., :2], other[..., :2]), torch.maximum(one[..., 2:], other[..., 2:])
    return shared, union, (high - low).prod(dim=-1)
