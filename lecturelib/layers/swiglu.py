"""SwiGLU: a feed-forward net in which one half of the hidden features opens and closes the other."""

import torch.nn.functional as F
from torch import Tensor, nn


class SwiGLU(nn.Module):
    """Widen each token twice, let one copy gate the other, and narrow the product again.

    Three matrices instead of two, so that at equal parameters d_ff is two thirds of a plain feed-forward net's.

    Paper: Shazeer 2020 [shazeer2020glu], Equation 6; W, V and W_2 there are `gate`, `widen` and `narrow` here.
    Differs: nothing; Swish with β = 1 is SiLU.

    Args:
        d_model: width in and out
        d_ff: width between

    Shapes: (..., D) -> (..., D)
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.widen = nn.Linear(d_model, d_ff, bias=False)
        self.narrow = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The gated features, narrowed."""
        return self.narrow(F.silu(self.gate(x)) * self.widen(x))
