"""What may be computed another way while nothing but the result is wanted."""

import torch
from torch import nn


def only_result_matters(*layers: nn.Module) -> bool:
    """Whether nobody can tell how these linear layers are computed: no gradients, no hooks, no wrapper, no compiler.

    Inference mode is asked for, not `no_grad`, which forward-mode derivatives and `torch.func` still look through.
    """
    return (
        not torch.compiler.is_compiling()  # asked first: the compiler cannot trace the next line
        and torch.is_inference_mode_enabled()
        and all(type(layer) is nn.Linear and not has_hooks(layer) for layer in layers)
    )


def has_hooks(layer: nn.Module) -> bool:
    """Whether somebody watches this layer's calls."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks)
