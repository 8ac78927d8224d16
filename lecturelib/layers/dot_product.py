"""Scaled dot-product attention, and the softmax that knows about masks."""

import math
from typing import Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor


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


def _batch_shape(*tensors: Tensor) -> torch.Size:
    return torch.broadcast_shapes(*(t.shape[:-2] for t in tensors))


def _combine(causal: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return causal & mask
    return mask.masked_fill(~causal, -math.inf)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    q, k = query.shape, key.shape
    if mask is None and k == value.shape and len(q) >= 2 and q[:-2] == k[:-2] and q[-1:] == k[-1:]:
        return  # as a rule; what follows takes longer than a small attention
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
