"""RMS norm: bring a vector to unit mean square, and leave its mean alone."""

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Divide each token's features by their root mean square, then scale each feature by a learned gain.

    A layer norm also subtracts the mean and adds a learned bias; this does neither.

    Paper: Zhang & Sennrich 2019 [zhang2019root], Equation 4.
    Differs: eps is added under the root, and the division is done in float32 whatever comes in, as in LLaMA's code.

    Args:
        d_model: width of the features
        eps: keeps the root from zero

    Shapes: (..., D) -> (..., D)
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """The features, divided by their root mean square."""
        wide = x.float()
        mean_square = wide.pow(2).mean(dim=-1, keepdim=True)  # (..., 1)
        return self.weight * (wide * torch.rsqrt(mean_square + self.eps)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"
