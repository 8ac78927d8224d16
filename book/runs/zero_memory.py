"""Train a small GPT on two processes and count what each holds of it, as chapter 11 shows.

    torchrun --nproc-per-node 2 book/runs/zero_memory.py

Half a minute. The run goes to `lecturelib/runs/zero_memory`, a row for each way of sharing: DistributedDataParallel
(everything twice), the same with torch's ZeroRedundancyOptimizer (stage 1), and FSDP2 with weights kept whole from the
forward to the backward pass (stage 2) and not (stage 3).
"""

import argparse
import gc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim import AdamW, Optimizer

from lecturelib.evaluation import count_parameters
from lecturelib.models import GPT, GPTConfig
from lecturelib.tokens import LanguageBatch
from lecturelib.training import next_token_loss, save_run, seed_everything
from lecturelib.training.runs import RUNS

CONFIG = GPTConfig(vocab_size=64, max_len=8, d_model=128, num_heads=4, num_layers=8, dropout=0.0)
COMMAND = "torchrun --nproc-per-node 2 book/runs/zero_memory.py"


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor that may be sharded."""
    return getattr(tensor, "_local_tensor", tensor)


def bytes_of(tensors: list[Tensor]) -> int:
    """The memory behind tensors, shared memory once."""
    storages = {part.untyped_storage().data_ptr(): part.untyped_storage().nbytes() for part in map(local, tensors)}
    return sum(storages.values())


def living() -> int:
    """The memory behind all tensors of this process that Python knows of."""
    gc.collect()
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]
    return bytes_of([tensor for tensor in found if local(tensor).device.type == "cpu"])


def shared(stage: int, model: nn.Module) -> tuple[nn.Module, Optimizer]:
    """The model and its optimizer, spread over the processes."""
    if stage < 2:
        spread = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        if stage == 0:
            return spread, AdamW(model.parameters(), lr=1e-3)
        return spread, ZeroRedundancyOptimizer(model.parameters(), AdamW, lr=1e-3)
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    blocks: Any = model.blocks
    for block in blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=stage == 3)
    fully_shard(model, mesh=mesh, reshard_after_forward=stage == 3)
    return model, AdamW(model.parameters(), lr=1e-3)


def measured(stage: int, config: GPTConfig = CONFIG) -> dict[str, float]:
    """Take two steps; count what is held after the second one, and all that lives between its two passes."""
    seed_everything(0)
    empty = living()
    model = GPT(config)
    spread, optimizer = shared(stage, model)
    between = 0
    for step in range(2):
        generator = torch.Generator().manual_seed(10 * step + distributed.get_rank())
        tokens = torch.randint(config.vocab_size, (2, config.max_len + 1), generator=generator)
        optimizer.zero_grad()
        loss, _ = next_token_loss(spread, LanguageBatch(tokens[:, :-1], tokens[:, 1:]))
        between = living() - empty
        loss.backward()
        optimizer.step()
    weights = list(model.parameters())
    inner = getattr(optimizer, "optim", optimizer)
    moments = [value for state in inner.state.values() for value in state.values() if isinstance(value, Tensor)]
    return {
        "stage": stage,
        "parameters": count_parameters(model),
        "weights": bytes_of(weights),
        "gradients": bytes_of([weight.grad for weight in weights if weight.grad is not None]),
        "optimizer": bytes_of(moments),
        "between_passes": between,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=RUNS / "zero_memory")
    folder = parser.parse_args().folder
    distributed.init_process_group("gloo")
    rows = [measured(stage) for stage in range(4)]
    if distributed.get_rank() == 0:
        results = {f"stage {row['stage']:.0f}": row["weights"] + row["gradients"] + row["optimizer"] for row in rows}
        facts = {"command": COMMAND, "seed": 0, "config": asdict(CONFIG), "results": results}
        save_run(folder, facts | {"processes": distributed.get_world_size()}, rows)
        print("\n".join(map(str, rows)))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
