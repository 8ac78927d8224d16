"""How the matrices of BERT and of vision transformers start."""

from torch import Tensor, nn


def truncated_normal_(tensor: Tensor, *, std: float = 0.02, cut: float = 2.0) -> Tensor:
    """Fill with normal numbers, none further than `cut` standard deviations from zero, and return the tensor.

    Paper: Touvron et al. 2021 [touvron2021training], Section 6.
    Differs: the cut is at 2 standard deviations; the authors' code cuts at ±2 itself, 100 of them.
    """
    if type(tensor.detach()) is not Tensor:  # one without content, as a model's that is only to be measured
        return tensor
    return nn.init.trunc_normal_(tensor, std=std, a=-cut * std, b=cut * std)


def initialise(module: nn.Module) -> None:
    """For `model.apply`: truncated normal weights of standard deviation 0.02, biases zero, norms untouched."""
    if isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d):
        truncated_normal_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
