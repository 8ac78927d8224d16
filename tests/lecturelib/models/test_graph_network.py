"""Networks on graphs: the formulas of the papers, torch_geometric's layers, and the symmetry they exist for."""

import pytest
import torch

from lecturelib.evaluation import count_parameters
from lecturelib.models.graph_network import (
    CORA_ATTENTION,
    CORA_CONVOLUTION,
    GraphAttention,
    GraphConvolution,
    GraphNetwork,
    GraphNetworkConfig,
    softmax_by_target,
)

from .geometric import GATConv, GATv2Conv, GCNConv, may_evaluate_annotations

N, E, D, DH, H = 9, 23, 5, 4, 3
KINDS = ("convolution", "attention", "dynamic")


def graph(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes and edges at random: some edges twice, loops among them, and node 8 hears nobody."""
    edges = torch.randint(N - 1, (2, E))
    edges[:, :2] = torch.tensor([[3, 0], [3, 7]])
    return torch.randn(N, D, dtype=dtype), edges


def layer(kind: str) -> torch.nn.Module:
    if kind == "convolution":
        return GraphConvolution(D, DH).double()
    return GraphAttention(D, DH, H, dynamic=kind == "dynamic").double()


def test_convolution_is_the_papers_matrix_product():
    """D^-1/2 (A + I) D^-1/2 X W on an undirected graph without loops."""
    x, _ = graph()
    adjacency = (torch.rand(N, N) < 0.4).double().triu(1)
    adjacency = adjacency + adjacency.T
    ours = layer("convolution")
    looped = adjacency + torch.eye(N)
    scale = looped.sum(dim=1).rsqrt().diag()
    want = scale @ looped @ scale @ x @ ours.weight + ours.bias
    torch.testing.assert_close(ours(x, adjacency.nonzero().T), want, atol=1e-12, rtol=0)


@may_evaluate_annotations
def test_convolution_equals_torch_geometric():
    x, edges = graph()
    ours, theirs = layer("convolution"), GCNConv(D, DH).double()
    theirs.lin.weight.data, theirs.bias.data = ours.weight.data.T, torch.randn(DH).double()
    ours.bias.data = theirs.bias.data
    torch.testing.assert_close(ours(x, edges), theirs(x, edges), atol=1e-12, rtol=0)


@may_evaluate_annotations
@pytest.mark.parametrize("average", [False, True])
def test_attention_equals_torch_geometric(average):
    x, edges = graph()
    ours = GraphAttention(D, DH, H, average=average).double()
    theirs = GATConv(D, DH, H, concat=not average).double()
    theirs.lin.weight.data = ours.source_proj.weight.data
    theirs.att_src.data, theirs.att_dst.data = ours.score.data[:1], ours.score.data[1:]
    theirs.bias.data = ours.bias.data = torch.randn_like(ours.bias)
    torch.testing.assert_close(ours(x, edges), theirs(x, edges), atol=1e-12, rtol=0)


@may_evaluate_annotations
def test_dynamic_attention_equals_torch_geometric():
    x, edges = graph()
    ours, theirs = layer("dynamic"), GATv2Conv(D, DH, H).double()
    torch.nn.init.normal_(ours.source_proj.bias)
    torch.nn.init.normal_(ours.target_proj.bias)
    theirs.lin_l.load_state_dict(ours.source_proj.state_dict())
    theirs.lin_r.load_state_dict(ours.target_proj.state_dict())
    theirs.att.data, theirs.bias.data = ours.score.data, ours.bias.data
    torch.testing.assert_close(ours(x, edges), theirs(x, edges), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_equivariant(kind):
    """F(PX, PAPᵀ) = P F(X, A)."""
    x, edges = graph()
    ours, order = layer(kind), torch.randperm(N)
    place = order.argsort()  # node i is now number place[i]
    torch.testing.assert_close(ours(x[order], place[edges]), ours(x, edges)[order], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_node_without_neighbours_hears_itself_alone(kind):
    x, edges = graph()
    ours = layer(kind)
    alone = ours(x[8:], torch.empty(2, 0, dtype=torch.int64))
    torch.testing.assert_close(ours(x, edges)[8:], alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_is_there_counts_once(kind):
    x, edges = graph()
    loops = torch.tensor([[5, 8, 8], [5, 8, 8]])
    ours = layer(kind)
    torch.testing.assert_close(ours(x, torch.cat([edges, loops], 1)), ours(x, edges), atol=1e-12, rtol=0)


def test_weights_of_each_target_sum_to_one():
    x, edges = graph()
    _, weights = layer("attention")(x, edges, need_weights=True)
    targets = torch.cat([edges[1], torch.arange(N)])
    total = torch.zeros(N, H, dtype=torch.float64).index_add(0, targets, weights)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_static_scores_rank_sources_alike_and_dynamic_ones_need_not():
    """Brody et al.: on the full graph every target of a GAT prefers the same source."""
    full = torch.ones(N, N).nonzero().T.flip(0)  # ordered by target
    x = torch.randn(N, D).double() * 3
    favourites = {}
    for kind in ("attention", "dynamic"):
        torch.manual_seed(1)
        _, weights = layer(kind)(x, full, need_weights=True)
        matrix = torch.zeros(N, N).double().index_put((full[1], full[0]), weights[: N * N, 0])
        matrix += weights[N * N :, 0].diag()
        favourites[kind] = matrix.argmax(dim=1).unique().numel()
    assert favourites["attention"] == 1
    assert favourites["dynamic"] > 1


def test_softmax_by_target_survives_large_scores():
    scores = torch.tensor([[1e4], [1e4 - 1], [-1e4]])
    got = softmax_by_target(scores, torch.tensor([0, 0, 1]), 3)
    torch.testing.assert_close(got[:2, 0], torch.tensor([1.0, 0.0]).softmax(0))
    assert got[2] == 1


def test_presets_have_the_papers_sizes():
    assert count_parameters(GraphNetwork(CORA_CONVOLUTION)) == 1433 * 16 + 16 + 16 * 7 + 7
    first, second = 1433 * 64 + 2 * 64 + 64, 64 * 7 + 2 * 7 + 7
    assert count_parameters(GraphNetwork(CORA_ATTENTION)) == first + second == 92_373


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda x, edges: (x[:, :2], edges), r"x must be \(nodes, 5\), got \(9, 2\)"),
        (lambda x, edges: (x, edges.T), r"edges must be \(2, edges\) int64 node numbers, got torch.int64 \(23, 2\)"),
        (lambda x, edges: (x, edges + 5), r"node numbers from 0 to 8, got \d+"),
        (lambda x, edges: (x, edges - 5), r"node numbers from 0 to 8, got -\d"),
    ],
)
def test_wrong_graphs_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        layer("attention")(*given(*graph()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": "pooling"}, "must be convolution, attention or dynamic, got 'pooling'"),
        ({"num_heads": 2}, "a graph convolution has one head, got num_heads 2"),
        ({"layer": "attention", "num_heads": 3}, "num_heads 3 must divide hidden_dim 16"),
    ],
)
def test_wrong_configs_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GraphNetworkConfig(input_dim=D, num_classes=2, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_network_learns_one_graph_and_compiles(kind):
    x, edges = graph(torch.float32)
    config = GraphNetworkConfig(input_dim=D, num_classes=3, layer=kind, num_heads=1, num_layers=3, dropout=0.0)
    model, labels = GraphNetwork(config), torch.arange(N) % 3
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(300):
        loss = torch.nn.functional.cross_entropy(model(x, edges), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.3
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, edges), model(x, edges))
    assert model.to("meta")(x.to("meta"), edges.to("meta")).shape == (N, 3)


def test_residual_adds_what_a_hidden_layer_read():
    """Kipf & Welling, Appendix B: layers of one width add; the first and the last, which change it, do not."""
    sizes = {"input_dim": D, "num_classes": 7, "hidden_dim": 6, "num_layers": 3, "dropout": 0.0}
    x, edges = graph(torch.float32)
    torch.manual_seed(0)
    with_residual = GraphNetwork(GraphNetworkConfig(**sizes, residual=True))
    plain = GraphNetwork(GraphNetworkConfig(**sizes))
    plain.load_state_dict(with_residual.state_dict())
    first = plain.layers[0](x, edges).relu()
    torch.testing.assert_close(with_residual.features(x, edges), plain.features(x, edges) + first)
