"""Several processes with torchrun: torch's DistributedDataParallel and FSDP2, and nothing of our own.

A config means the same on any number of processes: one step takes `accumulate` batches, and the processes share them
out. So one process with accumulate=2 and two processes with accumulate=2 compute the same gradients.
"""

import atexit
import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from lecturelib.layers.cells import Cell
from lecturelib.training.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class World:
    """This process among the others: one of one, unless torchrun started several."""

    rank: int = 0
    size: int = 1

    def sum(self, numbers: list[float], device: torch.device) -> list[float]:
        """Add up each number over all processes."""
        if self.size == 1:
            return numbers
        dtype = torch.float32 if device.type == "mps" else torch.float64
        vector = torch.tensor(numbers, dtype=dtype, device=device)
        distributed.all_reduce(vector)
        return vector.tolist()


def join_world(device: torch.device) -> tuple[World, torch.device]:
    """Join the processes that torchrun started, each on a GPU of its own where the device is cuda."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        return World(), device
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(_leave_world)
    return World(rank=distributed.get_rank(), size=distributed.get_world_size()), device


def share(config: TrainConfig, world: World, step: int) -> range:
    """Return the numbers of the batches that this process takes at a step."""
    if config.accumulate % world.size:
        raise ValueError(
            f"accumulate={config.accumulate} batches a step can't be shared evenly by {world.size} processes; "
            f"set accumulate to a multiple of {world.size} (and divide the batch size, to keep the step the same)"
        )
    return range(step * config.accumulate + world.rank, (step + 1) * config.accumulate, world.size)


class LossModule(nn.Module):
    """The loss as a module, so that torch can hook its forward pass whatever the loss does with the model."""

    def __init__(self, model: nn.Module, loss: Callable[[nn.Module, Any], Any]) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, batch: Any) -> Any:
        return self._loss(self.model, batch)


def spread(model: nn.Module, loss: Callable[[nn.Module, Any], Any], config: TrainConfig, world: World) -> nn.Module:
    """Return the module batch -> loss of this process, its gradients averaged over all processes.

    "shard" splits the model in place, one piece for each block in its ModuleLists and one for the rest; the loss must
    then call the model itself (not one of its methods), for that is where torch gathers the pieces.
    """
    module = LossModule(model, loss)
    if world.size == 1:
        return module
    if config.parallel == "replicate":
        return nn.parallel.DistributedDataParallel(module)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    for tensor in (*model.parameters(), *model.buffers()):
        distributed.broadcast(tensor.data, src=0)  # as DistributedDataParallel does: process 0 has the weights
    mesh = init_device_mesh(next(model.parameters()).device.type, (world.size,))
    for block in _blocks(model):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return module


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The entries of ModuleLists, innermost first, but for recurrent cells.

    The layer around a cell reads its weights without calling it, so that torch could not gather them in time.
    """
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
    return [block for part in reversed(lists) for block in part if not isinstance(block, Cell)]


@contextlib.contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """Within this, every process has the whole model, so that any of its methods can be called: for evaluation.

    A model that is not sharded is left alone.
    """
    parts: list[Any] = [part for part in model.modules() if hasattr(part, "unshard")]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(part is not model, recurse=False)
            part.reshard()


def synchronised(module: nn.Module, last: bool) -> contextlib.AbstractContextManager[Any]:
    """Exchange gradients only with the last batch of a step."""
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return contextlib.nullcontext() if last else module.no_sync()
    sharded = getattr(getattr(module, "model", None), "set_requires_gradient_sync", None)
    if sharded is not None:
        sharded(last)
    return contextlib.nullcontext()


def collect(model: nn.Module, optimizer: Optimizer, config: TrainConfig, world: World) -> tuple[dict, dict]:
    """Return the whole state of model and optimizer; where they are sharded, every process must call this."""
    if world.size == 1 or config.parallel == "replicate":
        return model.state_dict(), optimizer.state_dict()
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    return get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def restore(
    model: nn.Module, optimizer: Optimizer, weights: dict[str, Any], moments: dict, config: TrainConfig, world: World
) -> None:
    """Undo `collect`."""
    if world.size == 1 or config.parallel == "replicate":
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
    else:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

        options = StateDictOptions(full_state_dict=True)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments, options=options)


def whole(tensor: Tensor) -> Tensor:
    """Gather a tensor that may be sharded."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _leave_world() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
