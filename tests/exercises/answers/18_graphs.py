import torch
import torch.nn.functional as F


# wrong convolution: no loops
# hint: do not hear themselves
def convolve(x, adjacency, weight):
    degree = adjacency.sum(1).clamp(min=1)
    return adjacency / torch.outer(degree, degree).sqrt() @ x @ weight


# wrong convolution: the plain mean
# hint: You take the plain mean
def convolve(x, adjacency, weight):
    looped = adjacency + torch.eye(len(x))
    return torch.diag(1 / looped.sum(1)) @ looped @ x @ weight


# wrong convolution: degrees without the loops
# hint: before the loops are added
def convolve(x, adjacency, weight):
    scale = torch.diag(adjacency.sum(1).clamp(min=1) ** -0.5)
    return scale @ (adjacency + torch.eye(len(x))) @ scale @ x @ weight


# wrong convolution: no square root
# hint: there is a square root
def convolve(x, adjacency, weight):
    looped = adjacency + torch.eye(len(x))
    scale = torch.diag(1 / looped.sum(1))
    return scale @ looped @ scale @ x @ weight


# wrong convolution: a plain sum
# hint: without dividing
def convolve(x, adjacency, weight):
    return x @ weight + adjacency @ x @ weight


# right convolution: node by node
def convolve(x, adjacency, weight):
    degree = [1 + int(row.sum()) for row in adjacency]
    rows = []
    for i in range(len(x)):
        row = x[i] / degree[i]
        for j in range(len(x)):
            if adjacency[i, j]:
                row = row + x[j] / (degree[i] * degree[j]) ** 0.5
        rows.append(row @ weight)
    return torch.stack(rows)


# right convolution: the weight first, in float64
def convolve(x, adjacency, weight):
    looped = (adjacency + torch.eye(len(x))).double()
    root = looped.sum(dim=1, keepdim=True).sqrt()
    return looped @ (x.double() @ weight.double() / root) / root


# wrong attention: scores transposed
# hint: Rows and columns have changed places
def edge_scores(h, a_target, a_source):
    return F.leaky_relu((h @ a_target)[None, :] + (h @ a_source)[:, None], 0.2)


# wrong attention: torch's default slope
# hint: Graph attention has 0.2
def edge_scores(h, a_target, a_source):
    return F.leaky_relu((h @ a_target)[:, None] + (h @ a_source))


# wrong attention: no bend at all
# hint: The leaky relu is missing
def edge_scores(h, a_target, a_source):
    return (h @ a_target)[:, None] + h @ a_source


# wrong attention: relu
# hint: That is relu
def edge_scores(h, a_target, a_source):
    return F.relu((h @ a_target)[:, None] + h @ a_source)


# wrong attention: nobody hears itself
# hint: a node is its own neighbour here
def attend_neighbours(h, scores, adjacency):
    weights = torch.where(adjacency > 0, scores.exp(), torch.zeros_like(scores))
    return weights / weights.sum(1, keepdim=True).clamp(min=1e-9) @ h


# wrong attention: softmax down the columns
# hint: over the targets
def attend_neighbours(h, scores, adjacency):
    heard = adjacency + torch.eye(len(h)) > 0
    return scores.masked_fill(~heard, -torch.inf).softmax(0) @ h


# wrong attention: masked after the softmax
# hint: Mask the scores
def attend_neighbours(h, scores, adjacency):
    return scores.softmax(1) * (adjacency + torch.eye(len(h))) @ h


# wrong attention: zeros for no edge
# hint: use minus infinity
def attend_neighbours(h, scores, adjacency):
    return (scores * (adjacency + torch.eye(len(h)))).softmax(-1) @ h


# wrong attention: no edges at all
# hint: the adjacency is never used
def attend_neighbours(h, scores, adjacency):
    return scores.softmax(-1) @ h


# right attention: node by node
def edge_scores(h, a_target, a_source):
    rows = []
    for target in h:
        sums = [float(target @ a_target + source @ a_source) for source in h]
        rows.append([s if s > 0 else 0.2 * s for s in sums])
    return torch.tensor(rows)


def attend_neighbours(h, scores, adjacency):
    out = []
    for i in range(len(h)):
        heard = [j for j in range(len(h)) if j == i or adjacency[i, j]]
        out.append(scores[i, heard].softmax(0) @ h[heard])
    return torch.stack(out)


# right attention: a bias of minus infinity, in float64
def attend_neighbours(h, scores, adjacency):
    bias = torch.where((adjacency + torch.eye(len(h))) > 0, 0.0, -torch.inf)
    return (scores + bias).double().softmax(1) @ h.double()


# right attention: one vector for the pair, as the paper writes it
def edge_scores(h, a_target, a_source):
    n = len(h)
    pairs = torch.cat([h[:, None].expand(n, n, -1), h[None].expand(n, n, -1)], dim=-1)
    return F.leaky_relu(pairs @ torch.cat([a_target, a_source]), negative_slope=0.2)


# wrong messages: edges backwards
# hint: Your edges run backwards
def mask_to_edges(mask):
    return mask.nonzero().T


# wrong messages: the forbidden pairs
# hint: True means may attend
def mask_to_edges(mask):
    return (~mask).nonzero().T.flip(0)


# wrong messages: one softmax for all edges
# hint: Each target has its own
def attention_by_messages(query, key, value, edges):
    source, target = edges
    weights = torch.softmax((query[target] * key[source]).sum(1) / query.shape[1] ** 0.5, 0)
    return torch.zeros(len(query), value.shape[1]).index_add(0, target, weights[:, None] * value[source])


# wrong messages: no scale
# hint: not divided by √D
def attention_by_messages(query, key, value, edges):
    source, target = edges
    raised = (query[target] * key[source]).sum(1).exp()
    total = torch.zeros(len(query)).index_add(0, target, raised)
    out = torch.zeros(len(query), value.shape[1])
    return out.index_add(0, target, (raised / total[target])[:, None] * value[source])


# wrong messages: the source asks
# hint: Query and key have changed ends
def attention_by_messages(query, key, value, edges):
    source, target = edges
    raised = ((query[source] * key[target]).sum(1) / query.shape[1] ** 0.5).exp()
    total = torch.zeros(len(query)).index_add(0, target, raised)
    out = torch.zeros(len(query), value.shape[1])
    return out.index_add(0, target, (raised / total[target])[:, None] * value[source])


# right messages: edge by edge
def mask_to_edges(mask):
    pairs = [(j, i) for i in range(len(mask)) for j in range(len(mask)) if mask[i, j]]
    return torch.tensor(pairs).T


def attention_by_messages(query, key, value, edges):
    out = []
    for i in range(len(query)):
        sources = edges[0][edges[1] == i]
        out.append((key[sources] @ query[i] / query.shape[1] ** 0.5).softmax(0) @ value[sources])
    return torch.stack(out)


# right messages: torch.where, and scatter_add in float64
def mask_to_edges(mask):
    target, source = torch.where(mask)
    return torch.vstack((source, target))


def attention_by_messages(query, key, value, edges):
    source, target = edges
    raised = torch.exp((query[target] * key[source]).sum(1).double() / query.shape[1] ** 0.5)
    top, bottom = torch.zeros(len(query), value.shape[1]).double(), torch.zeros(len(query), 1).double()
    index = target[:, None]
    top.scatter_add_(0, index.expand(-1, value.shape[1]), raised[:, None] * value[source].double())
    bottom.scatter_add_(0, index, raised[:, None])
    return top / bottom


# wrong symmetry: rows only
# hint: leave its columns
def renumber(x, adjacency, order):
    return x[order], adjacency[order]


# wrong symmetry: the inverse order
# hint: the inverse order
def renumber(x, adjacency, order):
    P = torch.eye(len(x))[order]
    return P.T @ x, P.T @ adjacency @ P


# wrong symmetry: the nodes stay
# hint: x has to move as well
def renumber(x, adjacency, order):
    return x, adjacency[order][:, order]


# wrong symmetry: measures invariance
# hint: that is invariance
def equivariance_gap(layer, x, adjacency, order):
    return (layer(x[order], adjacency[order][:, order]) - layer(x, adjacency)).abs().max().item()


# wrong symmetry: the edges stay
# hint: not the edges
def equivariance_gap(layer, x, adjacency, order):
    return (layer(x[order], adjacency) - layer(x, adjacency)[order]).abs().max().item()


# wrong symmetry: the mean
# hint: the gap is the largest one
def equivariance_gap(layer, x, adjacency, order):
    return (layer(x[order], adjacency[order][:, order]) - layer(x, adjacency)[order]).abs().mean().item()


# right symmetry: with permutation matrices
def renumber(x, adjacency, order):
    P = torch.eye(len(x))[order]
    return P @ x, P @ adjacency @ P.T


def equivariance_gap(layer, x, adjacency, order):
    P = torch.eye(len(x))[order]
    return (layer(P @ x, P @ adjacency @ P.T) - P @ layer(x, adjacency)).abs().max()


# right symmetry: a grid of indices
def renumber(x, adjacency, order):
    return x[order], adjacency[torch.meshgrid(order, order, indexing="ij")]


# wrong pooling: padding pooled
# hint: Padding is pooled
def pool_set(elements, real, how):
    return getattr(elements, {"sum": "sum", "mean": "mean", "max": "amax"}[how])(dim=1)


# wrong pooling: the maximum of zeros
# hint: zero beats a negative element
def pool_set(elements, real, how):
    kept = elements * real[..., None]
    if how == "max":
        return kept.amax(1)
    return kept.sum(1) / (real.sum(1, keepdim=True) if how == "mean" else 1)


# wrong pooling: the mean of a padded batch
# hint: divide by the number of real elements
def pool_set(elements, real, how):
    kept = elements * real[..., None]
    if how == "max":
        return elements.masked_fill(~real[..., None], -1e9).amax(1)
    return kept.mean(1) if how == "mean" else kept.sum(1)


# right pooling: set by set
def pool_set(elements, real, how):
    sets = [row[there] for row, there in zip(elements, real)]
    return torch.stack([{"sum": s.sum(0), "mean": s.mean(0), "max": s.max(0).values}[how] for s in sets])


# right pooling: with einsum, in float64
def pool_set(elements, real, how):
    if how == "max":
        return torch.where(real[:, :, None], elements, torch.tensor(-torch.inf)).max(dim=1).values
    total = torch.einsum("btd,bt->bd", elements.double(), real.double())
    return total if how == "sum" else total / real.double().sum(1)[:, None]


# right convolution: a sparse matrix, and the roots of the degrees on both sides
def convolve(x, adjacency, weight):
    looped = adjacency.clone().to(x.dtype).fill_diagonal_(1)
    root = looped.sum(1).rsqrt()
    return torch.sparse.mm((root[:, None] * looped * root).to_sparse(), x @ weight)
