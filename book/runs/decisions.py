"""Train decision transformers on episodes of others, and compare them with what else can be learned from the same.

    python book/runs/decisions.py --run decisions

The runs are `decisions` (key to door from mixed policies, from trips to be stitched together, and FrozenLake; ten
seeds) and `decisions_memory` (two doors, by context length; ten seeds). Each goes to `lecturelib/runs/NAME`, a row for
each case. Both together take some ten minutes on one core. The weights of the first seeds are kept.
"""

import argparse
import itertools
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.optim import AdamW

from lecturelib.data import (
    Episodes,
    World,
    by_table,
    from_gymnasium,
    key_to_door,
    play,
    together,
    two_doors,
    windows,
)
from lecturelib.evaluation import pursue
from lecturelib.models import (
    DecisionTransformer,
    DecisionTransformerConfig,
    best_actions,
    clone,
    fitted_q,
    noisy,
    solve,
)
from lecturelib.training import Linear, action_loss, save_run, seed_everything
from lecturelib.training.runs import RUNS

SEEDS, CONTEXT, BATCH, STEPS, RATE, JUDGED = range(10), 4, 64, 350, 5e-3, 50
ASKED = {"mixed": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.685, 0.8), "trips": (0.0, 0.5, 0.685, 0.9), "lake": (0.0, 1.0)}
BEST = {"mixed": 0.685, "trips": 0.685, "lake": 1.0}
SHARES = (0.1, 0.25)
NOISES = (0.3, 0.6, 0.8, 1.0)
CORRIDOR, MEMORY_CONTEXTS, MEMORY_STEPS, MEMORY_RATE = 3, (1, 3, 4, 6), 500, 3e-3


def frozen_lake() -> World:
    return from_gymnasium(gymnasium.make("FrozenLake-v1"))


def mixed(seed: int, count: int = 100) -> Episodes:
    """Episodes in key-to-door of four policies: from one that mostly knows the way to one that does anything."""
    world = key_to_door()
    best = solve(world)
    return together(
        *(play(world, by_table(noisy(best, noise)), count, seed=10 * seed + n) for n, noise in enumerate(NOISES))
    )


GAP = (2, 2)  # the cell before the gap in the wall


def trips(seed: int, count: int = 200) -> Episodes:
    """Two kinds of episodes, of which none goes from the start to the door.

    One fetches the key from the usual start, and then walks about without ever passing the gap. The other begins
    anywhere with the key in hand, and goes to the door.
    """
    world = key_to_door()
    walk = noisy(solve(world), 0.3)
    fetch = np.where((np.arange(len(walk)) % 2 == 0)[:, None], walk, 1 / world.num_actions)
    fetch[:, 2] = np.where((world.cells == GAP).all(axis=1), 0.0, fetch[:, 2])  # never right there
    fetch /= fetch.sum(axis=1, keepdims=True)
    held = np.flatnonzero((np.arange(len(walk)) % 2 == 1) & ~world.ends)
    starts = np.random.default_rng(seed).choice(held, size=count)
    return together(
        play(world, by_table(fetch), count, seed=10 * seed),
        play(world, by_table(walk), count, seed=10 * seed + 1, starts=starts),
    )


def lake(seed: int, count: int = 250) -> Episodes:
    """Episodes on the frozen lake of four policies, from one that mostly knows the way to one that does anything."""
    world = frozen_lake()
    best = solve(world)
    noises = (0.2, 0.5, 0.8, 1.0)
    return together(
        *(play(world, by_table(noisy(best, noise)), count, seed=10 * seed + n) for n, noise in enumerate(noises))
    )


def walks(seed: int, count: int = 200) -> Episodes:
    """Straight through the corridor of the two doors; in three episodes of four to the door of the key's colour."""
    colours: list[np.ndarray] = []

    def walk(seen: np.ndarray, step: int, draw: np.random.Generator) -> np.ndarray:
        if step == 0:
            colours.append(seen)
        if step < CORRIDOR:
            return np.full(len(seen), 2)
        is_red = (colours[0] == 0) == (draw.random(len(seen)) < 0.75)
        return np.where(is_red, 3, 1)

    return play(two_doors(CORRIDOR), walk, count, seed=seed)


DATA: dict[str, tuple[Callable[[], World], Callable[[int], Episodes]]] = {
    "mixed": (key_to_door, mixed),
    "trips": (key_to_door, trips),
    "lake": (frozen_lake, lake),
}


def config_of(world: World) -> DecisionTransformerConfig:
    sizes = {"d_model": 32, "num_heads": 1, "num_layers": 2}
    return DecisionTransformerConfig(
        state_dim=world.num_seen, action_dim=world.num_actions, max_steps=world.max_steps, dropout=0.0, **sizes
    )


def start_wide(model: DecisionTransformer) -> None:
    """Larger first weights: at 0.02, which is for wide models, some seeds do not find the key in the time they have."""
    for name, weight in model.named_parameters():
        if "embedding.weight" in name:
            nn.init.normal_(weight)
        elif weight.dim() == 2:
            nn.init.xavier_normal_(weight)


def learned(
    world: World, episodes: Episodes, *, context: int, steps: int, seed: int, rate: float, wide_start: bool = False
) -> DecisionTransformer:
    seed_everything(seed)
    model = DecisionTransformer(config_of(world))
    if wide_start:
        start_wide(model)
    optimizer = AdamW(model.parameters(), lr=rate, weight_decay=1e-4, fused=True)
    schedule = Linear(steps=steps, warmup=steps // 10)
    sizes = {"context": context, "num_seen": world.num_seen, "num_actions": world.num_actions}
    for step in range(steps):
        loss, _ = action_loss(model, windows(episodes, BATCH, **sizes, seed=1_000_003 * seed + step))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for group in optimizer.param_groups:
            group["lr"] = rate * schedule(step)
        optimizer.step()
    return model.eval()


def achieved(model: nn.Module, world: World, asked: tuple[float, ...], *, context: int, seed: int) -> list[float]:
    """The mean return of as many episodes for each return that is asked for."""
    wanted = np.repeat(asked, JUDGED)
    got = pursue(model, world, wanted, context=context, seed=1000 + seed).returns.reshape(len(asked), JUDGED)
    return [round(float(mean), 4) for mean in got.mean(axis=1)]


def tables(world: World, episodes: Episodes) -> dict[str, np.ndarray]:
    """What else can be learned from the episodes."""
    sizes = world.num_seen, world.num_actions
    return {
        "BC": clone(episodes, *sizes),
        **{f"{share:.0%} BC": clone(episodes.best(share), *sizes) for share in SHARES},
        "Q": best_actions(fitted_q(episodes, *sizes)),
    }


def row_of(name: str, seed: int, *, steps: int = STEPS) -> tuple[dict[str, Any], DecisionTransformer]:
    """All that is learned from one set of episodes, and what it earns."""
    world, episodes = DATA[name][0](), DATA[name][1](seed)
    model = learned(world, episodes, context=CONTEXT, steps=steps, seed=seed, rate=RATE)
    others = {
        policy: round(float(play(world, by_table(table), 1000, seed=2000 + seed).returns.mean()), 4)
        for policy, table in tables(world, episodes).items()
    }
    row = {
        "data": name,
        "seed": seed,
        "asked": list(ASKED[name]),
        "achieved": achieved(model, world, ASKED[name], context=CONTEXT, seed=seed),
        "others": others,
        "episodes": {"mean": round(float(episodes.returns.mean()), 4), "best": round(float(episodes.returns.max()), 4)},
    }
    return row, model


def memory_row(context: int, seed: int, *, steps: int = MEMORY_STEPS) -> tuple[dict[str, Any], DecisionTransformer]:
    """The two doors with one length of context."""
    world, episodes = two_doors(CORRIDOR), walks(seed)
    model = learned(world, episodes, context=context, steps=steps, seed=seed, rate=MEMORY_RATE, wide_start=True)
    right, wrong = achieved(model, world, (1.0, 0.0), context=context, seed=seed)
    cloned = play(world, by_table(tables(world, episodes)["BC"]), 1000, seed=2000 + seed).returns.mean()
    row = {"context": context, "seed": seed, "asked_1": right, "asked_0": wrong, "BC": round(float(cloned), 4)}
    return row, model


def command(name: str) -> str:
    return f"python book/runs/decisions.py --run {name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=("decisions", "decisions_memory"), required=True)
    parser.add_argument("--folder", type=Path, help="where to write; lecturelib/runs/NAME when left out")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    kept = nn.ModuleDict()
    if given.run == "decisions":
        for name, seed in itertools.product(DATA, SEEDS):
            row, model = row_of(name, seed)
            rows.append(row)
            print(row, flush=True)
            if seed == 0:
                kept[name] = model
        config: dict[str, Any] = {name: asdict(config_of(DATA[name][0]())) for name in DATA}
        config |= {"context": CONTEXT, "steps": STEPS}
        results = {
            name: float(
                np.mean([row["achieved"][ASKED[name].index(BEST[name])] for row in rows if row["data"] == name])
            )
            for name in DATA
        }
    else:
        for context, seed in itertools.product(MEMORY_CONTEXTS, SEEDS):
            row, model = memory_row(context, seed)
            rows.append(row)
            print(row, flush=True)
            if seed == 0:
                kept[f"context_{context}"] = model
        config = {"memory": asdict(config_of(two_doors(CORRIDOR))), "steps": MEMORY_STEPS, "corridor": CORRIDOR}
        results = {
            str(context): float(np.mean([row["asked_1"] for row in rows if row["context"] == context]))
            for context in MEMORY_CONTEXTS
        }
    facts = {"command": command(given.run), "seed": list(SEEDS), "config": config, "results": results}
    save_run(given.folder or RUNS / given.run, facts, rows, kept)


if __name__ == "__main__":
    main()
