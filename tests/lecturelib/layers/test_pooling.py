"""Four ways to make one vector of many, and soft alignment."""

import pytest
import torch

from lecturelib.layers import (
    AttentionPooling,
    LastPooling,
    MaxPooling,
    MeanPooling,
    SoftAlignment,
    attention_weights,
    padding_mask,
)

B, T, D = 3, 5, 4
LENGTHS = torch.tensor([5, 2, 0])
MASK = padding_mask(LENGTHS, T).squeeze(1)


@pytest.fixture
def states():
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(0))


def pools():
    torch.manual_seed(1)
    attention = AttentionPooling(D, 7, num_queries=2)
    return {"attention": attention, "mean": MeanPooling(), "max": MaxPooling(), "last": LastPooling(directions=2)}


each_pool = pytest.mark.parametrize("name", ["attention", "mean", "max", "last"])


def test_attention_pooling_follows_the_paper_word_by_word(states):
    pool = pools()["attention"]
    got = pool(states, MASK)
    for row, length in enumerate(LENGTHS.tolist()):
        for query in range(2):
            u = pool.query.weight[query]
            scores = [(torch.tanh(pool.key.weight @ h + pool.key.bias) @ u).exp() for h in states[row, :length]]
            want = sum((s / sum(scores) * h for s, h in zip(scores, states[row], strict=False)), torch.zeros(D))
            torch.testing.assert_close(got[row, query * D : (query + 1) * D], want)


def test_attention_pooling_shows_its_weights(states):
    pool = pools()["attention"]
    with attention_weights(pool) as seen:
        pool(states, MASK)
    (weights,) = seen.values()
    assert weights.shape == (B, 2, T)
    torch.testing.assert_close(weights.sum(-1), torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]))
    assert not weights[1, :, 2:].any()


@each_pool
def test_pooling_ignores_padding_and_gives_zeros_for_nothing(name, states):
    pool = pools()[name]
    spoiled = states.masked_fill(~MASK[..., None], 1e4)
    torch.testing.assert_close(pool(spoiled, MASK), pool(states, MASK))
    torch.testing.assert_close(pool(states[1:2, :2]), pool(states, MASK)[1:2])
    assert not pool(states, MASK)[2].any()


@pytest.mark.parametrize("name", ["attention", "mean", "max"])
def test_pooling_does_not_see_the_order(name, states):
    pool, order = pools()[name], torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(pool(states[:, order], MASK[:, order]), pool(states, MASK))


def test_last_pooling_takes_the_end_of_each_direction(states):
    got = LastPooling(directions=2)(states, MASK)
    torch.testing.assert_close(got[1], torch.cat([states[1, 1, :2], states[1, 0, 2:]]))
    torch.testing.assert_close(LastPooling()(states, MASK)[1], states[1, 1])


@each_pool
def test_pooling_takes_documents_as_well(name):
    pool = pools()[name]
    states = torch.randn(2, B, T, D, generator=torch.Generator().manual_seed(2))
    mask = torch.stack([MASK, MASK.flip(0)])
    torch.testing.assert_close(pool(states, mask)[1], pool(states[1], mask[1]))


def test_a_mask_of_another_shape_is_explained(states):
    with pytest.raises(ValueError, match=r"mask must be boolean \(3, 5\).*got torch.bool \(3, 1, 5\)"):
        MeanPooling()(states, MASK[:, None])
    with pytest.raises(ValueError, match="at least 1, got 4, 0 and 1"):
        AttentionPooling(4, 0)


def test_soft_alignment_is_symmetric_in_its_scores_and_ignores_padding():
    generator = torch.Generator().manual_seed(3)
    a, b = torch.randn(2, 4, 3, generator=generator), torch.randn(2, 5, 3, generator=generator)
    mask = padding_mask(torch.tensor([5, 2]), 5)
    align = SoftAlignment()
    with attention_weights(align) as seen:
        found = align(a, b, b, mask)
    (weights,) = seen.values()
    torch.testing.assert_close(found[1], (a[1] @ b[1, :2].T).softmax(-1) @ b[1, :2])
    assert not weights[1, ..., 2:].any()
