"""The optimizer a run gets when it asks for none."""

import torch
from torch import nn
from torch.optim import Optimizer


def adamw(model: nn.Module, *, learning_rate: float, weight_decay: float, fused: bool = True) -> Optimizer:
    """Make AdamW that decays matrices and leaves vectors (biases, norm gains) alone.

    Paper: Loshchilov and Hutter 2019 [loshchilov2019decoupled], Algorithm 2.
    Differs: the decay is multiplied by the learning rate, as everywhere in torch, and spares vectors.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trainable:
        raise ValueError(f"{type(model).__name__} has no parameter to train: all of them are frozen, or it has none")
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    fused = fused and all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in trainable)
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=learning_rate, fused=fused)
