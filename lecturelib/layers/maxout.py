"""The output layer of the first attention models: several inputs, a maxout, then the vocabulary."""

import torch
from torch import Tensor, nn


class MaxoutOutput(nn.Module):
    """Logits from the decoder's state, its last token and its context, through one layer of maxout units.

    Each unit is the larger of two linear maps of [state; token; context].

    Paper: Cho et al. 2014 [cho2014learning], Appendix A.1.2; Bahdanau et al. 2015 [bahdanau2015neural], Appendix
    A.2.2; maxout of Goodfellow et al. 2013 [goodfellow2013maxout].
    Differs: the three products U s, V E y and C c are one, of the concatenation, and it has a bias.

    Args:
        input_dim: total width of the inputs
        maxout_dim: number of maxout units
        vocab_size: number of logits

    Shapes: inputs (..., D_k) each, their widths adding up to input_dim -> (..., V)
    """

    def __init__(self, input_dim: int, maxout_dim: int, vocab_size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(input_dim, 2 * maxout_dim)
        self.output = nn.Linear(maxout_dim, vocab_size)

    def forward(self, *inputs: Tensor) -> Tensor:
        pairs = self.hidden(torch.cat(inputs, dim=-1)).unflatten(-1, (-1, 2))  # (..., maxout_dim, 2)
        return self.output(pairs.amax(dim=-1))  # (..., V)
