"""Train decision transformers on episodes of others, and compare them with what else can be learned from the same.

    python book/runs/decisions.py --run decisions

The runs are `decisions` (key to door from mixed policies, from trips to be stitched together, and FrozenLake; ten
seeds) and `decisions_memory` (two doors, by context length; ten seeds). Each goes to `lecturelib/runs/NAME`, a row for
each case. Both together take a quarter of an hour on one core. The weights of the first seeds are kept.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import AdamW

from lecturelib.data import (
    Episodes,
    Windows,
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
from lecturelib.training import Linear, save_run, seed_everything
from lecturelib.training.runs import RUNS

SEEDS, CONTEXT, BATCH, STEPS, RATE, JUDGED = range(10), 5, 32, 600, 4e-3, 100
ASKED = {"mixed": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.685, 0.8), "trips": (0.0, 0.5, 0.685, 0.9), "lake": (0.0, 1.0)}
BEST = {"mixed": 0.685, "trips": 0.685, "lake": 1.0}
SHARES = (0.1, 0.25)
NOISES = (0.3, 0.6, 0.8, 1.0)
CORRIDOR, MEMORY_CONTEXTS, MEMORY_STEPS = 4, (1, 2, 4, 5, 7), 700


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


def coin_walks(seed: int, count: int = 200) -> Episodes:
    """Straight through the corridor of the two doors; at its end a coin decides."""
    world = two_doors(CORRIDOR)
    table = np.zeros((world.num_seen, world.num_actions))
    table[:, 2] = 1.0
    table[world.seen[2 * CORRIDOR]] = (0, 0.5, 0, 0.5)
    return play(world, by_table(table), count, seed=seed)


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


def learned(
    world: World, sets: Sequence[Episodes], *, context: int, steps: int, rate: float, seeds: Sequence[int]
) -> list[DecisionTransformer]:
    """One model for each set of episodes, all trained at once: small models spend their time on starting operations."""
    models = []
    for seed in seeds:
        seed_everything(seed)
        models.append(DecisionTransformer(config_of(world)))
    stacked, _ = stack_module_state(models)  # type: ignore[arg-type]
    weights = {name: weight.detach().requires_grad_() for name, weight in stacked.items()}
    optimizer = AdamW(weights.values(), lr=rate, weight_decay=1e-4, fused=True)
    schedule = Linear(steps=steps, warmup=steps // 10)
    sizes = {"context": context, "num_seen": world.num_seen, "num_actions": world.num_actions}

    def loss_of(one: dict[str, Tensor], states: Tensor, actions: Tensor, *rest: Tensor) -> Tensor:
        logits = functional_call(models[0], one, (states, actions, *rest))  # (B, K, A)
        real = rest[-1]
        likely = (logits.log_softmax(dim=-1) * actions).sum(dim=-1)
        return -(likely * real).sum() / real.sum()

    for step in range(steps):
        drawn = [
            windows(own, BATCH, **sizes, seed=1_000_003 * seed + step) for own, seed in zip(sets, seeds, strict=True)
        ]
        given = [torch.stack([getattr(batch, part.name) for batch in drawn]) for part in fields(Windows)]
        optimizer.zero_grad()
        with sdpa_kernel(SDPBackend.MATH):
            vmap(loss_of)(weights, *given).sum().backward()
        clip_each(weights.values(), 0.25)
        for group in optimizer.param_groups:
            group["lr"] = rate * schedule(step)
        optimizer.step()
    for number, model in enumerate(models):
        model.load_state_dict({name: weight.detach()[number] for name, weight in weights.items()})
    return [model.eval() for model in models]


def clip_each(weights: Iterable[Tensor], most: float) -> None:
    """Clip the gradient of each model by its own norm."""
    found = [weight.grad for weight in weights if weight.grad is not None]
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in found]).norm(dim=0)  # (models,)
    for gradient in found:
        gradient *= (most / norms).clamp(max=1).view(-1, *[1] * (gradient.dim() - 1))


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


def rows_of(
    name: str, seeds: Sequence[int] = SEEDS, *, steps: int = STEPS
) -> tuple[list[dict[str, Any]], list[DecisionTransformer]]:
    """All that is learned from one kind of episodes, and what it earns: a row for each seed, and the models."""
    world, sets = DATA[name][0](), [DATA[name][1](seed) for seed in seeds]
    models = learned(world, sets, context=CONTEXT, steps=steps, rate=RATE, seeds=seeds)
    rows = []
    for seed, episodes, model in zip(seeds, sets, models, strict=True):
        others = {
            policy: round(float(play(world, by_table(table), 1000, seed=2000 + seed).returns.mean()), 4)
            for policy, table in tables(world, episodes).items()
        }
        returns = {"mean": round(float(episodes.returns.mean()), 4), "best": round(float(episodes.returns.max()), 4)}
        row = {"data": name, "seed": seed, "asked": list(ASKED[name]), "others": others, "episodes": returns}
        rows.append(row | {"achieved": achieved(model, world, ASKED[name], context=CONTEXT, seed=seed)})
        print(rows[-1], flush=True)
    return rows, models


def memory_rows(
    context: int, seeds: Sequence[int] = SEEDS, *, steps: int = MEMORY_STEPS
) -> tuple[list[dict[str, Any]], list[DecisionTransformer]]:
    """The two doors with one length of context: a row for each seed, and the models."""
    world, sets = two_doors(CORRIDOR), [coin_walks(seed) for seed in seeds]
    models = learned(world, sets, context=context, steps=steps, rate=RATE, seeds=seeds)
    rows = []
    for seed, episodes, model in zip(seeds, sets, models, strict=True):
        right, wrong = achieved(model, world, (1.0, 0.0), context=context, seed=seed)
        cloned = play(world, by_table(tables(world, episodes)["BC"]), 1000, seed=2000 + seed).returns.mean()
        row = {"context": context, "seed": seed, "asked_1": right, "asked_0": wrong, "BC": round(float(cloned), 4)}
        rows.append(row)
        print(row, flush=True)
    return rows, models


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
        for name in DATA:
            found, models = rows_of(name)
            rows += found
            kept[name] = models[0]
        config: dict[str, Any] = {name: asdict(config_of(DATA[name][0]())) for name in DATA}
        config |= {"context": CONTEXT, "steps": STEPS}
        results = {
            name: float(
                np.mean([row["achieved"][ASKED[name].index(BEST[name])] for row in rows if row["data"] == name])
            )
            for name in DATA
        }
    else:
        for context in MEMORY_CONTEXTS:
            found, models = memory_rows(context)
            rows += found
            kept[f"context_{context}"] = models[0]
        config = {"memory": asdict(config_of(two_doors(CORRIDOR))), "steps": MEMORY_STEPS, "corridor": CORRIDOR}
        results = {
            str(context): float(np.mean([row["asked_1"] for row in rows if row["context"] == context]))
            for context in MEMORY_CONTEXTS
        }
    facts = {"command": command(given.run), "seed": list(SEEDS), "config": config, "results": results}
    save_run(given.folder or RUNS / given.run, facts, rows, kept)


if __name__ == "__main__":
    main()
