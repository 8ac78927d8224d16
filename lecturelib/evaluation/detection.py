"""How well a detector finds the objects of images: average precision, whole sets, and answers too many."""

from typing import NamedTuple

import torch
from torch import Tensor

from lecturelib.data.sets.detection import DetectionBatch
from lecturelib.layers.boxes import box_iou


class Answers(NamedTuple):
    """One answer for each query: its likeliest class, "no object" left out; how likely; its box; whether it counts.

    classes (B, Q), scores (B, Q), boxes (B, Q, 4), said (B, Q): False where "no object" is likelier, or suppressed
    """

    classes: Tensor
    scores: Tensor
    boxes: Tensor
    said: Tensor


def read_answers(logits: Tensor, boxes: Tensor, *, no_object: float = 1.0) -> Answers:
    """What the queries of a detector say: logits (B, Q, classes + 1), "no object" last, and boxes (B, Q, 4).

    Args:
        no_object: the weight of "no object" in the training loss. A class that counts a tenth there gets a tenth of
            the odds that it should have, and they are given back here.
    """
    odds = torch.ones(logits.shape[-1], device=logits.device)
    odds[-1] = 1 / no_object
    likely = (logits.float() + odds.log()).softmax(dim=-1)
    scores, classes = likely[..., :-1].max(dim=-1)  # (B, Q)
    return Answers(classes, scores, boxes.float(), scores > likely[..., -1])


def suppress_overlapping(answers: Answers, *, overlap: float = 0.5) -> Answers:
    """Keep the likeliest answer and drop all of its class that overlap it, and so on (non-maximum suppression, NMS).

    Paper: Ren et al. 2015 [ren2015faster] drop overlapping proposals so.
    Differs: each class by itself, and at half an overlap.
    """
    order = answers.scores.argsort(dim=1, descending=True)  # (B, Q)
    ious = box_iou(answers.boxes[:, :, None], answers.boxes[:, None])  # (B, Q, Q)
    rivals = (ious >= overlap) & (answers.classes[:, :, None] == answers.classes[:, None])  # (B, Q, Q)
    kept = torch.zeros_like(answers.said)
    rows = torch.arange(len(order), device=order.device)
    for query in order.unbind(1):  # (B,)
        kept[rows, query] = ~(rivals[rows, query] & kept).any(dim=1)
    return answers._replace(said=answers.said & kept, scores=answers.scores * kept)


def find_objects(answers: Answers, batch: DetectionBatch, *, overlap: float = 0.5) -> Tensor:
    """Which object each answer is for: the one of its class with the best overlap, or −1: (B, Q).

    Several answers may be for one object; `average_precision` counts the likeliest and `duplicates` the others.
    """
    ious = box_iou(answers.boxes[:, :, None], batch.boxes[:, None])  # (B, Q, M)
    fits = batch.real[:, None] & (answers.classes[:, :, None] == batch.classes[:, None]) & (ious >= overlap)
    best, nearest = ious.masked_fill(~fits, -1.0).max(dim=-1)  # (B, Q)
    return torch.where(best >= 0, nearest, -1)


def average_precision(answers: Answers, batch: DetectionBatch, *, overlap: float = 0.5) -> float:
    """The area under precision against recall, as the score that an answer needs falls; the mean over classes.

    An answer is right if its box overlaps an object of its class, and no likelier answer was for the same object.

    Paper: Everingham et al. 2010 [everingham2010pascal], Section 4.2.
    Differs: the whole area, not eleven points of it, as in their challenge from 2010 on.
    """
    found = find_objects(answers, batch, overlap=overlap)  # (B, Q)
    first = _first_of_each(found, answers.scores)  # (B, Q)
    areas = []
    for kind in batch.classes[batch.real].unique():
        of_kind = (answers.classes == kind) & (answers.scores > 0)
        order = answers.scores[of_kind].argsort(descending=True, stable=True)
        right = first[of_kind][order].double()  # (answers of this class,)
        objects = (batch.real & (batch.classes == kind)).sum()
        precision = right.cumsum(0) / torch.arange(1, len(right) + 1, device=right.device)
        reached = precision.flip(0).cummax(0).values.flip(0)  # the best precision at this recall or more
        areas.append((reached * right).sum() / objects)
    if not areas:
        raise ValueError("average_precision: there is no object in these images")
    return float(torch.stack(areas).mean())


def exact_sets(answers: Answers, batch: DetectionBatch, *, overlap: float = 0.5) -> float:
    """The share of images whose answers are right and complete: every object once, and nothing else."""
    found = find_objects(answers, batch, overlap=overlap)
    times = _times_found(found, answers.said, batch)  # (B, M)
    nothing_else = ~(answers.said & (found < 0)).any(dim=1)
    return float((nothing_else & ((times == 1) | ~batch.real).all(dim=1)).float().mean())


def duplicates(answers: Answers, batch: DetectionBatch, *, overlap: float = 0.5) -> float:
    """How many answers too many there are for an object that was found at all, on average."""
    times = _times_found(find_objects(answers, batch, overlap=overlap), answers.said, batch)
    return float((times[times > 0] - 1).float().mean()) if times.any() else 0.0


def _times_found(found: Tensor, said: Tensor, batch: DetectionBatch) -> Tensor:
    """How many answers each object has: (B, M)."""
    objects = torch.arange(batch.classes.shape[1], device=found.device)
    return ((found[..., None] == objects) & said[..., None]).sum(dim=1)


def _first_of_each(found: Tensor, scores: Tensor) -> Tensor:
    """Which answers are for an object that no likelier answer of the image is for: (B, Q)."""
    ahead = (scores[:, None] > scores[:, :, None]) | (
        (scores[:, None] == scores[:, :, None]) & _earlier(found.shape[1], found.device)
    )  # (B, Q, Q): whether the other answer comes first
    same = found[:, :, None] == found[:, None]
    return (found >= 0) & ~(same & ahead).any(dim=2)


def _earlier(count: int, device: torch.device) -> Tensor:
    """Of two equally likely answers the first comes first: (count, count)."""
    return torch.ones(count, count, dtype=torch.bool, device=device).tril(-1)
