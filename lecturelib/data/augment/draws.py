"""Random numbers for transforms of whole batches: seeded by a generator, on whichever device the pictures are."""

import numpy as np
import torch
from torch import Tensor


def uniform(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Numbers from 0 to 1 on the device of `like`, drawn where the generator is: a seed means the same on any device.

    Without a generator they come from torch's global one of that device.
    """
    device = like.device if generator is None else generator.device
    return torch.rand(shape, generator=generator, device=device).to(like.device)


def beta(alpha: float, count: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Numbers from Beta(alpha, alpha); for alpha 0, all of them 1.

    torch draws these from its global generator only, so numpy draws them from a seed that the generator gives.
    """
    if alpha < 0:
        raise ValueError(f"alpha must be 0 or more, got {alpha}")
    if alpha == 0:
        return torch.ones(count, device=like.device)
    device = "cpu" if generator is None else generator.device
    seed = int(torch.randint(2**62, (), generator=generator, device=device))
    drawn = np.random.default_rng(seed).beta(alpha, alpha, size=count)
    return torch.from_numpy(drawn).float().to(like.device)  # (count,)


def choose(probability: float, count: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """A coin for each row, boolean (count,)."""
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"a probability must be in [0, 1], got {probability}")
    return uniform((count,), like, generator) < probability
