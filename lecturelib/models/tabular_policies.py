"""Policies that are tables, learned by counting: behaviour cloning, and the value of actions, Q."""

import numpy as np

from lecturelib.data.sets.episodes import Episodes
from lecturelib.data.sets.worlds import World


def clone(episodes: Episodes, num_seen: int, num_actions: int) -> np.ndarray:
    """Behaviour cloning: in each state do what the episodes did there, as often; anything, where they never were.

    Where states are few this is the limit of what a network trained to imitate could reach.

    Paper: Pomerleau 1989 [pomerleau1989alvinn].
    Differs: counts in place of a network.

    Shapes: -> (seen, actions) probabilities
    """
    real = episodes.real
    counts = np.zeros((num_seen, num_actions))
    np.add.at(counts, (episodes.seen[real], episodes.actions[real]), 1.0)
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.maximum(totals, 1), 1 / num_actions)


def fitted_q(
    episodes: Episodes, num_seen: int, num_actions: int, *, discount: float = 0.97, sweeps: int = 300
) -> np.ndarray:
    """The value of each action in each state, from episodes of anyone: reward, plus the best that can follow.

    An action that the episodes never took in a state is worth minus infinity there: nothing is known of it.

    Paper: Ernst et al. 2005 [ernst2005tree]; Watkins & Dayan 1992 [watkins1992q] for Q.
    Differs: a table in place of trees. The last step of an episode that was cut off is left out, as what follows it is
    not known. In a state of which no action is known the future is worth 0.

    Shapes: -> (seen, actions)
    """
    steps = np.arange(episodes.seen.shape[1])
    is_last = steps == episodes.lengths[:, None] - 1  # (N, T)
    known = episodes.real & ~(is_last & ~episodes.ended[:, None])
    after = np.roll(episodes.seen, -1, axis=1)[known]
    goes_on = (~is_last)[known]
    pair = (episodes.seen * num_actions + episodes.actions)[known]
    rewards, size = episodes.rewards[known], num_seen * num_actions
    counts = np.bincount(pair, minlength=size)
    values = np.where(counts > 0, 0.0, -np.inf).reshape(num_seen, num_actions)
    for _ in range(sweeps):
        best = values.max(axis=1)
        future = np.where(np.isfinite(best), best, 0.0)[after] * goes_on
        totals = np.bincount(pair, weights=rewards + discount * future, minlength=size)
        values = np.where(counts > 0, totals / np.maximum(counts, 1), -np.inf).reshape(num_seen, num_actions)
    return values


def best_actions(values: np.ndarray) -> np.ndarray:
    """Take the action of the highest value, the first of equals. Shapes: (seen, actions) -> the same"""
    return np.eye(values.shape[1])[values.argmax(axis=1)]


def noisy(policy: np.ndarray, noise: float) -> np.ndarray:
    """The policy that does anything at all with probability `noise`, and else what it did."""
    return (1 - noise) * policy + noise / policy.shape[1]


def solve(world: World, *, discount: float = 0.99, sweeps: int = 1000) -> np.ndarray:
    """The best policy for one who knows the world's tables and sees its states. Shapes: -> (states, actions)"""
    values = np.zeros(len(world.rewards))
    for _ in range(sweeps):
        gains = world.rewards[world.outcomes] + discount * np.where(world.ends, 0.0, values)[world.outcomes]
        actions = (world.chances * gains).sum(axis=-1)  # (S, A)
        values = actions.max(axis=1)
    return best_actions(actions.round(9))
