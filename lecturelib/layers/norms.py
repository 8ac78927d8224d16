"""Two norms that were proposed in place of the layer norm: one without gain and bias, one with running statistics."""

from typing import Any

import torch
from torch import Tensor, nn


class AdaNorm(nn.Module):
    """A layer norm whose gain is not learned: each entry is scaled by a factor that falls with it, without a gradient.

    With y the normalised input, the output is scale · (1 - k · y) · y.

    Paper: Xu et al. 2019 [xu2019understanding], Section 4.
    Differs: nothing; eps stands inside the root, as in `nn.LayerNorm`, and `scale` is the paper's C.

    Shapes: (..., D) -> (..., D)
    """

    def __init__(self, d_model: int, *, scale: float = 1.0, k: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.d_model, self.scale, self.k, self.eps = d_model, scale, k, eps

    def forward(self, x: Tensor) -> Tensor:
        """Each token by itself, as a layer norm does."""
        y = nn.functional.layer_norm(x, (self.d_model,), eps=self.eps)
        return self.scale * (1 - self.k * y).detach() * y

    def extra_repr(self) -> str:
        return f"{self.d_model}, scale={self.scale}, k={self.k}"


class PowerNorm(nn.Module):
    """Divide each feature by its root mean square over many tokens, remembered from batch to batch, then gain and bias.

    As a batch norm, but without the mean, and with a running statistic in training too: single batches of text vary
    too much. The gradient through the statistic is replaced by a running mean, nu.

    Paper: Shen et al. 2020 [shen2020powernorm], Algorithm 2.
    Differs: for the first `warmup` training steps the batch's own statistic divides, as in the authors' code. Padding
    counts as tokens do. The layer scale that their code puts in front is left out.

    Args:
        d_model: number of features
        alpha: how much of a running statistic stays at each step
        warmup: training steps before the running statistic takes over

    Shapes: (..., D) -> (..., D)
    """

    power: Tensor
    nu: Tensor
    steps: Tensor

    def __init__(self, d_model: int, *, alpha: float = 0.9, warmup: int = 20, eps: float = 1e-5) -> None:
        super().__init__()
        if not 0 <= alpha < 1 or warmup < 0:
            raise ValueError(f"PowerNorm: alpha={alpha} must be in [0, 1) and warmup={warmup} 0 or more steps")
        self.d_model, self.alpha, self.warmup, self.eps = d_model, alpha, warmup, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("power", torch.ones(d_model))  # the running mean square of each feature
        self.register_buffer("nu", torch.zeros(d_model))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        """In training the statistics move; in evaluation the remembered ones divide."""
        power = self.power
        if self.training and x.numel():
            found = x.detach().flatten(0, -2).square().mean(dim=0)  # (D,)
            power = torch.where(self.steps < self.warmup, found, self.power)
            mixed = self.power.lerp(found, 1 - self.alpha)
            self.power.copy_(torch.where(self.steps > 0, mixed, found))  # the first batch is all there is to remember
            self.steps += 1
        scaled: Tensor = _Divide.apply(x, (power + self.eps).sqrt(), self.nu, self.alpha)
        return scaled * self.weight + self.bias

    def extra_repr(self) -> str:
        return f"{self.d_model}, alpha={self.alpha}, warmup={self.warmup}"


class _Divide(torch.autograd.Function):
    """x / root, whose gradient loses nu times the output, as if the root depended on x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, root: Tensor, nu: Tensor, alpha: float) -> Tensor:
        scaled = x / root
        ctx.save_for_backward(scaled, root)
        ctx.nu, ctx.alpha = nu, alpha
        return scaled

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        scaled, root = ctx.saved_tensors
        nu, alpha = ctx.nu, ctx.alpha
        out = (gradient - nu * scaled) / root
        mean_power = scaled.flatten(0, -2).square().mean(dim=0)  # (D,)
        agreement = (gradient * scaled).flatten(0, -2).mean(dim=0)  # (D,)
        nu.copy_(nu * (1 - (1 - alpha) * mean_power) + (1 - alpha) * agreement)
        return out, None, None, None
