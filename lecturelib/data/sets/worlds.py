"""Small worlds to act in, as tables: where each action may lead, where the reward is, and what is seen.

    world = key_to_door()            # a key, a wall with a gap, and a door that needs the key
    world = two_doors(corridor=8)    # its memory variant: what decides at the end is seen at the beginning only
    env = Environment(world)         # Gymnasium's interface: reset() and step(action)
    play(world, walk, 100, seed=0)   # a hundred episodes at once

Nothing here imports gymnasium, which the package does not need to be installed; `as_gymnasium` and the two spaces do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import gymnasium

ACTIONS = ("left", "down", "right", "up")
"""The order of Gymnasium's FrozenLake."""
STEPS = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])
ROOMS = (
    "K..#...",
    "...#...",
    ".......",
    "..S#..D",
)


@dataclass(frozen=True, kw_only=True)
class World:
    """States by number, and what an action does in each.

    Args:
        outcomes: (S, A, O) the states an action may lead to
        chances: (S, A, O) how likely each is
        rewards: (S,) what entering a state earns
        ends: (S,) whether an episode ends there
        starts: (S,) how likely an episode begins there
        seen: (S,) what an agent sees of a state: a number below `num_seen`, the same for states that look alike
        cells: (S, 2) row and column, for drawing
        max_steps: an episode that has not ended is cut off after so many
        haste: share of the reward that is lost by needing all `max_steps`
    """

    outcomes: np.ndarray
    chances: np.ndarray
    rewards: np.ndarray
    ends: np.ndarray
    starts: np.ndarray
    seen: np.ndarray
    cells: np.ndarray
    max_steps: int
    haste: float = 0.0

    @property
    def num_seen(self) -> int:
        """How many states can be told apart."""
        return int(self.seen.max()) + 1

    @property
    def num_actions(self) -> int:
        return int(self.outcomes.shape[1])

    def begin(self, count: int, draw: np.random.Generator) -> np.ndarray:
        """First states of `count` episodes."""
        return draw.choice(len(self.starts), size=count, p=self.starts)

    def move(
        self, states: np.ndarray, actions: np.ndarray, step: int, draw: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Take step number `step`, counted from 1: the next states, their rewards, and whether the episode is over."""
        chances = self.chances[states, actions].cumsum(axis=-1)  # (B, O)
        which = (draw.random(len(states))[:, None] > chances[:, :-1]).sum(axis=-1)  # (B,)
        after = self.outcomes[states, actions, which]
        return after, self.rewards[after] * (1 - self.haste * step / self.max_steps), self.ends[after]


def key_to_door(rooms: Sequence[str] = ROOMS, *, max_steps: int = 40) -> World:
    """Fetch the key K, go through the gap, open the door D: only that is rewarded, and the sooner the better.

    The reward is 1 − 0.9 · steps / max_steps, as in MiniGrid [chevalierboisvert2023minigrid]. Walls and the edge stop a
    step, and so does the door without the key. A state is a cell and whether the key is held; all of it is seen.

    Args:
        rooms: rows of cells: `#` a wall, `S` where episodes begin, `.` floor
        max_steps: when an episode is cut off
    """
    free = [(i, j) for i, row in enumerate(rooms) for j, mark in enumerate(row) if mark != "#"]
    marks = {mark: [cell for cell in free if rooms[cell[0]][cell[1]] == mark] for mark in "KDS"}
    if any(len(row) != len(rooms[0]) for row in rooms) or any(len(found) != 1 for found in marks.values()):
        raise ValueError(f"key_to_door: rooms must be rows of one length with one K, one D and one S, got {rooms}")
    number = {cell: 2 * index for index, cell in enumerate(free)}  # even without the key, odd with it
    key, door, start = (marks[mark][0] for mark in "KDS")
    outcomes = np.zeros((2 * len(free), len(ACTIONS), 1), dtype=np.int64)
    for cell in free:
        for action, (down, right) in enumerate(STEPS):
            ahead = (cell[0] + int(down), cell[1] + int(right))
            for held in (0, 1):
                there = ahead if ahead in number and (held or ahead != door) else cell
                outcomes[number[cell] + held, action, 0] = number[there] + (1 if there == key else held)
    opened = np.arange(2 * len(free)) == number[door] + 1
    return World(
        outcomes=outcomes,
        chances=np.ones_like(outcomes, dtype=float),
        rewards=opened.astype(float),
        ends=opened,
        starts=np.eye(2 * len(free))[number[start]],
        seen=np.arange(2 * len(free)),
        cells=np.repeat(free, 2, axis=0),
        max_steps=max_steps,
        haste=0.9,
    )


def two_doors(corridor: int = 8, *, max_steps: int | None = None) -> World:
    """The memory variant: a red or a blue key at the entrance, a corridor, and at its end a red and a blue door.

    The key is taken along, but it is out of sight: its colour is seen on the first cell only. `up` opens the red door
    and `down` the blue one; both end the episode, and the door of the key's colour is worth 1. So the last decision
    needs what was seen `corridor` steps before.

    Args:
        corridor: steps from the entrance to the end of the corridor
        max_steps: when an episode is cut off; three times as long as it needs when left out
    """
    if corridor < 1:
        raise ValueError(f"two_doors: the corridor must be at least 1 step long, got {corridor}")
    columns = corridor + 1
    states = 2 * columns + 4  # columns of either colour, then the red and the blue door of either colour
    outcomes = np.repeat(np.arange(states), len(ACTIONS)).reshape(states, len(ACTIONS), 1)
    left, down, right, up = range(len(ACTIONS))
    for colour in (0, 1):
        for column in range(columns):
            here = 2 * column + colour
            outcomes[here, right] = 2 * min(column + 1, corridor) + colour
            outcomes[here, left] = 2 * (column - 1) + colour if column > 1 else here  # the entrance shuts behind you
        outcomes[2 * corridor + colour, up] = 2 * columns + colour
        outcomes[2 * corridor + colour, down] = 2 * columns + 2 + colour
    places = [(1, column) for column in range(columns)] + [(0, corridor), (2, corridor)]
    seen = np.array([0, 1] + [2 + (state - 2) // 2 for state in range(2, states)])
    rewards = np.zeros(states)
    rewards[[2 * columns, 2 * columns + 3]] = 1.0
    return World(
        outcomes=outcomes,
        chances=np.ones_like(outcomes, dtype=float),
        rewards=rewards,
        ends=np.arange(states) >= 2 * columns,
        starts=np.eye(states)[:2].mean(axis=0),
        seen=seen,
        cells=np.repeat(places, 2, axis=0),
        max_steps=max_steps or 3 * columns,
    )


def from_gymnasium(env: "gymnasium.Env[Any, Any]") -> World:
    """The world behind one of Gymnasium's toy-text environments, from its own table `env.unwrapped.P`.

    Args:
        env: such as `gymnasium.make("FrozenLake-v1")`: rewarded by where a step leads
    """
    inner: Any = env.unwrapped
    table, limit = inner.P, env.spec.max_episode_steps if env.spec is not None else None
    if limit is None:
        raise ValueError("from_gymnasium: the environment must have a limit of steps; make it with gymnasium.make")
    states, actions = len(table), len(table[0])
    most = max(len(table[state][action]) for state in table for action in table[state])
    outcomes = np.zeros((states, actions, most), dtype=np.int64)
    chances, rewards, ends = np.zeros((states, actions, most)), np.zeros(states), np.zeros(states, dtype=bool)
    for state in table:
        for action in table[state]:
            for index, (chance, after, reward, is_over) in enumerate(table[state][action]):
                chances[state, action, index], outcomes[state, action, index] = chance, after
                if after != state:  # a step that stays where it ended says nothing of entering
                    rewards[after], ends[after] = reward, is_over
    rows, columns = inner.desc.shape
    return World(
        outcomes=outcomes,
        chances=chances,
        rewards=rewards,
        ends=ends,
        starts=np.asarray(inner.initial_state_distrib, dtype=float),
        seen=np.arange(states),
        cells=np.stack(np.divmod(np.arange(rows * columns), columns), axis=1),
        max_steps=limit,
    )


class Environment:
    """One episode at a time in a world, through the interface of Gymnasium: `reset` and `step`.

    Paper: the interface is that of Towers et al. 2024 [towers2024gymnasium].
    Differs: not a subclass of `gymnasium.Env`, so that gymnasium need not be installed; `as_gymnasium` gives one.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._draw = np.random.default_rng()
        self._state: int | None = None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode: what is seen, and more about it. `options={"state": …}` begins in a chosen state."""
        if seed is not None:
            self._draw = np.random.default_rng(seed)
        state = (options or {}).get("state")
        if state is not None and not 0 <= state < len(self.world.starts):
            raise ValueError(f"options: state must be below {len(self.world.starts)}, got {state}")
        self._state = int(self.world.begin(1, self._draw)[0]) if state is None else int(state)
        self._steps = 0
        return int(self.world.seen[self._state]), self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Act: what is seen now, the reward, whether the episode ended, whether it was cut off, and more about it."""
        if self._state is None:
            raise RuntimeError("the episode has not begun, or is over: call reset() first")
        if not 0 <= action < self.world.num_actions:
            raise ValueError(f"action must be from 0 to {self.world.num_actions - 1}, got {action}")
        self._steps += 1
        after, reward, is_over = self.world.move(
            np.array([self._state]), np.array([int(action)]), self._steps, self._draw
        )
        self._state = int(after[0])
        seen, info = int(self.world.seen[self._state]), self._info()
        terminated, truncated = bool(is_over[0]), not is_over[0] and self._steps >= self.world.max_steps
        if terminated or truncated:
            self._state = None
        return seen, float(reward[0]), terminated, bool(truncated), info

    def _info(self) -> dict[str, Any]:
        return {"state": self._state, "cell": tuple(map(int, self.world.cells[self._state])), "steps": self._steps}

    @property
    def observation_space(self) -> "gymnasium.spaces.Discrete":
        """What can be seen; needs gymnasium."""
        from gymnasium.spaces import Discrete

        return Discrete(self.world.num_seen)

    @property
    def action_space(self) -> "gymnasium.spaces.Discrete":
        """What can be done; needs gymnasium."""
        from gymnasium.spaces import Discrete

        return Discrete(self.world.num_actions)


def as_gymnasium(world: World) -> "gymnasium.Env[Any, Any]":
    """The world as a `gymnasium.Env`, for wrappers and agents that ask for one; needs gymnasium."""
    import gymnasium

    class Wrapped(gymnasium.Env[Any, Any]):
        metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it so)

        def __init__(self) -> None:
            self.inner = Environment(world)
            self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)  # which seeds np_random, as Gymnasium's own checks ask
            return self.inner.reset(seed=seed, options=options)

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return self.inner.step(int(action))

    return Wrapped()
