import pytest
import torch
from torch.testing import assert_close

from lecturelib.layers import box_corners, box_iou, generalised_iou


def test_box_corners_are_half_a_side_away_from_the_middle():
    assert box_corners(torch.tensor([[3.0, 5.0, 4.0, 2.0]])).tolist() == [[1.0, 4.0, 5.0, 6.0]]


def test_overlap_by_hand():
    """2 × 2 boxes: half on each other, side by side, apart, and one inside the other."""
    box = torch.tensor([1.0, 1.0, 2.0, 2.0])
    others = torch.tensor([[2.0, 1, 2, 2], [3, 1, 2, 2], [4, 1, 2, 2], [1, 1, 1, 1], [1, 1, 2, 2]])
    assert_close(box_iou(box, others), torch.tensor([2 / 6, 0, 0, 1 / 4, 1]))
    assert_close(generalised_iou(box, others), torch.tensor([1 / 3, 0, -2 / 10, 1 / 4, 1]))


def test_generalised_iou_has_a_gradient_where_boxes_are_apart():
    box = torch.tensor([1.0, 1.0, 2.0, 2.0])
    far = torch.tensor([9.0, 1.0, 2.0, 2.0], requires_grad=True)
    generalised_iou(box, far).backward()
    assert far.grad[0] < 0  # moving away makes it worse
    far.grad = None
    box_iou(box, far).backward()
    assert not far.grad.any()


def test_overlaps_match_transformers():
    pytest.importorskip("transformers")
    from transformers.loss.loss_for_object_detection import box_iou as iou
    from transformers.loss.loss_for_object_detection import generalized_box_iou

    one, two = (torch.rand(n, 4, dtype=torch.float64) * 0.5 + 0.05 for n in (5, 7))
    corners = box_corners(one), box_corners(two)
    assert_close(box_iou(one[:, None], two), iou(*corners)[0], atol=1e-12, rtol=1e-12)
    assert_close(generalised_iou(one[:, None], two), generalized_box_iou(*corners), atol=1e-12, rtol=1e-12)
