import torch
import torch.nn.functional as F


# wrong pooling: no mask
# hint: The padding gets weight
def attention_pool(states, mask, W, b, u):
    weights = torch.softmax(torch.tanh(states @ W + b) @ u, dim=1)
    return torch.einsum("bt,btd->bd", weights, states), weights


# wrong pooling: masks too late
# hint: mask after the softmax
def attention_pool(states, mask, W, b, u):
    weights = torch.softmax(torch.tanh(states @ W + b) @ u, dim=1)
    weights = torch.where(mask, weights, torch.zeros_like(weights))
    return torch.einsum("bt,btd->bd", weights, states), weights


# wrong pooling: linear keys
# hint: Without the tanh
def attention_pool(states, mask, W, b, u):
    scores = (torch.einsum("btd,da->bta", states, W) + b) @ u
    weights = torch.softmax(scores.masked_fill(~mask, -1e9), dim=1)
    return torch.einsum("bt,btd->bd", weights, states), weights


# wrong pooling: averages what it scored
# hint: You average the keys
def attention_pool(states, mask, W, b, u):
    keys = torch.tanh(states @ W + b)
    weights = torch.softmax((keys @ u).masked_fill(~mask, -1e9), dim=1)
    return torch.einsum("bt,bta->ba", weights, keys), weights


# wrong pooling: NaN for nothing
# hint: softmax of nothing is NaN
def attention_pool(states, mask, W, b, u):
    scores = (torch.tanh(states @ W + b) @ u).masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=1)
    return torch.einsum("bt,btd->bd", weights, states), weights


# right pooling: one sentence at a time
def attention_pool(states, mask, W, b, u):
    pooled, weights = torch.zeros_like(states[:, 0]), torch.zeros_like(states[..., 0])
    for row in range(len(states)):
        real = mask[row].nonzero().flatten()
        if len(real):
            share = torch.softmax(torch.tanh(states[row, real] @ W + b) @ u, dim=0)
            weights[row, real] = share
            pooled[row] = share @ states[row, real]
    return pooled, weights


# right pooling: nan_to_num
def attention_pool(states, mask, W, b, u):
    scores = torch.tanh(states @ W + b).matmul(u).masked_fill(mask.logical_not(), float("-inf"))
    weights = torch.nan_to_num(F.softmax(scores, dim=-1))
    return (weights[..., None] * states).sum(dim=1), weights


# wrong documents: zeros in the gaps
# hint: must hold pad_id
def pad_documents(documents, pad_id):
    count = max(map(len, documents))
    width = max(len(s) for d in documents for s in d)
    rows = [[s + [0] * (width - len(s)) for s in d] + [[0] * width] * (count - len(d)) for d in documents]
    return torch.tensor(rows), torch.tensor([[len(s) for s in d] + [0] * (count - len(d)) for d in documents])


# wrong documents: padding sentences have a length
# hint: has length 0
def pad_documents(documents, pad_id):
    count = max(map(len, documents))
    width = max(len(s) for d in documents for s in d)
    rows = [[s + [pad_id] * (width - len(s)) for s in d] + [[pad_id] * width] * (count - len(d)) for d in documents]
    return torch.tensor(rows), torch.tensor([[len(s) for s in d] + [width] * (count - len(d)) for d in documents])


# wrong documents: one word too many
# hint: Off by one: word t
def document_masks(lengths, max_words):
    return torch.arange(max_words) <= lengths[..., None], lengths > 0


# wrong documents: all sentences are real
# hint: Padding sentences count as real
def document_masks(lengths, max_words):
    return torch.arange(max_words) < lengths[..., None], lengths >= 0


# wrong documents: True for padding
# hint: upside down
def document_masks(lengths, max_words):
    return torch.arange(max_words) >= lengths[..., None], lengths == 0


# right documents: nested lists
def pad_documents(documents, pad_id):
    count = max(map(len, documents))
    width = max(len(s) for d in documents for s in d)
    rows = [[s + [pad_id] * (width - len(s)) for s in d] + [[pad_id] * width] * (count - len(d)) for d in documents]
    return torch.tensor(rows), torch.tensor([[len(s) for s in d] + [0] * (count - len(d)) for d in documents])


def document_masks(lengths, max_words):
    words = torch.stack([torch.stack([torch.arange(max_words) < n for n in row]) for row in lengths])
    return words, words.any(dim=-1) | (lengths > 0)


# right documents: pad_sequence
def pad_documents(documents, pad_id):
    flat = [torch.tensor(s) for d in documents for s in d]
    padded = torch.nn.utils.rnn.pad_sequence(flat, batch_first=True, padding_value=pad_id)
    parts = padded.split([len(d) for d in documents])
    ids = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=pad_id)
    counts = [torch.tensor([len(s) for s in d]) for d in documents]
    return ids, torch.nn.utils.rnn.pad_sequence(counts, batch_first=True)


# wrong alignment: one softmax for both
# hint: Each direction needs its own softmax
def soft_align(a, b, a_mask, b_mask):
    weights = torch.softmax((a @ b.mT).masked_fill(~b_mask[:, None], -1e9), dim=-1)
    return weights @ b, weights.mT @ a


# wrong alignment: no masks
# hint: Padding is looked at
def soft_align(a, b, a_mask, b_mask):
    scores = torch.einsum("bid,bjd->bij", a, b)
    return torch.softmax(scores, 2) @ b, torch.softmax(scores, 1).mT @ a


# wrong alignment: scaled
# hint: nothing is divided
def soft_align(a, b, a_mask, b_mask):
    return (
        F.scaled_dot_product_attention(a, b, b, attn_mask=b_mask[:, None]),
        F.scaled_dot_product_attention(b, a, a, attn_mask=a_mask[:, None]),
    )


# wrong alignment: the difference turned round
# hint: own − found
def enhance(own, found):
    return torch.cat([own, found, found - own, found * own], dim=2)


# wrong alignment: stacked under each other
# hint: along the features
def enhance(own, found):
    return torch.cat([own, found, own - found, own * found], dim=1)


# right alignment: torch's attention without its scale
def soft_align(a, b, a_mask, b_mask):
    return (
        F.scaled_dot_product_attention(a, b, b, attn_mask=b_mask[:, None], scale=1.0),
        F.scaled_dot_product_attention(b, a, a, attn_mask=a_mask[:, None], scale=1.0),
    )


# right alignment: one pair at a time
def soft_align(a, b, a_mask, b_mask):
    found = [[], []]
    for i in range(len(a)):
        e = a[i] @ b[i].T
        found[0].append(torch.softmax(e[:, b_mask[i]], dim=1) @ b[i][b_mask[i]])
        found[1].append(torch.softmax(e[a_mask[i]], dim=0).T @ a[i][a_mask[i]])
    return torch.stack(found[0]), torch.stack(found[1])


def enhance(own, found):
    return torch.stack([own, found, own - found, own * found], dim=-2).flatten(-2)


# wrong spans: padding in the softmax
# hint: Padding takes part
def span_loss(start_scores, end_scores, mask, starts, ends):
    return F.cross_entropy(start_scores, starts) + F.cross_entropy(end_scores, ends)


# wrong spans: a loss that is a plain number
# hint: no gradient flows through a number
def span_loss(start_scores, end_scores, mask, starts, ends):
    both = [scores.masked_fill(~mask, -1e9).log_softmax(-1) for scores in (start_scores, end_scores)]
    rows = torch.arange(len(starts))
    return -(both[0][rows, starts] + both[1][rows, ends]).mean().item()


# wrong spans: a mean of the two
# hint: added, not averaged
def span_loss(start_scores, end_scores, mask, starts, ends):
    start, end = (s.masked_fill(~mask, -1e9) for s in (start_scores, end_scores))
    return (F.cross_entropy(start, starts) + F.cross_entropy(end, ends)) / 2


# wrong spans: two argmaxes
# hint: end before it starts
def best_span(start_scores, end_scores, max_len):
    return torch.stack([start_scores.argmax(dim=-1), end_scores.argmax(dim=-1)], dim=-1)


# wrong spans: the start first
# hint: score all pairs
def best_span(start_scores, end_scores, max_len):
    found = []
    for start, end in zip(start_scores, end_scores):
        s = int(start.argmax())
        found.append([s, s + int(end[s : s + max_len].argmax())])
    return torch.tensor(found)


# wrong spans: a word too long
# hint: Off by one: a span
def best_span(start_scores, end_scores, max_len):
    found = []
    for start, end in zip(start_scores, end_scores):
        spans = [(s, e) for s in range(len(start)) for e in range(s, min(len(start), s + max_len + 1))]
        found.append(max(spans, key=lambda span: float(start[span[0]] + end[span[1]])))
    return torch.tensor(found)


# right spans: two loops
def best_span(start_scores, end_scores, max_len):
    found = []
    for start, end in zip(start_scores, end_scores):
        spans = [(s, e) for s in range(len(start)) for e in range(s, min(len(start), s + max_len))]
        found.append(max(spans, key=lambda span: float(start[span[0]] + end[span[1]])))
    return torch.tensor(found)


def span_loss(start_scores, end_scores, mask, starts, ends):
    total = 0.0
    for i in range(len(starts)):
        real = mask[i].nonzero().flatten()
        total = total - torch.log_softmax(start_scores[i, real], 0)[real.tolist().index(int(starts[i]))]
        total = total - torch.log_softmax(end_scores[i, real], 0)[real.tolist().index(int(ends[i]))]
    return total / len(starts)


# right spans: a window over the ends
def best_span(start_scores, end_scores, max_len):
    length = start_scores.shape[1]
    distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    bias = torch.zeros(length, length).masked_fill((distance < 0) | (distance >= max_len), -1e30)
    sums = start_scores.unsqueeze(2) + end_scores.unsqueeze(1) + bias
    best, ends = sums.max(dim=2)
    starts = best.argmax(dim=1)
    return torch.stack([starts, ends[torch.arange(len(ends)), starts]], dim=1)


# wrong documents: as wide as the first sentences
# hint: cut long sentences
def pad_documents(documents, pad_id):
    width = max(len(document[0]) for document in documents)
    cut = [[sentence[:width] for sentence in document] for document in documents]
    count = max(map(len, cut))
    ids = [[s + [pad_id] * (width - len(s)) for s in d] + [[pad_id] * width] * (count - len(d)) for d in cut]
    return torch.tensor(ids), torch.tensor([[*map(len, d), *[0] * (count - len(d))] for d in cut])


# right alignment: sums of exponentials, and the logarithm of a mask
def soft_align(a, b, a_mask, b_mask):
    a, b = a.double(), b.double()
    scores = torch.einsum("bid,bjd->bij", a, b)
    over_b, over_a = scores + b_mask[:, None].double().log(), scores + a_mask[:, :, None].double().log()
    found_in_b = torch.exp(over_b - over_b.logsumexp(2, keepdim=True)) @ b
    return found_in_b, torch.einsum("bij,bid->bjd", torch.exp(over_a - over_a.logsumexp(1, keepdim=True)), a)
