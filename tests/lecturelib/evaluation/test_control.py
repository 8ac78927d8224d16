import numpy as np
import pytest
import torch
from torch import nn

from lecturelib.data import key_to_door, two_doors, windows
from lecturelib.data.sets.episodes import Episodes
from lecturelib.evaluation import Pursuit, pursue
from lecturelib.models import DecisionTransformer, DecisionTransformerConfig
from lecturelib.training import action_loss

RIGHT = 2


class Recorder(nn.Module):
    """Keeps what it is given, and always goes right."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.calls = []

    def forward(self, states, actions, to_go, times):
        self.calls.append((states, actions, to_go, times))
        return torch.tensor([0.0, 0.0, 50.0, 0.0]).expand(*states.shape[:2], 4)


def test_pursue_shows_the_model_its_past_and_takes_rewards_off():
    world, model = two_doors(3), Recorder()
    pursue(model, world, np.array([0.75, 0.25]), context=2, seed=0, starts=np.array([0, 1]))
    assert len(model.calls) == world.max_steps == 12
    states, actions, to_go, times = model.calls[0]
    assert states.argmax(dim=-1).tolist() == [[0], [1]]
    assert not actions.any()  # the first action is still to be found
    assert to_go.flatten().tolist() == [0.75, 0.25]
    states, actions, to_go, times = model.calls[2]
    assert times.tolist() == [[1, 2]] * 2
    assert states.argmax(dim=-1).tolist() == [[2, 3]] * 2
    assert actions.tolist() == [[[0, 0, 1, 0], [0, 0, 0, 0]]] * 2


def test_pursuit_takes_off_what_was_earned():
    policy = Pursuit(Recorder(), np.array([3.0, 1.0]), two_doors(3), context=4)
    policy(np.array([0, 1]), 0, np.random.default_rng(0))
    policy.earned(np.array([2.0, 0.0]))
    policy(np.array([2, 2]), 1, np.random.default_rng(0))
    assert policy.model.calls[-1][2][..., 0].tolist() == [[3.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("greedy", [True, False])
def test_pursue_draws_or_takes_the_likeliest(greedy):
    class Unsure(Recorder):
        def forward(self, states, actions, to_go, times):
            return torch.tensor([0.3, 0.1, 0.4, 0.2]).log().expand(*states.shape[:2], 4)

    chosen = pursue(Unsure(), key_to_door(), np.zeros(200), context=1, seed=0, greedy=greedy).actions[:, :9]
    shares = np.bincount(chosen.flatten(), minlength=4) / chosen.size
    np.testing.assert_allclose(shares, [0, 0, 1, 0] if greedy else [0.3, 0.1, 0.4, 0.2], atol=0.05)


def test_reading_without_padding_equals_reading_with_it():
    torch.manual_seed(0)
    world = two_doors(4)
    config = DecisionTransformerConfig(
        state_dim=world.num_seen, action_dim=4, max_steps=world.max_steps, d_model=12, num_heads=2, num_layers=2
    )
    model = DecisionTransformer(config).eval()
    policy, draw = Pursuit(model, np.array([1.0, 0.0]), world, context=6), np.random.default_rng(0)
    for step, seen in enumerate(([0, 1], [2, 2], [3, 3])):
        policy(np.array(seen), step, draw)
        policy.earned(np.zeros(2))
    got = policy.read(policy.actions)
    pad = (0, 0, 3, 0)
    given = [nn.functional.pad(x, pad, value=-10.0) for x in (policy.states, policy.actions, policy.to_go[:, :3, None])]
    times = torch.tensor([[0, 0, 0, 0, 1, 2]] * 2)
    with torch.no_grad():
        want = model(*given, times, torch.arange(6).expand(2, -1) >= 3)[:, -1]
    torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)
    assert model.training is False


def test_action_loss_counts_real_steps_only():
    episodes = Episodes(
        seen=np.array([[0, 1, 2]]),
        actions=np.array([[2, 0, 1]]),
        rewards=np.zeros((1, 3)),
        lengths=np.array([3]),
        ended=np.array([True]),
    )
    batch = windows(episodes, 40, context=5, num_seen=3, num_actions=4, seed=0)

    class Fixed(nn.Module):
        def forward(self, states, actions, to_go, times, real):
            logits = actions * 2.0 + (~real)[..., None] * 1e6
            return logits

    loss, count = action_loss(Fixed(), batch)
    assert count == int(batch.real.sum())
    assert float(loss) == pytest.approx(np.log(1 + 3 * np.exp(-2.0)), abs=1e-5)
