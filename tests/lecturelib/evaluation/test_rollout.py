import pytest
import torch

from lecturelib.evaluation import attention_rollout


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(-1)


def test_rollout_of_one_layer_is_half_attention_half_itself():
    weights = draw(2, 3, 5, 5)
    expected = weights.mean(1) / 2 + torch.eye(5) / 2
    torch.testing.assert_close(attention_rollout([weights]), expected)


def test_rollout_counts_every_path_through_the_layers():
    first, second = draw(1, 2, 3, 3), draw(1, 2, 3, 3).flip(-1)
    rolled = attention_rollout([first, second])[0]
    a, b = (layer[0].mean(0) / 2 + torch.eye(3) / 2 for layer in (first, second))
    for output in range(3):
        for token in range(3):
            paths = sum(b[output, middle] * a[middle, token] for middle in range(3))
            assert float(rolled[output, token]) == pytest.approx(float(paths))
    torch.testing.assert_close(rolled.sum(-1), torch.ones(3, dtype=torch.float64))


def test_rollout_refuses_what_is_not_attention():
    with pytest.raises(ValueError, match="at least one layer"):
        attention_rollout([])
    with pytest.raises(ValueError, match=r"got \(2, 3, 4, 5\)"):
        attention_rollout([draw(2, 3, 4, 5)])
