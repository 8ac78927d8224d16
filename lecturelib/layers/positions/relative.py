"""Relative positions: something learned for every distance between a query and a key."""

import math

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import AttentionPositions


def query_positions(query: Tensor, key: Tensor) -> Tensor:
    """Where the queries stand: at the last Tq of the Tk keys. Shapes: -> (Tq,)"""
    return torch.arange(key.shape[-2] - query.shape[-2], key.shape[-2], device=query.device)


class RelativeBias(AttentionPositions):
    """Add to each score a learned number for its head and its distance, exact when near and coarser when far.

    Distances share buckets: half of them one step wide, the rest growing to `max_distance`, the last for all beyond.

    Paper: Raffel et al. 2020 [raffel2020exploring], Section 2.1.
    Differs: nothing in the bias; T5 leaves the scores unscaled, `MultiHeadAttention` divides by sqrt(Dh). Pass one
    instance to all layers to share the table between them, as T5 does. As there, the widths of the buckets are computed
    in float32, whatever the precision of the model.

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
        """The learned numbers of queries at `positions`. Shapes: (Tq,) -> (H, Tq, Tk)"""
        return self.table(self.bucket(_offsets(positions, num_keys))).permute(2, 0, 1)  # (H, Tq, Tk)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """The learned numbers of these queries and keys, (H, Tq, Tk)."""
        return self.bias(query_positions(query, key), key.shape[-2])


class RelativePositions(AttentionPositions):
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

    adds_values = True

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        if max_distance < 0:
            raise ValueError(f"max_distance must be 0 or more, got {max_distance}")
        self.head_dim, self.max_distance = head_dim, max_distance
        self.key_table = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        self.value_table = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        nn.init.xavier_uniform_(self.key_table)
        nn.init.xavier_uniform_(self.value_table)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """The queries' products with the keys' vectors, looked up by distance."""
        by_distance = query @ self.key_table.T / math.sqrt(self.head_dim)  # (B, H, Tq, 2k + 1)
        return by_distance.gather(-1, self._rows(query.shape[-2], key.shape[-2], by_distance))  # (B, H, Tq, Tk)

    def values(self, weights: Tensor) -> Tensor:
        """The values' vectors, averaged by the weights summed for each distance."""
        per_distance = weights.new_zeros(*weights.shape[:-1], len(self.value_table))  # (B, H, Tq, 2k + 1)
        rows = self._rows(weights.shape[-2], weights.shape[-1], weights)
        return per_distance.scatter_add(-1, rows, weights) @ self.value_table  # (B, H, Tq, Dh)

    def _rows(self, num_queries: int, num_keys: int, like: Tensor) -> Tensor:
        """Each pair's row of the tables, for every head: (B, H, Tq, Tk)."""
        where = torch.arange(num_keys - num_queries, num_keys, device=like.device)
        rows = _offsets(where, num_keys).clamp(-self.max_distance, self.max_distance) + self.max_distance
        return rows.expand(*like.shape[:-2], -1, -1)


def _offsets(positions: Tensor, num_keys: int) -> Tensor:
    """Key position - query position. Shapes: (Tq,) -> (Tq, Tk)"""
    return torch.arange(num_keys, device=positions.device) - positions[:, None]
