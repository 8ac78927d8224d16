"""Which precision a sum is made in: that of the model, or more where half of it would not do."""

import torch
from torch import Tensor


def precise(x: Tensor) -> Tensor:
    """In float32, or float64 if it is that already: for sums of many exponentials."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def is_autocast(x: Tensor) -> bool:
    """Whether autocast now chooses the precision of products on the device of `x`."""
    return torch.is_autocast_enabled(_device(x))


def without_autocast(x: Tensor) -> torch.autocast:
    """Within this, products on the device of `x` have the precision of what is multiplied."""
    return torch.autocast(_device(x), enabled=False)


def _device(x: Tensor) -> str:
    return "cpu" if x.is_meta else x.device.type  # autocast knows no meta
