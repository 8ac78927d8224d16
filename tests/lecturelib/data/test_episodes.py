import numpy as np
import pytest
import torch

from lecturelib.data import Episodes, by_table, key_to_door, play, returns_to_go, together, windows


def some(returns, lengths, longest=9):
    """Episodes whose last step earns the return; step t of episode n sees t and does n."""
    count = len(returns)
    rewards = np.zeros((count, longest))
    rewards[np.arange(count), np.array(lengths) - 1] = returns
    real = np.arange(longest) < np.array(lengths)[:, None]
    return Episodes(
        seen=np.arange(longest) * real,
        actions=np.arange(count)[:, None] * real,
        rewards=rewards,
        lengths=np.array(lengths),
        ended=np.ones(count, dtype=bool),
    )


def test_returns_to_go_is_the_sum_of_what_is_left():
    rewards = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 5.0]])
    assert returns_to_go(rewards).tolist() == [[6, 5, 3], [5, 5, 5]]
    assert returns_to_go(torch.zeros(2, 0)).shape == (2, 0)


def test_best_episodes_are_counted_in_steps():
    episodes = some([0.1, 0.9, 0.5, 0.7], [4, 2, 6, 3])
    assert episodes.best(0.34).returns.tolist() == [0.9, 0.7]  # 5 of 15 steps
    assert episodes.best(0.01).returns.tolist() == [0.9]  # at least one
    assert len(episodes.best(1.0)) == 4


def test_together_pads_the_shorter_set():
    both = together(some([1.0], [3], longest=4), some([0.5, 0.2], [5, 2], longest=6))
    assert both.seen.shape == (3, 6)
    assert both.returns.tolist() == [1.0, 0.5, 0.2]
    assert both.take(np.array([2, 0])).lengths.tolist() == [2, 3]


def test_windows_are_steps_in_a_row_with_padding_before_them():
    episodes, context = some([0.25, 0.5, 0.75], [1, 4, 9]), 5
    batch = windows(episodes, 200, context=context, num_seen=9, num_actions=3, seed=0)
    assert batch.states.shape == (200, 5, 9)
    assert batch.actions.shape == (200, 5, 3)
    assert batch.returns_to_go.shape == (200, 5, 1)
    for row in range(200):
        real = batch.real[row]
        length = int(real.sum())
        assert real.tolist() == [False] * (context - length) + [True] * length
        which = int(batch.actions[row, -1].argmax())
        first = int(batch.timesteps[row][real][0])
        assert batch.timesteps[row].tolist() == [0] * (context - length) + list(range(first, first + length))
        assert batch.states[row][real].argmax(dim=-1).tolist() == list(range(first, first + length))
        assert (batch.actions[row][real].argmax(dim=-1) == which).all()
        assert length == min(context, episodes.lengths[which] - first)
        assert batch.returns_to_go[row][real].flatten().tolist() == [pytest.approx(episodes.returns[which])] * length
        for tensor in (batch.states, batch.actions, batch.returns_to_go):
            assert not tensor[row][~real].any()


def test_windows_begin_at_every_step_alike():
    episodes = some([0.25, 0.5, 0.75], [1, 4, 9])
    batch = windows(episodes, 14_000, context=2, num_seen=9, num_actions=3, seed=1)
    which = batch.actions[:, -1].argmax(dim=-1)
    first = torch.where(batch.real[:, 0], batch.timesteps[:, 0], batch.timesteps[:, 1])
    counts = torch.bincount(9 * which + first, minlength=27)
    assert counts[counts > 0].numel() == 14
    assert (counts[counts > 0] - 1000).abs().max() < 150  # five standard deviations


def test_play_stops_counting_where_an_episode_ends():
    world = key_to_door()
    right = np.zeros((world.num_seen, 4))
    right[:, 2] = 1.0
    beside = int(np.flatnonzero((world.cells == (3, 5)).all(axis=1))[1])  # with the key, one step from the door
    told = []
    episodes = play(world, by_table(right), 2, seed=0, starts=np.array([beside, 0]), earned=told.append)
    assert episodes.lengths.tolist() == [1, 40]
    assert episodes.ended.tolist() == [True, False]
    assert episodes.returns == pytest.approx([1 - 0.9 / 40, 0.0])
    assert not episodes.actions[0, 1:].any()
    assert np.sum(told, axis=0) == pytest.approx(episodes.returns)
