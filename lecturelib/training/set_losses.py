"""Losses for a model that answers with a set: first decide which answer is for which object, then compare."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.data.sets.detection import DetectionBatch
from lecturelib.layers.boxes import box_iou, generalised_iou

L1_WEIGHT, IOU_WEIGHT = 5.0, 2.0
Match = Callable[[Tensor, Tensor, DetectionBatch], Tensor]


def matching_cost(logits: Tensor, boxes: Tensor, batch: DetectionBatch) -> Tensor:
    """What it costs to let each query answer for each object: little where class and box are nearly right.

    Paper: Carion et al. 2020 [carion2020end], Section 3.1: the probability of the right class, not its logarithm.
    Differs: nothing; the paper's weights, 1 for the class, 5 for L1 and 2 for generalised IoU.

    Shapes: logits (B, L, Q, classes + 1), boxes (B, L, Q, 4), M objects in the batch -> (B, L, Q, M)
    """
    wanted = batch.classes[:, None, None].expand(*logits.shape[:3], -1)  # (B, L, Q, M)
    likely = _full(logits).softmax(dim=-1).gather(-1, wanted)  # (B, L, Q, M)
    pairs = _full(boxes)[..., None, :], batch.boxes[:, None, None]  # (B, L, Q, 1, 4), (B, 1, 1, M, 4)
    return L1_WEIGHT * (pairs[0] - pairs[1]).abs().sum(dim=-1) - IOU_WEIGHT * generalised_iou(*pairs) - likely


def match_one_to_one(logits: Tensor, boxes: Tensor, batch: DetectionBatch) -> Tensor:
    """Give every object one query and no query two objects, so that the sum of the costs is the least possible.

    Paper: Carion et al. 2020 [carion2020end], Equation 1; `scipy.optimize.linear_sum_assignment` solves it by the
    algorithm of Crouse 2016 [crouse2016implementing], where others have the Hungarian one.
    Differs: nothing; each decoder layer is matched by itself.

    Shapes: logits (B, L, Q, classes + 1), boxes (B, L, Q, 4) -> the object of each query (B, L, Q), or −1
    """
    from scipy.optimize import linear_sum_assignment  # takes a while to import, and only this needs it

    costs = matching_cost(logits, boxes, batch).detach().cpu().numpy()
    chosen = torch.full(boxes.shape[:3], -1)
    for row, count in enumerate(batch.counts.tolist()):
        for layer in range(boxes.shape[1]):
            queries, objects = linear_sum_assignment(costs[row, layer, :, :count])
            chosen[row, layer, queries] = torch.from_numpy(objects)
    return chosen.to(boxes.device)


def match_overlapping(logits: Tensor, boxes: Tensor, batch: DetectionBatch, *, overlap: float = 0.5) -> Tensor:
    """`match_one_to_one`, and every other query whose box covers an object well may answer for that object too.

    Paper: the rule for anchors of Ren et al. 2015 [ren2015faster]: the best one and all others that overlap enough.
    Differs: boxes are the ones predicted, as there are no anchors; the best ones are matched one to one.

    Shapes: as `match_one_to_one`
    """
    ious = box_iou(_full(boxes)[..., None, :], batch.boxes[:, None, None])  # (B, L, Q, M)
    best, nearest = ious.masked_fill(~batch.real[:, None, None], 0.0).max(dim=-1)  # (B, L, Q)
    first = match_one_to_one(logits, boxes, batch)
    return torch.where((first < 0) & (best >= overlap), nearest, first)


def match_in_order(logits: Tensor, boxes: Tensor, batch: DetectionBatch) -> Tensor:
    """Give the first object of the list to the first query, the second to the second: a sequence, not a set.

    Differs: from `match_one_to_one` in that right answers in another order are wrong.

    Shapes: as `match_one_to_one`
    """
    place = torch.arange(boxes.shape[2], device=boxes.device)  # (Q,)
    return torch.where(place < batch.counts[:, None], place, -1)[:, None].expand(boxes.shape[:3])


def set_loss(
    model: nn.Module,
    batch: DetectionBatch,
    *,
    match: Match = match_one_to_one,
    no_object: float = 0.1,
    auxiliary: bool = True,
) -> tuple[Tensor, int]:
    """Cross-entropy of each query's class, and for queries with an object L1 and generalised IoU of its box.

    Paper: Carion et al. 2020 [carion2020end], Section 3.1 and appendix; every decoder layer has its own matching
    and the same loss, and the sum counts.
    Differs: boxes are averaged over queries that were given an object; matched one to one, these are the objects.

    Args:
        model: images -> logits (B, L, Q, classes + 1) and boxes (B, L, Q, 4), as `DETR`
        match: which query answers for which object
        no_object: weight of "no object", which most queries are to say
        auxiliary: whether the layers before the last have a loss too
    """
    logits, boxes = map(_full, model(batch.images))
    if not auxiliary:
        logits, boxes = logits[:, -1:], boxes[:, -1:]
    with torch.no_grad():
        chosen = match(logits, boxes, batch)  # (B, L, Q)
    has_object, place = chosen >= 0, chosen.clamp_min(0).flatten(1)  # (B, L, Q), (B, L · Q)
    wanted = batch.classes.gather(1, place).view_as(chosen).where(has_object, logits.shape[-1] - 1)  # (B, L, Q)
    target = batch.boxes.gather(1, place[..., None].expand(-1, -1, 4)).view_as(boxes)  # (B, L, Q, 4)

    entropy = F.cross_entropy(logits.flatten(0, 2), wanted.flatten(), reduction="none").view_as(chosen)
    weight = torch.full_like(entropy, no_object).masked_fill(has_object, 1.0)  # (B, L, Q)
    classes = (weight * entropy).sum(dim=(0, 2)) / weight.sum(dim=(0, 2))  # (L,)
    distance = L1_WEIGHT * (boxes - target).abs().sum(dim=-1)  # (B, L, Q)
    distance = distance + IOU_WEIGHT * (1 - generalised_iou(boxes, target))
    located = (distance * has_object).sum(dim=(0, 2)) / has_object.sum(dim=(0, 2)).clamp_min(1)  # (L,)
    return (classes + located).sum(), int(batch.counts.sum())


def _full(values: Tensor) -> Tensor:
    """The values in single precision at least: areas of small boxes need it."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
