"""Exact attention in linear memory: the scores are made tile by tile and never stand in memory all at once."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.precision import precise


def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    tile: int = 256,
) -> Tensor:
    """`dot_product_attention`, with memory that grows with Tq + Tk instead of Tq · Tk, backward too.

    Three running results for each query are enough to take a softmax piece by piece: the largest score so far, the sum
    of exponentials, and the sum of values weighted by them. When a tile brings a larger score, the sums so far are
    scaled down. The backward pass makes each tile's scores again from what was kept: one number for each query.

    Paper: Dao et al. 2022 [dao2022flashattention], Algorithms 1 and 4; the running softmax is Milakov and Gimelshein
    2018 [milakov2018online].
    Differs: plain tensor operations, tile by tile; the paper's speed comes from doing all of a tile in one GPU kernel.
    A query that may attend to nothing gives zeros.

    Args:
        query: (..., Tq, Dk)
        key: (..., Tk, Dk), with the leading sizes of the query
        value: (..., Tk, Dv)
        mask: boolean, broadcasts to (..., Tq, Tk); True = may attend
        is_causal: query i sees keys 0..i; needs Tq == Tk
        scale: what the scores are multiplied by; 1 / sqrt(Dk) when left out
        tile: queries and keys in a tile

    Shapes: -> (..., Tq, Dv)
    """
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2] or key.shape[-2] != value.shape[-2]:
        raise ValueError(f"tiled attention needs equal leading sizes and one value for each key, got {shapes}")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"queries and keys must have the same width for a dot product, got {shapes}")
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError(f"is_causal needs as many queries as keys, got {shapes}")
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"tiled attention takes boolean masks only, True = may attend, got {mask.dtype}")
    if tile < 1:
        raise ValueError(f"tile must be at least 1, got {tile}")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    out, _ = _Tiled.apply(query, key, value, mask, is_causal, scale, tile)
    return out


def _tiles(length: int, tile: int) -> list[slice]:
    return [slice(start, min(start + tile, length)) for start in range(0, length, tile)]


def _scores(
    query: Tensor, key: Tensor, mask: Tensor | None, rows: slice, columns: slice, is_causal: bool, scale: float
) -> Tensor | None:
    """The scores of one tile, -inf where forbidden; None where the whole tile lies in the future."""
    if is_causal and columns.start >= rows.stop:
        return None
    scores = precise(query[..., rows, :] @ key[..., columns, :].transpose(-2, -1)) * scale
    if mask is not None:
        part = mask[..., rows, :] if mask.dim() > 1 and mask.shape[-2] > 1 else mask
        part = part[..., columns] if part.shape[-1] > 1 else part
        scores = scores.masked_fill(~part, -math.inf)
    if is_causal and columns.stop > rows.start + 1:
        where = torch.arange(rows.start, rows.stop, device=scores.device)[:, None]
        scores = scores.masked_fill(torch.arange(columns.start, columns.stop, device=scores.device) > where, -math.inf)
    return scores  # (..., rows, columns)


class _Tiled(torch.autograd.Function):
    """Keeps queries, keys, values, the output, and for each query the logarithm of its sum of exponentials."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float, tile: int
    ) -> tuple[Tensor, Tensor]:
        outs, log_sums = [], []
        for rows in _tiles(query.shape[-2], tile):
            wide = precise(query[..., rows, :1])  # (..., rows, 1)
            largest, total = torch.full_like(wide, -math.inf), torch.zeros_like(wide)
            mixed = torch.zeros_like(wide).expand(*wide.shape[:-1], value.shape[-1])  # (..., rows, Dv)
            for columns in _tiles(key.shape[-2], tile):
                scores = _scores(query, key, mask, rows, columns, is_causal, scale)
                if scores is None:
                    break
                higher = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
                floor = higher.masked_fill(higher == -math.inf, 0.0)  # nothing allowed yet: any number will do
                weights, shrink = (scores - floor).exp(), (largest - floor).exp()
                total = total * shrink + weights.sum(dim=-1, keepdim=True)
                mixed = mixed * shrink + precise(weights.to(value.dtype) @ value[..., columns, :])
                largest = higher
            outs.append((mixed / total.masked_fill(total == 0, 1.0)).to(value.dtype))
            log_sums.append(largest + total.log())  # (..., rows, 1)
        return torch.cat(outs, dim=-2), torch.cat(log_sums, dim=-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        query, key, value, mask, *ctx.settings = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(query, key, value, mask, *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask, out, log_sum = ctx.saved_tensors
        is_causal, scale, tile = ctx.settings
        rows_of, columns_of = _tiles(query.shape[-2], tile), _tiles(key.shape[-2], tile)
        grad_queries: list[Tensor] = []
        grad_keys = [torch.zeros_like(precise(key[..., columns, :])) for columns in columns_of]
        grad_values = [torch.zeros_like(precise(value[..., columns, :])) for columns in columns_of]
        centre = (precise(grad) * precise(out)).sum(dim=-1, keepdim=True)  # (..., Tq, 1)
        log_sum = log_sum.masked_fill(log_sum == -math.inf, math.inf)  # a query of no key: weights of zero
        for rows in rows_of:
            grad_rows, grad_query = grad[..., rows, :], torch.zeros_like(precise(query[..., rows, :]))
            for index, columns in enumerate(columns_of):
                scores = _scores(query, key, mask, rows, columns, is_causal, scale)
                if scores is None:
                    break
                weights = (scores - log_sum[..., rows, :]).exp()  # (..., rows, columns)
                towards = precise(grad_rows @ value[..., columns, :].transpose(-2, -1))
                pull = (weights * (towards - centre[..., rows, :]) * scale).to(query.dtype)
                grad_query = grad_query + precise(pull @ key[..., columns, :])
                grad_keys[index] = grad_keys[index] + precise(pull.transpose(-2, -1) @ query[..., rows, :])
                weights = weights.to(grad.dtype).transpose(-2, -1)
                grad_values[index] = grad_values[index] + precise(weights @ grad_rows)
            grad_queries.append(grad_query)
        gradients = zip((grad_queries, grad_keys, grad_values), (query, key, value), strict=True)
        return *(torch.cat(pieces, dim=-2).to(whole.dtype) for pieces, whole in gradients), None, None, None, None


class TiledAttention(MultiHeadAttention):
    """`MultiHeadAttention` through `tiled_attention`: the same numbers, in memory that is linear in the length.

    Paper: Dao et al. 2022 [dao2022flashattention].
    Differs: as `tiled_attention`. No dropout of the weights. Where the weights are asked for they are stored after all.

    Args:
        d_model, num_heads, kv_dim, bias: as in `MultiHeadAttention`
        positions: a part that turns queries and keys, such as `RotaryPositions`; one that adds to scores is refused
        tile: queries and keys in a tile
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        kv_dim: int | None = None,
        bias: bool = True,
        positions: nn.Module | None = None,
        tile: int = 256,
    ) -> None:
        super().__init__(d_model, num_heads, kv_dim=kv_dim, bias=bias, positions=positions)
        self.tile = tile

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend in every head, tile by tile unless the weights are asked for."""
        if need_weights:
            return super().attend(q, k, v, mask, is_causal=is_causal, need_weights=True)
        if self.positions is not None and (self.positions.adds_values or self.positions.scores(q, k) is not None):
            raise ValueError(
                f"TiledAttention takes positions that turn queries and keys, such as RotaryPositions, not "
                f"{type(self.positions).__name__}, which adds to every score"
            )
        return tiled_attention(q, k, v, mask, is_causal=is_causal, tile=self.tile), None
