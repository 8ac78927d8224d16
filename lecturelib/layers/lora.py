"""LoRA: fine-tune a frozen model by small matrices beside its large ones."""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LoRALinear(nn.Module):
    """A frozen linear layer with a trainable change of low rank beside it: W x + (alpha / rank) · B A x.

    B starts at zero, so at first nothing changes.

    Paper: Hu et al. 2022 [hu2022lora], Section 4.1.
    Differs: A starts from Kaiming-uniform, as in the authors' code, where the paper says Gaussian.

    Args:
        linear: the layer to adapt; frozen from here on
        rank: width between A and B
        alpha: the change is scaled by alpha / rank
        dropout: of the input of A, in training

    Shapes: (..., in) -> (..., out)
    """

    def __init__(self, linear: nn.Linear, rank: int, *, alpha: float | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        if not 1 <= rank <= min(linear.in_features, linear.out_features):
            raise ValueError(
                f"rank must be from 1 to the smaller side of the ({linear.out_features}, {linear.in_features}) "
                f"weight, got {rank}"
            )
        self.linear = linear.requires_grad_(False)
        self.scale = (rank if alpha is None else alpha) / rank
        self.down = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))  # A
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))  # B
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """The frozen layer's output and the learned change."""
        return self.linear(x) + F.linear(F.linear(self.dropout(x), self.down), self.up) * self.scale

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """One plain linear layer that does the same: W + (alpha / rank) · B A."""
        linear = self.linear
        whole = nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
        whole = whole.to(linear.weight.device, linear.weight.dtype)
        whole.load_state_dict(linear.state_dict())
        whole.weight += self.scale * self.up @ self.down
        return whole

    @property
    def in_features(self) -> int:
        """Width in, as of the layer inside."""
        return self.linear.in_features

    @property
    def out_features(self) -> int:
        """Width out, as of the layer inside."""
        return self.linear.out_features


def add_lora(
    model: nn.Module,
    rank: int,
    *,
    alpha: float | None = None,
    dropout: float = 0.0,
    targets: tuple[str, ...] = ("query_proj", "value_proj"),
) -> nn.Module:
    """Freeze a model and put adapters beside those of its linear layers whose names end in one of `targets`; return it.

    Paper: Hu et al. 2022 [hu2022lora]; queries and values are what Section 7.1 finds best to adapt.
    Differs: nothing.
    """
    found = [
        (parent, name, child)
        for path, parent in model.named_modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Linear) and f".{path}.{name}".endswith(tuple(f".{target}" for target in targets))
    ]
    if not found:
        names = {path.rsplit(".")[-1] for path, module in model.named_modules() if isinstance(module, nn.Linear)}
        raise ValueError(f"no linear layer is called one of {targets}; this model has {sorted(names)}")
    adapters = [LoRALinear(linear, rank, alpha=alpha, dropout=dropout) for _, _, linear in found]
    model.requires_grad_(False)
    for (parent, name, _), adapter in zip(found, adapters, strict=True):
        setattr(parent, name, adapter)
    return model


def merge_lora(model: nn.Module) -> nn.Module:
    """Replace every adapted layer by one plain layer that does the same; nothing is frozen any more. Returns the model.

    Paper: Hu et al. 2022 [hu2022lora], Section 4.1: no cost at inference.
    Differs: nothing.
    """
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, LoRALinear):
                setattr(parent, name, child.merged())
    return model.requires_grad_(True)


def lora_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The adapters' matrices by name: all that a fine-tuned model has to save."""
    for path, module in model.named_modules():
        if isinstance(module, LoRALinear):
            yield f"{path}.down", module.down
            yield f"{path}.up", module.up
