import itertools
import math
import re
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn


# wrong bpe: counts every word once
# hint: add words[word], not 1
def learn_merges(words, num_merges):
    pieces, merges = [list(w) for w in words], []
    for _ in range(num_merges):
        counts = Counter(p for piece in pieces for p in itertools.pairwise(piece))
        if not counts:
            break
        best = sorted(counts, key=lambda p: (-counts[p], p))[0]
        merges.append(best)
        pieces = [join_pair(piece, best) for piece in pieces]
    return merges


# wrong bpe: the first of equally frequent pairs
# hint: you take the one that came first
def learn_merges(words, num_merges):
    pieces, merges = [(list(w), n) for w, n in words.items()], []
    for _ in range(num_merges):
        counts = Counter()
        for piece, n in pieces:
            for p in itertools.pairwise(piece):
                counts[p] += n
        if not counts:
            break
        merges.append(counts.most_common(1)[0][0])
        pieces = [(join_pair(piece, merges[-1]), n) for piece, n in pieces]
    return merges


# wrong bpe: the larger of equally frequent pairs
# hint: you take the larger one
def learn_merges(words, num_merges):
    pieces, merges = [(list(w), n) for w, n in words.items()], []
    for _ in range(num_merges):
        counts = Counter()
        for piece, n in pieces:
            for p in itertools.pairwise(piece):
                counts[p] += n
        if not counts:
            break
        merges.append(max((n, p) for p, n in counts.items())[1])
        pieces = [(join_pair(piece, merges[-1]), n) for piece, n in pieces]
    return merges


# wrong bpe: joins by replacing text
# hint: joins halves of longer tokens
def learn_merges(words, num_merges):
    pieces, merges = {" ".join(w): n for w, n in words.items()}, []
    for _ in range(num_merges):
        counts = Counter()
        for piece, n in pieces.items():
            tokens = piece.split(" ")
            for p in itertools.pairwise(tokens):
                counts[p] += n
        if not counts:
            break
        best = min(counts, key=lambda p: (-counts[p], p))
        merges.append(best)
        pieces = {piece.replace(" ".join(best), "".join(best)): n for piece, n in pieces.items()}
    return merges


# wrong bpe: counts once
# hint: count again after each
def learn_merges(words, num_merges):
    counts = Counter()
    for w, n in words.items():
        for p in itertools.pairwise(w):
            counts[p] += n
    return sorted(counts, key=lambda p: (-counts[p], p))[:num_merges]


# wrong bpe: returns tokens
# hint: not the joined tokens
def learn_merges(words, num_merges):
    pieces, merges = [(list(w), n) for w, n in words.items()], []
    for _ in range(num_merges):
        counts = Counter()
        for piece, n in pieces:
            for p in itertools.pairwise(piece):
                counts[p] += n
        if not counts:
            break
        best = min(counts, key=lambda p: (-counts[p], p))
        merges.append(best[0] + best[1])
        pieces = [(join_pair(piece, best), n) for piece, n in pieces]
    return merges


# wrong bpe: counts across words
# hint: never cross from one word
def learn_merges(words, num_merges):
    text = list("".join(w * n for w, n in words.items()))
    merges = []
    for _ in range(num_merges):
        counts = Counter(itertools.pairwise(text))
        if not counts:
            break
        merges.append(min(counts, key=lambda p: (-counts[p], p)))
        text = join_pair(text, merges[-1])
    return merges


# wrong bpe: the longest token first
# hint: look for the longest known token
def segment(word, merges):
    tokens = {a + b for a, b in merges} | set(word)
    out, i = [], 0
    while i < len(word):
        j = max(j for j in range(i + 1, len(word) + 1) if word[i:j] in tokens)
        out.append(word[i:j])
        i = j
    return out


# wrong bpe: the last merge first
# hint: The first learned comes first
def segment(word, merges):
    tokens = list(word)
    for pair in reversed(merges):
        tokens = join_pair(tokens, pair)
    return tokens


# wrong bpe: applies a merge once
# hint: Apply it wherever it fits
def segment(word, merges):
    tokens = list(word)
    for a, b in merges:
        for i in range(len(tokens) - 1):
            if tokens[i] == a and tokens[i + 1] == b:
                tokens[i : i + 2] = [a + b]
                break
    return tokens


# wrong bpe: stops at pairs that occur once
# hint: You stop when no pair occurs twice
def learn_merges(words, num_merges):
    pieces, merges = {w: list(w) for w in words}, []
    while len(merges) < num_merges:
        counts = Counter()
        for w, piece in pieces.items():
            for p in itertools.pairwise(piece):
                counts[p] += words[w]
        if not counts or max(counts.values()) < 2:
            break
        merges.append(min(counts, key=lambda p: (-counts[p], p)))
        pieces = {w: join_pair(piece, merges[-1]) for w, piece in pieces.items()}
    return merges


# wrong bpe: counts without overlaps
# hint: Overlaps count
def learn_merges(words, num_merges):
    pieces, merges = {w: list(w) for w in words}, []
    while len(merges) < num_merges:
        counts = Counter()
        for w, piece in pieces.items():
            i = 0
            while i < len(piece) - 1:
                counts[piece[i], piece[i + 1]] += words[w]
                i += 2 if piece[i : i + 2] == piece[i + 1 : i + 3] else 1
        if not counts:
            break
        merges.append(min(counts, key=lambda p: (-counts[p], p)))
        pieces = {w: join_pair(piece, merges[-1]) for w, piece in pieces.items()}
    return merges


# right bpe: a counter over tuples, joined by regular expressions that respect token borders
def join_text(text, pair):
    pattern = r"(?<!\S)" + re.escape(" ".join(pair)) + r"(?!\S)"
    return re.sub(pattern, lambda found: "".join(pair), text)


def learn_merges(words, num_merges):
    texts = {w: " ".join(w) for w in words}
    merges = []
    while len(merges) < num_merges:
        counts = Counter()
        for w, text in texts.items():
            tokens = text.split()
            counts.update({p: 0 for p in itertools.pairwise(tokens)})
            for p in itertools.pairwise(tokens):
                counts[p] += words[w]
        if len(counts) == 0:
            return merges
        most = max(counts.values())
        best = sorted(p for p, n in counts.items() if n == most)[0]
        merges.append(best)
        texts = {w: join_text(text, best) for w, text in texts.items()}
    return merges


# right bpe: lists changed in place, and merges as lists
def merge_in_place(tokens, a, b):
    i = 0
    while i + 1 < len(tokens):
        if tokens[i] == a and tokens[i + 1] == b:
            tokens[i] = a + b
            del tokens[i + 1]
        i += 1


def learn_merges(words, num_merges):
    pieces = [list(w) for w in words]
    merges = []
    for _ in range(num_merges):
        counts = {}
        for piece, n in zip(pieces, words.values()):
            for i in range(len(piece) - 1):
                key = (piece[i], piece[i + 1])
                counts[key] = counts.get(key, 0) + n
        if not counts:
            break
        a, b = min(counts.items(), key=lambda item: (-item[1], item[0]))[0]
        for piece in pieces:
            merge_in_place(piece, a, b)
        merges.append([a, b])
    return merges


def segment(word, merges):
    tokens = list(word)
    for a, b in merges:
        merge_in_place(tokens, a, b)
    return tokens


# right bpe: segments by the rank of the pairs that are there
def segment(word, merges):
    ranks = {tuple(pair): rank for rank, pair in reversed(list(enumerate(merges)))}
    tokens = list(word)
    while True:
        pairs = [p for p in itertools.pairwise(tokens) if p in ranks]
        if not pairs:
            return tokens
        tokens = join_pair(tokens, min(pairs, key=ranks.get))


# wrong smoothing: none
# hint: no smoothing in it
def smoothed_loss(logits, targets, smoothing, pad):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad)


# wrong smoothing: only the others share
# hint: among the V − 1 *other* tokens
def smoothed_loss(logits, targets, smoothing, pad):
    V = logits.shape[-1]
    q = torch.full_like(logits, smoothing / (V - 1)).scatter(-1, targets[..., None], 1 - smoothing)
    return -(q * logits.log_softmax(-1)).sum(-1)[targets != pad].mean()


# wrong smoothing: a target that sums to less than one
# hint: sums to less than 1
def smoothed_loss(logits, targets, smoothing, pad):
    V = logits.shape[-1]
    q = torch.full_like(logits, smoothing / V).scatter(-1, targets[..., None], 1 - smoothing)
    return -(q * logits.log_softmax(-1)).sum(-1)[targets != pad].mean()


# wrong smoothing: forgets to divide by the vocabulary
# hint: divide the sum of the log p by V
def smoothed_loss(logits, targets, smoothing, pad):
    logs = logits.log_softmax(-1)
    nll = -logs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    losses = (1 - smoothing) * nll - smoothing * logs.sum(-1)
    return losses[targets != pad].mean()


# wrong smoothing: counts padding
# hint: Padding is counted
def smoothed_loss(logits, targets, smoothing, pad):
    return F.cross_entropy(logits.mT, targets, label_smoothing=smoothing)


# wrong smoothing: divides by all positions
# hint: divide by all B·T positions
def smoothed_loss(logits, targets, smoothing, pad):
    losses = F.cross_entropy(logits.mT, targets, label_smoothing=smoothing, reduction="none")
    return (losses * (targets != pad)).mean()


# wrong smoothing: a mean of means
# hint: sentence by sentence
def smoothed_loss(logits, targets, smoothing, pad):
    rows = [
        F.cross_entropy(row, target, label_smoothing=smoothing, ignore_index=pad)
        for row, target in zip(logits, targets)
    ]
    return sum(rows) / len(rows)


# wrong smoothing: logits for log-probabilities
# hint: log_softmax over the last axis
def smoothed_loss(logits, targets, smoothing, pad):
    nll = -logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    losses = (1 - smoothing) * nll - smoothing * logits.mean(-1)
    return losses[targets != pad].mean()


# wrong smoothing: no share for padding
# hint: give the pad token no share
def smoothed_loss(logits, targets, smoothing, pad):
    V = logits.shape[-1]
    q = F.one_hot(targets, V) * (1 - smoothing) + smoothing / V
    keep = torch.arange(V) != pad
    return -(q * logits.log_softmax(-1))[..., keep].sum(-1)[targets != pad].mean()


# wrong smoothing: a loss that is a plain number
# hint: no gradient flows through a number
def smoothed_loss(logits, targets, smoothing, pad):
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad, label_smoothing=smoothing)
    return loss.item()


# right smoothing: PyTorch's own
def smoothed_loss(logits, targets, smoothing, pad):
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=pad, label_smoothing=smoothing
    )


# right smoothing: a mixed target, in float64
def smoothed_loss(logits, targets, smoothing, pad):
    V = logits.shape[-1]
    q = (1 - smoothing) * F.one_hot(targets, V).double() + smoothing / V
    losses = -(q * logits.double().log_softmax(-1)).sum(-1)
    real = (targets != pad).double()
    return (losses * real).sum() / real.sum()


# right smoothing: in loops, with the log-sum-exp
def smoothed_loss(logits, targets, smoothing, pad):
    losses = []
    for row, target in zip(logits, targets):
        for scores, right in zip(row, target.tolist()):
            if right != pad:
                total = torch.logsumexp(scores, -1)
                losses.append(total - (1 - smoothing) * scores[right] - smoothing * scores.mean())
    return torch.stack(losses).mean()


# wrong encoder_block: one wide head
# hint: split into heads before the softmax
def attend(query, key, value, num_heads, mask=None):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~(mask[:, 0] if mask.dim() == 4 else mask), -1e9)
    return scores.softmax(-1) @ value


# wrong encoder_block: scales by the model's width
# hint: A head's keys are only Dh
def attend(query, key, value, num_heads, mask=None):
    q, k, v = (t.unflatten(-1, (num_heads, -1)).transpose(1, 2) for t in (query, key, value))
    scores = q @ k.mT / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)


# wrong encoder_block: fills where the mask is True
# hint: The mask is upside down
def attend(query, key, value, num_heads, mask=None):
    q, k, v = (t.unflatten(-1, (num_heads, -1)).transpose(1, 2) for t in (query, key, value))
    mask = None if mask is None else ~mask
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(-2)


# wrong encoder_block: merges without transposing
# hint: before you flatten
def attend(query, key, value, num_heads, mask=None):
    q, k, v = (t.unflatten(-1, (num_heads, -1)).transpose(1, 2) for t in (query, key, value))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).reshape(query.shape)


# wrong encoder_block: heads of features that are not neighbours
# hint: A head is made of *neighbouring* features
def attend(query, key, value, num_heads, mask=None):
    b, length, d = query.shape
    q, k, v = (x.reshape(b, -1, d // num_heads, num_heads).permute(0, 3, 1, 2) for x in (query, key, value))
    return F.scaled_dot_product_attention(q, k, v, mask).permute(0, 2, 3, 1).reshape(b, length, d)


# wrong encoder_block: masks the weights
# hint: so the weights that are left no longer sum to 1
def attend(query, key, value, num_heads, mask=None):
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (query, key, value))
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return (weights @ v).transpose(1, 2).flatten(2)


# wrong encoder_block: the first head's mask for all heads
# hint: You use the first head's mask for all
def attend(query, key, value, num_heads, mask=None):
    heads = []
    for q, k, v in zip(*(x.chunk(num_heads, dim=-1) for x in (query, key, value)), strict=True):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~(mask if mask.dim() == 2 else mask[:, 0]), -1e9)
        heads.append(scores.softmax(-1) @ v)
    return torch.cat(heads, dim=-1)


# wrong encoder_block: post-norm
# hint: the wiring of 2017
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        a = self.output(attend(self.query(x), self.key(x), self.value(x), self.num_heads, mask))
        x = self.norm1(x + a)
        return self.norm2(x + self.contract(F.gelu(self.expand(x))))


# wrong encoder_block: no residuals
# hint: There is no residual connection
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        x = self.norm1(x)
        x = self.output(attend(self.query(x), self.key(x), self.value(x), self.num_heads, mask))
        return self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong encoder_block: overwrites x with its norm
# hint: You add the *normalised* x
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        x = self.norm1(x)
        x = x + self.output(attend(self.query(x), self.key(x), self.value(x), self.num_heads, mask))
        x = self.norm2(x)
        return x + self.contract(F.gelu(self.expand(x)))


# wrong encoder_block: the second residual is missing
# hint: The second residual is missing
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        return self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong encoder_block: one norm for both
# hint: You use norm1 twice
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        return x + self.contract(F.gelu(self.expand(self.norm1(x))))


# wrong encoder_block: a ReLU
# hint: you have a ReLU
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        return x + self.contract(F.relu(self.expand(self.norm2(x))))


# wrong encoder_block: the tanh approximation of GELU
# hint: This is the tanh approximation
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        return x + self.contract(nn.GELU(approximate="tanh")(self.expand(self.norm2(x))))


# wrong encoder_block: forgets the output projection
# hint: `output` comes after attend
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        n = self.norm1(x)
        x = x + attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask)
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong encoder_block: forgets the mask
# hint: does not pass it on to attend
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong encoder_block: both sublayers side by side
# hint: Both sublayers read the same x
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        n = self.norm1(x)
        a = self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        return x + a + self.contract(F.gelu(self.expand(self.norm2(x))))


# right encoder_block: PyTorch's own attention
def attend(query, key, value, num_heads, mask=None):
    B, Tq, D = query.shape
    q = query.view(B, Tq, num_heads, D // num_heads).transpose(1, 2)
    k = key.view(B, -1, num_heads, D // num_heads).transpose(1, 2)
    v = value.view(B, -1, num_heads, D // num_heads).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.transpose(1, 2).reshape(B, Tq, D)


# right encoder_block: a loop over the heads, in chunks
def attend(query, key, value, num_heads, mask=None):
    outs = []
    for h, (q, k, v) in enumerate(zip(*(t.chunk(num_heads, dim=-1) for t in (query, key, value)))):
        scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(q.shape[-1])
        if mask is not None:
            full = mask.expand(query.shape[0], num_heads, query.shape[1], key.shape[1])
            scores = torch.where(full[:, h], scores, -1e9)
        outs.append(scores.softmax(-1) @ v)
    return torch.cat(outs, dim=-1)


# right encoder_block: in float64, written without attend
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        self.double()
        x = x.double()
        n = self.norm1(x)
        heads = [
            t.view(*t.shape[:2], self.num_heads, -1).permute(0, 2, 1, 3)
            for t in (self.query(n), self.key(n), self.value(n))
        ]
        mixed = F.scaled_dot_product_attention(*heads, attn_mask=mask).permute(0, 2, 1, 3).flatten(2)
        x = x + self.output(mixed)
        return x + self.contract(nn.GELU()(self.expand(self.norm2(x))))


# right encoder_block: PyTorch's own multi-head layer, its projections set to the identity
def attend(query, key, value, num_heads, mask=None):
    B, Tq, D = query.shape
    layer = nn.MultiheadAttention(D, num_heads, bias=False, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(D).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(D))
    if mask is not None:
        mask = ~mask.expand(B, num_heads, Tq, key.shape[1]).reshape(B * num_heads, Tq, -1)
    return layer(query, key, value, attn_mask=mask, need_weights=False)[0]


# wrong decoder_block: attends to itself twice
# hint: yours come from x
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        n = self.norm_cross(x)
        a = attend(self.cross_query(n), self.cross_key(n), self.cross_value(n), self.num_heads)
        x = x + self.cross_output(a)
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong decoder_block: normalises the memory
# hint: You normalise the memory
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        n, m = self.norm_cross(x), self.norm_cross(memory)
        a = attend(self.cross_query(n), self.cross_key(m), self.cross_value(m), self.num_heads, memory_mask)
        x = x + self.cross_output(a)
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong decoder_block: looks across first
# hint: Cross-attention comes second
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        n = self.norm_cross(x)
        a = attend(self.cross_query(n), self.cross_key(memory), self.cross_value(memory), self.num_heads, memory_mask)
        x = x + self.cross_output(a)
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong decoder_block: no residual around cross-attention
# hint: do not replace x
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        n = self.norm_cross(x)
        a = attend(self.cross_query(n), self.cross_key(memory), self.cross_value(memory), self.num_heads, memory_mask)
        x = self.cross_output(a)
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong decoder_block: post-norm
# hint: pre-norm in all three sublayers
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.output(attend(self.query(x), self.key(x), self.value(x), self.num_heads, mask)))
        a = attend(self.cross_query(x), self.cross_key(memory), self.cross_value(memory), self.num_heads, memory_mask)
        x = self.norm_cross(x + self.cross_output(a))
        return self.norm2(x + self.contract(F.gelu(self.expand(x))))


# wrong decoder_block: no feed-forward net
# hint: it comes third
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        n = self.norm_cross(x)
        a = attend(self.cross_query(n), self.cross_key(memory), self.cross_value(memory), self.num_heads, memory_mask)
        return x + self.cross_output(a)


# wrong decoder_block: the target looks ahead
# hint: so the target can look ahead
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, None, memory_mask)


# wrong decoder_block: reads padding
# hint: reads the source's padding
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask)


# wrong decoder_block: shares the projections
# hint: weights of its own
class DecoderBlock(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        n = self.norm_cross(x)
        x = x + self.output(attend(self.query(n), self.key(memory), self.value(memory), self.num_heads, memory_mask))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# right decoder_block: built on the encoder block
class DecoderBlock(EncoderBlock):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__(d_model, num_heads, d_ff)
        self.norm_cross = nn.LayerNorm(d_model)
        self.cross_query = nn.Linear(d_model, d_model)
        self.cross_key = nn.Linear(d_model, d_model)
        self.cross_value = nn.Linear(d_model, d_model)
        self.cross_output = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        n = self.norm1(x)
        x = x + self.output(attend(self.query(n), self.key(n), self.value(n), self.num_heads, mask))
        n = self.norm_cross(x)
        a = attend(self.cross_query(n), self.cross_key(memory), self.cross_value(memory), self.num_heads, memory_mask)
        x = x + self.cross_output(a)
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# right decoder_block: three methods and the functional linear
class DecoderBlock(DecoderBlock):
    def look(self, part, query, source, mask):
        layers = [getattr(self, part + name) for name in ("query", "key", "value")]
        q, k, v = (F.linear(t, layer.weight, layer.bias) for t, layer in zip((query, source, source), layers))
        return getattr(self, part + "output")(attend(q, k, v, self.num_heads, mask))

    def forward(self, x, memory, mask=None, memory_mask=None):
        normal = self.norm1(x)
        x = self.look("", normal, normal, mask) + x
        x = self.look("cross_", self.norm_cross(x), memory, memory_mask) + x
        return self.contract(F.gelu(self.expand(self.norm2(x)))) + x


# wrong stepwise: all at once without a mask
# hint: pass the causal mask
def parallel_outputs(block, x, memory):
    return block(x, memory, None)


def stepwise_outputs(block, x, memory):
    masks = [torch.ones(t, t).tril().bool() for t in range(1, x.shape[1] + 1)]
    return torch.cat([block(x[:, : len(m)], memory, m)[:, -1:] for m in masks], dim=1)


# wrong stepwise: the triangle upside down
# hint: the wrong way round
def parallel_outputs(block, x, memory):
    return block(x, memory, torch.triu(torch.ones(x.shape[1], x.shape[1])).bool())


def stepwise_outputs(block, x, memory):
    masks = [torch.ones(t, t).tril().bool() for t in range(1, x.shape[1] + 1)]
    return torch.cat([block(x[:, : len(m)], memory, m)[:, -1:] for m in masks], dim=1)


# wrong stepwise: a mask of numbers
# hint: Your mask holds numbers
def parallel_outputs(block, x, memory):
    return block(x, memory, torch.ones(x.shape[1], x.shape[1]).tril())


# wrong stepwise: cuts the memory too
# hint: The memory is there from the start
def stepwise_outputs(block, x, memory):
    rows = []
    for t in range(1, x.shape[1] + 1):
        rows.append(block(x[:, :t], memory[:, :t], torch.ones(t, t).tril().bool())[:, -1])
    return torch.stack(rows, dim=1)


# wrong stepwise: reads its own outputs
# hint: You append the block's *output* to the prefix
def stepwise_outputs(block, x, memory):
    seen, rows = x[:, :1], []
    for t in range(1, x.shape[1] + 1):
        rows.append(block(seen, memory, torch.ones(t, t).tril().bool())[:, -1:])
        seen = torch.cat([seen, rows[-1]], dim=1)
    return torch.cat(rows, dim=1)


# wrong stepwise: word by word is all at once
# hint: leave the future to its mask
def stepwise_outputs(block, x, memory):
    return parallel_outputs(block, x, memory)


# wrong stepwise: the prefix has no mask
# hint: Mask the prefix as well
def stepwise_outputs(block, x, memory):
    return torch.stack([block(x[:, : t + 1], memory, None)[:, -1] for t in range(x.shape[1])], dim=1)


# wrong stepwise: one token at a time, without the earlier ones
# hint: forget each other
def stepwise_outputs(block, x, memory):
    return torch.cat([block(x[:, t : t + 1], memory, torch.ones(1, 1).bool()) for t in range(x.shape[1])], dim=1)


# wrong stepwise: keeps the first output
# hint: you keep the first
def stepwise_outputs(block, x, memory):
    return torch.stack([parallel_outputs(block, x[:, : t + 1], memory)[:, 0] for t in range(x.shape[1])], dim=1)


# wrong stepwise: the cache keeps only the newest
# hint: The cache forgets
def attention_step(query, key, value, cache):
    keys, values = (key, value) if cache is None else (torch.cat([a, b], 2) for a, b in zip(cache, (key, value)))
    return F.scaled_dot_product_attention(query, keys, values), (key, value)


# wrong stepwise: appends after attending
# hint: append its key and value before
def attention_step(query, key, value, cache):
    if cache is None:
        return value, (key, value)
    out = F.scaled_dot_product_attention(query, *cache)
    return out, (torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2))


# wrong stepwise: is_causal with one query
# hint: takes your one query for the *first* of the text
def attention_step(query, key, value, cache):
    if cache is not None:
        key, value = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True), (key, value)


# wrong stepwise: puts the newest in front
# hint: the newest key in front
def attention_step(query, key, value, cache):
    if cache is not None:
        key, value = torch.cat([key, cache[0]], 2), torch.cat([value, cache[1]], 2)
    return F.scaled_dot_product_attention(query, key, value), (key, value)


# wrong stepwise: rows and columns swapped
# hint: row i is an output
def influence(block, x, memory, mask):
    y = block(x, memory, mask)
    rows = []
    for j in range(x.shape[1]):
        other = x.clone()
        other[:, j] += 1 + torch.rand(x.shape[-1])
        rows.append(((block(other, memory, mask) - y).abs() > 1e-5).any(-1).any(0))
    return torch.stack(rows)


# wrong stepwise: changes an input by a constant
# hint: Layer norm takes the mean away again
def influence(block, x, memory, mask):
    before, reached = block(x, memory, mask), torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool)
    for j in range(x.shape[1]):
        moved = x.clone()
        moved[:, j] += 1.0
        reached[:, j] = (block(moved, memory, mask) - before).abs().amax(dim=(0, 2)) > 1e-5
    return reached


# wrong stepwise: forgets the mask in the influence
# hint: everything seems to influence everything
def influence(block, x, memory, mask):
    x = x.clone().requires_grad_()
    y = block(x, memory, None)
    rows = [torch.autograd.grad(y[:, i].square().sum(), x, retain_graph=True)[0] for i in range(x.shape[1])]
    return torch.stack([row.abs().sum((0, 2)) > 1e-5 for row in rows])


# right stepwise: influence by gradients
def influence(block, x, memory, mask):
    x = x.detach().clone().requires_grad_(True)
    y = block(x, memory, mask)
    rows = []
    for i in range(x.shape[1]):
        (g,) = torch.autograd.grad(y[:, i].square().sum(), x, retain_graph=True)
        rows.append(g.abs().amax(dim=(0, 2)) > 1e-5)
    return torch.stack(rows)


# right stepwise: influence by the whole Jacobian, and the mask by its name
def parallel_outputs(block, x, memory):
    place = torch.arange(x.shape[1])
    return block(x, memory, mask=place[:, None] >= place)


def influence(block, x, memory, mask):
    jacobian = torch.autograd.functional.jacobian(lambda x: block(x, memory, mask), x)  # (B, T, D, B, T, D)
    return jacobian.abs().amax(dim=(0, 2, 3, 5)) > 1e-5


# right stepwise: loops that fill tensors, and a cache that is a list
def parallel_outputs(block, x, memory):
    t = torch.arange(x.shape[1])
    return block(x, memory, mask=t[None, :] <= t[:, None])


def stepwise_outputs(block, x, memory):
    out = torch.zeros(x.shape)
    for t in range(x.shape[1]):
        seen = x[:, 0 : t + 1]
        positions = torch.arange(t + 1)
        out[:, t] = block(seen, memory, mask=positions[None] <= positions[:, None])[:, t]
    return out


def attention_step(query, key, value, cache):
    cache = [key, value] if cache is None else [torch.cat([old, new], dim=-2) for old, new in zip(cache, (key, value))]
    scores = torch.einsum("bhqd,bhkd->bhqk", query, cache[0]) * query.shape[-1] ** -0.5
    return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), cache[1]), cache


def influence(block, x, memory, mask):
    result = torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool)
    before = block(x, memory, mask)
    for j in range(x.shape[1]):
        other = x.clone()
        other[:, j] = torch.randn(x.shape[0], x.shape[2])
        after = block(other, memory, mask)
        for i in range(x.shape[1]):
            result[i, j] = (after[:, i] - before[:, i]).abs().max() > 1e-5
    return result


# wrong bpe: joins from the right
# hint: You join from the right: 'a a a'
def segment(word, merges):
    tokens = list(word)
    for a, b in merges:
        place = len(tokens) - 2
        while place >= 0:
            if tokens[place] == a and tokens[place + 1] == b:
                tokens[place : place + 2] = [a + b]
                place -= 1
            place -= 1
    return tokens


# wrong encoder_block: the first residual from the norm
# hint: Around attention you add the *normalised* x
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        x = self.norm1(x)
        x = x + self.output(attend(self.query(x), self.key(x), self.value(x), self.num_heads, mask))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


# wrong encoder_block: the second residual from the norm
# hint: Around the feed-forward net you add the *normalised* x
class EncoderBlock(EncoderBlock):
    def forward(self, x, mask=None):
        y = self.norm1(x)
        x = x + self.output(attend(self.query(y), self.key(y), self.value(y), self.num_heads, mask))
        x = self.norm2(x)
        return x + self.contract(F.gelu(self.expand(x)))
