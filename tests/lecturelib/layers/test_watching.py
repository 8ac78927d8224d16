"""Weights are watched from outside, cost nothing when nobody looks, and are those that the layer used."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.layers import MultiHeadAttention, RelativePositions, attention_weights

B, T, D, H = 2, 5, 12, 3


@pytest.fixture
def pair():
    return nn.ModuleDict({"first": MultiHeadAttention(D, H), "second": MultiHeadAttention(D, H)})


def test_attention_weights_are_in_the_order_of_the_latest_calls(pair):
    x, y = torch.randn(2, B, T, D)
    with attention_weights(pair) as seen:
        pair["second"](x)
        pair["first"](x)
        pair["second"](y)
    assert list(seen) == ["first", "second"]
    assert_close(seen["second"], pair["second"](y, need_weights=True)[1])
    assert_close(seen["first"], pair["first"](x, need_weights=True)[1])


def test_attention_weights_end_with_the_block_even_by_an_error(pair):
    x = torch.randn(B, T, D)
    with pytest.raises(ZeroDivisionError), attention_weights(pair) as seen:
        raise ZeroDivisionError
    pair["first"](x)
    assert not seen
    assert pair["first"].watchers == ()


def test_attention_weights_can_be_watched_by_two(pair):
    with attention_weights(pair) as outer, attention_weights(pair["first"]) as inner:
        pair["first"](torch.randn(B, T, D))
    assert outer["first"] is inner[""]


def test_attention_weights_belong_to_the_graph_and_are_there_before_dropout():
    layer = MultiHeadAttention(D, H, dropout=0.5, positions=RelativePositions(D // H, 2))
    with attention_weights(layer) as seen:
        layer(torch.randn(B, T, D))
    assert_close(seen[""].sum(-1), torch.ones(B, H, T))
    seen[""].square().sum().backward()
    assert layer.query_proj.weight.grad.abs().sum() > 0


def test_attention_weights_say_where_there_are_none():
    with pytest.raises(ValueError, match="Linear has no attention layer"), attention_weights(nn.Linear(2, 3)):
        pass
