"""Optimizers: the AdamW that a run gets when it asks for none, and two repairs of Adam, written out."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Sort what is trained into two groups: matrices, which decay, and vectors (biases, norm gains), which don't."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trainable:
        raise ValueError(f"{type(model).__name__} has no parameter to train: all of them are frozen, or it has none")
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def adamw(model: nn.Module, *, learning_rate: float, weight_decay: float, fused: bool = True) -> Optimizer:
    """Make AdamW that decays matrices and leaves vectors (biases, norm gains) alone.

    Paper: Loshchilov and Hutter 2019 [loshchilov2019decoupled], Algorithm 2.
    Differs: the decay is multiplied by the learning rate, as everywhere in torch, and spares vectors.
    """
    groups = decay_groups(model, weight_decay)
    trained = [parameter for group in groups for parameter in group["params"]]
    fused = fused and all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in trained)
    return torch.optim.AdamW(groups, lr=learning_rate, fused=fused)


def rectification(step: int, beta2: float = 0.999) -> float | None:
    """RAdam's factor on Adam's step, for steps counted from 1; None while nothing can be said of the variance.

    Paper: Liu et al. 2020 [liu2020variance], Algorithm 2.
    Differs: a step is rectified where rho > 5, as in the authors' code and in torch; the paper's algorithm says 4.
    """
    longest = 2 / (1 - beta2) - 1
    rho = longest - 2 * step * beta2**step / (1 - beta2**step)
    if rho <= 5:
        return None
    return math.sqrt((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho))


class _Moments(Optimizer):
    """What Adam and its relatives share: running means of the gradient and of its square, both without bias.

    Differs: nothing; a relative says in `change` what it makes of them.
    """

    def __init__(
        self,
        parameters: Any,
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if lr <= 0 or eps <= 0 or weight_decay < 0 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(
                f"{type(self).__name__}: lr={lr} and eps={eps} must be positive, weight_decay={weight_decay} 0 or more "
                f"and betas={betas} in [0, 1)"
            )
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def change(self, weight: Tensor, mean: Tensor, square: Tensor, step: int, group: dict[str, Any]) -> None:
        """Move one tensor of weights, given both means, corrected for their start at zero."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step with the gradients as they are."""
        if closure is not None:
            raise TypeError(f"{type(self).__name__} computes no loss: call backward() first, then step()")
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["step"] = torch.zeros(())
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
                state["step"] += 1
                state["exp_avg"].lerp_(weight.grad, 1 - beta1)
                state["exp_avg_sq"].lerp_(weight.grad.square(), 1 - beta2)
                step = int(state["step"])
                mean = state["exp_avg"] / (1 - beta1**step)
                square = state["exp_avg_sq"] / (1 - beta2**step)
                self.change(weight, mean, square, step, group)


class RAdam(_Moments):
    """Adam that waits for its second moment: plain momentum at first, then Adam's step, shortened by `rectification`.

    Paper: Liu et al. 2020 [liu2020variance], Algorithm 2.
    Differs: see `rectification`; weight decay is decoupled, as in AdamW.
    """

    def change(self, weight: Tensor, mean: Tensor, square: Tensor, step: int, group: dict[str, Any]) -> None:
        """Decay, then step."""
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        factor = rectification(step, group["betas"][1])
        if factor is None:
            weight.sub_(group["lr"] * mean)
            return
        bias = math.sqrt(1 - group["betas"][1] ** step)  # eps is added before the correction, as torch does
        weight.sub_(group["lr"] * factor * mean / (square.sqrt() + group["eps"] / bias))


class LAMB(_Moments):
    """Adam whose step has, in every tensor, the length of the learning rate times the length of the weights.

    Paper: You et al. 2020 [you2020large], Algorithm 2.
    Differs: phi is the identity, as in the paper's experiments; a tensor of zeros moves as with Adam.
    """

    def __init__(
        self,
        parameters: Any,
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def change(self, weight: Tensor, mean: Tensor, square: Tensor, step: int, group: dict[str, Any]) -> None:
        """Adam's direction with its decay, then the trust ratio."""
        direction = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * weight
        length, size = direction.norm(), weight.norm()
        trust = torch.where((length > 0) & (size > 0), size / length, torch.ones_like(size))
        weight.sub_(group["lr"] * trust * direction)
