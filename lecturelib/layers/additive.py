"""Additive attention: queries and keys are compared by a small network."""

from torch import Tensor, nn

from lecturelib.layers.attention import masked_softmax


class AdditiveAttention(nn.Module):
    """Score each key with a one-hidden-layer tanh network, then average the values by the softmax of the scores.

    score(q, k) = w · tanh(W_q q + W_k k): queries and keys may have different widths.

    Paper: Bahdanau et al. 2015 [bahdanau2015neural], Section 3.1 and Appendix A.1.2; W_a, U_a and v_a there are
    `query_proj`, `key_proj` and `score` here.
    Differs: a query that may attend to nothing gives zeros.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.score = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Attend; the hidden layer is (..., Tq, Tk, hidden_dim), so memory grows with Tq · Tk · hidden_dim.

        Args:
            query: (..., Tq, Dq)
            key: (..., Tk, Dk)
            value: (..., Tk, Dv)
            mask: boolean, broadcasts to (..., Tq, Tk); True = may attend

        Shapes: -> (..., Tq, Dv), (..., Tq, Tk)
        """
        return self.attend(query, self.key_proj(key), value, mask)

    def attend(
        self, query: Tensor, projected_key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `forward`, with `key_proj(key)` already done: a decoder projects its keys once, not once a step."""
        hidden = self.query_proj(query).unsqueeze(-2) + projected_key.unsqueeze(-3)  # (..., Tq, Tk, hidden)
        scores = self.score(hidden.tanh()).squeeze(-1)  # (..., Tq, Tk)
        weights = masked_softmax(scores, mask)
        return weights @ value, weights
