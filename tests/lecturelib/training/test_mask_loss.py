"""The loss of several masks: the best one learns, the others do not, and the quality is that of each."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lecturelib.models.promptable_segmenter import Masks
from lecturelib.training import best_of, mask_iou, mask_loss, mean_of


class Offers(nn.Module):
    """A model that answers with its parameters, the same to every prompt."""

    def __init__(self, logits, quality):
        super().__init__()
        self.logits, self.quality = nn.Parameter(logits), nn.Parameter(quality)  # (M, S, S), (M,)

    def encode(self, images):
        return images

    def decode(self, image, points, kinds):
        assert len(image) == len(points) == len(kinds)
        return Masks(self.logits.expand(len(points), -1, -1, -1), self.quality.expand(len(points), -1))

    def offered(self, kinds):
        return (torch.arange(len(self.quality)) < 3).expand(len(kinds), -1)


def batch(targets):
    count, questions = targets.shape[:2]
    return SimpleNamespace(
        images=torch.zeros(count, 3, 2, 2),
        points=torch.zeros(count, questions, 1, 2),
        kinds=torch.ones(count, questions, 1, dtype=torch.long),
        targets=targets,
    )


TARGET = torch.tensor([[True, True], [False, True]])
OFFERS = torch.tensor([[[9.0, -9.0], [-9.0, 9.0]], [[2.0, 2.0], [-2.0, 2.0]], [[-1.0, 3.0], [1.0, 3.0]]])


def test_mask_iou_counts_pixels():
    other = torch.tensor([[False, True], [True, True]])
    assert mask_iou(TARGET, other).item() == pytest.approx(2 / 4)
    assert mask_iou(TARGET, TARGET).item() == 1
    assert mask_iou(TARGET, ~TARGET).item() == 0
    assert mask_iou(TARGET & ~TARGET, TARGET & ~TARGET).item() == 1
    assert mask_iou(torch.stack((TARGET, other))[:, None], torch.stack((TARGET, other, ~other))).shape == (2, 3)


def test_loss_is_that_of_the_best_mask_and_of_every_guess():
    model = Offers(OFFERS, torch.tensor([0.5, 1.0, 0.75]))
    loss, count = mask_loss(model, batch(TARGET.expand(2, 3, 2, 2)))
    pixels = math.log1p(math.exp(-2))  # the second offer is right everywhere, with logits of 2
    iou = 2 / 3, 1.0, 2 / 4
    quality = sum((guess - true) ** 2 for guess, true in zip((0.5, 1.0, 0.75), iou, strict=True)) / 3
    assert loss.item() == pytest.approx(20 * pixels + quality, rel=1e-5)
    assert count == 6


def test_masks_that_are_not_on_offer_learn_nothing():
    with_fourth = torch.cat((OFFERS, 8 * TARGET[None].float() - 4))  # the fourth is the best, but not on offer
    for choose in (best_of, mean_of):
        three, four = Offers(OFFERS, torch.zeros(3)), Offers(with_fourth, torch.zeros(4))
        losses = [mask_loss(model, batch(TARGET.expand(2, 3, 2, 2)), choose=choose)[0] for model in (three, four)]
        torch.testing.assert_close(*losses)
        losses[1].backward()
        assert not four.logits.grad[3].any()
        assert not four.quality.grad[3].any()


def test_only_the_best_mask_gets_a_gradient_and_all_do_of_the_mean():
    for choose, learns in ((best_of, [False, True, False]), (mean_of, [True, True, True])):
        model = Offers(OFFERS, torch.zeros(3))
        mask_loss(model, batch(TARGET.expand(1, 1, 2, 2)), choose=choose)[0].backward()
        assert model.logits.grad.flatten(1).any(dim=1).tolist() == learns
        assert model.quality.grad.all()


def test_best_of_several_answers_fits_each_and_their_mean_is_what_one_mask_learns():
    """Two answers, equally likely: one mask ends at half of each, two with best-of at one answer each."""
    answers = torch.stack((TARGET, torch.ones_like(TARGET)))[None]  # (1, 2, 2, 2)
    found = {}
    for number in (1, 2):
        torch.manual_seed(0)
        model = Offers(0.1 * torch.randn(number, 2, 2), torch.zeros(number))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(300):
            optimizer.zero_grad()
            mask_loss(model, batch(answers))[0].backward()
            optimizer.step()
        found[number] = model.logits.sigmoid().detach()
    assert found[1][0, 1, 0].item() == pytest.approx(0.5, abs=0.02)
    assert found[1][0, 0, 0].item() > 0.9
    assert sorted(found[2][:, 1, 0].round().tolist()) == [0, 1]
