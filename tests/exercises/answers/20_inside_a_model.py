import math

import torch
import torch.nn.functional as F


# wrong parts: a layer norm
# hint: You subtract the mean
def rms_norm(x, gain, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], eps=eps) * gain


# wrong parts: no root
# hint: take its root first
def rms_norm(x, gain, eps=1e-5):
    return gain * x / ((x * x).mean(-1, keepdim=True) + eps)


# wrong parts: the length of the vector
# hint: not of the mean
def rms_norm(x, gain, eps=1e-5):
    return gain * x / ((x * x).sum(-1, keepdim=True) + eps).sqrt()


# wrong parts: eps outside
# hint: eps outside the square root
def rms_norm(x, gain, eps=1e-5):
    return gain * x / ((x * x).mean(-1, keepdim=True).sqrt() + eps)


# wrong parts: no eps
# hint: those without an eps
def rms_norm(x, gain, eps=1e-5):
    return gain * x / (x * x).mean(-1, keepdim=True).sqrt()


# wrong parts: the gate is linear
# hint: wrong half
def swiglu(x, gate, widen, narrow):
    return ((x @ gate) * F.silu(x @ widen)) @ narrow


# wrong parts: a sigmoid gate
# hint: the older GLU
def swiglu(x, gate, widen, narrow):
    return (torch.sigmoid(x @ gate) * (x @ widen)) @ narrow


# right parts: by hand
def rms_norm(x, gain, eps=1e-5):
    square = (x * x).sum(-1, keepdim=True) / x.shape[-1]
    return gain * x * (square + eps) ** -0.5


def swiglu(x, gate, widen, narrow):
    z = x @ gate
    return z * torch.sigmoid(z) * (x @ widen) @ narrow


# right parts: torch's own, in double precision
def rms_norm(x, gain, eps=1e-5):
    return F.rms_norm(x.double(), x.shape[-1:], gain.double(), eps)


def swiglu(x, gate, widen, narrow):
    hidden = F.silu(F.linear(x, gate.T)) * F.linear(x, widen.T)
    return F.linear(hidden, narrow.T)


# wrong groups: copies go round
# hint: Your copies go round
def lend(kept, num_heads):
    return torch.cat([kept] * (num_heads // kept.shape[1]), dim=1)


# wrong groups: each head for all
# hint: a group of num_heads
def lend(kept, num_heads):
    return kept.repeat_interleave(num_heads, dim=1)


# wrong groups: no mask
# hint: A token sees later ones
def grouped_attention(query, key, value):
    key, value = lend(key, query.shape[1]), lend(value, query.shape[1])
    return F.scaled_dot_product_attention(query, key, value)


# wrong groups: not scaled
# hint: not divided by the square root
def grouped_attention(query, key, value):
    key, value = lend(key, query.shape[1]), lend(value, query.shape[1])
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=1.0)


# right groups: expand and flatten
def lend(kept, num_heads):
    batch, heads, length, width = kept.shape
    wide = kept[:, :, None].expand(batch, heads, num_heads // heads, length, width)
    return wide.reshape(batch, num_heads, length, width)


def grouped_attention(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


# right groups: head by head
def lend(kept, num_heads):
    group = num_heads // kept.shape[1]
    return torch.stack([kept[:, head // group] for head in range(num_heads)], dim=1)


def grouped_attention(query, key, value):
    group = query.shape[1] // key.shape[1]
    heads = []
    for head in range(query.shape[1]):
        k, v = key[:, head // group], value[:, head // group]
        scores = query[:, head] @ k.mT / math.sqrt(k.shape[-1])
        scores = scores + torch.full(scores.shape[-2:], -math.inf).triu(1)
        heads.append(scores.softmax(-1) @ v)
    return torch.stack(heads, dim=1)


# wrong induction: attends to itself
# hint: one below the diagonal
def previous_score(weights):
    return torch.diagonal(weights, dim1=-2, dim2=-1).mean(-1)


# wrong induction: divided by all tokens
# hint: T - 1 numbers
def previous_score(weights):
    length = weights.shape[-1]
    return sum(weights[..., i, i - 1] for i in range(1, length)) / length


# wrong induction: the same token
# hint: the token *after* it
def induction_score(weights):
    n = weights.shape[-1] // 2
    return torch.stack([weights[..., i, i - n] for i in range(n, 2 * n)]).mean(0)


# wrong induction: begins too early
# hint: start at the second copy
def induction_score(weights):
    n = weights.shape[-1] // 2
    return torch.stack([weights[..., i, i - n + 1] for i in range(n - 1, 2 * n)]).mean(0)


# right induction: loops
def previous_score(weights):
    return torch.stack([weights[..., i, i - 1] for i in range(1, weights.shape[-1])]).mean(0)


def induction_score(weights):
    n = weights.shape[-1] // 2
    return torch.stack([weights[..., i, i - n + 1] for i in range(n, 2 * n)]).mean(0)


# right induction: index tensors
def previous_score(weights):
    i = torch.arange(1, weights.shape[-1])
    return weights[..., i, i - 1].mean(-1)


def induction_score(weights):
    n = weights.shape[-1] // 2
    i = torch.arange(n, 2 * n)
    return weights[..., i, i - n + 1].mean(-1)


# wrong lens: no final norm
# hint: The final norm is missing
def logit_lens(states, gain, embedding, eps=1e-5):
    return torch.softmax(states @ embedding.T, dim=-1)


# wrong lens: logits
# hint: Those are logits
def logit_lens(states, gain, embedding, eps=1e-5):
    return F.rms_norm(states, states.shape[-1:], gain, eps) @ embedding.T


# right lens: einsum
def logit_lens(states, gain, embedding, eps=1e-5):
    normed = F.rms_norm(states, states.shape[-1:], gain, eps)
    return torch.softmax(torch.einsum("...d,vd->...v", normed, embedding), dim=-1)


# right lens: layer by layer
def logit_lens(states, gain, embedding, eps=1e-5):
    read = []
    for state in states:
        size = (state.pow(2).mean(-1, keepdim=True) + eps).sqrt()
        logits = (state / size * gain) @ embedding.T
        read.append((logits - logits.logsumexp(-1, keepdim=True)).exp())
    return torch.stack(read)


# wrong ablation: the first rows for all heads
# hint: Every head goes through the first rows
def head_outputs(mixed, output):
    return mixed @ output[: mixed.shape[-1]]


# wrong ablation: the head itself
# hint: the head's own part
def without_head(mixed, output, head):
    return head_outputs(mixed, output)[:, head]


# wrong ablation: averages what is left
# hint: You average what is left
def without_head(mixed, output, head):
    parts = head_outputs(mixed, output)
    rest = [parts[:, h] for h in range(parts.shape[1]) if h != head]
    return sum(rest) / len(rest)


# right ablation: head by head
def head_outputs(mixed, output):
    width = mixed.shape[-1]
    parts = [mixed[:, h] @ output[h * width : (h + 1) * width] for h in range(mixed.shape[1])]
    return torch.stack(parts, dim=1)


def without_head(mixed, output, head):
    parts = head_outputs(mixed, output)
    return sum(parts[:, h] for h in range(parts.shape[1]) if h != head)


# right ablation: zeros before the matrix
def head_outputs(mixed, output):
    matrices = output.view(mixed.shape[1], mixed.shape[-1], -1)
    return mixed @ matrices


def without_head(mixed, output, head):
    kept = torch.ones(mixed.shape[1])
    kept[head] = 0.0
    return (mixed * kept[:, None, None]).transpose(1, 2).flatten(2) @ output
