import torch


# wrong linear: no division
# hint: The division is missing
def linear_attention(q, k, v):
    return torch.einsum("im,jm,jd->id", q, k, v)


# wrong linear: a softmax
# hint: You take a softmax
def linear_attention(q, k, v):
    scores = q @ k.T
    weights = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
    return weights @ v


# wrong linear: divides by the length
# hint: divide by the number of keys
def linear_attention(q, k, v):
    return torch.stack([(row @ k.T) @ v / k.shape[0] for row in q])


# wrong linear: over the queries
# hint: normalise over the queries
def linear_attention(q, k, v):
    weights = q @ k.T
    weights = weights / weights.sum(dim=0, keepdim=True)
    return weights @ v


# wrong linear: the future
# hint: see later keys
def causal_linear_attention(q, k, v):
    weights = q @ k.T
    return weights @ v / weights.sum(dim=1, keepdim=True)


# wrong linear: divides by all weights
# hint: Both stop at i
def causal_linear_attention(q, k, v):
    weights = q @ k.T
    return torch.tril(weights) @ v / weights.sum(dim=1, keepdim=True)


# right linear: the table of weights
def linear_attention(q, k, v):
    weights = q @ k.T
    return (weights / weights.sum(dim=1, keepdim=True)) @ v


def causal_linear_attention(q, k, v):
    weights = torch.tril(q @ k.T)
    return (weights / weights.sum(dim=1, keepdim=True)) @ v


# right linear: a loop over queries
def linear_attention(q, k, v):
    rows = []
    for query in q:
        weights = (k * query).sum(dim=1)
        rows.append((weights[:, None] * v).sum(dim=0) / weights.sum())
    return torch.stack(rows)


def causal_linear_attention(q, k, v):
    memory, total, rows = 0, 0, []
    for query, key, value in zip(q, k, v):
        memory, total = memory + torch.outer(key, value), total + key
        rows.append(query @ memory / (query @ total))
    return torch.stack(rows)


# wrong features: no square
# hint: The square is missing
def positive_features(x, w):
    return torch.exp(x @ w.T) / w.shape[0] ** 0.5


# wrong features: the whole square
# hint: Half of |x|²
def positive_features(x, w):
    return torch.exp(x @ w.T - x.pow(2).sum(dim=1, keepdim=True)) / w.shape[0] ** 0.5


# wrong features: divided by m
# hint: each is divided by √m
def positive_features(x, w):
    return torch.exp(x @ w.T - x.pow(2).sum(dim=1, keepdim=True) / 2) / w.shape[0]


# wrong features: no scale
# hint: Not scaled
def performer(q, k, v, w):
    return linear_attention(positive_features(q, w), positive_features(k, w), v)


# right features: a mean of outer products
def positive_features(x, w):
    columns = [torch.exp(x @ one - x.norm(dim=1) ** 2 / 2) for one in w]
    return torch.stack(columns, dim=1) / len(w) ** 0.5


# right features: by hand
def performer(q, k, v, w):
    q, k = q * q.shape[1] ** -0.25, k * k.shape[1] ** -0.25
    a = torch.exp(q @ w.T - (q**2).sum(1, keepdim=True) / 2)
    b = torch.exp(k @ w.T - (k**2).sum(1, keepdim=True) / 2)
    weights = a @ b.T
    return weights @ v / weights.sum(dim=1, keepdim=True)


# wrong low_rank: matrices swapped
# hint: yours are swapped
def linformer(q, k, v, e, f):
    return torch.softmax(q @ (f.T @ k).T / q.shape[1] ** 0.5, dim=1) @ (e.T @ v)


# wrong low_rank: no root
# hint: not divided by √D
def linformer(q, k, v, e, f):
    return torch.softmax(q @ (e.T @ k).T, dim=1) @ (f.T @ v)


# wrong low_rank: one matrix
# hint: They have a matrix of their own
def linformer(q, k, v, e, f):
    return torch.softmax(q @ (e.T @ k).T / q.shape[1] ** 0.5, dim=1) @ (e.T @ v)


# right low_rank: einsum
def linformer(q, k, v, e, f):
    keys, values = torch.einsum("tc,td->cd", e, k), torch.einsum("tc,td->cd", f, v)
    return torch.softmax(torch.einsum("td,cd->tc", q, keys) / q.shape[1] ** 0.5, dim=1) @ values


# right low_rank: torch's own attention
def linformer(q, k, v, e, f):
    return torch.nn.functional.scaled_dot_product_attention(q[None], (e.T @ k)[None], (f.T @ v)[None])[0]


# wrong blocks: ends like others
# hint: Yours are like the others
def block_mask(links, block):
    count = len(links)
    seen = torch.zeros(count, count, dtype=torch.bool)
    for i in range(count):
        for j in (i - 1, i, i + 1, *links[i]):
            if 0 <= j < count:
                seen[i, j] = True
    return seen.repeat_interleave(block, 0).repeat_interleave(block, 1)


# wrong blocks: links both ways
# hint: go both ways
def block_mask(links, block):
    count = len(links)
    seen = torch.zeros(count, count, dtype=torch.bool)
    for i in range(count):
        for j in (i - 1, i, i + 1, *links[i], 0, count - 1):
            if 0 <= j < count:
                seen[i, j] = seen[j, i] = True
    return seen.repeat_interleave(block, 0).repeat_interleave(block, 1)


# wrong blocks: no links
# hint: random links are missing
def block_mask(links, block):
    n = torch.arange(len(links))
    seen = (n[:, None] - n).abs() < 2
    seen[[0, -1]] = True
    seen[:, [0, -1]] = True
    return seen.repeat_interleave(block, 0).repeat_interleave(block, 1)


# right blocks: token by token
def block_mask(links, block):
    count = len(links)
    mask = torch.zeros(count * block, count * block, dtype=torch.bool)
    for i in range(count * block):
        for j in range(count * block):
            a, b = i // block, j // block
            mask[i, j] = abs(a - b) <= 1 or a in (0, count - 1) or b in (0, count - 1) or b in links[a]
    return mask


# right blocks: a Kronecker product
def block_mask(links, block):
    count = len(links)
    seen = torch.eye(count) + torch.eye(count).roll(1, 0).tril() + torch.eye(count).roll(-1, 0).triu()
    seen[0], seen[-1], seen[:, 0], seen[:, -1] = 1, 1, 1, 1
    for i, others in enumerate(links):
        for other in others:
            seen[i, other] = 1
    return torch.kron(seen, torch.ones(block, block)) > 0


# wrong hashing: half the buckets
# hint: The negated half is missing
def lsh_buckets(x, rotation):
    return torch.argmax(x @ rotation, dim=-1)


# wrong hashing: absolute values
# hint: opposite vectors share a bucket
def lsh_buckets(x, rotation):
    return torch.argmax(torch.abs(x @ rotation), dim=-1)


# wrong hashing: not sorted
# hint: Sort by bucket first
def chunk_mask(buckets, chunk):
    number = torch.arange(len(buckets)) // chunk
    step = (number[:, None] - number) % (len(buckets) // chunk)
    return step <= 1


# wrong hashing: no look back
# hint: sees the one before it
def chunk_mask(buckets, chunk):
    number = torch.zeros_like(buckets)
    number[torch.argsort(buckets, stable=True)] = torch.arange(len(buckets)) // chunk
    return number[:, None] == number


# wrong hashing: the first has none before
# hint: The chunk before the first is the last
def chunk_mask(buckets, chunk):
    number = torch.zeros_like(buckets)
    number[torch.argsort(buckets, stable=True)] = torch.arange(len(buckets)) // chunk
    step = number[:, None] - number
    return (step == 0) | (step == 1)


# right hashing: lists
def lsh_buckets(x, rotation):
    found = []
    for vector in x @ rotation:
        numbers = vector.tolist() + (-vector).tolist()
        found.append(numbers.index(max(numbers)))
    return torch.tensor(found)


# right hashing: chunk by chunk
def chunk_mask(buckets, chunk):
    order = sorted(range(len(buckets)), key=lambda token: (int(buckets[token]), token))
    chunks = [order[start : start + chunk] for start in range(0, len(order), chunk)]
    mask = torch.zeros(len(order), len(order), dtype=torch.bool)
    for number, tokens in enumerate(chunks):
        for i in tokens:
            for j in tokens + chunks[number - 1]:
                mask[i, j] = True
    return mask


# wrong hashing: the smallest number
# hint: The position of the *largest* number counts
def lsh_buckets(x, rotation):
    turned = x @ rotation
    return torch.cat((turned, -turned), dim=1).argmin(dim=1)
