"""The graph transformer: its symmetry, how far it sees, and that masked to the edges it is message passing."""

import pytest
import torch

from lecturelib.data import shortest_paths
from lecturelib.layers import attention_weights
from lecturelib.models.graph_transformer import DistanceBias, GraphTransformer, GraphTransformerConfig

B, N, E, V, D, H = 2, 9, 5, 4, 12, 3


def build(**change) -> GraphTransformer:
    torch.manual_seed(0)
    config = {"input_dim": E, "output_dim": V, "d_model": D, "num_heads": H, "num_layers": 2, "d_ff": 16}
    model = GraphTransformer(GraphTransformerConfig(**(config | change))).double().eval()
    torch.nn.init.normal_(model.bias.table)
    return model


def graphs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    joined = (torch.rand(B, N, N) < 0.2).triu(1)
    joined[:, torch.arange(N - 1), torch.arange(1, N)] = True  # a path, and more
    return torch.randn(B, N, E).double(), shortest_paths(joined | joined.transpose(1, 2))


def path() -> torch.Tensor:
    """Distances along a path of N nodes."""
    where = torch.arange(N)
    return (where[:, None] - where).abs().expand(B, N, N)


def test_graph_transformer_is_equivariant():
    """F(PX, PAPᵀ) = P F(X, A)."""
    (x, distances), model, order = graphs(), build(), torch.randperm(N)
    moved = model(x[:, order], distances[:, order][:, :, order])
    torch.testing.assert_close(moved, model(x, distances)[:, order], atol=1e-12, rtol=0)
    assert not torch.allclose(model(x[:, order], distances), model(x, distances)[:, order])


@pytest.mark.parametrize("reach", [1, 2])
def test_graph_transformer_sees_reach_times_layers_and_no_farther(reach):
    model = build(reach=reach, max_distance=1)
    x = torch.randn(B, N, E).double().requires_grad_()
    model(x, path())[:, 0].sum().backward()
    seen = x.grad.abs().sum(dim=(0, 2)) > 0
    assert seen.tolist() == [node <= 2 * reach for node in range(N)]


def test_graph_transformer_without_reach_sees_everything():
    x = torch.randn(B, N, E).double().requires_grad_()
    build()(x, path())[:, 0].sum().backward()
    assert (x.grad.abs().sum(dim=(0, 2)) > 0).all()


def test_bias_is_one_number_for_each_distance_and_head():
    bias = DistanceBias(H, 2)
    torch.nn.init.normal_(bias.table)
    got = bias(path())
    assert got.shape == (B, H, N, N)
    for node, row in ((3, 0), (5, 2), (8, 3), (0, 3)):  # at 0, 2, 5 and 3 steps from node 3
        torch.testing.assert_close(got[0, :, 3, node], bias.table[row])


def test_bias_enters_the_scores_of_every_layer():
    model, (x, distances) = build(), graphs()
    model.bias.table.data.fill_(-40.0)
    model.bias.table.data[1] = 40.0  # only neighbours, not even itself
    with attention_weights(model) as seen:
        model(x, distances)
    assert len(seen) == 2
    for weights in seen.values():
        assert weights.masked_fill((distances == 1)[:, None], 0.0).max() < 1e-12


def test_max_distance_zero_knows_no_edges():
    """Every graph of as many nodes looks the same: only itself is told from the others."""
    model, (x, distances) = build(max_distance=0), graphs()
    torch.testing.assert_close(model(x, distances), model(x, path()), atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "num_heads must divide d_model"),
        ({"reach": -1}, "count steps, 0 or more"),
        ({"max_distance": -1}, "count steps, 0 or more"),
        ({"d_ff": 0}, "d_ff must be at least 1"),
    ],
)
def test_config_says_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        build(**change)
    with pytest.raises(ValueError, match=r"x must be \(batch, nodes, 5\)"):
        build()(torch.zeros(B, N, E + 1).double(), path())
