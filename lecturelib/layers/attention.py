"""The attention layers with weights of their own: additive and multi-head."""

from typing import Literal, Protocol, overload, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.cache import LayerCache
from lecturelib.layers.dot_product import dot_product_attention, masked_softmax
from lecturelib.layers.inference import only_result_matters

__all__ = [
    "AdditiveAttention",
    "AttentionPositions",
    "MultiHeadAttention",
    "dot_product_attention",
    "masked_softmax",
]


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


@runtime_checkable
class AttentionPositions(Protocol):
    """What `MultiHeadAttention` asks of a part that brings positions into attention; keys stand at 0, 1, 2, …"""

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Mark queries or keys (B, H, T, Dh) with their positions, (T,) or (B, T); before any cache keeps them."""
        ...

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        positions: Tensor,
        *,
        is_causal: bool,
        dropout: float,
        need_weights: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """As `dot_product_attention`, told the queries' positions, (Tq,) or (B, Tq)."""
        ...


class MultiHeadAttention(nn.Module):
    """Project to queries, keys and values, attend in `num_heads` subspaces at once, and mix the results.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.2.2.
    Differs: the projections have biases by default, as in the authors' code and `torch.nn.MultiheadAttention`. Rows
    that may attend to nothing leave the output projection's bias.

    Args:
        d_model: width of the queries and of the output
        num_heads: must divide d_model; more heads are narrower ones, so the parameter count stays the same
        kv_dim: width of the keys and values; d_model when left out
        dropout: of the attention weights, in training
        bias: whether the four projections have biases
        positions: how positions enter the scores, if they do: `RotaryPositions`, `ALiBi`, `RelativeBias`, …
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        kv_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        positions: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if positions is not None and not isinstance(positions, AttentionPositions):
            raise TypeError(
                f"positions must be a part with `turn` and `attend`, such as RotaryPositions, got "
                f"{type(positions).__name__}; sinusoidal and learned positions are added to the embeddings instead"
            )
        if d_model < 1 or num_heads < 1 or d_model % num_heads:
            raise ValueError(
                f"num_heads must divide d_model, both at least 1, got d_model={d_model} and num_heads={num_heads}"
            )
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        kv_dim = d_model if kv_dim is None else kv_dim
        self.d_model, self.num_heads, self.kv_dim, self.dropout = d_model, num_heads, kv_dim, dropout
        self.head_dim = d_model // num_heads
        self.query_proj = nn.Linear(d_model, d_model, bias=bias)
        self.key_proj = nn.Linear(kv_dim, d_model, bias=bias)
        self.value_proj = nn.Linear(kv_dim, d_model, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)
        self.positions = positions

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: Literal[False] = False,
        cache: LayerCache | None = None,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: Literal[True],
        cache: LayerCache | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: bool = False,
        cache: LayerCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Self-attention with `query` alone, cross-attention with a `key` (and a `value`, else the key again).

        Args:
            query: (B, Tq, D)
            key: (B, Tk, kv_dim)
            value: (B, Tk, kv_dim)
            mask: boolean, True = may attend; (Tq, Tk), (B, Tq, Tk) or (B, 1, Tk) for all heads alike, or
                (B, H, Tq, Tk) for each its own
            cache: earlier tokens' keys and values; the new ones join them, and the queries see them all

        With a `positions` part, keys stand at 0 … Tk - 1 and the queries at the last Tq of those.

        Shapes: -> (B, Tq, D), or a pair with the weights (B, H, Tq, Tk)
        """
        key = query if key is None else key
        value = key if value is None else value
        self._check_widths(query, key, value)
        if query is key is value and self._gains_by_one_product(query):
            q, k, v = self._project_at_once(query)  # (B, H, T, Dh) each
        else:
            q = self._split(self.query_proj(query))  # (B, H, Tq, Dh)
            k, v = self._split(self.key_proj(key)), self._split(self.value_proj(value))  # (B, H, Tk, Dh) each
        where = None
        if self.positions is not None:
            where = self._query_positions(query, key) if cache is None else cache.positions  # (Tq,) or (B, Tq)
            key_where = torch.arange(key.shape[1], device=key.device) if cache is None else where
            q, k = self.positions.turn(q, where), self.positions.turn(k, key_where)
        if cache is not None:
            k, v = cache.append(k, v)
        return self._attend(q, k, v, mask, where, is_causal=is_causal, need_weights=need_weights)

    def project_memory(self, key: Tensor, value: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Project keys and values once, for the many calls of `read_memory` that decoding makes.

        Shapes: (B, Tk, kv_dim) -> two of (B, H, Tk, Dh)
        """
        return self._split(self.key_proj(key)), self._split(self.value_proj(key if value is None else value))

    def read_memory(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """Cross-attention to keys and values that `project_memory` gave.

        Shapes: query (B, Tq, D), keys and values (B, H, Tk, Dh) -> (B, Tq, D)
        """
        out = self._attend(
            self._split(self.query_proj(query)), keys, values, mask, None, is_causal=False, need_weights=False
        )
        assert isinstance(out, Tensor)
        return out

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        where: Tensor | None,
        *,
        is_causal: bool,
        need_weights: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)  # (B, 1, Tq, Tk)
        dropout = self.dropout if self.training else 0.0
        attended: Tensor | tuple[Tensor, Tensor]
        if self.positions is not None and where is not None:
            attended = self.positions.attend(
                q, k, v, mask, where, is_causal=is_causal, dropout=dropout, need_weights=need_weights
            )
        elif need_weights:
            attended = dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=dropout, need_weights=True)
        else:
            attended = dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=dropout)
        if isinstance(attended, tuple):
            heads, weights = attended
            return self.out_proj(self._merge(heads)), weights
        return self.out_proj(self._merge(attended))  # (B, Tq, D)

    def _gains_by_one_product(self, x: Tensor) -> bool:
        if not only_result_matters(self.query_proj, self.key_proj, self.value_proj):
            return False  # asked first: an exported graph must not depend on the number of tokens
        return x.shape[0] * x.shape[1] >= self.d_model  # to be worth copying the three matrices into one

    def _project_at_once(self, x: Tensor) -> tuple[Tensor, ...]:
        qkv = F.linear(x, *self.joined_projections())  # (B, T, 3D)
        heads = qkv.view(*x.shape[:2], 3, self.num_heads, self.head_dim)  # (B, T, 3, H, Dh)
        return heads.permute(2, 0, 3, 1, 4).unbind()

    def joined_projections(self) -> tuple[Tensor, Tensor | None]:
        """Copies of the matrices and biases of queries, keys and values, one below the other; a missing bias is zeros.

        Shapes: -> (3D, D), and (3D,) if one of the three has a bias
        """
        projections = (self.query_proj, self.key_proj, self.value_proj)
        weight = torch.cat([p.weight for p in projections])  # (3D, D)
        if all(p.bias is None for p in projections):
            return weight, None
        biases: list[Tensor] = [p.weight.new_zeros(self.d_model) if p.bias is None else p.bias for p in projections]
        return weight, torch.cat(biases)

    def _check_widths(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        if query is key is value and query.dim() == 3 and query.shape[2] == self.d_model == self.kv_dim:
            return  # self-attention, as a rule
        for name, tensor, width in (
            ("query", query, self.d_model),
            ("key", key, self.kv_dim),
            ("value", value, self.kv_dim),
        ):
            if tensor.dim() != 3 or tensor.shape[-1] != width:
                raise ValueError(f"{name} must be (batch, length, {width}), got {tuple(tensor.shape)}")

    def _query_positions(self, query: Tensor, key: Tensor) -> Tensor:
        num_queries, num_keys = query.shape[1], key.shape[1]
        if num_queries > num_keys:
            raise ValueError(
                f"with a positions part the queries are the last of the keys, got {num_queries} queries and "
                f"{num_keys} keys"
            )
        return torch.arange(num_keys - num_queries, num_keys, device=query.device)  # (Tq,)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.view(batch, length, self.num_heads, self.head_dim).transpose(1, 2)  # (B, H, T, Dh)

    def _merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)  # (B, T, D)
