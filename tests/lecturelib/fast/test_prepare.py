"""What is made quick, and how much fewer the products are."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations
from torch.profiler import ProfilerActivity, profile

from lecturelib.fast import CannotPrepare, fast, fast_if_possible
from lecturelib.fast.decoding import PreparedGPT
from lecturelib.fast.modules import FUSE_UP_TO, joined_projections
from lecturelib.layers import FeedForward, MultiHeadAttention, RotaryPositions, add_lora, attention_weights
from lecturelib.models.gpt import GPT, GPTConfig


def build(d_model: int = 12, **settings) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=23, max_len=80, d_model=d_model, num_heads=3, num_layers=2)
    return GPT(config, **settings).eval()


def count_linears(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, int]:
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as seen:
        out = model(x)
    return out, sum(event.count for event in seen.key_averages() if event.key == "aten::linear")


def test_fast_attention_is_two_products_and_the_same_numbers():
    layer, x = MultiHeadAttention(6, 2).eval(), torch.randn(3, 5, 6)
    want, separate = count_linears(layer, x)
    got, fused = count_linears(fast(layer), x)
    assert (separate, fused) == (4, 2)
    torch.testing.assert_close(got, want)


def test_fast_leaves_wide_attention_in_three_products():
    layer, x = MultiHeadAttention(FUSE_UP_TO + 2, 2).eval(), torch.randn(1, 2, FUSE_UP_TO + 2)
    assert count_linears(fast(layer), x)[1] == 4


def test_fast_feed_forward_overwrites_nothing_of_the_callers():
    net, x = FeedForward(6, 11, activation=F.gelu).eval(), torch.randn(3, 5, 6)
    before = x.clone()
    with torch.no_grad():
        torch.testing.assert_close(fast(net)(x), net(x))
    assert torch.equal(x, before)
    net.activation = torch.relu
    with torch.no_grad():
        torch.testing.assert_close(fast(net)(x), net(x))


def test_missing_bias_joins_as_zeros():
    layer = MultiHeadAttention(6, 2)
    assert joined_projections(layer)[0].shape == (18, 6)
    layer.key_proj = nn.Linear(6, 6, bias=False)
    bias = joined_projections(layer)[1]
    assert torch.equal(bias, torch.cat([layer.query_proj.bias, torch.zeros(6), layer.value_proj.bias]))
    assert joined_projections(MultiHeadAttention(6, 2, bias=False))[1] is None


@pytest.mark.parametrize("d_model", [12, FUSE_UP_TO + 1])
def test_fast_gpt_takes_many_steps_as_the_plain_one(d_model):
    model = build(d_model)
    text = torch.randint(23, (5, 75))  # more steps than the cache has room for at first
    prepared = fast(model)
    assert type(prepared) is PreparedGPT
    logits, state = prepared.start(text[:, :4])
    steps = [logits]
    for position in range(4, 75):
        logits, state = prepared.step(text[:, position], state)
        steps.append(logits)
    with torch.no_grad():
        torch.testing.assert_close(torch.stack(steps, dim=1), model(text)[:, 3:], rtol=1e-4, atol=1e-4)


def test_fast_gpt_steps_plainly_where_its_blocks_do_more_than_it_knows():
    assert type(fast(build(positions=RotaryPositions(4)))) is GPT
    assert type(fast(add_lora(build(), rank=2).eval())) is GPT


def test_fast_gpt_says_what_is_wrong_as_the_plain_one_does():
    prepared = fast(build())
    _, state = prepared.start(torch.zeros(2, 3, dtype=torch.long))
    for tokens, message in (
        (torch.zeros(2, 1).long(), "got"),
        (torch.tensor([1, 23]), "0 to 22"),
        (torch.zeros(3).long(), "2 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            prepared.step(tokens, state)


def test_fast_takes_weights_that_are_computed():
    layer, x = MultiHeadAttention(6, 2), torch.randn(3, 5, 6)
    parametrizations.weight_norm(layer.key_proj)
    with torch.no_grad():
        layer.key_proj.parametrizations.weight.original0.mul_(2)
        torch.testing.assert_close(fast(layer.eval())(x), layer(x))


def test_fast_refuses_a_wrapped_a_compiled_and_a_watched_model():
    model = build()
    with pytest.raises(CannotPrepare, match="OptimizedModule"):
        fast(torch.compile(model, backend="eager"))
    with attention_weights(model), pytest.raises(CannotPrepare, match="is being watched"):
        fast(model)
    assert fast_if_possible(model.train()) is model
    assert fast_if_possible("anything") == "anything"
