"""How far a gradient gets through time: turn the spectral radius, and watch it vanish or explode."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lecturelib.figures.explorers.explorer import Explorer, pack
from lecturelib.layers.cells import RNN
from lecturelib.layers.recurrent import Recurrent, gradient_norms

RADII = tuple(round(0.05 * twentieths, 2) for twentieths in range(10, 33))
"""From 0.5 to 1.6, for the slider."""

INPUTS = {"silent": 0.0, "gentle": 0.3, "strong": 1.0}
"""Standard deviation of what the inputs add to each unit, by name."""


class GradientExplorer(Explorer):
    """The gradient that an untrained recurrent network sends back through time, for many spectral radii.

    The recurrent matrix is an orthogonal matrix times the radius ρ, so that every eigenvalue has modulus ρ. The loss is
    a random direction of length 1 in the last state; the norm shown at distance k is that of ∂loss/∂h, k steps earlier,
    the geometric mean over a few sequences of normal inputs.

    Args:
        radii: the values of ρ the slider offers
        num_steps: the greatest distance
        hidden_dim: width of the state
        batch: how many sequences to average over
        seed: of the draw
    """

    title = "How far does a gradient reach?"
    hint = "raise the radius from 0.5 past 1."

    def __init__(
        self,
        radii: Sequence[float] = RADII,
        *,
        num_steps: int = 40,
        hidden_dim: int = 64,
        batch: int = 8,
        seed: int = 0,
    ) -> None:
        if not radii or min(radii) <= 0 or num_steps < 2 or hidden_dim < 2 or batch < 1:
            raise ValueError(
                f"need positive radii, at least 2 steps and units and 1 sequence; got radii={radii}, "
                f"num_steps={num_steps}, hidden_dim={hidden_dim}, batch={batch}"
            )
        self.radii, self.num_steps, self.hidden_dim = [float(radius) for radius in radii], num_steps, hidden_dim
        draw = torch.Generator().manual_seed(seed)
        self.turn, _ = torch.linalg.qr(torch.randn(hidden_dim, hidden_dim, generator=draw, dtype=torch.float64))
        warm_up = 20  # steps before the ones we look at, so that the state has forgotten its start
        shape = (batch, warm_up + num_steps, hidden_dim)
        self.inputs = torch.randn(shape, generator=draw, dtype=torch.float64)  # (B, T, H)
        direction = torch.randn(batch, hidden_dim, generator=draw, dtype=torch.float64)  # (B, H)
        self.direction = direction / direction.norm(dim=-1, keepdim=True)
        runs = {(radius, name): self._run(radius, name) for radius in self.radii for name in INPUTS}
        self._norms = {key: norms for key, (norms, _) in runs.items()}
        self._factors = {key: factor for key, (_, factor) in runs.items()}

    def norms(self, radius: float, inputs: str = "silent") -> Tensor:
        """The (num_steps + 1,) gradient norms at distance 0, 1, …, from `gradient_norms`."""
        return self._norms[radius, inputs]

    def factor(self, radius: float, inputs: str = "silent") -> float:
        """The predicted factor for each step back: ρ times the root mean square slope of tanh."""
        return self._factors[radius, inputs]

    def _run(self, radius: float, inputs: str) -> tuple[Tensor, float]:
        runner = Recurrent(RNN, self.hidden_dim, self.hidden_dim).double()
        (cell,) = (cell for cell in runner.cells if isinstance(cell, RNN))
        with torch.no_grad():
            cell.weight_ih.copy_(torch.eye(self.hidden_dim))
            cell.weight_hh.copy_(radius * self.turn)
            cell.bias_ih.zero_()
            cell.bias_hh.zero_()
        outputs, _, (trace,) = runner.trace(INPUTS[inputs] * self.inputs)
        norms = gradient_norms((outputs[:, -1] * self.direction).sum(), trace)  # (B, T)
        mean = norms.log().mean(dim=0).exp().flip(0)[: self.num_steps + 1]  # (num_steps + 1,)
        slopes = 1 - outputs.detach()[:, -self.num_steps :].square()
        return mean.detach(), radius * math.sqrt(float(slopes.square().mean()))

    def data(self) -> dict[str, object]:
        grid = [[self.norms(radius, name).log10().tolist() for name in INPUTS] for radius in self.radii]
        factors = [[self.factor(radius, name) for name in INPUTS] for radius in self.radii]
        return {"radii": self.radii, "inputs": list(INPUTS), "logs": pack(grid), "factors": pack(factors)}

    def text(self) -> str:
        low, high = self.radii[0], self.radii[-1]
        return (
            f"Gradient through {self.num_steps} steps of an untrained recurrent network without input: with spectral "
            f"radius {low:g} a gradient of length 1 becomes {float(self.norms(low)[-1]):.1e}, with {high:g} it becomes "
            f"{float(self.norms(high)[-1]):.1e}; with strong inputs and {high:g} it becomes "
            f"{float(self.norms(high, 'strong')[-1]):.1e}, because tanh is flat where it saturates."
        )
