"""The quicker ways of inference mode give the numbers of the plain ways, and stay away where somebody looks on."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrizations

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import FeedForward

B, T, D, D_FF = 4, 5, 6, 11
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
BUILD = {
    "attention": partial(MultiHeadAttention, D, 2),
    "feed-forward": partial(FeedForward, D, D_FF, activation=F.gelu),
}


@pytest.fixture(params=BUILD)
def layer(request):
    torch.manual_seed(0)
    return BUILD[request.param]().eval()


@pytest.fixture
def part(layer):
    """A linear layer that inference mode computes together with others, or whose output it overwrites."""
    return layer.key_proj if isinstance(layer, MultiHeadAttention) else layer.widen


@pytest.fixture
def x():
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(1))


def assert_same_in_inference_mode(call):
    want = call().detach()
    with torch.inference_mode():
        got = call()
        torch.testing.assert_close(got.clone(), want, **CLOSE)


def double_forward(part):
    plain = part.forward
    part.forward = lambda x: 2 * plain(x)


def normalise_weight(part):
    parametrizations.weight_norm(part)
    with torch.no_grad():
        part.parametrizations.weight.original0.mul_(2)


def watch(part):
    part.register_forward_pre_hook(lambda part, args: (3 * args[0],))


@pytest.mark.parametrize("change", [double_forward, normalise_weight, watch])
def test_inference_mode_runs_a_changed_part(layer, part, x, change):
    change(part)
    assert_same_in_inference_mode(lambda: layer(x))


def test_inference_mode_uses_weights_that_are_lent(layer, x):
    lent = {name: torch.randn_like(p) for name, p in layer.named_parameters()}
    assert_same_in_inference_mode(lambda: torch.func.functional_call(layer, lent, (x,)))


def test_inference_mode_calls_hooks_of_all_modules(layer, x):
    seen = []
    hook = register_module_forward_hook(lambda part, args, out: seen.append((part, out)))
    try:
        layer(x)
        want = [(part, out.detach()) for part, out in seen]
        seen.clear()
        with torch.inference_mode():
            layer(x)
            torch.testing.assert_close([out.clone() for _, out in seen], [out for _, out in want], **CLOSE)
    finally:
        hook.remove()
    assert [part for part, _ in seen] == [part for part, _ in want]


def test_inference_mode_goes_through_vmap(x):
    net = FeedForward(D, D_FF, activation=F.gelu)
    torch.testing.assert_close(torch.func.vmap(net)(x), net(x), **CLOSE)
    assert_same_in_inference_mode(lambda: torch.func.vmap(net)(x))


def test_activation_may_be_replaced(x):
    net = FeedForward(D, D_FF, activation=F.gelu)
    net.activation = torch.relu
    assert_same_in_inference_mode(lambda: net(x))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_exported_attention_takes_any_number_of_tokens(x, mode):
    layer, few = MultiHeadAttention(D, 2).eval(), x[:2, :2]
    sizes = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=64)}
    with mode():
        graph = torch.export.export(layer, (x,), dynamic_shapes=(sizes,)).module()
        torch.testing.assert_close(graph(few).clone(), layer(few).clone(), **CLOSE)


def test_missing_bias_joins_as_zeros():
    layer = MultiHeadAttention(D, 2)
    weight, bias = layer.joined_projections()
    assert torch.equal(weight, torch.cat([layer.query_proj.weight, layer.key_proj.weight, layer.value_proj.weight]))
    assert torch.equal(bias, torch.cat([layer.query_proj.bias, layer.key_proj.bias, layer.value_proj.bias]))
    layer.key_proj = nn.Linear(D, D, bias=False)
    bias = layer.joined_projections()[1]
    assert torch.equal(bias, torch.cat([layer.query_proj.bias, torch.zeros(D), layer.value_proj.bias]))
    assert MultiHeadAttention(D, 2, bias=False).joined_projections()[1] is None
