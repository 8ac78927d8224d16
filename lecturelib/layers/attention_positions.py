"""Positions inside attention: parts for `MultiHeadAttention(positions=...)` that turn, bias or enrich its scores.

Keys stand at positions 0 … Tk - 1. Queries stand where the caller says: the last Tq of those, or each row's own place
when a cache holds rows of different lengths.
"""

import math

import torch
from torch import Tensor, nn

from lecturelib.layers.dot_product import dot_product_attention
from lecturelib.layers.positions import frequencies


class RotaryPositions(nn.Module):
    """Turn each pair of a query's and a key's features by an angle that grows with its position.

    The dot product of two turned vectors depends on the difference of the angles only: on how far apart they are.

    Paper: Su et al. 2021 [su2021roformer], Equation 34.
    Differs: nothing. Pairs are neighbouring features (0, 1), (2, 3), … as in the paper; LLaMA's code pairs feature i
    with feature i + Dh / 2, which is the same up to a fixed reordering of the projections' rows.

    Args:
        head_dim: width of one head, even
        base: the slowest hand turns by about 1 / base radians a step
    """

    def __init__(self, head_dim: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"head_dim must be even, features turn in pairs, got {head_dim}")
        self.head_dim, self.base = head_dim, base

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn queries or keys by their positions.

        Shapes: heads (B, H, T, Dh), positions (T,) or (B, T) -> (B, H, T, Dh)
        """
        if heads.shape[-1] != self.head_dim:
            raise ValueError(f"RotaryPositions was built for heads of width {self.head_dim}, got {heads.shape[-1]}")
        angles = positions[..., None] * frequencies(self.head_dim, self.base, device=heads.device)  # (..., T, Dh / 2)
        if angles.dim() == 3:
            angles = angles[:, None]  # (B, 1, T, Dh / 2)
        cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        even, odd = heads[..., 0::2], heads[..., 1::2]  # (B, H, T, Dh / 2) each
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)  # (B, H, T, Dh / 2, 2)
        return turned.flatten(-2)  # (B, H, T, Dh)

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
        """Plain attention: the turned queries and keys carry all there is to know."""
        return attend_with_bias(
            query, key, value, mask, None, is_causal=is_causal, dropout=dropout, need_weights=need_weights
        )


class ALiBi(nn.Module):
    """Subtract from each score the distance between query and key, times a slope that differs between heads.

    Nothing is learned, and nothing stops at the training length: longer texts only meet larger penalties.

    Paper: Press et al. 2022 [press2022train], Section 3.
    Differs: the distance is |i - j|, so that it also serves without a causal mask; with one it is the paper's i - j.
    Slopes for a number of heads that is not a power of two follow the authors' code.

    Args:
        num_heads: one slope for each
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        power = 2 ** math.floor(math.log2(num_heads))
        slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
        slopes += [2 ** (-4 * (2 * h + 1) / power) for h in range(num_heads - power)]
        self.register_buffer("slopes", torch.tensor(slopes), persistent=False)

    def bias(self, positions: Tensor, num_keys: int) -> Tensor:
        """The penalties. Shapes: positions (Tq,) -> (H, Tq, Tk), or (B, Tq) -> (B, H, Tq, Tk)"""
        distance = _offsets(positions, num_keys).abs()  # (..., Tq, Tk)
        return -self.slopes[:, None, None] * distance.unsqueeze(-3)  # (..., H, Tq, Tk)

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries and keys stay as they are."""
        return heads

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
        """Attention with the penalties added to the scores."""
        bias = self.bias(positions, key.shape[-2])
        return attend_with_bias(
            query, key, value, mask, bias, is_causal=is_causal, dropout=dropout, need_weights=need_weights
        )


class RelativeBias(nn.Module):
    """Add to each score a learned number for its head and its distance, exact when near and coarser when far.

    Distances share buckets: half of them one step wide, the rest growing to `max_distance`, the last for all beyond.

    Paper: Raffel et al. 2020 [raffel2020exploring], Section 2.1.
    Differs: nothing in the bias; T5 leaves the scores unscaled, `MultiHeadAttention` divides by sqrt(Dh). Pass one
    instance to all layers to share the table between them, as T5 does.

    Args:
        num_heads: one number a bucket for each
        num_buckets: rows of the table
        max_distance: distances from here on share one bucket
        bidirectional: buckets for both sides, half each; otherwise keys after the query count as distance 0
    """

    def __init__(
        self, num_heads: int, *, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        per_side = num_buckets // 2 if bidirectional else num_buckets
        if per_side < 2 or max_distance <= per_side // 2:
            raise ValueError(
                f"too few buckets or too short a reach: num_buckets={num_buckets}, max_distance={max_distance}; "
                "a side needs 2 buckets or more, and max_distance must exceed half of them"
            )
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.table = nn.Embedding(num_buckets, num_heads)

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of each offset (key position - query position), any shape."""
        num_buckets = self.num_buckets
        first = torch.zeros_like(offset)
        if self.bidirectional:
            num_buckets //= 2
            first = (offset > 0) * num_buckets
            distance = offset.abs()
        else:
            distance = -offset.clamp(max=0)
        exact = num_buckets // 2
        growth = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        coarse = (exact + (growth * (num_buckets - exact)).long()).clamp(max=num_buckets - 1)
        return first + torch.where(distance < exact, distance, coarse)

    def bias(self, positions: Tensor, num_keys: int) -> Tensor:
        """The learned numbers. Shapes: positions (Tq,) -> (H, Tq, Tk), or (B, Tq) -> (B, H, Tq, Tk)"""
        values = self.table(self.bucket(_offsets(positions, num_keys)))  # (..., Tq, Tk, H)
        return values.movedim(-1, -3)  # (..., H, Tq, Tk)

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries and keys stay as they are."""
        return heads

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
        """Attention with the learned numbers added to the scores."""
        bias = self.bias(positions, key.shape[-2])
        return attend_with_bias(
            query, key, value, mask, bias, is_causal=is_causal, dropout=dropout, need_weights=need_weights
        )


class RelativePositions(nn.Module):
    """Give every distance, clipped to ±max_distance, a vector that joins the key and another that joins the value.

    score(i, j) = q_i · (k_j + a^K_{j-i}) / sqrt(Dh), output_i = Σ_j α_ij (v_j + a^V_{j-i}).

    Paper: Shaw et al. 2018 [shaw2018self], Section 3; a^K and a^V there are `key_table` and `value_table` here.
    Differs: nothing. The (Tq, Tk, Dh) tensor of the equations is never built: queries meet the 2k + 1 rows of the
    table first, and weights are summed by distance before they meet the other table. Heads share the tables; pass one
    instance to all layers to share it between them too (the paper's base model), or one to each (its big model).

    Args:
        head_dim: width of one head
        max_distance: k, beyond which all distances look alike
    """

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        if max_distance < 0:
            raise ValueError(f"max_distance must be 0 or more, got {max_distance}")
        self.head_dim, self.max_distance = head_dim, max_distance
        self.key_table = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        self.value_table = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        nn.init.xavier_uniform_(self.key_table)
        nn.init.xavier_uniform_(self.value_table)

    def turn(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries and keys stay as they are."""
        return heads

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
        """Attention in which each distance has its own part of the key and of the value."""
        clipped = _offsets(positions, key.shape[-2]).clamp(-self.max_distance, self.max_distance)
        rows = clipped + self.max_distance  # (..., Tq, Tk)
        rows = (rows[:, None] if rows.dim() == 3 else rows).expand(*query.shape[:-1], -1)  # (B, H, Tq, Tk)
        by_distance = query @ self.key_table.T / math.sqrt(self.head_dim)  # (B, H, Tq, 2k + 1)
        attended = attend_with_bias(
            query, key, value, mask, by_distance.gather(-1, rows), is_causal=is_causal, dropout=0.0, need_weights=True
        )
        weights = attended[1]  # (B, H, Tq, Tk)
        dropped = nn.functional.dropout(weights, dropout) if dropout > 0 else weights
        per_distance = torch.zeros_like(by_distance).scatter_add(-1, rows, dropped)  # (B, H, Tq, 2k + 1)
        out = dropped @ value + per_distance @ self.value_table  # (B, H, Tq, Dh)
        return (out, weights) if need_weights else out


def attend_with_bias(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    *,
    is_causal: bool,
    dropout: float,
    need_weights: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    """`dot_product_attention` with a boolean mask and an additive bias (…, Tq, Tk) at once."""
    if bias is not None:
        bias = bias.to(query.dtype)
        if bias.dim() == 3:
            bias = bias.contiguous().unsqueeze(0)  # (1, H, Tq, Tk): the fused kernel takes no other shape
        if mask is not None and mask.dtype == torch.bool:
            bias = torch.where(mask, bias, -math.inf)
        elif mask is not None:
            bias = bias + mask
        mask = bias
    if need_weights:
        return dot_product_attention(query, key, value, mask, is_causal=is_causal, dropout=dropout, need_weights=True)
    return dot_product_attention(query, key, value, mask, is_causal=is_causal, dropout=dropout)


def _offsets(positions: Tensor, num_keys: int) -> Tensor:
    """Key position - query position. Shapes: (Tq,) -> (Tq, Tk), or (B, Tq) -> (B, Tq, Tk)"""
    return torch.arange(num_keys, device=positions.device) - positions[..., None]
