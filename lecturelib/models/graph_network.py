"""Networks on graphs: every node averages messages from its neighbours, with weights fixed by degree or learned."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import Attention
from lecturelib.layers.checks import check_config, ends
from lecturelib.layers.precision import precise


def with_self_loops(edges: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The edges and one more from each node to itself, and which of all these count: loops that were there do not.

    Shapes: edges (2, E) -> (2, E + N), boolean (E + N,)
    """
    nodes = torch.arange(num_nodes, device=edges.device)
    added = torch.ones(num_nodes, dtype=torch.bool, device=edges.device)
    return torch.cat([edges, nodes.expand(2, -1)], dim=1), torch.cat([edges[0] != edges[1], added])


def softmax_by_target(scores: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Softmax over the edges that end in the same node.

    Shapes: scores (E, H), target (E,) -> (E, H)
    """
    scores, index = precise(scores), target[:, None].expand_as(scores)  # (E, H)
    empty = scores.new_full((num_nodes, scores.shape[1]), -torch.inf)
    highest = empty.scatter_reduce(0, index, scores.detach(), "amax")  # (N, H); taken away so that exp stays small
    raised = (scores - highest[target]).exp()
    total = torch.zeros_like(highest).index_add(0, target, raised)  # (N, H)
    return raised / total[target]


def check_graph(x: Tensor, edges: Tensor, input_dim: int) -> None:
    """Raise unless `x` is (nodes, input_dim) and `edges` (2, edges) numbers of those nodes."""
    if x.dim() != 2 or x.shape[1] != input_dim:
        raise ValueError(f"x must be (nodes, {input_dim}), got {tuple(x.shape)}")
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.dtype != torch.int64:
        raise ValueError(f"edges must be (2, edges) int64 node numbers, got {edges.dtype} {tuple(edges.shape)}")
    found = ends(edges)
    if found and not 0 <= found[0] <= found[1] < len(x):
        wrong = found[0] if found[0] < 0 else found[1]
        raise ValueError(f"edges must hold node numbers from 0 to {len(x) - 1}, got {wrong}")


class GraphConvolution(nn.Module):
    """Average what the neighbours say, after one linear map; an edge's weight follows from the degrees at its ends.

    Paper: Kipf & Welling 2017 [kipf2017semi], Equation 2: D^-1/2 (A + I) D^-1/2 X W.
    Differs: a bias after the average, as in the authors' code. Edges have a direction, from source to target; give both
    directions for the undirected graphs of the paper.

    Shapes: x (N, in), edges (2, E) -> (N, out)
    """

    def __init__(self, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(input_dim, output_dim)))
        self.bias = nn.Parameter(torch.zeros(output_dim))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Shapes: x (N, in), edges (2, E) -> (N, out)"""
        check_graph(x, edges, self.input_dim)
        (source, target), counts = with_self_loops(edges, len(x))
        degree = x.new_zeros(len(x)).index_add(0, target, counts.to(x.dtype))  # (N,), at least 1
        weight = counts * (degree[source] * degree[target]).rsqrt()  # (E + N,)
        messages = weight[:, None] * (x @ self.weight)[source]  # (E + N, out)
        return messages.new_zeros(len(x), messages.shape[1]).index_add(0, target, messages) + self.bias


class GraphAttention(Attention):
    """Average what the neighbours say, with weights that each pair of neighbours computes, in several heads.

    Paper: Velickovic et al. 2018 [velickovic2018graph]; with `dynamic` Brody et al. 2022 [brody2022attentive] (GATv2).
    Differs: nothing in the formulas. The paper's scores are a1·h_i + a2·h_j through a leaky relu, so all targets rank
    their sources alike; with `dynamic` the leaky relu comes before the dot product, and each target has a ranking of
    its own. The dynamic maps have biases, as in the authors' code.

    Args:
        input_dim: width of the nodes
        head_dim: width of each head's output
        num_heads: heads stand side by side in the output, or are averaged with `average`
        dynamic: the scores of GATv2
        dropout: of the attention weights, in training

    Shapes: x (N, in), edges (2, E) -> (N, heads · head_dim), or (N, head_dim) with `average`
    """

    def __init__(
        self,
        input_dim: int,
        head_dim: int,
        num_heads: int = 1,
        *,
        dynamic: bool = False,
        average: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_dim, self.head_dim, self.num_heads = input_dim, head_dim, num_heads
        self.average, self.dropout = average, dropout
        self.source_proj = nn.Linear(input_dim, num_heads * head_dim, bias=dynamic)
        self.target_proj = nn.Linear(input_dim, num_heads * head_dim) if dynamic else None
        parts = 1 if dynamic else 2  # one vector for the pair, or one for each end
        self.score = nn.Parameter(torch.empty(parts, num_heads, head_dim))
        self.bias = nn.Parameter(torch.zeros(head_dim if average else num_heads * head_dim))
        self._initialise()

    def _initialise(self) -> None:
        """Xavier's bounds head by head, as in the authors' code, where each head is a layer of its own."""
        for linear in filter(None, (self.source_proj, self.target_proj)):
            bound = math.sqrt(6 / (self.input_dim + self.head_dim))
            nn.init.uniform_(linear.weight, -bound, bound)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        bound = math.sqrt(6 / (self.head_dim + 1))
        nn.init.uniform_(self.score, -bound, bound)

    def forward(self, x: Tensor, edges: Tensor, *, need_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Shapes: x (N, in), edges (2, E) -> (N, out), or a pair with the weights (E + N, H), loops last"""
        check_graph(x, edges, self.input_dim)
        (source, target), counts = with_self_loops(edges, len(x))
        said = self.source_proj(x).unflatten(1, (self.num_heads, self.head_dim))  # (N, H, Dh)
        if self.target_proj is None:
            from_source, from_target = (said * self.score[:, None]).sum(dim=-1)  # (N, H) each
            scores = F.leaky_relu(from_source[source] + from_target[target], 0.2)  # (E + N, H)
        else:
            asked = self.target_proj(x).unflatten(1, (self.num_heads, self.head_dim))  # (N, H, Dh)
            scores = (F.leaky_relu(said[source] + asked[target], 0.2) * self.score[0]).sum(dim=-1)  # (E + N, H)
        weights = softmax_by_target(scores.masked_fill(~counts[:, None], -torch.inf), target, len(x))
        self.show(weights)
        kept = F.dropout(weights, self.dropout, self.training)
        messages = kept.to(said.dtype)[:, :, None] * said[source]  # (E + N, H, Dh)
        out = messages.new_zeros(said.shape).index_add(0, target, messages)  # (N, H, Dh)
        out = (out.mean(dim=1) if self.average else out.flatten(1)) + self.bias
        return (out, weights) if need_weights else out


@dataclass(frozen=True, kw_only=True)
class GraphNetworkConfig:
    """Sizes of a `GraphNetwork`. `layer` is "convolution", "attention" or "dynamic" (GATv2).

    With `residual`, hidden layers of one width add their output to what they read.
    """

    input_dim: int
    num_classes: int
    hidden_dim: int = 16
    num_heads: int = 1
    num_layers: int = 2
    layer: Literal["convolution", "attention", "dynamic"] = "convolution"
    dropout: float = 0.5
    residual: bool = False

    def __post_init__(self) -> None:
        check_config(self, sizes=("input_dim", "num_classes", "hidden_dim", "num_heads", "num_layers"))
        if self.layer not in ("convolution", "attention", "dynamic"):
            raise ValueError(f"GraphNetworkConfig: layer must be convolution, attention or dynamic, got {self.layer!r}")
        if self.layer == "convolution" and self.num_heads != 1:
            raise ValueError(f"GraphNetworkConfig: a graph convolution has one head, got num_heads {self.num_heads}")
        if self.hidden_dim % self.num_heads:
            raise ValueError(f"GraphNetworkConfig: num_heads {self.num_heads} must divide hidden_dim {self.hidden_dim}")


class GraphNetwork(nn.Module):
    """Label every node of a graph: layers of messages, with a nonlinearity between them.

    Paper: Kipf & Welling 2017 [kipf2017semi] with two convolutions of 16 and relu; Velickovic et al. 2018
    [velickovic2018graph] with 8 heads of 8, elu, and dropout of the attention weights (`CORA_CONVOLUTION` and
    `CORA_ATTENTION`). Residuals as in Kipf & Welling's Appendix B.
    Differs: any number of layers; the last attention layer has one head on Cora, as in the paper, and here everywhere.

    Shapes: x (N, in), edges (2, E) -> logits (N, C)
    """

    def __init__(self, config: GraphNetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(config.dropout)
        widths = [config.input_dim, *[config.hidden_dim] * (config.num_layers - 1)]
        hidden = [self._layer(width, config.hidden_dim, config.num_heads) for width in widths[:-1]]
        self.layers = nn.ModuleList([*hidden, self._layer(widths[-1], config.num_classes, 1)])
        self.activation = nn.ReLU() if config.layer == "convolution" else nn.ELU()

    def _layer(self, before: int, after: int, num_heads: int) -> nn.Module:
        if self.config.layer == "convolution":
            return GraphConvolution(before, after)
        dynamic = self.config.layer == "dynamic"
        return GraphAttention(before, after // num_heads, num_heads, dynamic=dynamic, dropout=self.config.dropout)

    def features(self, x: Tensor, edges: Tensor) -> Tensor:
        """What the last layer reads. Shapes: x (N, in), edges (2, E) -> (N, hidden)"""
        for layer in self.layers[:-1]:
            new = self.activation(layer(self.dropout(x), edges))
            x = new + x if self.config.residual and new.shape == x.shape else new
        return x

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Shapes: x (N, in), edges (2, E) -> logits (N, C)"""
        return self.layers[-1](self.dropout(self.features(x, edges)), edges)


CORA_CONVOLUTION = GraphNetworkConfig(input_dim=1433, num_classes=7)
CORA_ATTENTION = GraphNetworkConfig(
    input_dim=1433, num_classes=7, hidden_dim=64, num_heads=8, layer="attention", dropout=0.6
)
