"""Gaps to fill in: where they are, what is read there, and which passages follow."""

import pytest
import torch

from lecturelib.tokens.masking import CLS, MASK, SEP, MaskedPassages

SPECIALS = {CLS: 0, SEP: 1, MASK: 2}


def passages(**changes):
    options = {"batch_size": 300, "length": 23, "specials": SPECIALS, "vocab_size": 503, "seed": 4} | changes
    return MaskedPassages(torch.arange(3, 503), **options)


def test_masked_passages_ask_for_a_share_and_read_eight_one_one():
    batch = passages()(0)
    text = batch.targets > 2
    assert batch.tokens.shape == (300, 23)
    assert not (batch.chosen & ~text).any()
    assert float(batch.chosen[text].float().mean()) == pytest.approx(0.15, abs=0.02)
    read, truth = batch.tokens[batch.chosen], batch.targets[batch.chosen]
    assert float((read == 2).float().mean()) == pytest.approx(0.8, abs=0.05)
    assert float((read == truth).float().mean()) == pytest.approx(0.1, abs=0.03)
    assert bool((read >= 2).all())  # what replaces a token is never an edge
    assert torch.equal(batch.tokens[~batch.chosen], batch.targets[~batch.chosen])


def test_masked_passages_follow_or_not_as_they_say():
    batch = passages()(1)
    assert bool((batch.targets[:, 0] == 0).all())
    assert bool((batch.targets[:, [11, 22]] == 1).all())
    assert torch.equal(batch.token_types[0], torch.tensor([0] * 12 + [1] * 11))
    goes_on = batch.targets[:, 12] == batch.targets[:, 10] + 1  # the text counts
    assert bool(goes_on[batch.follows == 0].all())
    assert float(goes_on[batch.follows == 1].float().mean()) < 0.05
    assert float(batch.follows.float().mean()) == pytest.approx(0.5, abs=0.1)


def test_masked_passages_depend_on_seed_and_step_alone():
    again, other = passages()(7), passages(seed=5)(7)
    assert all(torch.equal(a, b) for a, b in zip(passages()(7), again, strict=True))
    assert not torch.equal(other.targets, again.targets)
    assert not torch.equal(passages()(8).targets, again.targets)


@pytest.mark.parametrize("changes", [{"length": 4}, {"length": 600}, {"batch_size": 0}])
def test_masked_passages_say_what_does_not_fit(changes):
    with pytest.raises(ValueError, match="length="):
        passages(**changes)
