"""Networks on sets: the order of the elements must not matter, and how many there are may vary."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.checks import check_config, check_heads, check_lengths
from lecturelib.layers.masks import padding_mask


@dataclass(frozen=True, kw_only=True)
class DeepSetsConfig:
    """Sizes of a `DeepSets`; `pooling` is "sum", "mean" or "max"."""

    input_dim: int
    output_dim: int
    hidden_dim: int = 64
    pooling: Literal["sum", "mean", "max"] = "sum"

    def __post_init__(self) -> None:
        check_config(self, sizes=("input_dim", "output_dim", "hidden_dim"), dropout=())
        if self.pooling not in ("sum", "mean", "max"):
            raise ValueError(f"DeepSetsConfig: pooling must be sum, mean or max, got {self.pooling!r}")


class DeepSets(nn.Module):
    """Map each element, pool, map the pool: ρ(Σ φ(x)).

    Paper: Zaheer et al. 2017 [zaheer2017deep], Theorem 2 and Section 3.2.
    Differs: φ has two layers and ρ two; padding is left out of the pool, and an empty set pools to zeros.

    Shapes: x (B, T, in), lengths (B,) -> (B, out)
    """

    def __init__(self, config: DeepSetsConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_dim
        self.element = nn.Sequential(nn.Linear(config.input_dim, width), nn.ReLU(), nn.Linear(width, width))
        self.whole = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, config.output_dim))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: x (B, T, in), lengths (B,) -> (B, out)"""
        check_set(x, lengths, self.config.input_dim)
        return self.whole(pool(self.element(x), lengths, self.config.pooling))


def pool(elements: Tensor, lengths: Tensor, how: str) -> Tensor:
    """Sum, mean or maximum over the real elements of each set; zeros for a set of none.

    Shapes: elements (B, T, D), lengths (B,) -> (B, D)
    """
    real = padding_mask(lengths, elements.shape[1]).transpose(1, 2)  # (B, T, 1)
    if how == "max":
        highest = elements.masked_fill(~real, -torch.inf).amax(dim=1)
        return highest.masked_fill((lengths == 0)[:, None], 0.0)
    total = elements.masked_fill(~real, 0.0).sum(dim=1)
    return total / lengths.clamp(min=1)[:, None] if how == "mean" else total


def check_set(x: Tensor, lengths: Tensor, input_dim: int) -> None:
    """Raise unless `x` is (batch, elements, input_dim) and `lengths` says how many elements of each set are real."""
    if x.dim() != 3 or x.shape[2] != input_dim:
        raise ValueError(f"x must be (batch, elements, {input_dim}), got {tuple(x.shape)}")
    check_lengths(lengths, x.shape[0], x.shape[1])


class SetAttention(nn.Module):
    """One set looks at another, or at itself: attention and a feed-forward net, with post-norm and no positions.

    Paper: Lee et al. 2019 [lee2019set], the multihead attention block MAB(X, Y), Equations 6 and 7.
    Differs: the residual is X itself, as printed; the authors' code adds the projected X.

    Shapes: x (B, T, D), y (B, S, D), mask broadcasts to (B, T, S) -> (B, T, D)
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = nn.Linear(d_model, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x: Tensor, y: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Shapes: x (B, T, D), y (B, S, D) or x itself -> (B, T, D)"""
        x = self.norm1(x + self.attention(x, y, mask=mask))
        return self.norm2(x + F.relu(self.feed_forward(x)))


class InducedSetAttention(nn.Module):
    """A set looks at itself through M learned points: T·M scores twice instead of T².

    Paper: Lee et al. 2019 [lee2019set], the induced set attention block, Equations 9 and 10.
    Differs: nothing.

    Shapes: x (B, T, D), mask (B, 1, T) -> (B, T, D)
    """

    def __init__(self, d_model: int, num_heads: int, num_points: int) -> None:
        super().__init__()
        self.points = nn.Parameter(nn.init.xavier_uniform_(torch.empty(num_points, d_model)))
        self.gather = SetAttention(d_model, num_heads)
        self.spread = SetAttention(d_model, num_heads)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shapes: x (B, T, D), mask (B, 1, T) -> (B, T, D)"""
        points = self.points.expand(len(x), -1, -1)  # (B, M, D)
        return self.spread(x, self.gather(points, x, mask))


@dataclass(frozen=True, kw_only=True)
class SetTransformerConfig:
    """Sizes of a `SetTransformer`; with `num_points` the blocks are induced ones."""

    input_dim: int
    output_dim: int
    d_model: int = 64
    num_heads: int = 4
    num_layers: int = 2
    num_points: int | None = None

    def __post_init__(self) -> None:
        check_config(self, sizes=("input_dim", "output_dim", "d_model", "num_heads", "num_layers"), dropout=())
        check_heads(self.d_model, self.num_heads, "SetTransformerConfig")
        if self.num_points is not None and self.num_points < 1:
            raise ValueError(f"SetTransformerConfig: num_points must be at least 1, got {self.num_points}")


class SetTransformer(nn.Module):
    """Elements attend to one another, then one learned query pools them.

    Paper: Lee et al. 2019 [lee2019set], Section 3.
    Differs: one pooling query and a linear output; the paper also decodes several outputs with attention among them.

    Shapes: x (B, T, in), lengths (B,) -> (B, out)
    """

    def __init__(self, config: SetTransformerConfig) -> None:
        super().__init__()
        self.config = config
        width, heads, points = config.d_model, config.num_heads, config.num_points
        self.embed = nn.Linear(config.input_dim, width)
        self.blocks = nn.ModuleList(
            SetAttention(width, heads) if points is None else InducedSetAttention(width, heads, points)
            for _ in range(config.num_layers)
        )
        self.before_pool = nn.Linear(width, width)
        self.seed = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width)))
        self.pool = SetAttention(width, heads)
        self.output = nn.Linear(width, config.output_dim)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: x (B, T, in), lengths (B,) -> (B, out)"""
        check_set(x, lengths, self.config.input_dim)
        mask = padding_mask(lengths, x.shape[1])  # (B, 1, T)
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, mask=mask)
        query = self.seed.expand(len(x), -1, -1)  # (B, 1, D)
        return self.output(self.pool(query, F.relu(self.before_pool(x)), mask)[:, 0])
