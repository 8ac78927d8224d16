"""Networks on sets: order and padding must not matter, and the attention blocks are those of torch_geometric."""

import pytest
import torch

from lecturelib.models.sets import (
    DeepSets,
    DeepSetsConfig,
    InducedSetAttention,
    SetAttention,
    SetTransformer,
    SetTransformerConfig,
    pool,
)

from .geometric import InducedSetAttentionBlock, MultiheadAttentionBlock

B, T, S, D, H, M = 3, 7, 5, 6, 2, 4
SIZES = {"input_dim": D, "output_dim": 2}
MODELS = {
    "sum": lambda: DeepSets(DeepSetsConfig(**SIZES)),
    "mean": lambda: DeepSets(DeepSetsConfig(**SIZES, pooling="mean")),
    "max": lambda: DeepSets(DeepSetsConfig(**SIZES, pooling="max")),
    "transformer": lambda: SetTransformer(SetTransformerConfig(**SIZES, d_model=8)),
    "induced": lambda: SetTransformer(SetTransformerConfig(**SIZES, d_model=8, num_points=M)),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]().double()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(B, T, D, dtype=torch.float64), torch.tensor([T, 3, 1])


def test_order_does_not_matter(model):
    x, lengths = batch()
    shuffled = x.clone()
    shuffled[0] = x[0, torch.randperm(T)]
    shuffled[1, :3] = x[1, [2, 0, 1]]
    torch.testing.assert_close(model(shuffled, lengths), model(x, lengths), atol=1e-12, rtol=0)


def test_padding_does_not_matter(model):
    x, lengths = batch()
    longer = torch.cat([x, x], dim=1)
    longer[1, 3:] = 1e3
    torch.testing.assert_close(model(longer, lengths), model(x, lengths), atol=1e-12, rtol=0)


def test_an_element_matters(model):
    x, lengths = batch()
    other = x.clone()
    other[1, 2] += 1
    difference = (model(other, lengths) - model(x, lengths)).abs().amax(dim=1)
    assert difference[1] > 1e-6
    assert difference[[0, 2]].max() < 1e-12


def test_the_sum_sees_how_often_and_the_mean_does_not():
    x = torch.randn(1, 2, D)
    twice = torch.cat([x, x], dim=1)
    once, both = torch.tensor([2]), torch.tensor([4])
    torch.testing.assert_close(pool(twice, both, "mean"), pool(x, once, "mean"))
    torch.testing.assert_close(pool(twice, both, "max"), pool(x, once, "max"))
    torch.testing.assert_close(pool(twice, both, "sum"), 2 * pool(x, once, "sum"))


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_an_empty_set_pools_to_zeros(how):
    assert pool(torch.randn(2, T, D), torch.tensor([0, 3]), how)[0].abs().max() == 0


def copy_block(theirs: MultiheadAttentionBlock, ours: SetAttention) -> None:
    parts = (ours.attention.query_proj, ours.attention.key_proj, ours.attention.value_proj)
    theirs.attn.in_proj_weight.data = torch.cat([part.weight for part in parts]).data
    theirs.attn.in_proj_bias.data = torch.cat([part.bias for part in parts]).data
    theirs.attn.out_proj.load_state_dict(ours.attention.out_proj.state_dict())
    theirs.lin.load_state_dict(ours.feed_forward.state_dict())


def test_set_attention_equals_torch_geometric():
    ours, theirs = SetAttention(D, H).double(), MultiheadAttentionBlock(D, H).double()
    copy_block(theirs, ours)
    x, y = torch.randn(B, T, D).double(), torch.randn(B, S, D).double()
    real = torch.arange(S) < torch.tensor([S, 2, 1])[:, None]
    torch.testing.assert_close(ours(x, y, real[:, None]), theirs(x, y, y_mask=real), atol=1e-12, rtol=0)


def test_induced_attention_equals_torch_geometric():
    ours, theirs = InducedSetAttention(D, H, M).double(), InducedSetAttentionBlock(D, M, H).double()
    theirs.ind.data = ours.points.data[None]
    copy_block(theirs.mab1, ours.gather)
    copy_block(theirs.mab2, ours.spread)
    x = torch.randn(B, T, D).double()
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-12, rtol=0)


def test_wrong_sets_and_configs_are_refused():
    x, lengths = batch()
    with pytest.raises(ValueError, match=r"x must be \(batch, elements, 6\), got \(7, 6\)"):
        MODELS["sum"]()(x[0], lengths)
    with pytest.raises(ValueError, match="pooling must be sum, mean or max, got 'median'"):
        DeepSetsConfig(**SIZES, pooling="median")
    with pytest.raises(ValueError, match="num_points must be at least 1, got 0"):
        SetTransformerConfig(**SIZES, num_points=0)
