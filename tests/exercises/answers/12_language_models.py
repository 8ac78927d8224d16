import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


# wrong perplexity: the mean of the batches
# hint: Weight by counts
def perplexity(losses, counts):
    return math.exp(sum(losses) / len(losses))


# wrong perplexity: averages perplexities
# hint: You average perplexities
def perplexity(losses, counts):
    return sum(c * math.exp(x) for x, c in zip(losses, counts)) / sum(counts)


# wrong perplexity: two to the power
# hint: not 2
def perplexity(losses, counts):
    return 2 ** (sum(c * x for x, c in zip(losses, counts)) / sum(counts))


# wrong perplexity: stops at the loss
# hint: its exponential
def perplexity(losses, counts):
    return sum(c * x for x, c in zip(losses, counts)) / sum(counts)


# wrong perplexity: divides the perplexity of a token
# hint: its logarithm
def character_perplexity(perplexity, num_tokens, num_characters):
    return perplexity / (num_characters / num_tokens)


# wrong perplexity: the exponent upside down
# hint: The exponent is upside down
def character_perplexity(perplexity, num_tokens, num_characters):
    return perplexity ** (num_characters / num_tokens)


# right perplexity: tensors in double precision
def perplexity(losses, counts):
    losses, counts = torch.tensor(losses).double(), torch.tensor(counts)
    return ((losses * counts).sum() / counts.sum()).exp()


def character_perplexity(perplexity, num_tokens, num_characters):
    return torch.tensor(perplexity).double().log().mul(num_tokens / num_characters).exp()


# right perplexity: numpy, and a product of probabilities
def perplexity(losses, counts):
    return float(np.exp(np.average(losses, weights=counts)))


def character_perplexity(perplexity, num_tokens, num_characters):
    per_token = num_characters / num_tokens
    return perplexity ** (1 / per_token)


# wrong block: post-norm
# hint: the post-norm block of 2017
class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.value, self.output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.expand, self.contract = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.output(attend(self.query(x), self.key(x), self.value(x), self.num_heads, mask)))
        return self.norm2(x + self.contract(F.gelu(self.expand(x))))


# wrong block: forgets its mask
# hint: does not pass it on
class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.value, self.output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.expand, self.contract = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# right block: PyTorch's own attention
def attend(query, key, value, num_heads, mask=None):
    heads = [x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (query, key, value)]
    return F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).flatten(2)


# right block: einsum, and −10⁹ for a mask
def attend(query, key, value, num_heads, mask=None):
    B, Tq, D = query.shape
    q, k, v = (x.reshape(B, -1, num_heads, D // num_heads) for x in (query, key, value))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * (D // num_heads) ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, -1e9)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).reshape(B, Tq, D)


# wrong gpt: looks ahead
# hint: Your GPT looks ahead
class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight)


# wrong gpt: an upper triangle
# hint: the lower triangle
class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.positions.weight[:T]
        for block in self.blocks:
            x = block(x, torch.ones(T, T).triu().bool())
        return F.linear(self.norm(x), self.embedding.weight)


# wrong gpt: knows no positions
# hint: There are no positions in it
class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        T, x = tokens.shape[1], self.embedding(tokens)
        for block in self.blocks:
            x = block(x, torch.ones(T, T).tril().bool())
        return F.linear(self.norm(x), self.embedding.weight)


# wrong gpt: positions from 1
# hint: Your positions start at 1
class GPT(GPT):
    def forward(self, tokens):
        length = tokens.shape[1]
        places = torch.arange(1, length + 1).clamp(max=self.positions.num_embeddings - 1)
        x = self.embedding(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x, torch.ones(length, length).tril().bool())
        return self.norm(x) @ self.embedding.weight.T


# wrong gpt: embeddings times √D
# hint: You multiply the embeddings by √D
class GPT(GPT):
    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.embedding(tokens) * self.embedding.embedding_dim**0.5 + self.positions(torch.arange(length))
        for block in self.blocks:
            x = block(x, torch.ones(length, length).tril().bool())
        return self.norm(x) @ self.embedding.weight.T


# wrong gpt: no final norm
# hint: The final norm is missing: a pre-norm
class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.positions.weight[:T]
        for block in self.blocks:
            x = block(x, torch.ones(T, T).tril().bool())
        return F.linear(x, self.embedding.weight)


# wrong gpt: returns probabilities
# hint: You return probabilities. Logits
class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.embedding(tokens) + self.positions.weight[:T]
        for block in self.blocks:
            x = block(x, torch.ones(T, T).tril().bool())
        return torch.softmax(F.linear(self.norm(x), self.embedding.weight), dim=-1)


# wrong gpt: predicts what it has just read
# hint: shift by one
def language_model_loss(model, tokens):
    logits = model(tokens)
    return F.cross_entropy(logits.transpose(1, 2), tokens)


# wrong gpt: the last target is the first token
# hint: With roll
def language_model_loss(model, tokens):
    return F.cross_entropy(model(tokens).flatten(0, 1), torch.roll(tokens, -1, 1).flatten())


# wrong gpt: sums the losses
# hint: the sum of all losses
def language_model_loss(model, tokens):
    return F.cross_entropy(model(tokens)[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="sum")


# wrong gpt: softmax before cross_entropy
# hint: You do it twice
def language_model_loss(model, tokens):
    chances = model(tokens[:, :-1]).softmax(-1)
    return F.cross_entropy(chances.transpose(1, 2), tokens[:, 1:])


# wrong gpt: a loss that is a plain number
# hint: no gradient flows through a number
def language_model_loss(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).item()


# right gpt: reads everything, drops the last output; positions as a slice
class GPT(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = F.embedding(tokens, self.embedding.weight) + self.positions.weight[None, :T]
        mask = torch.tril(torch.ones(1, 1, T, T, dtype=torch.bool))
        for i in range(len(self.blocks)):
            x = self.blocks[i](x, mask=mask)
        return torch.einsum("btd,vd->btv", self.norm(x), self.embedding.weight)


def language_model_loss(model, tokens):
    logs = torch.log_softmax(model(tokens), dim=-1)[:, :-1]
    return -logs.gather(-1, tokens[:, 1:, None]).mean()


# right gpt: the loss in a loop, in float64
def language_model_loss(model, tokens):
    logits = model(tokens[:, :-1]).double()
    total = 0.0
    for row, targets in zip(logits, tokens[:, 1:]):
        for scores, target in zip(row, targets):
            total = total + torch.logsumexp(scores, 0) - scores[target]
    return total / (tokens.shape[0] * (tokens.shape[1] - 1))


# wrong sampling: drops the one that crosses the line
# hint: You drop the token that crosses
def filter_logits(logits, top_k=None, top_p=None):
    if top_k is not None:
        kth = logits.topk(min(top_k, logits.size(-1)))[0][:, -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    if top_p is not None:
        ranked, order = logits.sort(descending=True)
        over = ranked.softmax(-1).cumsum(-1) >= top_p
        logits = logits.masked_fill(torch.zeros_like(over).scatter(1, order, over), -torch.inf)
    return logits


# wrong sampling: drops the one that crosses the line, unless it is the first
# hint: shift what you cut by one place
def filter_logits(logits, top_k=None, top_p=None):
    logits = logits.clone()
    if top_k is not None:
        logits[logits < logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]] = -math.inf
    if top_p is not None:
        ranked, order = logits.sort(descending=True)
        cut = ranked.softmax(-1).cumsum(-1) > top_p
        cut[:, 0] = False
        logits[torch.zeros_like(cut).scatter(1, order, cut)] = -math.inf
    return logits


# wrong sampling: forgets to sort back
# hint: forget to sort back
def filter_logits(logits, top_k=None, top_p=None):
    if top_k is not None:
        kth = logits.topk(min(top_k, logits.size(-1)))[0][:, -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    if top_p is not None:
        p = logits.sort(descending=True)[0].softmax(-1)
        logits = logits.masked_fill(p.cumsum(-1) - p >= top_p, -torch.inf)
    return logits


# wrong sampling: zero for what is cut
# hint: A logit of 0 is not forbidden
def filter_logits(logits, top_k=None, top_p=None):
    left = torch.ones_like(logits, dtype=torch.bool)
    if top_k is not None:
        left &= logits >= logits.topk(min(top_k, logits.size(-1)))[0][:, -1:]
    if top_p is not None:
        ranked, order = logits.masked_fill(~left, -torch.inf).sort(descending=True)
        p = ranked.softmax(-1)
        cut = p.cumsum(-1) - p >= top_p
        cut[:, 0] = False
        left &= ~torch.zeros_like(cut).scatter(1, order, cut)
    return logits * left


# wrong sampling: the smallest k
# hint: the k *smallest*
def filter_logits(logits, top_k=None, top_p=None):
    if top_k is not None and top_k < logits.size(-1):
        kth = logits.topk(top_k, largest=False)[0][:, -1:]
        logits = logits.masked_fill(logits > kth, -torch.inf)
    if top_p is not None:
        ranked, order = logits.sort(descending=True)
        p = ranked.softmax(-1)
        cut = p.cumsum(-1) - p >= top_p
        cut[:, 0] = False
        logits = logits.masked_fill(torch.zeros_like(cut).scatter(1, order, cut), -torch.inf)
    return logits


# wrong sampling: both cuts on the whole distribution
# hint: after the first cut
def filter_logits(logits, top_k=None, top_p=None):
    cut_k = torch.zeros_like(logits, dtype=torch.bool)
    if top_k is not None:
        cut_k = logits < logits.topk(min(top_k, logits.size(-1)))[0][:, -1:]
    if top_p is not None:
        ranked, order = logits.sort(descending=True)
        p = ranked.softmax(-1)
        cut = p.cumsum(-1) - p >= top_p
        cut[:, 0] = False
        cut_k |= torch.zeros_like(cut).scatter(1, order, cut)
    return logits.masked_fill(cut_k, -torch.inf)


# right sampling: row by row, in Python
def filter_logits(logits, top_k=None, top_p=None):
    out = torch.full_like(logits, -1e9)
    for row, scores in zip(out, logits):
        order = scores.argsort(descending=True)[: top_k or len(scores)]
        chances = scores[order].double().softmax(0)
        total = 0.0
        for token, chance in zip(order.tolist(), chances.tolist()):
            if top_p is not None and total >= top_p:
                break
            row[token] = scores[token]
            total += chance
    return out


# right sampling: a threshold, found from below
def filter_logits(logits, top_k=None, top_p=None):
    logits = logits.clone()
    if top_k is not None:
        rank = logits.argsort(descending=True).argsort()
        logits[rank >= top_k] = -torch.inf
    if top_p is not None:
        chances = logits.double().softmax(-1)
        likelier = (chances[:, None, :] > chances[:, :, None]).double()
        before = (likelier * chances[:, None, :]).sum(-1)
        before[logits == logits.max(-1, keepdim=True).values] = -1.0
        logits[before >= top_p] = -torch.inf
    return logits


# right sampling: cuts in place, in the tensor that was given
def filter_logits(logits, top_k=None, top_p=None):
    if top_k is not None:
        logits[logits < logits.topk(min(top_k, logits.size(-1)))[0][:, -1:]] = -float("inf")
    if top_p is not None:
        ranked, order = logits.sort(descending=True)
        cut = ranked.softmax(-1).cumsum(-1) >= top_p
        cut[:, 1:] = cut[:, :-1].clone()
        cut[:, 0] = False
        logits[torch.zeros_like(cut).scatter(1, order, cut)] = -float("inf")
    return logits


# wrong corruption: masks all of them
# hint: You mask every chosen token
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    return tokens.masked_fill(chosen, mask_id), tokens.masked_fill(~chosen, -100)


# wrong corruption: chooses padding
# hint: You choose padding too
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = chance < 0.15
    inputs = torch.where(chosen & (action < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (action >= 0.8) & (action < 0.9), random_tokens, inputs)
    return inputs, tokens.masked_fill(~chosen, -100)


# wrong corruption: everything is a target
# hint: Every token is a target
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    inputs = torch.where(chosen & (action < 0.8), mask_id, tokens)
    return torch.where(chosen & (action >= 0.8) & (action < 0.9), random_tokens, inputs), tokens.clone()


# wrong corruption: what stays is not predicted
# hint: must be predicted too
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id) & (action < 0.9)
    inputs = torch.where(chosen & (action < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (action >= 0.8), random_tokens, inputs)
    return inputs, tokens.masked_fill(~chosen, -100)


# wrong corruption: predicts the damage
# hint: the *original* ones
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    inputs = torch.where(chosen & (action < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (action >= 0.8) & (action < 0.9), random_tokens, inputs)
    return inputs, torch.where(chosen, inputs, -100)


# wrong corruption: the borders on the wrong side
# hint: On a border you take the wrong side
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    inputs, chosen = tokens.clone(), (chance <= 0.15) & (tokens != pad_id)
    inputs[chosen & (action <= 0.9)] = random_tokens[chosen & (action <= 0.9)]
    inputs[chosen & (action <= 0.8)] = mask_id
    return inputs, torch.where(chosen, tokens, -100)


# wrong corruption: nothing stays
# hint: From 0.9 on a chosen token stays
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    damage = torch.where(action < 0.8, mask_id, random_tokens)
    return torch.where(chosen, damage, tokens), torch.where(chosen, tokens, -100)


# wrong corruption: writes into what it was given
# hint: You write into `tokens` itself
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    targets = torch.where(chosen, tokens, -100)
    swapped = chosen & (action >= 0.8) & (action < 0.9)
    tokens[chosen & (action < 0.8)] = mask_id
    tokens[swapped] = random_tokens[swapped]
    return tokens, targets


# right corruption: in loops
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    inputs, targets = tokens.clone(), torch.full_like(tokens, -100)
    for b in range(tokens.shape[0]):
        for t in range(tokens.shape[1]):
            if chance[b, t] < 0.15 and tokens[b, t] != pad_id:
                targets[b, t] = tokens[b, t]
                if action[b, t] < 0.8:
                    inputs[b, t] = mask_id
                elif action[b, t] < 0.9:
                    inputs[b, t] = random_tokens[b, t]
    return inputs, targets


# right corruption: boolean indexing on a copy
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = torch.logical_and(chance < 0.15, tokens.ne(pad_id))
    masked = chosen & (action < 0.8)
    swapped = chosen & (action >= 0.8) & (action < 0.9)
    inputs = tokens.clone()
    inputs[masked] = mask_id
    inputs[swapped] = random_tokens[swapped]
    targets = tokens.clone()
    targets[~chosen] = -100
    return inputs, targets


# wrong cache: the newest token does not see itself
# hint: does not see itself
def block_step(block, x, cache=None):
    n = block.norm1(x)
    new = (block.key(n), block.value(n))
    seen = new if cache is None else cache
    following = new if cache is None else tuple(torch.cat(pair, dim=1) for pair in zip(cache, new))
    x = x + block.output(attend(block.query(n), seen[0], seen[1], block.num_heads))
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), following


# wrong cache: a causal mask for one query
# hint: so it sees the first key alone
def block_step(block, x, cache=None):
    n = block.norm1(x)
    keys, values = block.key(n), block.value(n)
    if cache is not None:
        keys, values = torch.cat([cache[0], keys], dim=1), torch.cat([cache[1], values], dim=1)
    causal = torch.ones(1, keys.shape[1]).tril().bool()
    x = x + block.output(attend(block.query(n), keys, values, block.num_heads, causal))
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), (keys, values)


# wrong cache: the given cache grows
# hint: You append to the cache that you were given
def block_step(block, x, cache=None):
    n = block.norm1(x)
    if cache is None:
        cache = [block.key(n), block.value(n)]
    elif isinstance(cache, tuple):
        cache = [torch.cat([cache[0], block.key(n)], dim=1), torch.cat([cache[1], block.value(n)], dim=1)]
    else:
        cache[0], cache[1] = torch.cat([cache[0], block.key(n)], dim=1), torch.cat([cache[1], block.value(n)], dim=1)
    x = x + block.output(attend(block.query(n), *cache, block.num_heads))
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), cache


# wrong cache: forgets the past
# hint: The cache forgets
def block_step(block, x, cache=None):
    n = block.norm1(x)
    new = (block.key(n), block.value(n))
    seen = new if cache is None else tuple(torch.cat(pair, dim=1) for pair in zip(cache, new))
    x = x + block.output(attend(block.query(n), seen[0], seen[1], block.num_heads))
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), new


# wrong cache: keys of the raw x
# hint: of the raw x
def block_step(block, x, cache=None):
    new = (block.key(x), block.value(x))
    following = new if cache is None else tuple(torch.cat(pair, dim=1) for pair in zip(cache, new))
    mixed = attend(block.query(block.norm1(x)), following[0], following[1], block.num_heads)
    x = x + block.output(mixed)
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), following


# wrong cache: the newest in front
# hint: you put it in front
def block_step(block, x, cache=None):
    n = block.norm1(x)
    new = (block.key(n), block.value(n))
    following = new if cache is None else tuple(torch.cat([b, a], dim=1) for a, b in zip(cache, new))
    x = x + block.output(attend(block.query(n), following[0], following[1], block.num_heads))
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), following


# wrong cache: always at position 0
# hint: stands at position 0
def gpt_step(model, tokens, caches=None):
    x = (model.embedding(tokens) + model.positions.weight[0])[:, None]
    new = []
    for i, block in enumerate(model.blocks):
        x, cache = block_step(block, x, None if caches is None else caches[i])
        new.append(cache)
    return model.norm(x)[:, 0] @ model.embedding.weight.T, new


# wrong cache: no positions
# hint: add the embedding of the new token's place
def gpt_step(model, tokens, caches=None):
    x, following = model.embedding(tokens)[:, None], []
    for i, block in enumerate(model.blocks):
        x, cache = block_step(block, x, None if caches is None else caches[i])
        following.append(cache)
    return model.norm(x[:, 0]) @ model.embedding.weight.T, following


# wrong cache: the number of blocks for a position
# hint: len(caches) is the number of *blocks*
def gpt_step(model, tokens, caches=None):
    place = torch.tensor(len(caches) if caches else 0)
    x, following = (model.embedding(tokens) + model.positions(place))[:, None], []
    for i, block in enumerate(model.blocks):
        x, cache = block_step(block, x, caches[i] if caches else None)
        following.append(cache)
    return model.norm(x[:, 0]) @ model.embedding.weight.T, following


# wrong cache: no final norm
# hint: missing before the head
def gpt_step(model, tokens, caches=None):
    position = 0 if caches is None else caches[0][0].shape[1]
    x = (model.embedding(tokens) + model.positions.weight[position])[:, None]
    new = []
    for i, block in enumerate(model.blocks):
        x, cache = block_step(block, x, None if caches is None else caches[i])
        new.append(cache)
    return x[:, 0] @ model.embedding.weight.T, new


# wrong cache: one cache for all blocks
# hint: All blocks share one cache
def gpt_step(model, tokens, caches=None):
    position = 0 if caches is None else caches[0][0].shape[1]
    x = (model.embedding(tokens) + model.positions.weight[position])[:, None]
    new = []
    for block in model.blocks:
        x, cache = block_step(block, x, None if caches is None else caches[0])
        new.append(cache)
    return model.norm(x)[:, 0] @ model.embedding.weight.T, [new[0]] * len(new)


# right cache: a list for a pair, positions looked up
def block_step(block, x, cache=None):
    n = block.norm1(x)
    k, v = block.key(n), block.value(n)
    if cache is None:
        cache = [k[:, :0], v[:, :0]]
    cache = [torch.cat((cache[0], k), 1), torch.cat((cache[1], v), 1)]
    x = x + block.output(attend(block.query(n), *cache, block.num_heads, None))
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), cache


def gpt_step(model, tokens, caches=None):
    t = caches[0][0].size(1) if caches else 0
    x = model.embedding(tokens[:, None]) + model.positions(torch.tensor([t]))
    following = []
    for number, block in enumerate(model.blocks):
        x, cache = block_step(block, x, caches[number] if caches else None)
        following.append(cache)
    return F.linear(model.norm(x[:, -1]), model.embedding.weight), tuple(following)


# right cache: PyTorch's own attention, a mask that allows all
def block_step(block, x, cache=None):
    n = block.norm1(x)
    old = () if cache is None else cache
    keys = torch.cat([*old[:1], block.key(n)], dim=1)
    values = torch.cat([*old[1:], block.value(n)], dim=1)
    q, k, v = (y.unflatten(-1, (block.num_heads, -1)).transpose(1, 2) for y in (block.query(n), keys, values))
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(1, keys.shape[1], dtype=torch.bool))
    x = x + block.output(mixed.transpose(1, 2).flatten(2))
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), (keys, values)


# wrong corruption: the random tokens one after the other
# hint: take the one at the same place
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    swapped = chosen & (action >= 0.8) & (action < 0.9)
    inputs = torch.where(chosen & (action < 0.8), mask_id, tokens)
    inputs[swapped] = random_tokens.flatten()[: int(swapped.sum())]
    return inputs, tokens.masked_fill(~chosen, -100)


# wrong cache: the position of the token before
# hint: Your positions are one too low: with
def gpt_step(model, tokens, caches=None):
    place = 0 if caches is None else max(0, caches[0][0].shape[1] - 1)
    x = (model.embedding(tokens) + model.positions.weight[place])[:, None]
    new = []
    for i, block in enumerate(model.blocks):
        x, cache = block_step(block, x, None if caches is None else caches[i])
        new.append(cache)
    return model.norm(x)[:, 0] @ model.embedding.weight.T, new


# right sampling: ranks, and what is likelier than each
def filter_logits(logits, top_k=None, top_p=None):
    if top_k is not None:
        rank = logits.argsort(-1, descending=True).argsort(-1)
        logits = torch.where(rank < top_k, logits, torch.tensor(-1e9))
    if top_p is not None:
        chances = logits.softmax(-1)
        before = (chances[:, None, :] * (logits[:, None, :] > logits[:, :, None])).sum(-1)
        kept = (before < top_p) | (logits == logits.amax(-1, keepdim=True))
        logits = torch.where(kept, logits, torch.tensor(-1e9))
    return logits
