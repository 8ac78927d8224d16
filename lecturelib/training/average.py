"""An average of the weights over the steps: steadier than the weights themselves, and often better."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn


class WeightAverage:
    """The exponential moving average (EMA) of a model's trainable weights.

    After each step the average moves a share of 1 - decay towards the weights. In the first steps it moves faster, by
    a decay of (1 + n) / (10 + n) after n steps, so that it forgets the random start.

    Paper: Polyak and Juditsky 1992 [polyak1992acceleration], for averaging.
    Differs: the mean fades exponentially and is not uniform. Buffers (a batch norm's statistics) are not averaged.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.restart()

    @torch.no_grad()
    def restart(self) -> None:
        """Begin from what the weights are now."""
        self._averages: list[Tensor] = [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights after one more step into the average."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for average, weight in zip(self._averages, self._weights, strict=True):
            average.lerp_(weight.detach(), 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the model's weights and the average."""
        for average, weight in zip(self._averages, self._weights, strict=True):
            kept = weight.detach().clone()
            weight.copy_(average)
            average.copy_(kept)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Within this, the model has the averaged weights."""
        self.swap()
        try:
            yield
        finally:
            self.swap()
