import pytest
import torch
from torch.testing import assert_close

from lecturelib.data import DetectionBatch
from lecturelib.evaluation import (
    Answers,
    average_precision,
    duplicates,
    exact_sets,
    find_objects,
    read_answers,
    suppress_overlapping,
)

LEFT, RIGHT, TOP = [0.25, 0.5, 0.2, 0.2], [0.75, 0.5, 0.2, 0.2], [0.5, 0.1, 0.2, 0.2]
NEAR_LEFT = [0.27, 0.5, 0.2, 0.2]


def truth(counts=(2, 1)):
    """One image with class 0 left and class 1 right, one with class 0 on top."""
    classes, boxes = torch.tensor([[0, 1], [0, 0]]), torch.tensor([[LEFT, RIGHT], [TOP, [0.0] * 4]])
    return DetectionBatch(torch.zeros(2, 3, 4, 4), classes, boxes, torch.tensor(counts))


def answers(boxes, classes, scores, said=None):
    classes, scores = torch.tensor(classes), torch.tensor(scores)
    return Answers(classes, scores, torch.tensor(boxes), scores > 0.5 if said is None else torch.tensor(said))


PERFECT = answers([[LEFT, RIGHT, TOP], [TOP, LEFT, RIGHT]], [[0, 1, 0], [0, 0, 1]], [[0.9, 0.8, 0.1], [0.7, 0.2, 0.1]])
TWICE = answers(
    [[LEFT, NEAR_LEFT, RIGHT], [TOP, LEFT, RIGHT]], [[0, 0, 1], [0, 0, 1]], [[0.9, 0.8, 0.7], [0.6, 0.2, 0.1]]
)


def test_answers_are_read_from_logits():
    logits = torch.tensor([[[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]]])  # "no object" is last
    got = read_answers(logits, torch.zeros(1, 2, 4))
    likely = logits.softmax(-1)
    assert got.classes.tolist() == [[0, 1]]
    assert_close(got.scores, torch.stack((likely[0, 0, 0], likely[0, 1, 1]))[None])
    assert got.said.tolist() == [[True, False]]
    fair = read_answers(logits, torch.zeros(1, 2, 4), no_object=0.1)  # the first: e² against 10 · e⁰
    assert fair.said.tolist() == [[False, False]]
    assert_close(fair.scores[0, 0], logits[0, 0, 0].exp() / (logits[0, 0, :2].exp().sum() + 10))


def test_perfect_answers_have_perfect_scores():
    batch = truth()
    assert find_objects(PERFECT, batch).tolist() == [[0, 1, -1], [0, -1, -1]]
    assert average_precision(PERFECT, batch) == 1.0
    assert exact_sets(PERFECT, batch) == 1.0
    assert duplicates(PERFECT, batch) == 0.0


def test_a_second_answer_for_an_object_is_wrong_until_it_is_suppressed():
    """Class 0 has two objects; its answers by score are right, second for the same, right: 1, 1/2, 2/3 precise."""
    batch = truth()
    assert average_precision(TWICE, batch) == pytest.approx(((1 + 2 / 3) / 2 + 1) / 2)
    assert exact_sets(TWICE, batch) == 0.5
    assert duplicates(TWICE, batch) == pytest.approx(1 / 3)
    kept = suppress_overlapping(TWICE)
    assert kept.said.tolist() == [[True, False, True], [True, False, False]]
    assert average_precision(kept, batch) == 1.0
    assert exact_sets(kept, batch) == 1.0
    assert duplicates(kept, batch) == 0.0


def test_suppression_spares_other_classes_and_what_was_beaten_by_a_suppressed_one():
    """b overlaps a, c overlaps b but not a: b falls to a, and then nothing stands against c."""
    a, b, c = [0.3, 0.5, 0.3, 0.3], [0.38, 0.5, 0.3, 0.3], [0.46, 0.5, 0.3, 0.3]
    got = suppress_overlapping(answers([[a, b, c, a]], [[0, 0, 0, 1]], [[0.9, 0.8, 0.7, 0.6]]))
    assert got.said.tolist() == [[True, False, True, True]]


def test_a_wrong_class_a_poor_box_and_a_missing_object_cost():
    batch = truth()
    wrong_class = PERFECT._replace(classes=torch.tensor([[0, 0, 0], [0, 0, 1]]))
    assert average_precision(wrong_class, batch) == pytest.approx((1 / 2 + 1 / 2 * 2 / 3) / 2)
    assert exact_sets(wrong_class, batch) == 0.5
    moved = PERFECT._replace(boxes=PERFECT.boxes + torch.tensor([0.1, 0.0, 0.0, 0.0]))  # overlaps are 1/3
    assert average_precision(moved, batch) == 0.0
    assert average_precision(moved, batch, overlap=0.3) == 1.0
    quiet = PERFECT._replace(said=torch.zeros(2, 3, dtype=torch.bool))
    assert exact_sets(quiet, batch) == 0.0
    assert duplicates(quiet, batch) == 0.0


def test_padding_is_no_object_and_images_without_any_are_refused():
    only_first = truth(counts=(1, 0))
    assert find_objects(PERFECT, only_first).tolist() == [[0, -1, -1], [-1, -1, -1]]
    with pytest.raises(ValueError, match="no object in these images"):
        average_precision(PERFECT, truth(counts=(0, 0)))
