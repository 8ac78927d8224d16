import itertools
import math

import torch
import torch.nn.functional as F


# wrong attention: forgets the scale
# hint: divide them by √d
def attention(query, key, value):
    weights = F.softmax(torch.einsum("...qd,...kd->...qk", query, key), dim=-1)
    return weights @ value, weights


# wrong attention: divides by d
# hint: not by its square root
def attention(query, key, value):
    d = query.size(-1)
    weights = F.softmax(query @ key.transpose(-1, -2) / d, dim=-1)
    return weights @ value, weights


# wrong attention: divides by the square root of the length
# hint: it should be of their width d
def attention(query, key, value):
    weights = F.softmax(query @ key.transpose(-1, -2) / key.size(-2) ** 0.5, dim=-1)
    return weights @ value, weights


# wrong attention: softmax down the queries
# hint: runs down the queries
def attention(query, key, value):
    scores = query @ key.transpose(-1, -2) / query.size(-1) ** 0.5
    weights = scores.softmax(dim=-2)
    return weights @ value, weights


# wrong attention: returns the pair the wrong way round
# hint: the output first, then the weights
def attention(query, key, value):
    weights = (query @ key.transpose(-1, -2) / query.size(-1) ** 0.5).softmax(dim=-1)
    return weights, weights @ value


# wrong attention: no softmax
# hint: stands a softmax
def attention(query, key, value):
    weights = query @ key.transpose(-1, -2) / query.size(-1) ** 0.5
    return torch.matmul(weights, value), weights


# wrong attention: a softmax by hand that overflows
# hint: subtract each row's maximum
def attention(query, key, value):
    e = torch.exp(query @ key.transpose(-1, -2) / query.size(-1) ** 0.5)
    weights = e / e.sum(dim=-1, keepdim=True)
    return weights @ value, weights


# right attention: by einsum
def attention(query, key, value):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * query.size(-1) ** -0.5
    weights = scores.softmax(-1)
    return torch.einsum("...qk,...kv->...qv", weights, value), weights


# right attention: in loops, one row at a time
def attention(query, key, value):
    flat_query = query.reshape(-1, *query.shape[-2:])
    flat_key, flat_value = key.reshape(-1, *key.shape[-2:]), value.reshape(-1, *value.shape[-2:])
    outputs, weights = [], []
    for q, k, v in zip(flat_query, flat_key, flat_value):
        rows = []
        for one in q:
            scores = torch.stack([(one * other).sum() for other in k]) / math.sqrt(len(one))
            raised = (scores - scores.max()).exp()
            rows.append(raised / raised.sum())
        weights.append(torch.stack(rows))
        outputs.append(weights[-1] @ v)
    batch = query.shape[:-2]
    return torch.stack(outputs).reshape(*batch, *outputs[0].shape), torch.stack(weights).reshape(
        *batch, *weights[0].shape
    )


# right attention: in float64, the query scaled first
def attention(query, key, value):
    query, key, value = query.double(), key.double(), value.double()
    weights = torch.softmax((query / query.size(-1) ** 0.5) @ key.mT, dim=-1)
    return weights @ value, weights


# right attention: PyTorch's own, and the weights by the identity as values
def attention(query, key, value):
    eye = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:-1], key.size(-2))
    return F.scaled_dot_product_attention(query, key, value), F.scaled_dot_product_attention(query, key, eye)


# wrong masks: a position does not see itself
# hint: Use j ≤ i
def causal_padding_mask(lengths, max_len):
    j = torch.arange(max_len)
    return (j[None, None, :] < j[None, :, None]) & (j[None, None, :] < lengths[:, None, None])


# wrong masks: the upper triangle
# hint: looks into the future
def causal_padding_mask(lengths, max_len):
    causal = torch.triu(torch.ones(max_len, max_len)).bool()
    return causal & (torch.arange(max_len) < lengths[:, None])[:, None, :]


# wrong masks: True for what is hidden
# hint: True means *may* attend
def causal_padding_mask(lengths, max_len):
    future = torch.triu(torch.ones(max_len, max_len), diagonal=1).bool()
    return future | (torch.arange(max_len) >= lengths[:, None])[:, None, :]


# wrong masks: hides the padded queries
# hint: padded *keys*
def causal_padding_mask(lengths, max_len):
    causal = torch.ones(max_len, max_len).tril().bool()
    return causal & (torch.arange(max_len) < lengths[:, None])[:, :, None]


# wrong masks: forgets the padding
# hint: The padding is still visible
def causal_padding_mask(lengths, max_len):
    return torch.ones(len(lengths), max_len, max_len).tril().bool()


# wrong masks: forgets the triangle
# hint: where is the triangle
def causal_padding_mask(lengths, max_len):
    return (torch.arange(max_len) < lengths[:, None])[:, None, :].repeat(1, max_len, 1)


# wrong masks: an integer mask
# hint: should hold booleans
def causal_padding_mask(lengths, max_len):
    j = torch.arange(max_len)
    return ((j[None, None, :] <= j[None, :, None]) & (j[None, None, :] < lengths[:, None, None])).long()


# wrong masks: fills where the mask is True
# hint: fill where it is False
def masked_attention(query, key, value, mask=None):
    scores = query @ key.mT / key.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    return scores.softmax(-1) @ value


# wrong masks: multiplies the scores by the mask
# hint: A score of 0 is not forbidden
def masked_attention(query, key, value, mask=None):
    scores = query @ key.mT / key.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    return scores.softmax(-1) @ value


# wrong masks: masks the weights
# hint: Mask the scores, then take the softmax
def masked_attention(query, key, value, mask=None):
    weights = attention(query, key, value)[1]
    if mask is not None:
        weights = torch.where(mask, weights, 0.0)
    return weights @ value


# right masks: built in loops, filled with -1e9
def causal_padding_mask(lengths, max_len):
    mask = torch.zeros(len(lengths), max_len, max_len, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        for i in range(max_len):
            mask[b, i, : min(i + 1, length)] = True
    return mask


def masked_attention(query, key, value, mask=None):
    scores = query @ key.mT / key.size(-1) ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, -1e9)
    return scores.softmax(-1) @ value


# right masks: PyTorch's own attention, in float64
def causal_padding_mask(lengths, max_len):
    real = torch.arange(max_len) < lengths[:, None]
    return torch.ones(max_len, max_len, dtype=torch.bool).tril() & real[:, None]


def masked_attention(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query.double(), key.double(), value.double(), attn_mask=mask)


# right masks: an added mask of the most negative float
def masked_attention(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + (~mask) * torch.finfo(scores.dtype).min
    return torch.einsum("...qk,...kd->...qd", F.softmax(scores, -1), value)


# right masks: weights masked after the exponential and then normalised
def masked_attention(query, key, value, mask=None):
    scores = query @ key.mT / key.size(-1) ** 0.5
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    scores = scores.masked_fill(~mask, float("-inf"))
    raised = (scores - scores.max(-1, keepdim=True).values).exp()
    return raised / raised.sum(-1, keepdim=True) @ value


# wrong heads: a view that scrambles
# hint: a view cannot move an axis
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.view(B, num_heads, T, D // num_heads)


# wrong heads: deals the features out
# hint: like cards
def split_heads(x, num_heads):
    return torch.stack([x[..., h::num_heads] for h in range(num_heads)], dim=1)


# wrong heads: merges without transposing
# hint: before you merge
def merge_heads(x):
    B, H, T, Dh = x.shape
    return x.contiguous().view(B, T, H * Dh)


# wrong heads: forgets the last projection
# hint: `out_proj` comes last
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        q, k, v = [split_heads(f(x), self.num_heads) for f in (self.query_proj, self.key_proj, self.value_proj)]
        mask = mask.unsqueeze(1) if mask is not None else None
        return merge_heads(masked_attention(q, k, v, mask))


# wrong heads: scales by the model's width
# hint: Each head's keys are only Dh
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        q, k, v = [split_heads(f(x), self.num_heads) for f in (self.query_proj, self.key_proj, self.value_proj)]
        scores = q @ k.mT / x.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], -1e9)
        return self.out_proj(merge_heads(scores.softmax(-1) @ v))


# wrong heads: lines the mask up with the heads
# hint: give it a heads axis
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        q, k, v = [split_heads(f(x), self.num_heads) for f in (self.query_proj, self.key_proj, self.value_proj)]
        return self.out_proj(merge_heads(masked_attention(q, k, v, mask)))


# wrong heads: drops the mask
# hint: never pass the mask on
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        q, k, v = [split_heads(f(x), self.num_heads) for f in (self.query_proj, self.key_proj, self.value_proj)]
        return self.out_proj(merge_heads(masked_attention(q, k, v)))


# wrong heads: one wide head
# hint: split before you attend
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        return self.out_proj(masked_attention(self.query_proj(x), self.key_proj(x), self.value_proj(x), mask))


# right heads: chunk, stack and cat
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


# right heads: a loop over the heads, without the helpers
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        width = x.size(-1) // self.num_heads
        outputs = []
        for h in range(self.num_heads):
            part = slice(h * width, (h + 1) * width)
            scores = q[..., part] @ k[..., part].mT / math.sqrt(width)
            if mask is not None:
                scores = scores.masked_fill(mask.logical_not(), float("-inf"))
            outputs.append(scores.softmax(-1) @ v[..., part])
        return self.out_proj(torch.cat(outputs, dim=-1))


# right heads: PyTorch's functional form, with permute and unflatten
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 1, 3)


def merge_heads(x):
    return x.permute(0, 2, 1, 3).flatten(-2)


class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        q, k, v = (split_heads(f(x), self.num_heads) for f in (self.query_proj, self.key_proj, self.value_proj))
        mask = None if mask is None else mask.unsqueeze(1)
        return self.out_proj(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))


# wrong scaling: bits
# hint: Nats use the natural logarithm
def entropy(scores):
    p = scores.softmax(-1)
    return -(p * torch.log2(p.clamp(min=1e-30))).sum(-1)


# wrong scaling: forgets the minus
# hint: never negative
def entropy(scores):
    p = scores.softmax(-1)
    return torch.special.xlogy(p, p).sum(-1)


# wrong scaling: zero times log of zero
# hint: use log_softmax, or clamp
def entropy(scores):
    p = F.softmax(scores, dim=-1)
    return -torch.sum(p * torch.log(p), dim=-1)


# wrong scaling: averages inside
# hint: keep the leading axes
def entropy(scores):
    return torch.distributions.Categorical(logits=scores).entropy().mean()


# wrong scaling: never scales
# hint: divide by √width
def scaling_experiment(widths, num_samples):
    table = torch.zeros(len(widths), 3)
    for row, d in enumerate(widths):
        s = torch.einsum("nd,nkd->nk", torch.randn(num_samples, d), torch.randn(num_samples, 16, d))
        table[row] = torch.tensor([s.std(), entropy(s).mean(), entropy(s).mean()])
    return table


# wrong scaling: divides by the width
# hint: almost uniform weights
def scaling_experiment(widths, num_samples):
    table = torch.zeros(len(widths), 3)
    for row, d in enumerate(widths):
        s = torch.einsum("nd,nkd->nk", torch.randn(num_samples, d), torch.randn(num_samples, 16, d))
        table[row] = torch.tensor([s.std(), entropy(s).mean(), entropy(s / d).mean()])
    return table


# wrong scaling: variance for standard deviation
# hint: The standard deviation is √d
def scaling_experiment(widths, num_samples):
    table = torch.zeros(len(widths), 3)
    for row, d in enumerate(widths):
        s = torch.einsum("nd,nkd->nk", torch.randn(num_samples, d), torch.randn(num_samples, 16, d))
        table[row] = torch.tensor([s.var(), entropy(s).mean(), entropy(s / d**0.5).mean()])
    return table


# wrong scaling: uniform draws
# hint: whose mean is not 0
def scaling_experiment(widths, num_samples):
    table = torch.zeros(len(widths), 3)
    for row, d in enumerate(widths):
        s = torch.einsum("nd,nkd->nk", torch.rand(num_samples, d), torch.rand(num_samples, 16, d))
        table[row] = torch.tensor([s.std(), entropy(s).mean(), entropy(s / d**0.5).mean()])
    return table


# right scaling: torch's own entropy, draws from a generator, in float64
def entropy(scores):
    return torch.distributions.Categorical(logits=scores.double()).entropy()


def scaling_experiment(widths, num_samples):
    generator = torch.Generator().manual_seed(7)
    rows = []
    for d in widths:
        q = torch.randn(num_samples, d, generator=generator, dtype=torch.float64)
        k = torch.randn(num_samples, 16, d, generator=generator, dtype=torch.float64)
        s = torch.einsum("nd,nkd->nk", q, k)
        rows.append([s.std().item(), entropy(s).mean().item(), entropy(s / d**0.5).mean().item()])
    return torch.tensor(rows)


# right scaling: a sample at a time, and entropy by log-sum-exp
def entropy(scores):
    return torch.logsumexp(scores, -1) - (scores.softmax(-1) * scores).sum(-1)


def scaling_experiment(widths, num_samples):
    rows = []
    for d in widths:
        s = torch.stack([torch.randn(16, d) @ torch.randn(d) for _ in range(num_samples)])
        rows.append(torch.stack([s.std(correction=0), entropy(s).mean(), entropy(s * d**-0.5).mean()]))
    return torch.stack(rows)


# wrong equivariance: shuffles the batch
# hint: The tokens are axis 1
def equivariance_gap(layer, x, order):
    return (layer(x[order]) - layer(x)[order]).abs().max().item()


# wrong equivariance: compares with the unshuffled output
# hint: that measures invariance
def equivariance_gap(layer, x, order):
    return float(torch.max(torch.abs(layer(x[:, order]) - layer(x))))


# wrong equivariance: shuffles the output once more
# hint: Undo it with order.argsort()
def equivariance_gap(layer, x, order):
    shuffled = layer(x[:, order])
    return (shuffled[:, order] - layer(x)).abs().max().item()


# wrong equivariance: the mean
# hint: the *largest* difference
def equivariance_gap(layer, x, order):
    return F.l1_loss(layer(x[:, order]), layer(x)[:, order]).item()


# wrong equivariance: forgets the absolute value
# hint: Differences have signs
def equivariance_gap(layer, x, order):
    return torch.max(layer(x[:, order]) - layer(x)[:, order]).item()


# wrong equivariance: tries the reversal alone
# hint: a layer can respect the reversal and no other
def symmetry(layer, x):
    y, z = layer(x), layer(x.flip(1))
    if torch.allclose(y, z, atol=1e-4):
        return "invariant"
    return "equivariant" if torch.allclose(y.flip(1), z, atol=1e-4) else "neither"


# wrong equivariance: tries one shift alone
# hint: a layer can respect a cyclic shift
def symmetry(layer, x):
    y, z = layer(x), layer(x.roll(1, 1))
    if torch.allclose(y, z, atol=1e-4):
        return "invariant"
    return "equivariant" if torch.allclose(y.roll(1, 1), z, atol=1e-4) else "neither"


# wrong equivariance: never says invariant
# hint: You never answer 'invariant'
def symmetry(layer, x):
    y = layer(x)
    if y.dim() < 3:
        return "neither"
    orders = [list(p) for p in itertools.permutations(range(x.shape[1]))]
    return "equivariant" if all(torch.allclose(layer(x[:, o]), y[:, o], atol=1e-4) for o in orders) else "neither"


# wrong equivariance: one swap
# hint: You swap the first two tokens and no others
def symmetry(layer, x):
    swap = torch.arange(x.shape[1])
    swap[:2] = torch.tensor([1, 0])
    before, after = layer(x), layer(x[:, swap])
    if (after - before).abs().max() < 1e-4:
        return "invariant"
    return "equivariant" if before.dim() == 3 and (after - before[:, swap]).abs().max() < 1e-4 else "neither"


# wrong equivariance: asks for equivariance first
# hint: is to be called invariant
def symmetry(layer, x):
    before, orders = layer(x), [list(order) for order in itertools.permutations(range(x.shape[1]))]
    if before.dim() == 3 and all(equivariance_gap(layer, x, order) < 1e-4 for order in orders):
        return "equivariant"
    return "invariant" if all(torch.allclose(layer(x[:, o]), before, atol=1e-4) for o in orders) else "neither"


# right equivariance: swaps of neighbours
def symmetry(layer, x):
    T = x.shape[1]
    y, invariant, equivariant = layer(x), True, True
    for t in range(T - 1):
        order = torch.arange(T)
        order[[t, t + 1]] = order[[t + 1, t]]
        z = layer(x[:, order])
        invariant &= bool((z - y).abs().max() < 1e-4)
        equivariant &= y.dim() == 3 and bool((z - y[:, order]).abs().max() < 1e-4)
    return "invariant" if invariant else "equivariant" if equivariant else "neither"


# right equivariance: undoes the shuffle, with index_select and a permutation matrix
def equivariance_gap(layer, x, order):
    back = layer(x.index_select(1, order)).index_select(1, order.argsort())
    return torch.linalg.vector_norm(back - layer(x), ord=float("inf"))


def symmetry(layer, x):
    names = {"invariant", "equivariant"}
    y = layer(x)
    for p in itertools.permutations(range(x.size(1))):
        matrix = torch.eye(x.size(1))[list(p)]
        z = layer(matrix @ x)
        if not torch.allclose(z, y, atol=1e-4):
            names.discard("invariant")
        if y.dim() == 2 or not torch.allclose(z, matrix @ y, atol=1e-4):
            names.discard("equivariant")
    return next((name for name in ("invariant", "equivariant") if name in names), "neither")


# wrong heads: keys as values
# hint: You use the keys as values
class MultiHeadAttention(MultiHeadAttention):
    def forward(self, x, mask=None):
        q, k = [split_heads(f(x), self.num_heads) for f in (self.query_proj, self.key_proj)]
        return self.out_proj(merge_heads(masked_attention(q, k, k, mask[:, None] if mask is not None else None)))


# wrong scaling: the same keys for all queries
# hint: Draw 16 keys for *each* query
def scaling_experiment(widths, num_samples):
    rows = []
    for d in widths:
        s = torch.randn(num_samples, d) @ torch.randn(16, d).T
        rows.append([s.std(), entropy(s).mean(), entropy(s / d**0.5).mean()])
    return torch.tensor(rows)


# wrong scaling: a key too few
# hint: You draw 15 keys
def scaling_experiment(widths, num_samples):
    table = torch.zeros(len(widths), 3)
    for row, d in enumerate(widths):
        s = torch.einsum("nd,nkd->nk", torch.randn(num_samples, d), torch.randn(num_samples, 15, d))
        table[row] = torch.tensor([s.std(), entropy(s).mean(), entropy(s / d**0.5).mean()])
    return table


# wrong scaling: a key too many
# hint: You draw 17 keys
def scaling_experiment(widths, num_samples):
    table = torch.zeros(len(widths), 3)
    for row, d in enumerate(widths):
        s = torch.einsum("nd,nkd->nk", torch.randn(num_samples, d), torch.randn(num_samples, 17, d))
        table[row] = torch.tensor([s.std(), entropy(s).mean(), entropy(s / d**0.5).mean()])
    return table
