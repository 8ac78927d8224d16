"""A small run with dropout, as a program: the tests kill it, interrupt it and start it twice with torchrun.

    python small_run.py FOLDER [--steps N] [--accumulate N] [--parallel replicate|shard] [--ask-for-ctrl-c N] [--resume]
    python small_run.py FOLDER --kill-often SEED

The first form trains in FOLDER, and writes the weights at the end to FOLDER/weights.safetensors. The second forks
children that train in FOLDER and kill themselves with SIGKILL, at a random step or in the middle of writing a
checkpoint, until one of them lives to the end; it prints how many died.
"""

import argparse
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from lecturelib.training import Cosine, TrainConfig, train
from lecturelib.training.distributed import whole


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 10), nn.Dropout(0.3), nn.Linear(10, 6)) for _ in "ab"])
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def batch(index: int) -> tuple[Tensor, Tensor]:
    """Batches of unequal length, as sentences are."""
    generator = torch.Generator().manual_seed(index)
    rows = 3 + index % 4
    return torch.randn(rows, 6, generator=generator), torch.randn(rows, 2, generator=generator)


def squared_error(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return (model(x) - y).square().mean(), len(x)


def run(arguments: argparse.Namespace, before: Callable[[int], None] = lambda index: None) -> str:
    torch.manual_seed(11)
    model = Stack()

    def batches(index: int) -> tuple[Tensor, Tensor]:
        before(index)
        return batch(index)

    config = TrainConfig(
        steps=arguments.steps,
        learning_rate=1e-2,
        schedule=Cosine(steps=50, warmup=5),
        accumulate=arguments.accumulate,
        clip=0.5,
        parallel=arguments.parallel,
        checkpoint_every=3,
        evaluate_every=4,
        device="cpu",
    )
    history = train(
        model,
        batches,
        squared_error,
        config,
        evaluate=lambda model: float((model(batch(999)[0]) - batch(999)[1]).square().mean()),
        folder=arguments.folder,
        resume=arguments.resume,
    )
    weights = {name: whole(tensor).detach().contiguous() for name, tensor in model.state_dict().items()}
    if int(os.environ.get("RANK", "0")) == 0:
        save_file(weights, arguments.folder / "weights.safetensors")
    return f"{history.stop} {len(history)}"


def kill_often(arguments: argparse.Namespace) -> None:
    chance = random.Random(arguments.kill_often)
    torch.set_num_threads(1)  # a child of fork has only the thread that forked it
    arguments.resume = True
    deaths = 0
    while True:
        at_step, at_move = chance.choice([None, chance.randrange(4, 9)]), chance.randrange(1, 12)
        child = os.fork()
        if child == 0:
            die_somewhere(arguments, at_step, at_move)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        deaths += 1
        assert deaths < 200
    print(deaths)


def die_somewhere(arguments: argparse.Namespace, at_step: int | None, at_move: int) -> None:
    """Run, and die at the at_step-th batch or (None) just before or after the at_move-th file is moved into place."""
    batches_seen, moves, move = 0, 0, os.replace

    def count_batch(index: int) -> None:
        nonlocal batches_seen
        batches_seen += 1
        if batches_seen == at_step:
            os.kill(os.getpid(), signal.SIGKILL)

    def count_move(source: Path, target: Path) -> None:
        nonlocal moves
        moves += 1
        if at_step is None and moves == at_move:
            if at_move % 2:
                move(source, target)
            os.kill(os.getpid(), signal.SIGKILL)
        move(source, target)

    os.replace = count_move  # type: ignore[assignment]
    run(arguments, count_batch)
    os._exit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--parallel", default="replicate")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--kill-often", type=int)
    parser.add_argument("--ask-for-ctrl-c", type=int, help="say `now` at this batch, and wait there for a line")
    arguments = parser.parse_args()

    def ask(index: int) -> None:
        if index == arguments.ask_for_ctrl_c:
            print("now", flush=True)
            input()

    if arguments.kill_often is not None:
        kill_often(arguments)
    else:
        print(run(arguments, ask))
