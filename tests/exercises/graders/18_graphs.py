"""Exercise set 18, graphs and sets: what is asked, how it is tested, and the mistakes it can name."""

import torch
import torch.nn.functional as F

from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("18_graphs", title="Graphs and sets")
rubric.exercise("convolution", title="A graph convolution", minutes=15, difficulty=2, defines=("convolve",))
rubric.exercise(
    "attention", title="A graph attention layer", minutes=30, difficulty=3, defines=("edge_scores", "attend_neighbours")
)
rubric.exercise(
    "messages",
    title="Attention is message passing",
    minutes=25,
    difficulty=3,
    defines=("mask_to_edges", "attention_by_messages"),
)
rubric.exercise(
    "symmetry", title="Renumbering the nodes", minutes=15, difficulty=2, defines=("renumber", "equivariance_gap")
)
rubric.exercise("pooling", title="Pooling a set", minutes=10, difficulty=1, defines=("pool_set",))


def a_graph(rng, num_nodes=6, width=4, *, directed=False):
    """Nodes (N, D) and an adjacency (N, N) of zeros and ones without loops; node 0 has no neighbour."""
    x = draw(rng, num_nodes, width)
    adjacency = (draw(rng, num_nodes, num_nodes) > 0.1).float().triu(1)
    if directed:
        adjacency = adjacency + (draw(rng, num_nodes, num_nodes) > 0.4).float().tril(-1)
    else:
        adjacency = adjacency + adjacency.T
    adjacency[0] = adjacency[:, 0] = 0
    adjacency[1, 2] = adjacency[2, 1] = 1
    return x, adjacency


# 1. A graph convolution


@rubric.reference
def convolve(x, adjacency, weight):
    looped = adjacency + torch.eye(len(x), dtype=x.dtype)
    scale = looped.sum(dim=1).rsqrt()
    return (scale[:, None] * looped * scale) @ x @ weight


@rubric.mistake(
    "convolve", "Your nodes do not hear themselves: add the identity to the adjacency before anything else."
)
def without_loops(x, adjacency, weight):
    degree = adjacency.sum(dim=1).clamp(min=1)
    return (adjacency / torch.outer(degree, degree).sqrt()) @ x @ weight


@rubric.mistake("convolve", "You count degrees before the loops are added. The degree is the row sum of A + I.")
def degrees_too_early(x, adjacency, weight):
    degree = adjacency.sum(dim=1).clamp(min=1)
    return ((adjacency + torch.eye(len(x))) / torch.outer(degree, degree).sqrt()) @ x @ weight


@rubric.mistake("convolve", "You take the plain mean: each row divided by its degree. Divide by √(dᵢ dⱼ) instead.")
def plain_mean(x, adjacency, weight):
    looped = adjacency + torch.eye(len(x))
    return (looped / looped.sum(dim=1, keepdim=True)) @ x @ weight


@rubric.mistake("convolve", "You add the neighbours up without dividing: nodes with many neighbours become large.")
def plain_sum(x, adjacency, weight):
    return (adjacency + torch.eye(len(x))) @ x @ weight


@rubric.mistake("convolve", "You divide by dᵢ dⱼ. The weight of an edge is 1 / √(dᵢ dⱼ): there is a square root.")
def without_root(x, adjacency, weight):
    looped = adjacency + torch.eye(len(x))
    degree = looped.sum(dim=1)
    return (looped / torch.outer(degree, degree)) @ x @ weight


@rubric.test(
    "convolution", points=2, visible=True, hint="(A + I) between two factors d^(−1/2), then x, then the weight."
)
def convolution_is_the_papers(submission, rng):
    x, adjacency = a_graph(rng)
    weight = draw(rng, 4, 3)
    assert_close(submission.convolve(x, adjacency, weight), convolve(x, adjacency, weight), what="convolve(x, A, W)")


@rubric.test("convolution", points=1, visible=False, topic="other sizes", hint="Any number of nodes.")
def convolution_takes_any_size(submission, rng):
    for num_nodes, width in ((3, 5), (9, 3)):
        x, adjacency = a_graph(rng, num_nodes, width)
        weight = draw(rng, width, 2)
        got = submission.convolve(x, adjacency, weight)
        assert_close(got, convolve(x, adjacency, weight), what=f"convolve of {num_nodes} nodes")


# 2. A graph attention layer


@rubric.reference
def edge_scores(h, a_target, a_source):
    return F.leaky_relu((h @ a_target)[:, None] + (h @ a_source)[None, :], 0.2)


@rubric.reference
def attend_neighbours(h, scores, adjacency):
    allowed = (adjacency + torch.eye(len(h), dtype=adjacency.dtype)) > 0
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=1) @ h


@rubric.mistake("edge_scores", "Rows and columns have changed places: row i belongs to the target i, which listens.")
def scores_transposed(h, a_target, a_source):
    return edge_scores(h, a_target, a_source).T


@rubric.mistake("edge_scores", "The leaky relu is missing: negative sums are multiplied by 0.2.")
def no_bend(h, a_target, a_source):
    return (h @ a_target)[:, None] + (h @ a_source)[None, :]


@rubric.mistake("edge_scores", "Your negative sums become 0. That is relu; the leaky one multiplies them by 0.2.")
def hard_bend(h, a_target, a_source):
    return no_bend(h, a_target, a_source).relu()


@rubric.mistake("edge_scores", "Your negative slope is 0.01, the default of torch. Graph attention has 0.2.")
def torchs_slope(h, a_target, a_source):
    return F.leaky_relu(no_bend(h, a_target, a_source))


@rubric.mistake("edge_scores", "You bend both terms before you add them. Add first: the bend acts on the sum.")
def bends_each_term(h, a_target, a_source):
    return F.leaky_relu(h @ a_target, 0.2)[:, None] + F.leaky_relu(h @ a_source, 0.2)[None, :]


@rubric.mistake("attend_neighbours", "Your nodes do not attend to themselves: a node is its own neighbour here.")
def attends_without_itself(h, scores, adjacency):
    allowed = adjacency > 0
    empty = ~allowed.any(dim=1, keepdim=True)
    return scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0).softmax(dim=1).masked_fill(empty, 0.0) @ h


@rubric.mistake("attend_neighbours", "Your softmax runs over the targets (down the columns). Each row must sum to one.")
def softmax_down(h, scores, adjacency):
    allowed = (adjacency + torch.eye(len(h))) > 0
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=0) @ h


@rubric.mistake(
    "attend_neighbours",
    "You multiply by the adjacency after the softmax, so rows no longer sum to one. Mask the scores.",
)
def masks_too_late(h, scores, adjacency):
    return (scores.softmax(dim=1) * (adjacency + torch.eye(len(h)))) @ h


@rubric.mistake("attend_neighbours", "Every node attends to every other: the adjacency is never used.")
def ignores_edges(h, scores, adjacency):
    return scores.softmax(dim=1) @ h


@rubric.mistake("attend_neighbours", "You put 0 where there is no edge. exp(0) is 1, not 0: use minus infinity.")
def zero_is_no_mask(h, scores, adjacency):
    return (scores * (adjacency + torch.eye(len(h)))).softmax(dim=1) @ h


@rubric.test("attention", points=2, visible=True, hint="a_target · hᵢ + a_source · hⱼ, then the leaky relu with 0.2.")
def scores_are_the_papers(submission, rng):
    h, a_target, a_source = draw(rng, 5, 4), draw(rng, 4), draw(rng, 4)
    got = submission.edge_scores(h, a_target, a_source)
    assert_close(got, edge_scores(h, a_target, a_source), what="edge_scores(h, a_target, a_source)")


@rubric.test("attention", points=2, visible=True, hint="Minus infinity where no edge is, softmax along each row.")
def neighbours_are_averaged(submission, rng):
    h, adjacency = a_graph(rng)
    scores = draw(rng, 6, 6)
    got = submission.attend_neighbours(h, scores, adjacency)
    assert_close(got, attend_neighbours(h, scores, adjacency), what="attend_neighbours(h, scores, A)")


@rubric.test(
    "attention", points=1, visible=False, topic="directed graphs", hint="Row i of the adjacency lists who i hears."
)
def direction_of_an_edge_counts(submission, rng):
    h, adjacency = a_graph(rng, 7, 3, directed=True)
    scores = draw(rng, 7, 7)
    got = submission.attend_neighbours(h, scores, adjacency)
    assert_close(got, attend_neighbours(h, scores, adjacency), what="attend_neighbours on a directed graph")


# 3. Attention is message passing


@rubric.reference
def mask_to_edges(mask):
    target, source = mask.nonzero().T
    return torch.stack([source, target])


@rubric.reference
def attention_by_messages(query, key, value, edges):
    source, target = edges
    scores = (query[target] * key[source]).sum(dim=1) / query.shape[1] ** 0.5  # (E,)
    raised = (scores - scores.max()).exp()
    total = torch.zeros(len(query), dtype=scores.dtype).index_add(0, target, raised)
    messages = (raised / total[target])[:, None] * value[source]
    return torch.zeros(len(query), value.shape[1], dtype=value.dtype).index_add(0, target, messages)


@rubric.mistake("mask_to_edges", "Your edges run backwards: row i of a mask is the query, and messages arrive there.")
def edges_backwards(mask):
    return mask_to_edges(mask).flip(0)


@rubric.mistake("mask_to_edges", "You list the pairs that are forbidden. True means may attend.")
def forbidden_edges(mask):
    return mask_to_edges(~mask)


@rubric.mistake("mask_to_edges", "Your edges are (E, 2). Sources stand in the first row and targets in the second.")
def edges_upright(mask):
    return mask_to_edges(mask).T


@rubric.mistake("attention_by_messages", "Your scores are not divided by √D.")
def messages_unscaled(query, key, value, edges):
    return attention_by_messages(query * query.shape[1] ** 0.5, key, value, edges)


@rubric.mistake(
    "attention_by_messages", "Your softmax runs over all edges at once. Each target has its own: divide by its own sum."
)
def one_softmax_for_all(query, key, value, edges):
    source, target = edges
    weights = ((query[target] * key[source]).sum(dim=1) / query.shape[1] ** 0.5).softmax(dim=0)
    return torch.zeros(len(query), value.shape[1]).index_add(0, target, weights[:, None] * value[source])


@rubric.mistake(
    "attention_by_messages", "Query and key have changed ends: the target asks, and the source has the key."
)
def asks_at_the_source(query, key, value, edges):
    return attention_by_messages(key, query, value, edges)


@rubric.mistake("attention_by_messages", "Your messages are summed at the source. They travel: add them at the target.")
def stays_at_the_source(query, key, value, edges):
    source, target = edges
    raised = ((query[target] * key[source]).sum(dim=1) / query.shape[1] ** 0.5).exp()
    total = torch.zeros(len(query)).index_add(0, target, raised)
    messages = (raised / total[target])[:, None] * value[source]
    return torch.zeros(len(query), value.shape[1]).index_add(0, source, messages)


@rubric.test(
    "messages",
    points=1,
    visible=True,
    hint="One column (source, target) for each True, row by row: the target is the row.",
)
def mask_becomes_edges(submission, rng):
    mask = draw(rng, 4, 4) > 0.2
    mask[0, 3], mask[3, 0] = True, False
    got = submission.mask_to_edges(mask)
    assert_close(got, mask_to_edges(mask), what="mask_to_edges(mask)")


@rubric.test(
    "messages", points=3, visible=True, hint="Score each edge, divide by the sum at its target, add values up."
)
def messages_are_attention(submission, rng):
    query, key, value = draw(rng, 5, 4), draw(rng, 5, 4), draw(rng, 5, 3)
    edges = mask_to_edges(torch.ones(5, 5, dtype=torch.bool).tril())
    got = submission.attention_by_messages(query, key, value, edges)
    assert_close(got, attention_by_messages(query, key, value, edges), what="attention_by_messages, a causal mask")


@rubric.test(
    "messages",
    points=1,
    visible=False,
    topic="edges in any order",
    hint="Edges may come in any order, and few of them.",
)
def edges_in_any_order(submission, rng):
    query, key, value = draw(rng, 6, 3), draw(rng, 6, 3), draw(rng, 6, 5)
    mask = (draw(rng, 6, 6) > 0.3) | torch.eye(6, dtype=torch.bool)
    edges = mask_to_edges(mask)
    edges = edges[:, torch.randperm(edges.shape[1], generator=rng)]
    got = submission.attention_by_messages(query, key, value, edges)
    assert_close(got, attention_by_messages(query, key, value, edges), what="attention_by_messages, shuffled edges")


# 4. Renumbering the nodes


@rubric.reference
def renumber(x, adjacency, order):
    return x[order], adjacency[order][:, order]


@rubric.reference
def equivariance_gap(layer, x, adjacency, order):
    return float((layer(x[order], adjacency[order][:, order]) - layer(x, adjacency)[order]).abs().max())


@rubric.mistake("renumber", "You move the rows of the adjacency and leave its columns. Both number the same nodes.")
def rows_only(x, adjacency, order):
    return x[order], adjacency[order]


@rubric.mistake("renumber", "You move the columns of the adjacency and leave its rows. Both number the same nodes.")
def columns_only(x, adjacency, order):
    return x[order], adjacency[:, order]


@rubric.mistake("renumber", "You apply the inverse order: new node i must be old node order[i].")
def inverse_order(x, adjacency, order):
    return renumber(x, adjacency, order.argsort())


@rubric.mistake("renumber", "The adjacency is renumbered and the nodes are not: x has to move as well.")
def nodes_stay(x, adjacency, order):
    return x, adjacency[order][:, order]


@rubric.mistake(
    "equivariance_gap", "You compare with the outputs in their old order: that is invariance. Reorder them too."
)
def invariance_gap(layer, x, adjacency, order):
    return float((layer(x[order], adjacency[order][:, order]) - layer(x, adjacency)).abs().max())


@rubric.mistake("equivariance_gap", "You renumber the nodes and not the edges before you call the layer.")
def edges_stay(layer, x, adjacency, order):
    return float((layer(x[order], adjacency) - layer(x, adjacency)[order]).abs().max())


@rubric.mistake("equivariance_gap", "You return the mean difference; the gap is the largest one.")
def mean_gap(layer, x, adjacency, order):
    return float((layer(x[order], adjacency[order][:, order]) - layer(x, adjacency)[order]).abs().mean())


@rubric.given
class Average:
    """Averages each node with its neighbours: equivariant."""

    def __call__(self, x, adjacency):
        looped = adjacency + torch.eye(len(x))
        return looped @ x / looped.sum(dim=1, keepdim=True)


@rubric.given
class Numbered:
    """Adds to each node its own number: not equivariant."""

    def __call__(self, x, adjacency):
        return x + torch.arange(len(x))[:, None] + adjacency.sum(dim=1, keepdim=True)


@rubric.test(
    "symmetry", points=2, visible=True, hint="New node i is old node order[i]: rows of x, rows and columns of A."
)
def nodes_are_renumbered(submission, rng):
    x, adjacency = a_graph(rng, 5, 3, directed=True)
    order = torch.tensor([2, 0, 4, 1, 3])
    got, want = submission.renumber(x, adjacency, order), renumber(x, adjacency, order)
    assert_close(got, want, what=("the nodes", "the adjacency"))


@rubric.test(
    "symmetry",
    points=2,
    visible=True,
    needs=("renumber",),
    hint="The layer of the renumbered graph against the renumbered output.",
)
def gap_is_measured(submission, rng):
    x, adjacency = a_graph(rng, 5, 3, directed=True)
    order = torch.tensor([2, 0, 4, 1, 3])
    got = submission.equivariance_gap(Numbered(), x, adjacency, order)
    assert_close(got, equivariance_gap(Numbered(), x, adjacency, order), what="the gap of a layer that adds numbers")


@rubric.test(
    "symmetry",
    points=1,
    visible=False,
    topic="equivariant or not",
    needs=("renumber",),
    hint="An equivariant layer has a gap near 0, and any other layer has a gap.",
)
def gap_tells_an_average_from_numbers(submission, rng):
    x, adjacency = a_graph(rng, 7, 4, directed=True)
    order = torch.tensor([3, 6, 0, 1, 5, 2, 4])
    for layer, what in ((Average(), "the gap of an average"), (Numbered(), "the gap of a layer that adds numbers")):
        got = submission.equivariance_gap(layer, x, adjacency, order)
        assert_close(got, equivariance_gap(layer, x, adjacency, order), what=what, atol=1e-5)


# 5. Pooling a set


@rubric.reference
def pool_set(elements, real, how):
    if how == "max":
        return elements.masked_fill(~real[:, :, None], -torch.inf).amax(dim=1)
    total = (elements * real[:, :, None]).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True) if how == "mean" else total


@rubric.mistake("pool_set", "Padding is pooled with the elements: where `real` is False there is nothing.")
def pools_padding(elements, real, how):
    return {"sum": elements.sum(dim=1), "mean": elements.mean(dim=1), "max": elements.amax(dim=1)}[how]


@rubric.mistake("pool_set", "Your maximum sees zeros for padding, and zero beats a negative element. Use −∞.")
def maximum_of_zeros(elements, real, how):
    return (elements * real[:, :, None]).amax(dim=1) if how == "max" else pool_set(elements, real, how)


@rubric.mistake("pool_set", "Your mean divides by the padded length; divide by the number of real elements.")
def mean_over_padding(elements, real, how):
    return (elements * real[:, :, None]).mean(dim=1) if how == "mean" else pool_set(elements, real, how)


@rubric.test("pooling", points=2, visible=True, hint="Sum, mean and maximum over the elements with real = True.")
def pools_are_right(submission, rng):
    elements = draw(rng, 3, 4, 2) - 2
    real = torch.tensor([[True, True, True, True], [True, False, True, False], [False, True, False, False]])
    for how in ("sum", "mean", "max"):
        got = submission.pool_set(elements, real, how)
        assert_close(got, pool_set(elements, real, how), what=f'pool_set(elements, real, "{how}")')


@rubric.test(
    "pooling", points=1, visible=False, topic="large padding", hint="Whatever stands in the padding: it is not there."
)
def padding_is_not_there(submission, rng):
    elements = draw(rng, 2, 5, 3) - 4
    real = torch.arange(5) < torch.tensor([[3], [1]])
    elements = elements.masked_fill(~real[:, :, None], 1e4)
    for how in ("sum", "mean", "max"):
        got = submission.pool_set(elements, real, how)
        assert_close(got, pool_set(elements, real, how), what=f'pool_set with garbage in the padding, "{how}"')
