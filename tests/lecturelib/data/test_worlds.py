import subprocess
import sys

import numpy as np
import pytest

from lecturelib.data import Environment, as_gymnasium, by_table, from_gymnasium, key_to_door, play, two_doors

LEFT, DOWN, RIGHT, UP = range(4)
WAY = [UP] * 3 + [LEFT] * 2 + [DOWN] * 2 + [RIGHT] * 3 + [RIGHT] * 3 + [DOWN]


def walk(env, actions, **options):
    env.reset(seed=0, **options)
    return [env.step(action) for action in actions]


def test_key_to_door_rewards_only_the_door_and_the_sooner_the_better():
    env = Environment(key_to_door())
    _, info = env.reset(seed=3)
    assert info["cell"] == (3, 2)
    taken = walk(env, WAY)
    assert [reward for _, reward, *_ in taken[:-1]] == [0.0] * 13
    assert taken[-1][1:4] == (pytest.approx(1 - 0.9 * 14 / 40), True, False)
    late = walk(env, [DOWN] * 5 + WAY)
    assert late[-1][1] == pytest.approx(1 - 0.9 * 19 / 40)
    assert taken[4][0] % 2 == 1  # the key is held from its cell on
    assert taken[3][0] % 2 == 0


def test_key_to_door_has_walls_and_a_door_that_needs_the_key():
    world = key_to_door()
    env = Environment(world)
    without = walk(env, [UP, RIGHT, RIGHT, RIGHT, RIGHT, DOWN])  # to the door, past the key
    assert [info["cell"] for *_, info in without] == [(2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 6)]
    assert not without[-1][2]
    assert walk(env, [RIGHT])[0][-1]["cell"] == (3, 2)  # a wall
    assert walk(env, [DOWN])[0][-1]["cell"] == (3, 2)  # the edge


def test_environment_cuts_off_and_then_asks_for_a_reset():
    env = Environment(key_to_door(max_steps=3))
    *_, last = walk(env, [DOWN] * 3)
    assert last[1:4] == (0.0, False, True)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(DOWN)
    env.reset()
    with pytest.raises(ValueError, match="action must be from 0 to 3, got 4"):
        env.step(4)
    with pytest.raises(ValueError, match="state must be below 50, got 50"):
        env.reset(options={"state": 50})
    with pytest.raises(ValueError, match="one K, one D and one S"):
        key_to_door(["K.S", "..."])


@pytest.mark.parametrize("colour", [0, 1])
def test_two_doors_shows_the_colour_at_the_entrance_only(colour):
    world = two_doors(5)
    env = Environment(world)
    seen, _ = env.reset(options={"state": colour})
    assert seen == colour
    later = [env.step(RIGHT)[0] for _ in range(7)]  # two steps too many, against the wall
    assert later == [2, 3, 4, 5, 6, 6, 6]  # the same for both colours
    for door, is_right in ((UP, colour == 0), (DOWN, colour == 1)):
        env.reset(options={"state": colour})
        for _ in range(5):
            env.step(RIGHT)
        assert env.step(door)[1:3] == (float(is_right), True)
    env.reset(options={"state": colour})
    env.step(RIGHT)
    assert env.step(LEFT)[0] == 2  # no way back to look again
    assert two_doors(5).max_steps == 18
    with pytest.raises(ValueError, match="at least 1 step"):
        two_doors(0)


@pytest.mark.parametrize("world", [key_to_door(), two_doors(4)], ids=["key-to-door", "two-doors"])
def test_worlds_pass_gymnasiums_own_checks(world):
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    check_env(as_gymnasium(world), skip_render_check=True)
    assert Environment(world).action_space.n == 4
    assert Environment(world).observation_space.n == world.num_seen


def test_tables_of_a_gymnasium_environment_move_as_it_does():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    world = from_gymnasium(env)
    assert (world.num_seen, world.num_actions, world.max_steps) == (16, 4, 100)
    assert world.ends.nonzero()[0].tolist() == [5, 7, 11, 12, 15]
    assert world.rewards.nonzero()[0].tolist() == [15]
    np.testing.assert_allclose(world.chances.sum(axis=-1), 1.0)
    draw, mean = np.random.default_rng(0), []
    env.action_space.seed(0)
    state, _ = env.reset(seed=0)
    for _ in range(400):  # wherever the environment goes, the table knows it
        action = int(draw.integers(4))
        after, reward, over, cut, _ = env.step(action)
        reachable = dict(zip(world.outcomes[state, action], world.chances[state, action], strict=True))
        assert reachable[after] > 0
        assert (reward, over) == (world.rewards[after], world.ends[after])
        state = after
        if over or cut:
            mean.append(reward)
            state, _ = env.reset()
    with pytest.raises(ValueError, match=r"gymnasium\.make"):
        from_gymnasium(env.unwrapped.__class__())


def test_worlds_need_no_gymnasium_to_be_imported():
    code = "import sys; sys.modules['gymnasium'] = None; from lecturelib.data import *; key_to_door(); two_doors()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_many_episodes_at_once_are_what_the_environment_gives_one_by_one():
    world = key_to_door()
    draw = np.random.default_rng(5)
    table = draw.dirichlet(np.ones(4), size=world.num_seen)
    episodes = play(world, by_table(table), 6, seed=2)
    for row in range(6):
        env = Environment(world)
        seen, _ = env.reset()
        for step in range(episodes.lengths[row]):
            assert seen == episodes.seen[row, step]
            seen, reward, over, cut, _ = env.step(episodes.actions[row, step])
            assert reward == pytest.approx(episodes.rewards[row, step])
        assert over == episodes.ended[row]
        assert over or cut
