import numpy as np
import pytest

from lecturelib.data import Episodes, by_table, key_to_door, play
from lecturelib.models import best_actions, clone, fitted_q, noisy, solve


def two_ways():
    """From 0, action 0 leads to 1, where action 1 earns 4; action 1 earns 2 at once; the third was cut off."""
    return Episodes(
        seen=np.array([[0, 1], [0, 0], [0, 1]]),
        actions=np.array([[0, 1], [1, 0], [0, 2]]),
        rewards=np.array([[0.0, 4.0], [2.0, 0.0], [0.0, 0.0]]),
        lengths=np.array([2, 1, 2]),
        ended=np.array([True, True, False]),
    )


def test_clone_does_what_was_done_as_often():
    policy = clone(two_ways(), 3, 4)
    np.testing.assert_allclose(policy, [[2 / 3, 1 / 3, 0, 0], [0, 0.5, 0.5, 0], [0.25] * 4])


def test_fitted_q_looks_ahead_and_trusts_only_what_was_tried():
    values = fitted_q(two_ways(), 3, 4, discount=0.75)
    np.testing.assert_allclose(values[0], [0.75 * 4, 2, -np.inf, -np.inf])
    np.testing.assert_allclose(values[1], [-np.inf, 4, -np.inf, -np.inf])  # the step that was cut off is not known
    assert best_actions(values)[:2].argmax(axis=1).tolist() == [0, 1]
    assert best_actions(fitted_q(two_ways(), 3, 4, discount=0.25))[0].argmax() == 1  # later is worth less


def test_fitted_q_averages_over_luck():
    lucky = Episodes(
        seen=np.zeros((5, 1), dtype=int),
        actions=np.array([[0], [0], [0], [0], [1]]),
        rewards=np.array([[1.0], [0.0], [0.0], [0.0], [0.5]]),
        lengths=np.ones(5, dtype=int),
        ended=np.ones(5, dtype=bool),
    )
    np.testing.assert_allclose(fitted_q(lucky, 1, 2), [[0.25, 0.5]])


def test_solve_finds_the_shortest_way_to_key_and_door():
    world = key_to_door()
    episodes = play(world, by_table(solve(world)), 7, seed=0)
    assert episodes.lengths.tolist() == [14] * 7  # 5 to the key, 5 to the gap, 4 to the door
    assert episodes.returns == pytest.approx(1 - 0.9 * 14 / 40)


def test_fitted_q_on_noise_alone_is_as_good_as_knowing_the_world():
    world = key_to_door(max_steps=400)
    episodes = play(world, by_table(noisy(solve(world), 1.0)), 60, seed=1)
    policy = best_actions(fitted_q(episodes, world.num_seen, world.num_actions))
    assert play(world, by_table(policy), 3, seed=0).lengths.tolist() == [14] * 3


def test_noisy_keeps_probabilities():
    np.testing.assert_allclose(noisy(np.array([[1.0, 0, 0, 0]]), 0.4), [[0.7, 0.1, 0.1, 0.1]])
