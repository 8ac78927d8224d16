"""What a residual branch may pass through before it joins the stream: a gate that is open at random."""

import torch
from torch import Tensor, nn


class StochasticDepth(nn.Module):
    """Leave a residual branch out, for each image or text by its own coin, and scale it up when it stays.

    Paper: Huang et al. 2016 [huang2016deep], Section 3.
    Differs: the branch is scaled in training, so that nothing changes in evaluation (as dropout is done today); the
    paper scales in evaluation. A coin for each row of the batch, not one for all.

    Args:
        rate: probability of leaving the branch out

    Shapes: (B, ...) -> (B, ...)
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"rate must be in [0, 1), got {rate}")
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        """The branch, or zeros."""
        if not self.training or self.rate == 0.0:
            return branch
        shape = (branch.shape[0],) + (1,) * (branch.dim() - 1)
        keep = torch.rand(shape, device=branch.device) >= self.rate
        return branch * (keep / (1.0 - self.rate)).to(branch.dtype)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


def depth_rates(last: float, num_layers: int) -> list[float]:
    """A rate for each layer, growing evenly from 0 at the first to `last` at the last.

    Paper: Huang et al. 2016 [huang2016deep], Equation 4.
    Differs: the first layer is never left out, as in DeiT's and Swin's code.
    """
    return [last * layer / max(1, num_layers - 1) for layer in range(num_layers)]
