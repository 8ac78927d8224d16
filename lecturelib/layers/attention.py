"""The attention layer: scaled dot-product, additive, and multi-head."""

import math
from typing import Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@overload
def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    need_weights: Literal[False] = False,
) -> Tensor: ...


@overload
def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    need_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Average the values, each weighted by the softmax of its key's dot product with the query.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Equation 1.
    Differs: a query that may attend to nothing gives a row of zeros, in the output and in the weights, never
    NaN. Without `need_weights` the work is done by `F.scaled_dot_product_attention`, which never stores the
    (Tq, Tk) weights.

    Args:
        query: (..., Tq, Dk)
        key: (..., Tk, Dk)
        value: (..., Tk, Dv)
        mask: boolean, broadcasts to (..., Tq, Tk); True = may attend. A floating-point mask is added to the
            scores instead, which is how position biases come in; its -inf entries may not be attended.
        is_causal: query i sees keys 0..i; needs Tq == Tk. Combines with `mask`.
        scale: what the scores are multiplied by; 1 / sqrt(Dk) when left out
        dropout: probability of dropping a weight; the caller passes 0 outside training
        need_weights: also return the (..., Tq, Tk) weights, before dropout

    Shapes: -> (..., Tq, Dv), or a pair with the weights (..., Tq, Tk)
    """
    _check_shapes(query, key, value, mask)
    num_queries, num_keys = query.shape[-2], key.shape[-2]
    if is_causal and num_queries != num_keys:
        raise ValueError(
            f"is_causal needs as many queries as keys, got {num_queries} and {num_keys}; "
            "for a cache of earlier keys pass mask=causal_mask(query_len, key_len)"
        )
    if is_causal and mask is not None:  # the fused kernel takes one or the other
        causal = torch.ones(num_queries, num_keys, dtype=torch.bool, device=query.device).tril()
        mask, is_causal = _combine(causal, mask), False
    if num_keys > 0 and not need_weights:
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.to(query.dtype)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=is_causal, scale=scale, dropout_p=dropout
        )

    if is_causal:
        mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=query.device).tril()
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale  # (..., Tq, Tk)
    weights = masked_softmax(scores, mask)
    dropped = F.dropout(weights, dropout) if dropout > 0 else weights
    out = dropped @ value  # (..., Tq, Dv); with no keys at all, zeros
    return (out, weights) if need_weights else out


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis, over the entries the mask allows; a row that allows none is all zeros.

    Differs: a plain softmax of a row of -inf is NaN, and with -1e9 in place of -inf it would be a uniform
    average over forbidden entries.

    Shapes: scores (..., Tq, Tk), mask broadcasts to it -> (..., Tq, Tk)
    """
    if mask is None:
        return scores.softmax(dim=-1)
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    else:
        scores = scores + mask.to(scores.dtype)
    empty = (scores == -math.inf).all(dim=-1, keepdim=True)  # (..., Tq, 1)
    # Fill empty rows before the softmax: masking a NaN afterwards would still leave a NaN gradient.
    return scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)


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


class MultiHeadAttention(nn.Module):
    """Project to queries, keys and values, attend in `num_heads` subspaces at once, and mix the results.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.2.2.
    Differs: the projections have biases by default, as in the authors' code and `torch.nn.MultiheadAttention`,
    whose weights `load_torch` takes. Rows that may attend to nothing leave the output projection's bias.

    Args:
        d_model: width of the queries and of the output
        num_heads: must divide d_model; more heads are narrower ones, so the parameter count stays the same
        kv_dim: width of the keys and values; d_model when left out
        dropout: of the attention weights, in training
        bias: whether the four projections have biases
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        kv_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if d_model < 1 or num_heads < 1 or d_model % num_heads:
            raise ValueError(
                f"num_heads must divide d_model, both at least 1, got d_model={d_model} and num_heads={num_heads}"
            )
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        kv_dim = d_model if kv_dim is None else kv_dim
        self.d_model, self.num_heads, self.dropout = d_model, num_heads, dropout
        self.query_proj = nn.Linear(d_model, d_model, bias=bias)
        self.key_proj = nn.Linear(kv_dim, d_model, bias=bias)
        self.value_proj = nn.Linear(kv_dim, d_model, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

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
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Self-attention with `query` alone, cross-attention with a `key` (and a `value`, else the key again).

        Args:
            query: (B, Tq, D)
            key: (B, Tk, kv_dim)
            value: (B, Tk, kv_dim)
            mask: boolean, True = may attend; (Tq, Tk), (B, Tq, Tk) or (B, 1, Tk) for all heads alike, or
                (B, H, Tq, Tk) for each its own

        Shapes: -> (B, Tq, D), or a pair with the weights (B, H, Tq, Tk)
        """
        key = query if key is None else key
        value = key if value is None else value
        for name, tensor, width in (
            ("query", query, self.d_model),
            ("key", key, self.key_proj.in_features),
            ("value", value, self.value_proj.in_features),
        ):
            if tensor.dim() != 3 or tensor.shape[-1] != width:
                raise ValueError(f"{name} must be (batch, length, {width}), got {tuple(tensor.shape)}")
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)  # (B, 1, Tq, Tk)
        q = self._split(self.query_proj(query))  # (B, H, Tq, Dh)
        k = self._split(self.key_proj(key))  # (B, H, Tk, Dh)
        v = self._split(self.value_proj(value))  # (B, H, Tk, Dh)
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            heads, weights = dot_product_attention(
                q, k, v, mask, is_causal=is_causal, dropout=dropout, need_weights=True
            )
            return self.out_proj(self._merge(heads)), weights
        heads = dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=dropout)
        return self.out_proj(self._merge(heads))  # (B, Tq, D)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, d_model = x.shape
        return x.view(batch, length, self.num_heads, d_model // self.num_heads).transpose(1, 2)  # (B, H, T, Dh)

    def _merge(self, x: Tensor) -> Tensor:
        batch, num_heads, length, head_dim = x.shape
        return x.transpose(1, 2).reshape(batch, length, num_heads * head_dim)  # (B, T, D)

    @torch.no_grad()
    def load_torch(self, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Copy the weights of a `torch.nn.MultiheadAttention` of the same widths, and return self."""
        if module.bias_k is not None or module.bias_v is not None or module.add_zero_attn:
            raise ValueError("add_bias_kv and add_zero_attn have no counterpart here; build the torch module without")
        if module.num_heads != self.num_heads:
            raise ValueError(f"num_heads differs: {module.num_heads} in the torch module, {self.num_heads} here")
        if (module.in_proj_bias is None) != (self.out_proj.bias is None):
            raise ValueError("one module has biases and the other has none; build both with the same `bias`")
        if module.in_proj_weight is not None:
            weights = [*module.in_proj_weight.chunk(3), module.out_proj.weight]
        else:
            weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight, module.out_proj.weight]
        projections = (self.query_proj, self.key_proj, self.value_proj, self.out_proj)
        for ours, weight in zip(projections, weights, strict=True):
            if ours.weight.shape != weight.shape:
                raise ValueError(f"cannot copy a weight of shape {tuple(weight.shape)} into {tuple(ours.weight.shape)}")
        for ours, weight in zip(projections, weights, strict=True):
            ours.weight.copy_(weight)
        if module.in_proj_bias is not None:
            biases = (*module.in_proj_bias.chunk(3), module.out_proj.bias)
            for ours, bias in zip(projections, biases, strict=True):
                ours.bias.copy_(bias)
        return self


def _batch_shape(*tensors: Tensor) -> torch.Size:
    return torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))


def _combine(causal: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return causal & mask
    return mask.masked_fill(~causal, -math.inf)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError(f"attention needs at least (length, width) tensors, got {shapes}")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"queries and keys must have the same width for a dot product, got {shapes}")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"there must be one value for each key, got {shapes}")
    try:
        batch_shape = _batch_shape(query, key, value)
    except RuntimeError:
        raise ValueError(f"the batch dimensions do not fit each other, got {shapes}") from None
    if mask is None:
        return
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(
            f"mask must be boolean (True = may attend) or a float bias added to the scores, got {mask.dtype}; "
            "a 0/1 integer mask becomes one with mask.bool()"
        )
    want = (*batch_shape, query.shape[-2], key.shape[-2])
    try:
        fits = torch.broadcast_shapes(mask.shape, want) == want
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"mask of shape {tuple(mask.shape)} does not broadcast to the scores' shape {want}")
