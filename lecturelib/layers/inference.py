"""What may be computed another way while nothing but the result is wanted."""

import torch
from torch import nn
from torch.nn.modules import module as hooks_of_all


def only_result_matters(*layers: nn.Module) -> bool:
    """Whether nobody can tell how these linear layers are computed: no gradients, hooks, wrapper, tracer or `vmap`.

    Inference mode is asked for, not `no_grad`, which forward-mode derivatives and `torch.func` still look through.
    """
    return (
        not torch.compiler.is_compiling()  # asked first: the compiler cannot trace the next line
        and torch.is_inference_mode_enabled()
        and not torch.jit.is_tracing()
        and torch._C._functorch.maybe_current_level() is None
        and all(is_as_built(layer) and type(layer) is nn.Linear for layer in layers)
    )


def is_as_built(layer: nn.Module) -> bool:
    """Whether calling this layer runs its class's `forward` on parameters of its own, and nothing else.

    Not so with a hook, with a `forward` put over it (as offloading does), or with weights that are no plain matrices:
    quantised, sharded, sparse, or lent by `torch.func.functional_call`.
    """
    hooks = layer._forward_hooks or layer._forward_pre_hooks
    hooks = hooks or hooks_of_all._global_forward_hooks or hooks_of_all._global_forward_pre_hooks
    parameters = [p for p in layer._parameters.values() if p is not None]
    own = all(type(p) is nn.Parameter and p.layout is torch.strided for p in parameters)
    return own and not hooks and "forward" not in layer.__dict__
