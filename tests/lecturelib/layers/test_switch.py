"""Tokens go to one expert each, experts have room for so many, and the numbers are those of transformers."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.evaluation import count_flops, count_parameters
from lecturelib.layers import FeedForward, Routing, SwitchFFN, balance_loss, routings, use_switch
from lecturelib.models import GPT, GPTConfig

B, T, D, FF, E = 3, 10, 6, 14, 4


@pytest.fixture
def layer() -> SwitchFFN:
    torch.manual_seed(0)
    return SwitchFFN(D, FF, E)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(1))


def switch_gpt() -> GPT:
    torch.manual_seed(2)
    model = GPT(GPTConfig(vocab_size=13, max_len=T, d_model=8, num_heads=2, num_layers=2, dropout=0.0))
    use_switch(model.blocks, E, capacity_factor=0.6)
    nn.init.normal_(model.blocks[1].feed_forward.router.weight)  # far from even, so that tokens are dropped
    return model


@pytest.mark.parametrize("capacity_factor", [0.5, 1.25, 4.0])
def test_switch_matches_transformers(x, capacity_factor):
    from transformers import SwitchTransformersConfig
    from transformers.models.switch_transformers import modeling_switch_transformers as theirs

    torch.manual_seed(3)
    ours = SwitchFFN(D, FF, E, capacity_factor=capacity_factor)
    config = SwitchTransformersConfig(
        d_model=D, d_ff=FF, num_experts=E, expert_capacity=ours.capacity(T), dropout_rate=0.0, router_jitter_noise=0.0
    )
    reference = theirs.SwitchTransformersSparseMLP(config)
    reference.router.classifier.load_state_dict(ours.router.state_dict())
    for number, expert in enumerate(ours.experts):
        nn.init.zeros_(expert.widen.bias)
        nn.init.zeros_(expert.narrow.bias)
        twin = reference.experts[f"expert_{number}"]
        twin.wi.weight.data, twin.wo.weight.data = expert.widen.weight.data, expert.narrow.weight.data
    with routings(ours) as seen:
        got = ours(x)
    assert_close(got, reference(x))
    mask, probability, logits = reference.router(x)
    assert_close(seen[""].kept, mask.bool().any(dim=-1))
    assert_close(seen[""].probabilities, logits.softmax(dim=-1))
    assert_close(seen[""].probabilities.amax(dim=-1, keepdim=True), probability)
    alone = [Routing(*(part[row : row + 1] for part in seen[""])) for row in range(B)]  # theirs is a mean over rows
    want = theirs.load_balancing_loss_func(logits.softmax(dim=-1), logits.argmax(dim=-1))
    assert_close(balance_loss(alone) / B, want)


def test_switch_with_one_expert_is_its_feed_forward_net(x):
    layer = SwitchFFN(D, FF, 1, capacity_factor=1.0)
    assert_close(layer(x), layer.experts[0](x))


def test_switch_output_is_the_chosen_expert_times_its_probability(layer, x):
    out = layer.eval()(x)
    probabilities = (x @ layer.router.weight.mT).softmax(dim=-1)
    for row in range(B):
        for t in range(T):
            number = int(probabilities[row, t].argmax())
            want = probabilities[row, t, number] * layer.experts[number](x[row, t])
            assert_close(out[row, t], want)


def test_switch_drops_the_last_that_come_in_training_and_none_in_eval(layer, x):
    alike = x[:, :1].expand(B, T, D)  # all tokens of a text want the same expert
    layer.capacity_factor = 1.25
    with routings(layer) as seen:
        out = layer(alike)
    room = int(1.25 * T / E)
    assert seen[""].kept.sum(dim=1).tolist() == [room] * B
    assert seen[""].kept[:, :room].all()
    assert not out[:, room:].any()
    assert_close(layer.eval()(alike), out[:, :1].expand(B, T, D))
    layer.train()
    assert layer.capacity(1) == 1  # a short text is not starved


def test_switch_router_learns_through_the_probability(layer, x):
    layer(x).square().sum().backward()
    assert layer.router.weight.grad.any()


def test_balance_loss_of_even_and_of_one_sided_routing():
    even = torch.full((1, 8, E), 1 / E)
    spread = Routing(even, torch.arange(8).remainder(E)[None], torch.ones(1, 8, dtype=torch.bool))
    assert_close(balance_loss([spread]), torch.tensor(1.0))
    certain = torch.zeros(1, 8, E).index_fill(-1, torch.tensor([2]), 1.0)
    one_sided = Routing(certain, torch.full((1, 8), 2), torch.ones(1, 8, dtype=torch.bool))
    assert_close(balance_loss([spread, one_sided]), torch.tensor(1.0 + E))
    with pytest.raises(ValueError, match="at least one SwitchFFN"):
        balance_loss([])


def test_balance_loss_spreads_tokens(x):
    torch.manual_seed(4)
    layer, many = SwitchFFN(D, FF, E), torch.randn(1, 200, D) + 3  # all alike at first
    optimizer = torch.optim.Adam(layer.router.parameters(), lr=0.03)
    for _ in range(120):
        with routings(layer) as seen:
            layer(many)
        optimizer.zero_grad()
        balance_loss(seen.values()).backward()
        optimizer.step()
    shares = torch.bincount(seen[""].chosen.flatten(), minlength=E) / 200
    assert shares.min() > 0.1, shares


def test_gpt_with_switch_is_causal_while_training():
    model = switch_gpt().train()
    tokens = torch.randint(13, (B, T), generator=torch.Generator().manual_seed(5))
    with routings(model) as seen:
        logits = model(tokens)
    assert not seen["blocks.1.feed_forward"].kept.all()
    changed = tokens.clone()
    changed[:, 6] = (changed[:, 6] + 1) % 13
    assert_close(model(changed)[:, :6], logits[:, :6])


def test_gpt_with_switch_decodes_as_it_reads():
    model = switch_gpt().eval()
    prompt = torch.tensor([[1, 7, 3], [5, 2, 11]])
    logits, state = model.start(prompt)
    for _ in range(4):
        step = logits.argmax(dim=-1)
        prompt = torch.cat((prompt, step[:, None]), dim=1)
        logits, state = model.step(step, state)
        assert_close(logits, model(prompt)[:, -1])


def test_gpt_with_switch_costs_what_the_dense_one_does():
    sizes = {"vocab_size": 13, "max_len": T, "d_model": 8, "num_heads": 2, "num_layers": 2, "dropout": 0.0}
    dense, sparse = GPT(GPTConfig(**sizes)).eval(), switch_gpt().eval()
    tokens = torch.zeros(B, T, dtype=torch.int64)
    router = 2 * B * T * 8 * E
    assert count_flops(sparse, tokens) == count_flops(dense, tokens) + router
    net = count_parameters(dense.blocks[1].feed_forward)
    assert count_parameters(sparse) == count_parameters(dense) + (E - 1) * net + 8 * E
    assert isinstance(sparse.blocks[0].feed_forward, FeedForward)


def test_use_switch_starts_experts_as_the_net_they_replace():
    model = GPT(GPTConfig(vocab_size=5, max_len=4, d_model=64, num_heads=2, num_layers=2))
    dense = model.blocks[1].feed_forward
    use_switch(model.blocks, 2)
    for expert in model.blocks[1].feed_forward.experts:
        for name in ("widen.weight", "narrow.weight"):
            assert_close(expert.get_parameter(name).std(), dense.get_parameter(name).std(), rtol=0.05, atol=0.0)
        assert not expert.widen.bias.any()
        assert expert.activation is dense.activation


def test_switch_mistakes_are_explained():
    with pytest.raises(ValueError, match="num_experts=0 must be at least 1"):
        SwitchFFN(D, FF, 0)
    model = switch_gpt()
    with pytest.raises(ValueError, match="a stack of 2 has no layer to replace with every=3"):
        use_switch(model.blocks, E, every=3)
    with pytest.raises(ValueError, match="this block has a SwitchFFN"):
        use_switch(model.blocks, E)
    with pytest.raises(ValueError, match="Linear has no SwitchFFN whose routing"), routings(nn.Linear(2, 3)):
        pass
