import torch
import torch.nn.functional as F


# wrong grid: a softmax for each row
# hint: Each row of the image sums to one
def grid_attention(hidden, features, query_map, key_map, score):
    z = torch.einsum("bdij,da->bija", features, key_map) + (hidden @ query_map)[:, None, None]
    return F.softmax(z.tanh() @ score, dim=-1)


# wrong grid: a softmax for each column
# hint: Each column of the image sums to one
def grid_attention(hidden, features, query_map, key_map, score):
    z = torch.einsum("bdij,da->bija", features, key_map) + (hidden @ query_map)[:, None, None]
    return F.softmax(z.tanh() @ score, dim=1)


# wrong grid: one softmax for the batch
# hint: runs over the whole batch
def grid_attention(hidden, features, query_map, key_map, score):
    z = torch.einsum("bdij,da->bija", features, key_map) + (hidden @ query_map)[:, None, None]
    e = (z.tanh() @ score).exp()
    return e / e.sum()


# wrong grid: scores, not weights
# hint: the softmax over all regions is missing
def grid_attention(hidden, features, query_map, key_map, score):
    z = torch.einsum("bdij,da->bija", features, key_map) + (hidden @ query_map)[:, None, None]
    return z.tanh() @ score


# wrong grid: linear scores
# hint: The tanh is missing
def grid_attention(hidden, features, query_map, key_map, score):
    z = torch.einsum("bdij,da->bija", features, key_map) + (hidden @ query_map)[:, None, None]
    e = z @ score
    return e.reshape(len(e), -1).softmax(-1).reshape(e.shape)


# wrong grid: blind to the state
# hint: do not depend on the state
def grid_attention(hidden, features, query_map, key_map, score):
    e = torch.einsum("bdij,da->bija", features, key_map).tanh() @ score
    return e.reshape(len(e), -1).softmax(-1).reshape(e.shape)


# wrong grid: the channels moved by a reshape
# hint: A reshape cannot move the channels to the end
def grid_attention(hidden, features, query_map, key_map, score):
    B, D, R, C = features.shape
    e = (features.reshape(B, R, C, D) @ key_map + (hidden @ query_map)[:, None, None]).tanh() @ score
    return e.reshape(B, -1).softmax(-1).reshape(B, R, C)


# wrong grid: tanh of each part
# hint: stands outside the tanh
def grid_attention(hidden, features, query_map, key_map, score):
    B, _, R, C = features.shape
    keys = torch.tanh(features.flatten(2).mT @ key_map)
    e = (keys + torch.tanh(hidden @ query_map)[:, None]) @ score
    return e.softmax(-1).reshape(B, R, C)


# wrong grid: overflows
# hint: Large scores
def grid_attention(hidden, features, query_map, key_map, score):
    z = torch.einsum("bdij,da->bija", features, key_map) + (hidden @ query_map)[:, None, None]
    e = (z.tanh() @ score).exp()
    return e / e.sum(dim=(1, 2), keepdim=True)


# right grid: an einsum and the largest score taken off
def grid_attention(hidden, features, query_map, key_map, score):
    z = torch.einsum("bdij,da->bija", features, key_map) + (hidden @ query_map)[:, None, None]
    e = torch.einsum("bija,a->bij", z.tanh(), score)
    e = (e - e.amax(dim=(1, 2), keepdim=True)).exp()
    return e / e.sum(dim=(1, 2), keepdim=True)


# right grid: region by region
def grid_attention(hidden, features, query_map, key_map, score):
    B, _, R, C = features.shape
    found = []
    for i in range(R):
        for j in range(C):
            found.append(torch.tanh(hidden @ query_map + features[:, :, i, j] @ key_map) @ score)
    return torch.stack(found, dim=1).softmax(dim=1).reshape(B, R, C)


# wrong context: the plain average
# hint: your weights change nothing
def soft_context(weights, features):
    return features.flatten(2).mean(-1)


# wrong context: averages what is weighed already
# hint: sum, without dividing
def soft_context(weights, features):
    return (weights.unsqueeze(1) * features).flatten(2).mean(-1)


# wrong context: hard where soft is asked
# hint: the soft one sums over *all* regions
def soft_context(weights, features):
    best = weights.flatten(1).argmax(1)
    return torch.stack([f.flatten(1)[:, b] for f, b in zip(features, best)])


# wrong context: scales the chosen region
# hint: takes the region's vector as it is
def hard_context(weights, features):
    w = weights.flatten(1)
    keep = (w == w.max(1, keepdim=True).values).float() * w
    return (features.flatten(2) * keep[:, None]).sum(-1)


# wrong context: soft where hard is asked
# hint: the hard one takes *one* region
def hard_context(weights, features):
    return torch.einsum("bij,bdij->bd", weights, features)


# wrong context: the largest features
# hint: the one region with the largest *weight*
def hard_context(weights, features):
    return features.flatten(2).max(-1).values


# wrong context: one region for the batch
# hint: Each image has its own largest weight
def hard_context(weights, features):
    i, j = divmod(int(weights[0].argmax()), weights.shape[2])
    return features[:, :, i, j]


# wrong context: regions by a reshape
# hint: does not move the channels to the end
def hard_context(weights, features):
    best = weights.flatten(1).argmax(1)
    return torch.stack([f.reshape(-1, f.shape[0])[b] for f, b in zip(features, best)])


# wrong context: no sigmoid
# hint: The gate is not squashed
def gated(context, hidden, gate_map):
    return context * (hidden * gate_map).sum(-1, keepdim=True)


# wrong context: a tanh for a gate
# hint: which may turn the context around
def gated(context, hidden, gate_map):
    return context * (hidden * gate_map).sum(-1, keepdim=True).tanh()


# wrong context: the gate inverted
# hint: not by 1 − gate
def gated(context, hidden, gate_map):
    return context * (1 - torch.sigmoid(hidden @ gate_map)).unsqueeze(-1)


# right context: flattened products
def soft_context(weights, features):
    return (features.flatten(2) @ weights.flatten(1).unsqueeze(-1)).squeeze(-1)


def hard_context(weights, features):
    w = weights.flatten(1)
    mark = F.one_hot(w.argmax(1), w.shape[1]).to(features.dtype)
    return (features.flatten(2) * mark[:, None]).sum(-1)


def gated(context, hidden, gate_map):
    return context / (1 + torch.exp(-(hidden @ gate_map))).unsqueeze(1)


# right context: image by image
def soft_context(weights, features):
    return torch.stack([(w * f).sum(dim=(1, 2)) for w, f in zip(weights, features)])


def hard_context(weights, features):
    found = []
    for w, f in zip(weights, features):
        i, j = divmod(int(w.argmax()), w.shape[1])
        found.append(f[:, i, j])
    return torch.stack(found)


def gated(context, hidden, gate_map):
    return torch.stack([torch.sigmoid(h @ gate_map) * c for c, h in zip(context, hidden)])


# wrong object: at least half covered
# hint: only if most (or all) of it is covered
def regions_on(mask, rows, columns):
    tall, wide = mask.shape[1] // rows, mask.shape[2] // columns
    return F.avg_pool2d(mask.float()[:, None], (tall, wide))[:, 0] >= 0.5


# wrong object: all of it covered
# hint: only if the object covers all of it
def regions_on(mask, rows, columns):
    tall, wide = mask.shape[1] // rows, mask.shape[2] // columns
    return F.avg_pool2d(mask.float()[:, None], (tall, wide))[:, 0] == 1


# wrong object: one pixel of each region
# hint: thin objects slip through
def regions_on(mask, rows, columns):
    return mask[:, :: mask.shape[1] // rows, :: mask.shape[2] // columns]


# wrong object: strips
# hint: Your tiles are strips
def regions_on(mask, rows, columns):
    return mask.flatten(1).view(len(mask), rows, columns, -1).any(-1)


# wrong object: covered shares
# hint: booleans
def regions_on(mask, rows, columns):
    tall, wide = mask.shape[1] // rows, mask.shape[2] // columns
    return F.avg_pool2d(mask.float()[:, None], (tall, wide))[:, 0]


# wrong object: the mean weight
# hint: how much of one look lands there
def on_object(weights, mask):
    touched = regions_on(mask, *weights.shape[1:])
    mean = torch.stack([w[t].mean() if t.any() else w.new_zeros(()) for w, t in zip(weights, touched)])
    return mean, touched.float().mean(dim=(1, 2))


# wrong object: the best region only
# hint: Another good question
def on_object(weights, mask):
    touched = regions_on(mask, *weights.shape[1:])
    hit = torch.stack([t.flatten()[w.argmax()] for w, t in zip(weights, touched)])
    return hit.float(), touched.float().mean(dim=(1, 2))


# wrong object: chance in pixels
# hint: Chance is measured in regions
def on_object(weights, mask):
    touched = regions_on(mask, *weights.shape[1:])
    return (weights * touched).sum(dim=(1, 2)), mask.float().mean(dim=(1, 2))


# wrong object: one chance for all
# hint: each image has a chance of its own
def on_object(weights, mask):
    touched = regions_on(mask, *weights.shape[1:])
    return (weights * touched).sum(dim=(1, 2)), touched.float().mean().repeat(len(mask))


# wrong object: a count for a chance
# hint: Your second number is a count
def on_object(weights, mask):
    touched = regions_on(mask, *weights.shape[1:])
    return (weights * touched).sum(dim=(1, 2)), touched.sum(dim=(1, 2)).float()


# right object: max-pooling
def regions_on(mask, rows, columns):
    tall, wide = mask.shape[1] // rows, mask.shape[2] // columns
    return F.max_pool2d(mask.float()[:, None], (tall, wide))[:, 0] > 0


def on_object(weights, mask):
    touched = regions_on(mask, *weights.shape[1:]).to(weights.dtype)
    return torch.einsum("bij,bij->b", weights, touched), touched.flatten(1).mean(1)


# right object: loops
def regions_on(mask, rows, columns):
    B, H, W = mask.shape
    found = torch.zeros(B, rows, columns, dtype=torch.bool)
    for i in range(rows):
        for j in range(columns):
            tile = mask[:, i * H // rows : (i + 1) * H // rows, j * W // columns : (j + 1) * W // columns]
            found[:, i, j] = tile.flatten(1).any(1)
    return found


def on_object(weights, mask):
    touched = regions_on(mask, weights.shape[1], weights.shape[2])
    pairs = [(w[t].sum(), t.sum() / t.numel()) for w, t in zip(weights, touched)]
    return torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])


# wrong bias: groups of answers
# hint: You group by what was *said*
def group_accuracies(said, truth, ground):
    found = {}
    for s, t, g in zip(said.tolist(), truth.tolist(), ground.tolist()):
        found.setdefault((s, g), []).append(s == t)
    return {key: sum(hits) / len(hits) for key, hits in found.items()}


# wrong bias: keys the other way round
# hint: Your keys are (ground, animal)
def group_accuracies(said, truth, ground):
    found = {}
    for s, t, g in zip(said.tolist(), truth.tolist(), ground.tolist()):
        found.setdefault((g, t), []).append(s == t)
    return {key: sum(hits) / len(hits) for key, hits in found.items()}


# wrong bias: divides by everything
# hint: Divide by the size of the group
def group_accuracies(said, truth, ground):
    found = {}
    for s, t, g in zip(said.tolist(), truth.tolist(), ground.tolist()):
        found[(t, g)] = found.get((t, g), 0) + (s == t) / len(said)
    return found


# wrong bias: errors
# hint: These are errors
def group_accuracies(said, truth, ground):
    found = {}
    for s, t, g in zip(said.tolist(), truth.tolist(), ground.tolist()):
        found.setdefault((t, g), []).append(s != t)
    return {key: sum(misses) / len(misses) for key, misses in found.items()}


# wrong bias: the sign
# hint: The sign is turned
def bias_gap(said, truth, ground, usual):
    right, home = said == truth, usual[truth] == ground
    return (right[~home].float().mean() - right[home].float().mean()).item()


# wrong bias: one ground against the other
# hint: You compare grounds with each other
def bias_gap(said, truth, ground, usual):
    right = (said == truth).float()
    return (right[ground == 0].mean() - right[ground == 1].mean()).item()


# wrong bias: usual for the answer
# hint: usual for the animal that was *said*
def bias_gap(said, truth, ground, usual):
    right, home = (said == truth).float(), torch.tensor([bool(usual[s] == g) for s, g in zip(said, ground)])
    return (right[home].mean() - right[~home].mean()).item()


# wrong bias: the accuracy of all
# hint: the number that hides the bias
def bias_gap(said, truth, ground, usual):
    return (said == truth).double().mean().item()


# right bias: counting
def group_accuracies(said, truth, ground):
    found = {}
    for s, t, g in zip(said.tolist(), truth.tolist(), ground.tolist()):
        found.setdefault((t, g), []).append(s == t)
    return {key: sum(hits) / len(hits) for key, hits in found.items()}


def bias_gap(said, truth, ground, usual):
    home, away = [], []
    for s, t, g in zip(said.tolist(), truth.tolist(), ground.tolist()):
        (home if usual[t] == g else away).append(s == t)
    return sum(home) / len(home) - sum(away) / len(away)


# right bias: tensors
def group_accuracies(said, truth, ground):
    keys = torch.stack([truth, ground], dim=1)
    groups, member = keys.unique(dim=0, return_inverse=True)
    right = (said == truth).double()
    return {tuple(k.tolist()): right[member == n].mean().item() for n, k in enumerate(groups)}


def bias_gap(said, truth, ground, usual):
    right, home = (said == truth).double(), (usual[truth] == ground).double()
    return ((right * home).sum() / home.sum() - (right * (1 - home)).sum() / (1 - home).sum()).item()
