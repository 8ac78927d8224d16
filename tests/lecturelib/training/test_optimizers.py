"""RAdam against torch's and LAMB against timm's, and what is special about each."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lecturelib.training import LAMB, RAdam, decay_groups, rectification


def small_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def walk(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 40) -> None:
    """Steps on inputs of very different size, the same for every model."""
    for step in range(steps):
        torch.manual_seed(step)
        inputs = torch.randn(4, 5) * 10 ** torch.randn(1)
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.8, 0.95)])
def test_radam_matches_torch(betas, decay):
    ours, theirs = small_net(), small_net()
    walk(ours, RAdam(ours.parameters(), lr=0.01, betas=betas, weight_decay=decay))
    reference = torch.optim.RAdam(
        theirs.parameters(), lr=0.01, betas=betas, weight_decay=decay, decoupled_weight_decay=True
    )
    walk(theirs, reference)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(mine, yours, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lamb_matches_timm(decay):
    lamb = pytest.importorskip("timm.optim")
    ours, theirs = small_net(), small_net()
    walk(ours, LAMB(ours.parameters(), lr=0.01, weight_decay=decay))
    reference = lamb.Lamb(theirs.parameters(), lr=0.01, weight_decay=decay, max_grad_norm=None, always_adapt=True)
    walk(theirs, reference)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(mine, yours, atol=1e-6, rtol=1e-5)


def test_lamb_moves_every_tensor_by_the_same_share_of_its_length():
    model = small_net()
    before = copy.deepcopy(model.state_dict())
    walk(model, LAMB(model.parameters(), lr=0.03), steps=1)
    for name, weight in model.state_dict().items():
        moved = (weight - before[name]).norm() / before[name].norm()
        assert float(moved) == pytest.approx(0.03, rel=1e-4), name


def test_lamb_moves_zeros_as_adam_does():
    weight = nn.Parameter(torch.zeros(4))
    weight.grad = torch.tensor([1.0, -2.0, 3.0, -4.0])
    LAMB([weight], lr=0.5).step()
    assert_close(weight.detach(), -0.5 * weight.grad.sign(), atol=1e-5, rtol=1e-5)


def test_rectification_waits_then_rises_to_one():
    factors = [rectification(step) for step in range(1, 20_001)]
    assert factors[:5] == [None] * 5
    rising = factors[5:]
    assert None not in rising
    assert all(one < after for one, after in itertools.pairwise(rising[:5000]))
    assert rising[-1] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("optimizer", [RAdam, LAMB])
def test_optimizers_go_on_from_their_state(optimizer):
    ours, again = small_net(), small_net()
    first = optimizer(ours.parameters(), lr=0.01)
    walk(ours, first, steps=7)
    again.load_state_dict(copy.deepcopy(ours.state_dict()))
    second = optimizer(again.parameters(), lr=0.5)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    walk(ours, first, steps=3)
    walk(again, second, steps=3)
    for mine, yours in zip(ours.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, yours)


@pytest.mark.parametrize("optimizer", [RAdam, LAMB])
@pytest.mark.parametrize("wrong", [{"lr": 0.0}, {"lr": 0.1, "betas": (0.9, 1.0)}, {"lr": 0.1, "weight_decay": -1.0}])
def test_optimizers_refuse_what_is_no_rate(optimizer, wrong):
    with pytest.raises(ValueError, match=f"{optimizer.__name__}: lr="):
        optimizer(small_net().parameters(), **wrong)


def test_decay_groups_spare_vectors_and_what_is_frozen():
    model = small_net()
    model[0].requires_grad_(False)
    matrices, vectors = decay_groups(model, 0.3)
    assert [len(group["params"]) for group in (matrices, vectors)] == [1, 1]
    assert matrices["params"][0] is model[2].weight
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
