import math

import torch
from torch import nn


# wrong additive: forgets the tanh
# hint: Without the tanh
def additive_scores(query, keys, W, U, v):
    return torch.einsum("bta,a->bt", (query @ W.T).unsqueeze(1) + keys @ U.T, v)


# wrong additive: bends each part on its own
# hint: Add first, then tanh
def additive_scores(query, keys, W, U, v):
    return torch.tanh(query @ W.T).unsqueeze(1) @ v + torch.tanh(keys @ U.T) @ v


# wrong additive: bends at the very end
# hint: The tanh belongs inside
def additive_scores(query, keys, W, U, v):
    return torch.tanh(((query @ W.T).unsqueeze(1) + keys @ U.T) @ v)


# wrong additive: goes on to the softmax
# hint: These are weights already
def additive_scores(query, keys, W, U, v):
    return torch.softmax(torch.tanh((query @ W.T).unsqueeze(1) + keys @ U.T) @ v, dim=1)


# wrong additive: multiplies where it should add
# hint: hence the name
def additive_scores(query, keys, W, U, v):
    return torch.tanh((query @ W.T).unsqueeze(1) * (keys @ U.T)) @ v


# right additive: einsum
def additive_scores(query, keys, W, U, v):
    asked = torch.einsum("ad,bd->ba", W, query)
    offered = torch.einsum("ad,btd->bta", U, keys)
    return torch.einsum("a,bta->bt", v, torch.tanh(asked[:, None] + offered))


# right additive: one sentence and one word at a time
def additive_scores(query, keys, W, U, v):
    rows = [torch.stack([v @ torch.tanh(W @ q + U @ k) for k in row]) for q, row in zip(query, keys)]
    return torch.stack(rows)


# wrong luong: scaled
# hint: not divided by √d
def dot_scores(query, keys):
    return torch.einsum("bd,btd->bt", query, keys) / query.shape[-1] ** 0.5


# wrong luong: cosine
# hint: That is the cosine
def dot_scores(query, keys):
    query = query / query.norm(dim=-1, keepdim=True)
    return torch.einsum("bd,btd->bt", query, keys / keys.norm(dim=-1, keepdim=True))


# wrong luong: another sentence's query
# hint: mix the sentences of a batch
def dot_scores(query, keys):
    return torch.stack([keys[b] @ query[b - 1] for b in range(len(query))])


# wrong luong: W turned round
# hint: W is on the wrong side
def general_scores(query, keys, W):
    if W.shape[0] != W.shape[1]:
        return torch.einsum("bd,de,bte->bt", query, W, keys)
    return torch.einsum("bd,ed,bte->bt", query, W, keys)


# wrong luong: no W at all
# hint: W is never used
def general_scores(query, keys, W):
    return torch.einsum("bd,btd->bt", query, keys[..., : query.shape[1]])


# wrong luong: both sides projected
# hint: Both sides are projected
def general_scores(query, keys, W):
    return torch.einsum("bd,btd->bt", query @ W.T, keys @ W.T)


# wrong luong: the key on top
# hint: You put the key first
def concat_scores(query, keys, W, v):
    rows = torch.cat([keys, query.unsqueeze(1).repeat(1, keys.shape[1], 1)], dim=2)
    return torch.tanh(rows @ W.T) @ v


# wrong luong: linear
# hint: There is a tanh between W and v
def concat_scores(query, keys, W, v):
    rows = torch.cat([query.unsqueeze(1).repeat(1, keys.shape[1], 1), keys], dim=2)
    return rows @ W.T @ v


# right luong: einsum, and concat as a sum of two halves
def dot_scores(query, keys):
    return torch.einsum("bd,btd->bt", query, keys)


def general_scores(query, keys, W):
    return torch.einsum("bd,de,bte->bt", query, W, keys)


def concat_scores(query, keys, W, v):
    width = query.shape[-1]
    return torch.tanh((query @ W[:, :width].T)[:, None] + keys @ W[:, width:].T) @ v


# right luong: the query projected, which is the same
def general_scores(query, keys, W):
    return ((query @ W)[:, None, :] * keys).sum(-1)


def dot_scores(query, keys):
    return (query[:, None, :] * keys).sum(-1)


# wrong softmax: no mask
# hint: The padding gets weight
def masked_softmax(scores, lengths):
    return torch.softmax(scores, dim=1)


# wrong softmax: masks afterwards
# hint: no longer adds up to one
def masked_softmax(scores, lengths):
    weights = torch.softmax(scores, dim=1).clone()
    for row, length in enumerate(lengths.tolist()):
        weights[row, length:] = 0
    return weights


# wrong softmax: subtracts the padding's largest score
# hint: A large score in the padding pushes the words down
def masked_softmax(scores, lengths):
    words = torch.arange(scores.shape[1]) < lengths[:, None]
    raised = torch.exp(scores - scores.max(dim=1, keepdim=True).values) * words
    return raised / (raised.sum(dim=1, keepdim=True) + 1e-20)


# wrong softmax: zeros for scores
# hint: A score of 0, or near it, is not a weight of 0
def masked_softmax(scores, lengths):
    keep = torch.arange(scores.shape[1])[None] < lengths[:, None]
    return torch.softmax(torch.where(keep, scores, torch.zeros_like(scores)), dim=1)


# wrong softmax: off by one
# hint: one position too many
def masked_softmax(scores, lengths):
    keep = torch.arange(scores.shape[1])[None] <= lengths[:, None]
    return torch.softmax(scores.masked_fill(~keep, -1e9), dim=1) * keep


# wrong softmax: upside down
# hint: you keep the padding and mask the words
def masked_softmax(scores, lengths):
    keep = torch.arange(scores.shape[1])[None] >= lengths[:, None]
    return torch.softmax(torch.where(keep, scores, torch.full_like(scores, -1e9)), dim=1)


# wrong softmax: an empty source is NaN
# hint: leaves nothing to divide by
def masked_softmax(scores, lengths):
    keep = torch.arange(scores.shape[1])[None] < lengths[:, None]
    return torch.softmax(scores.masked_fill(~keep, float("-inf")), dim=1)


# wrong softmax: an empty source is spread out
# hint: you spread one evenly
def masked_softmax(scores, lengths):
    keep = torch.arange(scores.shape[1])[None] < lengths[:, None]
    return torch.softmax(torch.where(keep, scores, torch.full_like(scores, -1e9)), dim=1)


# wrong softmax: overflows
# hint: Subtract the row's largest score first
def masked_softmax(scores, lengths):
    keep = torch.arange(scores.shape[1])[None] < lengths[:, None]
    raised = torch.exp(scores) * keep
    return raised / raised.sum(dim=1, keepdim=True).clamp(min=1e-30)


# wrong softmax: over the batch
# hint: Your columns add up to one
def masked_softmax(scores, lengths):
    keep = torch.arange(scores.shape[1])[None] < lengths[:, None]
    return torch.softmax(scores.masked_fill(~keep, -1e9), dim=0)


# right softmax: row by row
def masked_softmax(scores, lengths):
    rows = []
    for row, length in zip(scores, lengths.tolist()):
        rows.append(torch.cat([torch.softmax(row[:length], dim=0), torch.zeros(len(row) - length, dtype=row.dtype)]))
    return torch.stack(rows)


# right softmax: by hand, with −∞ and nan_to_num
def masked_softmax(scores, lengths):
    keep = torch.arange(scores.shape[1])[None] < lengths[:, None]
    raised = torch.where(keep, scores, -math.inf)
    top = torch.nan_to_num(raised.max(dim=1, keepdim=True).values, neginf=0.0).detach()
    raised = torch.exp(raised - top)
    return raised / raised.sum(dim=1, keepdim=True).clamp(min=1e-30)


# wrong local: loses the ends of the window
# hint: Both ends belong to the window
def local_m_weights(scores, time, lengths, window):
    j = torch.arange(scores.shape[1])[None]
    p = torch.minimum(lengths - 1, torch.tensor(time))[:, None]
    near = ((j - p).abs() < window) & (j < lengths[:, None])
    return torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near


# wrong local: looks back only
# hint: Only the past
def local_m_weights(scores, time, lengths, window):
    j = torch.arange(scores.shape[1])[None]
    p = torch.minimum(lengths - 1, torch.tensor(time))[:, None]
    near = (j <= p) & (j >= p - window)
    return torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near


# wrong local: looks at padding
# hint: The window covers padding
def local_m_weights(scores, time, lengths, window):
    j = torch.arange(scores.shape[1])[None]
    p = torch.minimum(lengths - 1, torch.tensor(time))[:, None]
    near = (j - p).abs() <= window
    return torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near


# wrong local: runs out of the source
# hint: The window has run out of the source
def local_m_weights(scores, time, lengths, window):
    j = torch.arange(scores.shape[1])[None]
    near = ((j - time).abs() <= window) & (j < lengths[:, None])
    return torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near


# wrong local: cuts after the softmax
# hint: Cut before it
def local_m_weights(scores, time, lengths, window):
    j = torch.arange(scores.shape[1])[None]
    p = torch.minimum(lengths - 1, torch.tensor(time))[:, None]
    weights = torch.softmax(scores.masked_fill(j >= lengths[:, None], -1e9), dim=1)
    return weights.masked_fill((j - p).abs() > window, 0.0)


# wrong local: no Gaussian
# hint: The Gaussian is missing
def local_p_weights(scores, centre, lengths, window):
    j = torch.arange(scores.shape[1])[None]
    near = ((j - centre[:, None]).abs() <= window) & (j < lengths[:, None])
    return torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near


# wrong local: a bell twice too wide
# hint: σ is half the window
def local_p_weights(scores, centre, lengths, window):
    distance = torch.arange(scores.shape[1])[None] - centre[:, None]
    near = (distance.abs() <= window) & (torch.arange(scores.shape[1])[None] < lengths[:, None])
    weights = torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near
    return weights * torch.exp(-(distance**2) / (2 * window**2))


# wrong local: normalised again
# hint: *not* normalised away
def local_p_weights(scores, centre, lengths, window):
    distance = torch.arange(scores.shape[1])[None] - centre[:, None]
    near = (distance.abs() <= window) & (torch.arange(scores.shape[1])[None] < lengths[:, None])
    weights = torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near
    weights = weights * torch.exp(-2 * distance**2 / window**2)
    return weights / weights.sum(dim=1, keepdim=True)


# wrong local: the distance is not squared
# hint: The distance is not squared
def local_p_weights(scores, centre, lengths, window):
    distance = (torch.arange(scores.shape[1])[None] - centre[:, None]).abs()
    near = (distance <= window) & (torch.arange(scores.shape[1])[None] < lengths[:, None])
    weights = torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near
    return weights * torch.exp(-2 * distance / window**2)


# wrong local: a whole number for a centre
# hint: do not round it
def local_p_weights(scores, centre, lengths, window):
    distance = torch.arange(scores.shape[1])[None] - centre.round()[:, None]
    near = (distance.abs() <= window) & (torch.arange(scores.shape[1])[None] < lengths[:, None])
    weights = torch.softmax(scores.masked_fill(~near, -1e9), dim=1) * near
    return weights * torch.exp(-2 * distance**2 / window**2)


# right local: slices, row by row
def local_m_weights(scores, time, lengths, window):
    weights = []
    for row, length in zip(scores, lengths.tolist()):
        p = min(time, length - 1)
        low, high = max(0, p - window), min(length, p + window + 1)
        inside = torch.softmax(row[low:high], dim=0)
        weights.append(torch.nn.functional.pad(inside, (low, len(row) - high)))
    return torch.stack(weights)


# right local: a Gaussian in the scores, in float64
def local_p_weights(scores, centre, lengths, window):
    positions = torch.arange(scores.shape[1], dtype=torch.double)
    scores, distance = scores.double(), positions - centre.double()[:, None]
    outside = (distance.abs() > window) | (positions >= lengths[:, None])
    log_weights = torch.log_softmax(scores.masked_fill(outside, -math.inf), dim=1)
    return torch.exp(log_weights - 2 * (distance / window) ** 2)


# wrong decoder: looks at the padding
# hint: The decoder looks at padding
class AttentiveDecoder(nn.Module):
    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        out = []
        for t in range(embedded.shape[1]):
            weights = torch.softmax(additive_scores(state, annotations, self.W, self.U, self.v), dim=1)
            context = torch.einsum("bt,bta->ba", weights, annotations)
            state = self.cell(torch.cat([embedded[:, t], context], dim=1), state)
            out.append((state, context, weights))
        return tuple(torch.stack(part, dim=1) for part in zip(*out))


# wrong decoder: looks once
# hint: The context never changes
class AttentiveDecoder(nn.Module):
    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        weights = masked_softmax(additive_scores(state, annotations, self.W, self.U, self.v), lengths)
        context = torch.einsum("bt,bta->ba", weights, annotations)
        out = []
        for t in range(embedded.shape[1]):
            state = self.cell(torch.cat([embedded[:, t], context], dim=1), state)
            out.append((state, context, weights))
        return tuple(torch.stack(part, dim=1) for part in zip(*out))


# wrong decoder: steps first
# hint: You step first and look afterwards
class AttentiveDecoder(nn.Module):
    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        out, context = [], torch.zeros(len(annotations), annotations.shape[2], dtype=annotations.dtype)
        for t in range(embedded.shape[1]):
            state = self.cell(torch.cat([embedded[:, t], context], dim=1), state)
            weights = masked_softmax(additive_scores(state, annotations, self.W, self.U, self.v), lengths)
            context = torch.einsum("bt,bta->ba", weights, annotations)
            out.append((state, context, weights))
        return tuple(torch.stack(part, dim=1) for part in zip(*out))


# wrong decoder: the states from before the steps
# hint: Your states begin with s₀
class AttentiveDecoder(AttentiveDecoder):
    def forward(self, embedded, annotations, lengths, state):
        states, contexts, weights = [], [], []
        for t in range(embedded.shape[1]):
            states.append(state)
            weights.append(masked_softmax(additive_scores(state, annotations, self.W, self.U, self.v), lengths))
            contexts.append(torch.einsum("bs,bsa->ba", weights[-1], annotations))
            state = self.cell(torch.cat([embedded[:, t], contexts[-1]], dim=1), state)
        return torch.stack(states, dim=1), torch.stack(contexts, dim=1), torch.stack(weights, dim=1)


# wrong decoder: the context first
# hint: the embedded token comes first
class AttentiveDecoder(nn.Module):
    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        out = []
        for t in range(embedded.shape[1]):
            weights = masked_softmax(additive_scores(state, annotations, self.W, self.U, self.v), lengths)
            context = torch.einsum("bt,bta->ba", weights, annotations)
            state = self.cell(torch.cat([context, embedded[:, t]], dim=1), state)
            out.append((state, context, weights))
        return tuple(torch.stack(part, dim=1) for part in zip(*out))


# wrong decoder: the state stands still
# hint: The state does not move on
class AttentiveDecoder(nn.Module):
    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        out = []
        for t in range(embedded.shape[1]):
            weights = masked_softmax(additive_scores(state, annotations, self.W, self.U, self.v), lengths)
            context = torch.einsum("bt,bta->ba", weights, annotations)
            out.append((self.cell(torch.cat([embedded[:, t], context], dim=1), state), context, weights))
        return tuple(torch.stack(part, dim=1) for part in zip(*out))


# wrong decoder: takes the best word only
# hint: You take the one best annotation
class AttentiveDecoder(nn.Module):
    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        out = []
        for t in range(embedded.shape[1]):
            weights = masked_softmax(additive_scores(state, annotations, self.W, self.U, self.v), lengths)
            context = torch.stack([row[best] for row, best in zip(annotations, weights.argmax(dim=1))])
            state = self.cell(torch.cat([embedded[:, t], context], dim=1), state)
            out.append((state, context, weights))
        return tuple(torch.stack(part, dim=1) for part in zip(*out))


# right decoder: matrix products
class AttentiveDecoder(nn.Module):
    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        states, weights = [], []
        for token in embedded.unbind(1):
            weights.append(masked_softmax(additive_scores(state, annotations, self.W, self.U, self.v), lengths))
            state = self.cell(torch.cat([token, (weights[-1][:, None] @ annotations)[:, 0]], dim=-1), state)
            states.append(state)
        weights = torch.stack(weights, dim=1)
        return torch.stack(states, dim=1), weights @ annotations, weights


# right decoder: U h computed once, and the GRU's gates by hand
class AttentiveDecoder(nn.Module):
    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        offered, cell, out = annotations @ self.U.T, self.cell, []
        padding = torch.arange(annotations.shape[1]) >= lengths[:, None]
        for t in range(embedded.shape[1]):
            scores = torch.tanh((state @ self.W.T)[:, None] + offered) @ self.v
            weights = torch.softmax(scores.masked_fill(padding, -math.inf), dim=1)
            context = (weights[:, :, None] * annotations).sum(1)
            x = torch.cat([embedded[:, t], context], dim=1) @ cell.weight_ih.T + cell.bias_ih
            h = state @ cell.weight_hh.T + cell.bias_hh
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, dim=1), h.chunk(3, dim=1)
            reset, update = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            state = (1 - update) * torch.tanh(xn + reset * hn) + update * state
            out.append((state, context, weights))
        return tuple(torch.stack(part, dim=1) for part in zip(*out))
