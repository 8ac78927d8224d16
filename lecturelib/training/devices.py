"""Where a run happens: the device, and moving a batch of any make-up to it."""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from lecturelib.machine.bf16 import bf16_refusal


def choose_device(name: str = "auto") -> torch.device:
    """Turn "auto" into the best device of this machine, and any other name into a device that is really here."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device {name!r} is not a torch device; use auto, cpu, cuda, cuda:1 or mps") from error
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # the second where torch was built without it
        raise ValueError(f"device {name!r} is not available on this machine; use auto or cpu") from error
    return device


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse bf16 on a processor that is known to get it wrong."""
    if precision == "bf16" and device.type == "cpu" and (reason := bf16_refusal()) is not None:
        raise ValueError(f"precision bf16 does not work on this machine: {reason}; use fp32")


def to_device(batch: Any, device: torch.device) -> Any:
    """Move every tensor of a batch: a tensor, a tuple, a list, a dict, a dataclass, or anything that has `.to`."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # a named tuple
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(to_device(value, device) for value in batch)
    if hasattr(batch, "to"):
        return batch.to(device)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        moved = {f.name: to_device(getattr(batch, f.name), device) for f in dataclasses.fields(batch) if f.init}
        return dataclasses.replace(batch, **moved)
    return batch
