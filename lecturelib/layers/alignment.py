"""Soft alignment: each word of one text finds its counterpart in another."""

from torch import Tensor

from lecturelib.layers.attention import Attention, masked_softmax


class SoftAlignment(Attention):
    """For each query the average of the values, weighted by the softmax of plain dot products with their keys.

    It has no parameters: whoever uses it brings encoded texts.

    Paper: Parikh et al. 2016 [parikh2016decomposable], Section 3.1, who soft-align two sentences so.
    Differs: nothing; a query that may look at nothing gives zeros.

    Shapes: query (B, Tq, D), key (B, Tk, D), value (B, Tk, Dv), mask (B, 1, Tk) -> (B, Tq, Dv); watched weights
    (B, 1, Tq, Tk)
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Shapes: (B, Tq, D), (B, Tk, D), (B, Tk, Dv), (B, 1, Tk) -> (B, Tq, Dv)"""
        weights = masked_softmax(query @ key.transpose(-2, -1), mask)  # (B, Tq, Tk)
        self.show(weights.unsqueeze(1))  # (B, 1, Tq, Tk)
        return weights @ value
