"""Episodes: what was seen, done and earned, many at once; returns-to-go; and windows for a model to learn from."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.data.sets.worlds import World

Walk = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]
"""A policy: what is seen (B,), the step (from 0) and a source of chance give actions (B,)."""


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """N episodes of at most T steps; what comes after an episode's length is zero and means nothing.

    Args:
        seen: (N, T) what was seen before each action
        actions: (N, T)
        rewards: (N, T) what each action earned
        lengths: (N,) steps of each
        ended: (N,) whether it ended by itself; the others were cut off
    """

    seen: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray
    ended: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def returns(self) -> np.ndarray:
        """(N,) all that each episode earned."""
        return self.rewards.sum(axis=1)

    @property
    def real(self) -> np.ndarray:
        """(N, T) which steps took place."""
        return np.arange(self.seen.shape[1]) < self.lengths[:, None]

    def take(self, which: np.ndarray) -> "Episodes":
        """Some of the episodes, by index or by a boolean for each."""
        return Episodes(**{name: values[which] for name, values in vars(self).items()})

    def best(self, share: float) -> "Episodes":
        """The episodes of the highest return that make up this share of all steps; at least one.

        Paper: Chen et al. 2021 [chen2021decision], Section 5.1, for percentile behaviour cloning.
        Differs: nothing; the authors' code counts steps in this way, and of equal returns takes the later episode.
        """
        order = np.argsort(self.returns, kind="stable")[::-1]
        fits = np.cumsum(self.lengths[order]) <= share * self.lengths.sum()
        return self.take(order[: max(1, int(fits.sum()))])


def together(*parts: Episodes) -> Episodes:
    """All episodes of several sets; the shorter ones are padded."""
    longest = max(part.seen.shape[1] for part in parts)
    columns = {}
    for name in vars(parts[0]):
        values = [vars(part)[name] for part in parts]
        if values[0].ndim == 2:
            values = [np.pad(one, ((0, 0), (0, longest - one.shape[1]))) for one in values]
        columns[name] = np.concatenate(values)
    return Episodes(**columns)


def play(
    world: World,
    walk: Walk,
    count: int,
    *,
    seed: int,
    starts: np.ndarray | None = None,
    earned: Callable[[np.ndarray], None] | None = None,
) -> Episodes:
    """Let a policy act in `count` episodes, all at once.

    Args:
        world: where
        walk: the policy
        count: how many episodes
        seed: of the world and of the policy
        starts: (count,) states to begin in; drawn by the world when left out
        earned: told the rewards (count,) of each step, for policies that want to know
    """
    draw = np.random.default_rng(seed)
    states = world.begin(count, draw) if starts is None else np.asarray(starts)
    shape, running = (count, world.max_steps), np.ones(count, dtype=bool)
    seen, actions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    rewards, lengths = np.zeros(shape), np.zeros(count, dtype=np.int64)
    ended = np.zeros(count, dtype=bool)
    for step in range(world.max_steps):
        if not running.any():
            break
        looks = world.seen[states]
        chosen = walk(looks, step, draw)
        after, reward, is_over = world.move(states, chosen, step + 1, draw)
        seen[running, step], actions[running, step] = looks[running], chosen[running]
        rewards[running, step] = reward[running]
        if earned is not None:
            earned(reward * running)
        lengths += running
        ended |= running & is_over
        states, running = np.where(running, after, states), running & ~is_over
    return Episodes(seen=seen, actions=actions, rewards=rewards, lengths=lengths, ended=ended)


def by_table(table: np.ndarray) -> Walk:
    """The policy that draws its action from a row of probabilities, (seen, actions), for what it sees."""
    sums = np.asarray(table).cumsum(axis=1)

    def walk(seen: np.ndarray, step: int, draw: np.random.Generator) -> np.ndarray:
        return (draw.random(len(seen))[:, None] > sums[seen][:, :-1]).sum(axis=1)

    return walk


def returns_to_go(rewards: Tensor) -> Tensor:
    """What is still to be earned from each step on, its own reward included: the sum of rewards up to the end.

    Paper: Chen et al. 2021 [chen2021decision], Section 3: not discounted.
    Differs: nothing.

    Shapes: (..., T) -> (..., T)
    """
    return rewards.flip(-1).cumsum(-1).flip(-1)


@dataclass(frozen=True)
class Windows:
    """K successive steps of each of B episodes, as a decision transformer reads them; padding stands before them.

    Shapes: states (B, K, S) and actions (B, K, A) one-hot, returns_to_go (B, K, 1), timesteps (B, K), real (B, K).
    """

    states: Tensor
    actions: Tensor
    returns_to_go: Tensor
    timesteps: Tensor
    real: Tensor


def windows(episodes: Episodes, count: int, *, context: int, num_seen: int, num_actions: int, seed: int) -> Windows:
    """Draw windows of `context` steps: every step of the data is as likely as any other to begin one.

    A window that reaches beyond the end of its episode is shorter, and is padded on the left.

    Paper: Chen et al. 2021 [chen2021decision], Algorithm 1, and the authors' `get_batch`.
    Differs: padded actions are zeros, where the authors write -10; the mask hides both.
    """
    draw = np.random.default_rng(seed)
    which = draw.choice(len(episodes), size=count, p=episodes.lengths / episodes.lengths.sum())
    first = draw.integers(episodes.lengths[which])  # (B,)
    length = np.minimum(episodes.lengths[which] - first, context)  # (B,)
    steps = first[:, None] + np.arange(context) - (context - length)[:, None]  # (B, K), left of `first` is padding
    real = steps >= first[:, None]
    at = which[:, None], np.where(real, steps, 0)
    to_go = returns_to_go(torch.from_numpy(episodes.rewards)).numpy()
    hide = torch.from_numpy(real)[..., None]  # (B, K, 1)
    return Windows(
        states=F.one_hot(torch.from_numpy(episodes.seen[at]), num_seen) * hide.float(),
        actions=F.one_hot(torch.from_numpy(episodes.actions[at]), num_actions) * hide.float(),
        returns_to_go=torch.from_numpy(to_go[at]).float()[..., None] * hide,
        timesteps=torch.from_numpy(np.where(real, steps, 0)),
        real=torch.from_numpy(real),
    )
