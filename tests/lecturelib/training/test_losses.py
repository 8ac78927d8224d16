"""The loss of a classifier of pictures."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from lecturelib.data.augment.mixing import ImageBatch, smooth_labels
from lecturelib.training.losses import class_loss


def test_class_loss_is_the_same_for_classes_and_for_their_probabilities():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    images, labels = torch.randn(7, 3, 2, 2), torch.arange(7) % 5
    want = F.cross_entropy(model(images), labels, label_smoothing=0.1)
    got, count = class_loss(model, ImageBatch(images, labels), label_smoothing=0.1)
    assert_close(got, want)
    assert count == 7
    assert_close(class_loss(model, ImageBatch(images, smooth_labels(labels, 5, 0.1)))[0], want)
