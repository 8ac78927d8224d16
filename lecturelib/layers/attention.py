"""Attention: queries are compared with keys, and values are averaged by what the comparison gives."""

import math
from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.checks import check_heads


class Memory(Protocol):
    """What attention asks of a cache: tokens read before, to append new keys and values, to keep what does not grow."""

    @property
    def length(self) -> int: ...
    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]: ...
    def keep(self, project: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]: ...


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
    needs_scores = need_weights or num_keys == 0
    if is_causal and (mask is not None or needs_scores):  # the fused kernel takes one or the other
        causal = torch.ones(num_queries, num_keys, dtype=torch.bool, device=query.device).tril()
        mask, is_causal = combine_masks(causal, mask), False
    if not needs_scores:
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.to(query.dtype)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=is_causal, scale=scale, dropout_p=dropout
        )
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    weights = masked_softmax(query @ key.transpose(-2, -1) * scale, mask)  # (..., Tq, Tk)
    out = F.dropout(weights, dropout) @ value  # (..., Tq, Dv); with no keys at all, zeros
    return (out, weights) if need_weights else out


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis, over the entries the mask allows; a row that allows none is all zeros.

    Differs: a plain softmax of a row of -inf is NaN, and with -1e9 in place of -inf it would be a uniform
    average over forbidden entries.

    Shapes: scores (..., Tq, Tk), mask broadcasts to it -> (..., Tq, Tk)
    """
    if mask is None:
        return scores.softmax(dim=-1)
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.to(scores.dtype)
    empty = (scores == -math.inf).all(dim=-1, keepdim=True)  # (..., Tq, 1)
    # Fill empty rows before the softmax: masking a NaN afterwards would still leave a NaN gradient.
    return scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)


def combine_masks(mask: Tensor, other: Tensor | None) -> Tensor:
    """One mask for two: what both allow; of biases, the sum, and -inf where a boolean one forbids."""
    if other is None:
        return mask
    if mask.dtype == other.dtype == torch.bool:
        return mask & other
    if mask.dtype == torch.bool:
        return other.masked_fill(~mask, -math.inf)
    return mask.masked_fill(~other, -math.inf) if other.dtype == torch.bool else mask + other


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError(f"attention needs at least (length, width) tensors, got {shapes}")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"queries and keys must have the same width for a dot product, got {shapes}")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"there must be one value for each key, got {shapes}")
    try:
        batch_shape = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except RuntimeError:
        raise ValueError(f"the batch dimensions do not fit each other, got {shapes}") from None
    if mask is None:
        return
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(f"mask must be boolean (True = may attend) or a float bias, got {mask.dtype}; try mask.bool()")
    want = (*batch_shape, query.shape[-2], key.shape[-2])
    sides = zip(reversed(mask.shape), reversed(want), strict=False)
    if mask.dim() > len(want) or any(given not in (1, side) for given, side in sides):
        raise ValueError(f"mask of shape {tuple(mask.shape)} does not broadcast to the scores' shape {want}")


class Attention(nn.Module):
    """A layer whose weights `attention_weights` can watch: while `watchers` is not empty it hands them to each."""

    watchers: tuple[Callable[[Tensor], None], ...] = ()

    def show(self, weights: Tensor) -> None:
        """Hand the weights of this call to whoever watches."""
        for watcher in self.watchers:
            watcher(weights)


class AttentionPositions(nn.Module):
    """How positions enter attention: turned into queries and keys, added to scores or values; here none of these.

    Keys stand at positions 0 … Tk - 1, and queries at the last Tq of those. See `lecturelib.layers.positions`.
    """

    adds_values = False  # whether `values` has something to give, which asks for the weights

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Mark queries or keys (B, H, T, Dh) with their positions (T,), before a cache keeps them."""
        return heads

    def scores(self, query: Tensor, key: Tensor) -> Tensor | None:
        """What to add to the scores of queries (B, H, Tq, Dh) and keys (B, H, Tk, Dh): (H, Tq, Tk), or one a row."""
        return None

    def values(self, weights: Tensor) -> Tensor:
        """What to add to the averaged values, from the weights: (B, H, Tq, Tk) -> (B, H, Tq, Dh)."""
        raise NotImplementedError


class MultiHeadAttention(Attention):
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
        positions: how positions enter attention, if they do: `RotaryPositions`, `ALiBi`, `RelativeBias`, …
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
                f"positions must be a part for attention, such as RotaryPositions, got {type(positions).__name__}; "
                "sinusoidal and learned positions are added to the embeddings instead"
            )
        check_heads(d_model, num_heads, "MultiHeadAttention")
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

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        need_weights: bool = False,
        cache: Memory | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Self-attention with `query` alone, cross-attention with a `key` (and a `value`, else the key again).

        Args:
            query: (B, Tq, D)
            key: (B, Tk, kv_dim)
            value: (B, Tk, kv_dim)
            mask: boolean, True = may attend; (Tq, Tk), (B, Tq, Tk) or (B, 1, Tk) for all heads alike, or
                (B, H, Tq, Tk) for each its own
            cache: earlier tokens' keys and values, which the new ones join; given a `key`, which does not grow, what
                was projected of it the first time

        With a `positions` part, keys stand at 0 … Tk - 1 and the queries at the last Tq of those.

        Shapes: -> (B, Tq, D), or a pair with the weights (B, H, Tq, Tk)
        """
        source = query if key is None else key
        content = source if value is None else value
        self._check_widths(query, source, content)
        if cache is not None and key is not None:
            q = self._split(self.query_proj(query))
            k, v = (kept.to(q.dtype) for kept in cache.keep(lambda: self._keys_and_values(source, content)))
        else:
            q, k, v = self.project(query, source, content)
        if self.positions is not None:
            past = 0 if cache is None or key is not None else cache.length
            where = torch.arange(past, past + k.shape[2], device=k.device)  # (Tk,)
            q, k = self.positions.turn(q, where[k.shape[2] - q.shape[2] :]), self.positions.turn(k, where)
        if cache is not None and key is None:
            k, v = cache.append(k, v)
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)  # (B, 1, Tq, Tk)
        wanted = need_weights or bool(self.watchers)
        heads, weights = self.attend(q, k, v, mask, is_causal=is_causal, need_weights=wanted)
        if weights is not None:
            self.show(weights)
        out = self.out_proj(heads.transpose(1, 2).flatten(2))  # (B, Tq, D)
        return (out, weights) if need_weights and weights is not None else out

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend in every head: (B, H, Tq, Dh), and the weights (B, H, Tq, Tk) when asked for."""
        dropout = self.dropout if self.training else 0.0
        bias = None if self.positions is None else self.positions.scores(q, k)
        if bias is not None:
            bias = bias.contiguous().unsqueeze(0) if bias.dim() == 3 else bias  # what the fused kernel takes
            mask = combine_masks(bias.to(q.dtype), mask)  # (1 or B, H, Tq, Tk)
        if self.positions is not None and self.positions.adds_values:
            _, weights = dot_product_attention(q, k, v, mask, is_causal=is_causal, need_weights=True)
            dropped = F.dropout(weights, dropout)
            return dropped @ v + self.positions.values(dropped), weights
        attended = dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=dropout, need_weights=need_weights)
        return attended if isinstance(attended, tuple) else (attended, None)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, Tq, Dh), keys and values (B, H, Tk, Dh)."""
        return self._split(self.query_proj(query)), *self._keys_and_values(key, value)

    def _keys_and_values(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return self._split(self.key_proj(key)), self._split(self.value_proj(value))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H, T, Dh)

    def _check_widths(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        widths = (self.d_model, self.kv_dim, self.kv_dim)
        for name, tensor, width in zip(("query", "key", "value"), (query, key, value), widths, strict=True):
            if tensor.dim() != 3 or tensor.shape[-1] != width:
                raise ValueError(f"{name} must be (batch, length, {width}), got {tuple(tensor.shape)}")
        lengths = f"{query.shape[1]} queries and {key.shape[1]} keys"
        if self.positions is not None and query.shape[1] > key.shape[1]:
            raise ValueError(f"with a positions part the queries are the last of the keys, got {lengths}")
