"""A transformer whose tokens are the nodes of a graph: the graph enters as a bias on the scores, or as a mask."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PreNorm
from lecturelib.layers.checks import check_config, check_heads


@dataclass(frozen=True, kw_only=True)
class GraphTransformerConfig:
    """Sizes of a `GraphTransformer`.

    max_distance: pairs of nodes this many steps apart or fewer have a bias of their own; all others share one. With 1,
        attention knows who is joined by an edge; with 0, it knows no edge at all
    reach: how many steps a node may look in one layer; with 1 it hears its neighbours and itself, which is message
        passing; None for all nodes
    """

    input_dim: int
    output_dim: int
    d_model: int = 64
    num_heads: int = 4
    num_layers: int = 4
    d_ff: int = 128
    max_distance: int = 8
    reach: int | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("input_dim", "output_dim", "d_model", "num_heads", "num_layers", "d_ff"))
        check_heads(self.d_model, self.num_heads, "GraphTransformerConfig")
        if self.max_distance < 0 or (self.reach is not None and self.reach < 0):
            raise ValueError(
                f"GraphTransformerConfig: max_distance and reach count steps, 0 or more, got {self.max_distance} and "
                f"{self.reach}"
            )


class DistanceBias(nn.Module):
    """A learned number for each head and each distance between two nodes, to be added to their score.

    Paper: Ying et al. 2021 [ying2021transformers], Section 3.1.2, Equation 6 (spatial encoding).
    Differs: nothing but the cut: distances above `max_distance`, and nodes without a path, share one number.

    Shapes: distances (B, N, N) -> (B, H, N, N)
    """

    def __init__(self, num_heads: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.zeros(max_distance + 2, num_heads))

    def forward(self, distances: Tensor) -> Tensor:
        """Shapes: distances (B, N, N) -> (B, H, N, N)"""
        return self.table[distances.clamp(max=self.max_distance + 1)].movedim(-1, 1)


class GraphTransformer(nn.Module):
    """Nodes attend to all nodes, or to those within reach; how far apart two nodes are is added to their score.

    Paper: Ying et al. 2021 [ying2021transformers], the Graphormer; with `max_distance` 1 the bias tells edges from
    non-edges, and with `reach` 1 attention is masked to the edges, as in Dwivedi & Bresson 2021
    [dwivedi2021generalization].
    Differs: no encoding of degrees and of what lies on the edges, and no virtual node; one table of biases for all
    layers, as in the paper.

    Shapes: x (B, N, in), distances (B, N, N) -> (B, N, out)
    """

    def __init__(self, config: GraphTransformerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.d_model
        self.embed = nn.Linear(config.input_dim, width)
        self.bias = DistanceBias(config.num_heads, config.max_distance)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(width, config.num_heads, dropout=config.dropout),
                FeedForward(width, config.d_ff),
                lambda: PreNorm(width, dropout=config.dropout),
            )
            for _ in range(config.num_layers)
        )
        self.norm = PreNorm.final_norm(width)
        self.output = nn.Linear(width, config.output_dim)

    def forward(self, x: Tensor, distances: Tensor) -> Tensor:
        """Shapes: x (B, N, in), distances (B, N, N) -> (B, N, out)"""
        if x.dim() != 3 or x.shape[2] != self.config.input_dim:
            raise ValueError(f"x must be (batch, nodes, {self.config.input_dim}), got {tuple(x.shape)}")
        if distances.shape != (len(x), x.shape[1], x.shape[1]) or distances.is_floating_point():
            raise ValueError(
                f"distances must be ({len(x)}, {x.shape[1]}, {x.shape[1]}) integers, got {distances.dtype} "
                f"{tuple(distances.shape)}"
            )
        bias = self.bias(distances)  # (B, H, N, N)
        if self.config.reach is not None:
            bias = bias.masked_fill((distances > self.config.reach)[:, None], -math.inf)
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, mask=bias)
        return self.output(self.norm(x))
