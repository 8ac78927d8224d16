from functools import partial
from itertools import permutations
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.data import DetectionBatch
from lecturelib.training import match_in_order, match_one_to_one, match_overlapping, matching_cost, set_loss

B, L, Q, M, CLASSES = 3, 2, 5, 4, 6


class Says(nn.Module):
    """A model that says the same whatever it sees."""

    def __init__(self, logits, boxes):
        super().__init__()
        self.logits, self.boxes = nn.Parameter(logits), nn.Parameter(boxes)

    def forward(self, images):
        return self.logits, self.boxes


def example(counts=(M, 0, 2), seed=0):
    """Random answers and objects, in double precision; padding holds garbage that must not matter."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(B, L, Q, CLASSES + 1, generator=generator, dtype=torch.float64)
    boxes = torch.rand(B, L, Q, 4, generator=generator, dtype=torch.float64) * 0.4 + 0.1
    classes = torch.randint(CLASSES, (B, M), generator=generator)
    wanted = torch.rand(B, M, 4, generator=generator, dtype=torch.float64) * 0.4 + 0.1
    return logits, boxes, DetectionBatch(torch.zeros(B, 3, 2, 2), classes, wanted, torch.tensor(counts))


def labels(batch):
    return [
        {"class_labels": classes[:count], "boxes": boxes[:count]}
        for classes, boxes, count in zip(batch.classes, batch.boxes, batch.counts.tolist(), strict=True)
    ]


def test_one_to_one_finds_the_cheapest_of_all_assignments():
    logits, boxes, batch = example()
    cost, chosen = matching_cost(logits, boxes, batch), match_one_to_one(logits, boxes, batch)
    for row, count in enumerate(batch.counts.tolist()):
        for layer in range(L):
            given = {int(o): q for q, o in enumerate(chosen[row, layer]) if o >= 0}
            assert sorted(given) == list(range(count))  # every object once; no query has two, being one number
            price = sum(cost[row, layer, q, o] for o, q in given.items())
            tried = (sum(cost[row, layer, q, o] for o, q in enumerate(p)) for p in permutations(range(Q), count))
            assert price <= min(tried) + 1e-6


@pytest.mark.parametrize("auxiliary", [True, False])
def test_set_loss_matches_transformers(auxiliary):
    pytest.importorskip("transformers")
    from transformers.loss.loss_for_object_detection import ForObjectDetectionLoss

    logits, boxes, batch = example()
    weights = {"class_cost": 1, "bbox_cost": 5, "giou_cost": 2, "bbox_loss_coefficient": 5, "giou_loss_coefficient": 2}
    config = SimpleNamespace(
        **weights, num_labels=CLASSES, eos_coefficient=0.1, auxiliary_loss=auxiliary, decoder_layers=L
    )
    ours, theirs = Says(logits, boxes), Says(logits.clone(), boxes.clone())
    each = theirs.logits.transpose(0, 1), theirs.boxes.transpose(0, 1)  # (L, B, Q, ·)
    torch.set_default_dtype(torch.float64)  # of their class weights
    try:
        want, _, _ = ForObjectDetectionLoss(each[0][-1], labels(batch), "cpu", each[1][-1], config, *each)
    finally:
        torch.set_default_dtype(torch.float32)
    got, count = set_loss(ours, batch, auxiliary=auxiliary)
    assert count == M + 2
    assert_close(got.double(), want, atol=1e-12, rtol=1e-12)
    got.backward()
    want.backward()
    assert_close(ours.logits.grad, theirs.logits.grad, atol=1e-12, rtol=1e-12)
    assert_close(ours.boxes.grad, theirs.boxes.grad, atol=1e-12, rtol=1e-12)


def test_set_loss_does_not_depend_on_the_order_of_objects_or_on_padding():
    logits, boxes, batch = example(counts=(M, M, M))
    order = torch.tensor([2, 0, 3, 1])
    shuffled = batch._replace(classes=batch.classes[:, order], boxes=batch.boxes[:, order])
    model = Says(logits, boxes)
    assert_close(set_loss(model, shuffled)[0], set_loss(model, batch)[0])
    in_order = partial(set_loss, match=match_in_order)
    assert not torch.isclose(in_order(model, shuffled)[0], in_order(model, batch)[0])  # which a sequence does
    few = batch._replace(counts=torch.tensor([2, 0, 1]))
    garbage = few._replace(boxes=few.boxes.masked_fill(~few.real[..., None], 0.9))
    for match in (match_one_to_one, match_overlapping, match_in_order):
        assert_close(set_loss(model, garbage, match=match)[0], set_loss(model, few, match=match)[0])


def test_overlapping_queries_share_an_object():
    """Three queries lie on the one object: one to one teaches one of them, by overlap all three; the fourth is away."""
    boxes = torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.52, 0.5, 0.4, 0.4], [0.5, 0.46, 0.4, 0.4], [0.1, 0.1, 0.2, 0.2]])
    batch = DetectionBatch(
        torch.zeros(1, 3, 2, 2), torch.tensor([[2, 0]]), torch.tensor([[[0.5, 0.5, 0.4, 0.4], [0.1, 0.1, 0.2, 0.2]]]),
        torch.tensor([1]),
    )  # fmt: skip
    given = torch.zeros(1, 1, 4, 4), boxes[None, None], batch
    assert match_one_to_one(*given).tolist() == [[[0, -1, -1, -1]]]
    assert match_overlapping(*given).tolist() == [[[0, 0, 0, -1]]]  # the second entry is padding
    assert match_in_order(*given).tolist() == [[[0, -1, -1, -1]]]


def test_a_second_query_on_an_object_is_taught_no_object_only_by_the_set():
    """The gradient of the second query's logit for "no object" has opposite signs under the two rules."""
    boxes = torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.52, 0.5, 0.4, 0.4]])[None, None]
    batch = DetectionBatch(
        torch.zeros(1, 3, 2, 2), torch.tensor([[1]]), torch.tensor([[[0.5, 0.5, 0.4, 0.4]]]), torch.tensor([1])
    )
    pulls = []
    for match in (match_one_to_one, match_overlapping):
        model = Says(torch.zeros(1, 1, 2, 4), boxes.clone())
        set_loss(model, batch, match=match)[0].backward()
        pulls.append(model.logits.grad[0, 0, 1, -1].item())
    assert pulls[0] < 0 < pulls[1]


def test_images_without_objects_teach_all_queries_no_object():
    logits, boxes, batch = example(counts=(0, 0, 0))
    model = Says(logits, boxes)
    loss, count = set_loss(model, batch)
    loss.backward()
    assert count == 0
    assert not model.boxes.grad.any()
    assert (model.logits.grad[..., -1] < 0).all()
