"""Train the same GPT on one process and on two, replicated and sharded, and time the steps, as chapter 13 shows.

    python book/runs/parallel.py

Two minutes on two cores with nothing else to do. Each way takes the same steps on the same batches, so the losses must
agree. The ways take turns, three times, so that other work on the machine disturbs them alike; the time of a step is
the shortest of all its steps, which is what the work takes when nothing disturbs it. The run goes to
`lecturelib/runs/parallel`, a row for each way.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lecturelib.evaluation import count_parameters
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import LanguageBatch
from lecturelib.training import TrainConfig, next_token_loss, save_run, seed_everything, train
from lecturelib.training.runs import RUNS

CONFIG = GPTConfig(vocab_size=96, max_len=128, d_model=256, num_heads=8, num_layers=4, dropout=0.0)
BATCH, STEPS, TURNS = 8, 6, 3  # texts of each of the two batches that make a step; steps in a turn
WAYS = {"one process": (1, "replicate"), "two, replicated": (2, "replicate"), "two, sharded": (2, "shard")}
COMMAND = "python book/runs/parallel.py"


def batches(index: int) -> LanguageBatch:
    """Random tokens: time does not depend on what they say."""
    tokens: Tensor = torch.randint(
        CONFIG.vocab_size, (BATCH, CONFIG.max_len + 1), generator=torch.Generator().manual_seed(index)
    )
    return LanguageBatch(tokens[:, :-1], tokens[:, 1:])


def measured(way: str, steps: int) -> dict[str, Any]:
    """Train in this process, one of those that torchrun started, or the only one."""
    seed_everything(0)
    torch.set_num_threads(1)
    model = GPT(CONFIG)
    parameters = count_parameters(model)
    processes, parallel = WAYS[way]
    plan = TrainConfig(steps=steps, learning_rate=1e-3, accumulate=2, parallel=parallel, device="cpu", progress=False)
    history = train(model, batches, next_token_loss, plan)
    clock = [0.0, *history["seconds"]]
    seconds = [after - before for before, after in itertools.pairwise(clock)]
    return {
        "way": way,
        "processes": processes,
        "parameters": parameters,
        "tokens_per_step": 2 * BATCH * CONFIG.max_len,
        "seconds": min(seconds[1:]),
        "all_seconds": seconds,
        "losses": history["loss"],
    }


def in_processes(way: str, steps: int) -> dict[str, Any]:
    """Train in one way, in as many processes as it has, and give its row."""
    processes, _ = WAYS[way]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)] if processes > 1 else []
    command = [sys.executable, *torchrun, __file__, "--way", way, "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(done.stderr)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def best_of(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of a way's turns: the shortest step, and all of them; each turn must have done the same work."""
    if any(turn["losses"] != turns[0]["losses"] for turn in turns):
        raise SystemExit(f"{turns[0]['way']}: two turns gave different losses")
    shortest = min(turn["seconds"] for turn in turns)
    return {**turns[0], "seconds": shortest, "all_seconds": [turn["all_seconds"] for turn in turns]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=RUNS / "parallel")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument(
        "--way", choices=list(WAYS), help="train in this one way and print its row: for the program itself"
    )
    given = parser.parse_args()
    if given.way is not None:
        row = measured(given.way, given.steps)
        if int(os.environ.get("RANK", "0")) == 0:
            print(json.dumps(row))
        return
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(given.turns):
        for way in WAYS:
            found[way].append(in_processes(way, given.steps))
            print(f"{way:18} {found[way][-1]['seconds']:.3f} s a step", flush=True)
    rows = [best_of(turns) for turns in found.values()]
    results = {row["way"]: rows[0]["seconds"] / row["seconds"] for row in rows}
    facts = {"command": COMMAND, "seed": 0, "config": asdict(CONFIG), "results": results, "cores": os.cpu_count()}
    save_run(given.folder, facts, rows)


if __name__ == "__main__":
    main()
