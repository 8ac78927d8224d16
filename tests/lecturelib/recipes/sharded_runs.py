"""Train a recipe on two processes with the real command line, kill it with SIGKILL, resume it; a program, run once.

    python sharded_runs.py FOLDER PARALLEL MODEL...

For every model this forks pairs of processes: one pair trains in FOLDER/MODEL-calm; of another, in FOLDER/MODEL-torn,
process 0 kills itself in the middle, and a third pair resumes. It prints a line for each model, `MODEL equal` where the
weights of both runs are the same to the last bit. Forking saves importing torch two dozen times.
"""

import contextlib
import importlib
import io
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import lecturelib.cli
from lecturelib.data import Splits, dates
from lecturelib.recipes import pairs, texts
from lecturelib.recipes.recipe import RECIPES
from lecturelib.training import stream

TEXT = "To be, or not to be: that is the question.\n" * 120
SMALL = {
    "gpt": {"max_len": 12, "d_model": 8, "num_heads": 2, "num_layers": 2},
    "llama": {"max_len": 12, "d_model": 8, "num_heads": 2, "num_kv_heads": 1, "num_layers": 2},
    "rnn": {"embedding_dim": 6, "hidden_dim": 10},
    "seq2seq": {"d_model": 10, "num_layers": 2},
    "cho": {"embedding_dim": 6, "hidden_dim": 10, "maxout_dim": 7},
    "bahdanau": {"embedding_dim": 6, "hidden_dim": 10, "attention_dim": 9, "maxout_dim": 7},
    "transformer": {"d_model": 12, "num_heads": 2, "num_layers": 2, "d_ff": 20, "wiring": "pre_norm"},
    "bert": {"max_len": 16, "d_model": 12, "num_heads": 3, "num_layers": 2},
    "luong": {"d_model": 10},
}
STEPS, KILLED_AT = 4, 3


def shrink() -> None:
    """Small data and small models, under the names of the real ones."""
    texts.TEXTS = {"shakespeare": lambda: Splits(TEXT, TEXT, TEXT)}
    pairs.PAIRS = {"dates": lambda: dates(train=40, validation=5, test=4)}
    for name, recipe in RECIPES.items():
        recipe.sizes["tiny"].clear()  # type: ignore[attr-defined]
        recipe.sizes["tiny"].update(SMALL[name])  # type: ignore[attr-defined]


def pair(arguments: list[str], die_at: int | None = None) -> list[int]:
    """Run one command in two processes; process 0 may die at a batch. Returns how they ended, as os.waitpid says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in world.items()})
            end_as(lambda rank=rank: one(arguments, die_at if rank == 0 else None))
        children.append(child)
    first, status = os.wait()
    (other,) = set(children) - {first}
    if status != 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(other, signal.SIGKILL)  # as torchrun does with those that are left
    return [status, os.waitpid(other, 0)[1]]


def one(arguments: list[str], die_at: int | None) -> int:
    fetch = stream.BatchStream.__call__

    def counted(self: stream.BatchStream, index: int) -> Any:
        if die_at is not None and index >= 2 * die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return fetch(self, index)

    stream.BatchStream.__call__ = counted  # type: ignore[method-assign]
    with contextlib.redirect_stdout(io.StringIO()):
        return lecturelib.cli.main(arguments)


def end_as(work: Callable[[], int]) -> None:
    """Leave a forked child with what the work returns, and nothing of the parent's."""
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def import_early() -> None:
    """What the children need, so that they do not import it twenty-four times over."""
    names = ("distributed.checkpoint.state_dict", "distributed.device_mesh", "distributed.fsdp", "distributed.tensor")
    for name in (*names, "_dynamo", "nn.parallel"):
        importlib.import_module(f"torch.{name}")
    for recipe in RECIPES.values():
        importlib.import_module(recipe.module)
    importlib.import_module("lecturelib.recipes.tasks")


def main() -> None:
    folder, parallel, *models = sys.argv[1:]
    torch.set_num_threads(1)  # a child of fork has only the thread that forked it
    os.environ["OMP_NUM_THREADS"] = "1"
    shrink()
    import_early()
    for model in models:
        command = ["train", model, "--batch-size", "4", "--steps", str(STEPS), "--evaluate-every", "2", "--ema", "0.9"]
        command += ["--device", "cpu", "--parallel", parallel, "--out"]
        calm, torn = (Path(folder) / f"{model}-{name}" for name in ("calm", "torn"))
        if pair([*command, str(calm)]) != [0, 0]:
            print(f"{model} does not train")
            continue
        killed = pair([*command, str(torn)], die_at=KILLED_AT)
        resumed = pair([*command, str(torn), "--resume"])
        if signal.SIGKILL not in killed or resumed != [0, 0]:
            print(f"{model} is killed with {killed} and resumed with {resumed}")
            continue
        left, right = (load_file(path / "weights.safetensors") for path in (calm, torn))
        last = [load_file(path / f"step-{STEPS:08d}.safetensors") for path in (calm, torn)]
        same = all(torch.equal(a[name], b[name]) for a, b in ((left, right), last) for name in a)
        print(f"{model} {'equal' if same else 'differs'}", flush=True)


if __name__ == "__main__":
    main()
