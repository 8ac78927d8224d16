"""LeViT's attention: batch norm in place of layer norm, slim keys, wide values, and a bias for every distance."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import Attention, dot_product_attention


class NormedLinear(nn.Module):
    """A matrix without bias, and batch norm over all tokens; in evaluation the two are one matrix.

    Paper: Graham et al. 2021 [graham2021levit], Section 4.1.
    Differs: nothing.

    Shapes: (B, T, d_in) -> (B, T, d_out)
    """

    def __init__(self, d_in: int, d_out: int, *, start: float = 1.0) -> None:
        super().__init__()
        self.linear = nn.Linear(d_in, d_out, bias=False)
        self.norm = nn.BatchNorm1d(d_out)
        nn.init.trunc_normal_(self.linear.weight, std=0.02)
        nn.init.constant_(self.norm.weight, start)

    def forward(self, x: Tensor) -> Tensor:
        """Project, then normalise each feature over batch and length."""
        x = self.linear(x)
        return self.norm(x.flatten(0, 1)).view_as(x)  # (B, T, d_out)


class LeViTAttention(Attention):
    """Attention over a grid, with a learned bias for every distance, and queries that may be fewer than the keys.

    Distance is (|rows apart|, |columns apart|): left and right are alike. With `stride` 2 every other patch of every
    other row asks, and the grid shrinks to a quarter: that is how LeViT descends its pyramid.

    Paper: Graham et al. 2021 [graham2021levit], Section 4.2.
    Differs: nothing.

    Args:
        d_model: width in
        num_heads: of them
        key_dim: width of one head's queries and keys
        value_dim: width of one head's values, 2 or 4 times key_dim in the paper
        grid: rows and columns of patches
        d_out: width out; d_model when left out
        stride: 1, or 2 to shrink

    Shapes: (B, rows · columns, D) -> (B, rows / stride · columns / stride, d_out), rounded up
    """

    index: Tensor

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        key_dim: int,
        value_dim: int,
        grid: tuple[int, int],
        d_out: int | None = None,
        stride: int = 1,
    ) -> None:
        super().__init__()
        if min(d_model, num_heads, key_dim, value_dim, *grid, stride) < 1:
            raise ValueError(
                f"all sizes must be at least 1, got d_model={d_model}, num_heads={num_heads}, key_dim={key_dim}, "
                f"value_dim={value_dim}, grid={grid}, stride={stride}"
            )
        self.num_heads, self.grid, self.stride = num_heads, grid, stride
        self.query_proj = NormedLinear(d_model, num_heads * key_dim)
        self.key_proj = NormedLinear(d_model, num_heads * key_dim)
        self.value_proj = NormedLinear(d_model, num_heads * value_dim)
        # A block that keeps its size starts as the identity; one that shrinks has no shortcut to fall back on.
        self.out_proj = NormedLinear(num_heads * value_dim, d_out or d_model, start=0.0 if stride == 1 else 1.0)
        self.bias_table = nn.Parameter(torch.zeros(num_heads, grid[0] * grid[1]))
        self.register_buffer("index", distance_index(grid, stride), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend over the whole grid; hard swish before the last matrix."""
        rows, columns = self.grid
        if x.dim() != 3 or x.shape[1] != rows * columns:
            raise ValueError(
                f"a grid of {rows} × {columns} is (batch, {rows * columns}, width), got {tuple(x.shape)}; build "
                "LeViTAttention for the grid that it gets"
            )
        asking = x.unflatten(1, self.grid)[:, :: self.stride, :: self.stride].flatten(1, 2)  # (B, Tq, D)
        q, k, v = self._split(self.query_proj(asking)), self._split(self.key_proj(x)), self._split(self.value_proj(x))
        bias = self.bias_table[:, self.index][None]  # (1, H, Tq, Tk)
        heads = dot_product_attention(q, k, v, bias, need_weights=bool(self.watchers))  # (B, H, Tq, value_dim)
        if isinstance(heads, tuple):
            heads, weights = heads
            self.show(weights)
        return self.out_proj(F.hardswish(heads.transpose(1, 2).flatten(2)))  # (B, Tq, d_out)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)  # (B, H, T, width of one head)


def distance_index(grid: tuple[int, int], stride: int = 1) -> Tensor:
    """The number of the distance between each asking patch and each patch: |rows apart| · columns + |columns apart|.

    Shapes: -> (Tq, Tk), Tk = rows · columns
    """
    rows, columns = grid
    key = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))  # (Tk, 2)
    query = torch.cartesian_prod(torch.arange(0, rows, stride), torch.arange(0, columns, stride))  # (Tq, 2)
    apart = (query[:, None] - key).abs()  # (Tq, Tk, 2)
    return apart[..., 0] * columns + apart[..., 1]


class LeViTBlock(nn.Module):
    """LeViT's residual attention and its feed-forward net, only twice as wide as the tokens.

    Paper: Graham et al. 2021 [graham2021levit], Section 4.2.
    Differs: no stochastic depth.

    Args:
        attention: (B, T, D) -> (B, T, D), a `LeViTAttention` that does not shrink
        d_model: width
        expansion: of the feed-forward net

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(self, attention: LeViTAttention, d_model: int, *, expansion: int = 2) -> None:
        super().__init__()
        self.attention = attention
        self.widen = NormedLinear(d_model, expansion * d_model)
        self.narrow = NormedLinear(expansion * d_model, d_model, start=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the patches, then transform each."""
        x = x + self.attention(x)
        return x + self.narrow(F.hardswish(self.widen(x)))
