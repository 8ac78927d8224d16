import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction

import torch


# wrong smoothing: rows and columns exchanged
# hint: Your table is transposed
def transition_matrix(tokens, vocab_size, k):
    counts = torch.full((vocab_size, vocab_size), float(k))
    for before, after in itertools.pairwise(tokens):
        counts[after, before] += 1
    return counts / counts.sum(1, keepdim=True)


# wrong smoothing: divides by all pairs
# hint: Divide each row by its own sum
def transition_matrix(tokens, vocab_size, k):
    counts = torch.full((vocab_size, vocab_size), float(k))
    for before, after in itertools.pairwise(tokens):
        counts[before, after] += 1
    return counts / counts.sum()


# wrong smoothing: adds k below the line instead of k V
# hint: k·V is added below the line
def transition_matrix(tokens, vocab_size, k):
    pairs, firsts = Counter(itertools.pairwise(tokens)), Counter(tokens[:-1])
    rows = [[(pairs[a, b] + k) / (firsts[a] + k) for b in range(vocab_size)] for a in range(vocab_size)]
    return torch.tensor(rows)


# wrong smoothing: k for the zeros alone
# hint: only where the count is 0
def transition_matrix(tokens, vocab_size, k):
    counts = torch.zeros(vocab_size, vocab_size)
    for before, after in itertools.pairwise(tokens):
        counts[before, after] += 1
    counts[counts == 0] = k
    return counts / counts.sum(1, keepdim=True)


# wrong smoothing: an indexed addition that forgets repeats
# hint: loop, or use bincount
def transition_matrix(tokens, vocab_size, k):
    x = torch.tensor(tokens)
    counts = torch.zeros(vocab_size, vocab_size)
    counts[x[:-1], x[1:]] += 1
    counts += k
    return counts / counts.sum(1, keepdim=True)


# wrong smoothing: the text as a ring
# hint: Your text wraps around
def transition_matrix(tokens, vocab_size, k):
    x = torch.tensor(tokens)
    counts = torch.bincount(x * vocab_size + x.roll(-1), minlength=vocab_size**2).reshape(vocab_size, vocab_size) + k
    return counts / counts.sum(1, keepdim=True)


# wrong smoothing: loses the axis of the sums
# hint: keep the axis
def transition_matrix(tokens, vocab_size, k):
    table = torch.full((vocab_size, vocab_size), float(k))
    for before, after in itertools.pairwise(tokens):
        table[before, after] += 1
    return table / table.sum(dim=-1)


# wrong smoothing: no smoothing
# hint: k is never added
def transition_matrix(tokens, vocab_size, k):
    counts = torch.zeros(vocab_size, vocab_size)
    for before, after in itertools.pairwise(tokens):
        counts[before, after] += 1
    return counts / counts.sum(1, keepdim=True)


# right smoothing: by bincount, in float32
def transition_matrix(tokens, vocab_size, k):
    x = torch.tensor(tokens)
    counts = torch.bincount(x[:-1] * vocab_size + x[1:], minlength=vocab_size**2)
    counts = counts.reshape(vocab_size, vocab_size).float() + k
    return counts / counts.sum(1, keepdim=True)


# right smoothing: dictionaries and fractions
def transition_matrix(tokens, vocab_size, k):
    pairs, firsts = Counter(itertools.pairwise(tokens)), Counter(tokens[:-1])
    return torch.tensor(
        [[(pairs[a, b] + k) / (firsts[a] + k * vocab_size) for b in range(vocab_size)] for a in range(vocab_size)]
    )


# right smoothing: one-hot vectors, a matrix product
def transition_matrix(tokens, vocab_size, k):
    hot = torch.eye(vocab_size)[torch.tensor(tokens)]
    return torch.nn.functional.normalize(hot[:-1].T @ hot[1:] + k, p=1, dim=1)


# wrong perplexity: divides by T
# hint: T tokens make T − 1 predictions
def perplexity(probabilities, tokens):
    logs = [
        math.log(probabilities[a, b]) if probabilities[a, b] > 0 else -math.inf for a, b in itertools.pairwise(tokens)
    ]
    return math.exp(-sum(logs) / len(tokens))


# wrong perplexity: stops at the cross-entropy
# hint: Its exponential is the perplexity
def perplexity(probabilities, tokens):
    return -probabilities[tokens[:-1], tokens[1:]].log().mean().item()


# wrong perplexity: loses the sign
# hint: A sign is lost
def perplexity(probabilities, tokens):
    return probabilities[tokens[:-1], tokens[1:]].log().mean().exp().item()


# wrong perplexity: two to the power of nats
# hint: Two bases are mixed
def perplexity(probabilities, tokens):
    return 2 ** (-probabilities[tokens[:-1], tokens[1:]].log().mean()).item()


# wrong perplexity: the mean of one over p
# hint: *geometric* mean
def perplexity(probabilities, tokens):
    return (1 / probabilities[tokens[:-1], tokens[1:]]).mean().item()


# wrong perplexity: looks rows up as columns
# hint: the row is the token before
def perplexity(probabilities, tokens):
    return math.exp(
        -sum(torch.log(probabilities[b, a]).item() for a, b in itertools.pairwise(tokens)) / (len(tokens) - 1)
    )


# wrong perplexity: multiplies the probabilities
# hint: Add logarithms instead of multiplying
def perplexity(probabilities, tokens):
    likelihood = torch.tensor(1.0, dtype=torch.float64)
    for a, b in itertools.pairwise(tokens):
        likelihood = likelihood * probabilities[a, b]
    return (likelihood ** (-1 / (len(tokens) - 1))).item()


# right perplexity: in bits, by a loop
def perplexity(probabilities, tokens):
    bits = 0.0
    for a, b in itertools.pairwise(tokens):
        p = float(probabilities[a][b])
        if p == 0:
            return math.inf
        bits -= math.log2(p)
    return 2 ** (bits / (len(tokens) - 1))


# right perplexity: torch's own loss, as a tensor
def perplexity(probabilities, tokens):
    x = torch.tensor(tokens)
    return torch.exp(torch.nn.functional.nll_loss(probabilities.log()[x[:-1]], x[1:]))


# wrong sampling: the context the wrong way round
# hint: the *older* token first
def sample(probabilities, start, noise):
    a, b = start
    tokens = []
    for u in noise:
        c = int(torch.searchsorted(probabilities[b, a].cumsum(0), u, right=True))
        tokens.append(c)
        a, b = b, c
    return tokens


# wrong sampling: the context stands still
# hint: Your context never moves
def sample(probabilities, start, noise):
    row = probabilities[start[0], start[1]].cumsum(0)
    return [int((row <= u).sum()) for u in noise]


# wrong sampling: the older token stands still
# hint: Both move up
def sample(probabilities, start, noise):
    a, b = start
    tokens = []
    for u in noise:
        b = int((probabilities[a, b].cumsum(0) <= u).sum())
        tokens.append(b)
    return tokens


# wrong sampling: greedy
# hint: That is greedy decoding
def sample(probabilities, start, noise):
    tokens = list(start)
    for _ in noise:
        tokens.append(int(probabilities[tokens[-2], tokens[-1]].argmax()))
    return tokens[2:]


# wrong sampling: returns the start too
# hint: Return the new tokens alone
def sample(probabilities, start, noise):
    tokens = list(start)
    for u in noise:
        tokens.append(int((probabilities[tokens[-2], tokens[-1]].cumsum(0) <= u).sum()))
    return tokens


# wrong sampling: searches on the left side
# hint: the first c whose sum is greater than u
def sample(probabilities, start, noise):
    tokens = list(start)
    for u in noise:
        tokens.append(int(torch.searchsorted(probabilities[tokens[-2], tokens[-1]].cumsum(0), u)))
    return tokens[2:]


# wrong sampling: forgets the running sum
# hint: compare it with their running sum
def sample(probabilities, start, noise):
    tokens = list(start)
    for u in noise:
        row = probabilities[tokens[-2], tokens[-1]].tolist()
        tokens.append(next((c for c, p in enumerate(row) if p > u), len(row) - 1))
    return tokens[2:]


# wrong sampling: draws its own noise
# hint: first entry above u
def sample(probabilities, start, noise):
    tokens = list(start)
    for _ in noise:
        tokens.append(int(torch.multinomial(probabilities[tokens[-2], tokens[-1]], 1)))
    return tokens[2:]


# right sampling: subtracts as it goes
def sample(probabilities, start, noise):
    a, b = start
    tokens = []
    for u in noise:
        c, row = 0, probabilities[a, b].tolist()
        while u >= row[c]:
            u -= row[c]
            c += 1
        tokens.append(c)
        a, b = b, c
    return tokens


# right sampling: searchsorted, running sums made once, as a tensor
def sample(probabilities, start, noise):
    running = probabilities.float().cumsum(-1)
    tokens = list(start)
    for u in noise:
        tokens.append(torch.searchsorted(running[tokens[-2], tokens[-1]], u, right=True).item())
    return torch.tensor(tokens[2:], dtype=torch.long)


# wrong cells: n to the power of V
# hint: you have n to the power of V
def cell_counts(tokens, n, vocab_size):
    grams = Counter(tuple(tokens[t : t + n]) for t in range(len(tokens) - n + 1))
    return n**vocab_size, len(grams), list(grams.values()).count(1)


# wrong cells: n times V
# hint: are not n·V
def cell_counts(tokens, n, vocab_size):
    grams = Counter(tuple(tokens[t : t + n]) for t in range(len(tokens) - n + 1))
    return n * vocab_size, len(grams), list(grams.values()).count(1)


# wrong cells: counts occurrences
# hint: Cells are *different* n-grams
def cell_counts(tokens, n, vocab_size):
    grams = [tuple(tokens[t : t + n]) for t in range(len(tokens) - n + 1)]
    return vocab_size**n, len(grams), sum(grams.count(gram) == 1 for gram in grams)


# wrong cells: forgets the last window
# hint: The last n-gram is missing
def cell_counts(tokens, n, vocab_size):
    grams = Counter(tuple(tokens[t : t + n]) for t in range(len(tokens) - n))
    return vocab_size**n, len(grams), list(grams.values()).count(1)


# wrong cells: cuts into blocks
# hint: one begins at every token
def cell_counts(tokens, n, vocab_size):
    grams = Counter(tuple(tokens[t : t + n]) for t in range(0, len(tokens), n) if t + n <= len(tokens))
    return vocab_size**n, len(grams), list(grams.values()).count(1)


# wrong cells: more than once
# hint: seen *exactly* once
def cell_counts(tokens, n, vocab_size):
    grams = Counter(tuple(tokens[t : t + n]) for t in range(len(tokens) - n + 1))
    return vocab_size**n, len(grams), sum(count > 1 for count in grams.values())


# wrong cells: each kind once
# hint: count every occurrence
def unseen_share(train, held_out, n):
    known = {tuple(train[t : t + n]) for t in range(len(train) - n + 1)}
    asked = {tuple(held_out[t : t + n]) for t in range(len(held_out) - n + 1)}
    return len(asked - known) / len(asked)


# wrong cells: the seen share
# hint: the share that *was* seen
def unseen_share(train, held_out, n):
    known = {tuple(train[t : t + n]) for t in range(len(train) - n + 1)}
    asked = [tuple(held_out[t : t + n]) for t in range(len(held_out) - n + 1)]
    return sum(gram in known for gram in asked) / len(asked)


# wrong cells: divides by the tokens
# hint: not by the number of tokens
def unseen_share(train, held_out, n):
    known = {tuple(train[t : t + n]) for t in range(len(train) - n + 1)}
    asked = [tuple(held_out[t : t + n]) for t in range(len(held_out) - n + 1)]
    return sum(gram not in known for gram in asked) / len(held_out)


# wrong cells: asks the wrong text
# hint: which n-grams of the *training* text
def unseen_share(train, held_out, n):
    known = {tuple(held_out[t : t + n]) for t in range(len(held_out) - n + 1)}
    asked = [tuple(train[t : t + n]) for t in range(len(train) - n + 1)]
    return sum(gram not in known for gram in asked) / len(asked)


# wrong cells: n-grams as text
# hint: Keep them apart, as tuples
def unseen_share(train, held_out, n):
    seen = {str(train[i : i + n]).translate({ord(c): "" for c in "[], "}) for i in range(len(train) - n + 1)}
    met = ["".join(str(token) for token in held_out[i : i + n]) for i in range(len(held_out) - n + 1)]
    return sum(gram not in seen for gram in met) / len(met)


# right cells: zip and sets, and a fraction
def cell_counts(tokens, n, vocab_size):
    grams = list(zip(*[tokens[i:] for i in range(n)]))
    seen, again = set(), set()
    for gram in grams:
        (again if gram in seen else seen).add(gram)
    return [vocab_size**n, len(seen), len(seen - again)]


def unseen_share(train, held_out, n):
    known = set(zip(*[train[i:] for i in range(n)]))
    asked = list(zip(*[held_out[i:] for i in range(n)]))
    return 1 - Fraction(sum(1 for gram in asked if gram in known), len(asked))


# right cells: tensors and unique
def cell_counts(tokens, n, vocab_size):
    _, counts = torch.unique(torch.tensor(tokens).unfold(0, n, 1), dim=0, return_counts=True)
    return math.prod([vocab_size] * n), len(counts), (counts == 1).sum()


def unseen_share(train, held_out, n):
    known, asked = (torch.tensor(text).unfold(0, n, 1) for text in (train, held_out))
    seen = (asked[:, None] == known[None]).all(-1).any(-1)
    return (~seen).double().mean()


# wrong orders: counts the held-out text
# hint: no peeking
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    return solved(held_out, held_out, vocab_size, max_n, k)


def solved(train, held_out, vocab_size, max_n, k):
    result = []
    for n in range(1, max_n + 1):
        counts = defaultdict(Counter)
        for t in range(n - 1, len(train)):
            counts[tuple(train[t - n + 1 : t])][train[t]] += 1
        logs = []
        for t in range(max_n - 1, len(held_out)):
            row = counts[tuple(held_out[t - n + 1 : t])]
            logs.append(math.log(row[held_out[t]] + k) - math.log(row.total() + k * vocab_size))
        result.append(math.exp(-sum(logs) / len(logs)))
    return result


# wrong orders: scores the training text
# hint: You score the text that you counted
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    result = []
    for n in range(1, max_n + 1):
        counts = defaultdict(Counter)
        for t in range(n - 1, len(train)):
            counts[tuple(train[t - n + 1 : t])][train[t]] += 1
        logs = []
        for t in range(max_n - 1, len(train)):
            row = counts[tuple(train[t - n + 1 : t])]
            logs.append(math.log((row[train[t]] + k) / (row.total() + k * vocab_size)))
        result.append(math.exp(-sum(logs) / len(logs)))
    return result


# wrong orders: begins where each order can
# hint: Begin at position max_n − 1 for every n
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    result = []
    for n in range(1, max_n + 1):
        counts = defaultdict(Counter)
        for t in range(n - 1, len(train)):
            counts[tuple(train[t - n + 1 : t])][train[t]] += 1
        logs = []
        for t in range(n - 1, len(held_out)):
            row = counts[tuple(held_out[t - n + 1 : t])]
            logs.append(math.log((row[held_out[t]] + k) / (row.total() + k * vocab_size)))
        result.append(math.exp(-sum(logs) / len(logs)))
    return result


# wrong orders: k for every cell of the table
# hint: add k·V below the line
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    result = []
    for n in range(1, max_n + 1):
        counts = defaultdict(Counter)
        for t in range(n - 1, len(train)):
            counts[tuple(train[t - n + 1 : t])][train[t]] += 1
        logs = []
        for t in range(max_n - 1, len(held_out)):
            row = counts[tuple(held_out[t - n + 1 : t])]
            logs.append(math.log((row[held_out[t]] + k) / (row.total() + k * vocab_size**n)))
        result.append(math.exp(-sum(logs) / len(logs)))
    return result


# wrong orders: counts the context that ends the text
# hint: Sum the counts of its followers
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    tables = [Counter(tuple(train[t : t + n]) for t in range(len(train) - n + 1)) for n in range(max_n + 1)]
    tables[0][()] = len(train)
    result = []
    for n in range(1, max_n + 1):
        logs = []
        for t in range(max_n - 1, len(held_out)):
            gram = tuple(held_out[t - n + 1 : t + 1])
            logs.append(math.log((tables[n][gram] + k) / (tables[n - 1][gram[:-1]] + k * vocab_size)))
        result.append(math.exp(-sum(logs) / len(logs)))
    return result


# wrong orders: takes n for the order
# hint: one token too long
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    result = []
    for order in range(1, max_n + 1):
        counts = defaultdict(Counter)
        for t in range(order, len(train)):
            counts[tuple(train[t - order : t])][train[t]] += 1
        logs = []
        for t in range(max_n - 1, len(held_out)):
            row = counts[tuple(held_out[t - order : t])] if t >= order else Counter()
            logs.append(math.log((row[held_out[t]] + k) / (row.total() + k * vocab_size)))
        result.append(math.exp(-sum(logs) / len(logs)))
    return result


# wrong orders: the probability of the whole n-gram
# hint: not of its last token
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    result = []
    for n in range(1, max_n + 1):
        grams = Counter(tuple(train[t : t + n]) for t in range(len(train) - n + 1))
        logs = []
        for t in range(max_n - 1, len(held_out)):
            gram = tuple(held_out[t - n + 1 : t + 1])
            logs.append(math.log((grams[gram] + k) / (grams.total() + k * vocab_size**n)))
        result.append(math.exp(-sum(logs) / len(logs)))
    return result


# wrong orders: the vocabulary of the training text
# hint: Add it for each of the V there are
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    scores, size = [], len(Counter(train))
    for n in range(1, max_n + 1):
        places = range(n - 1, len(train))
        whole = Counter(tuple(train[t - n + 1 : t + 1]) for t in places)
        before = Counter(tuple(train[t - n + 1 : t]) for t in places)
        surprise = [
            -math.log(
                (whole[tuple(held_out[t - n + 1 : t + 1])] + k) / (before[tuple(held_out[t - n + 1 : t])] + k * size)
            )
            for t in range(max_n - 1, len(held_out))
        ]
        scores.append(math.exp(sum(surprise) / len(surprise)))
    return scores


# right orders: rows of counters
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    result = []
    for n in range(1, max_n + 1):
        counts = defaultdict(Counter)
        for t in range(n - 1, len(train)):
            counts[tuple(train[t - n + 1 : t])][train[t]] += 1
        logs = []
        for t in range(max_n - 1, len(held_out)):
            row = counts[tuple(held_out[t - n + 1 : t])]
            logs.append(math.log(row[held_out[t]] + k) - math.log(sum(row.values()) + k * vocab_size))
        result.append(math.exp(-sum(logs) / len(logs)))
    return result


# right orders: contexts as numbers in base V, all in tensors
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    train, held_out = torch.tensor(train), torch.tensor(held_out)
    result = []
    for n in range(1, max_n + 1):
        base = vocab_size ** torch.arange(n - 1, -1, -1)
        counts = torch.bincount((train.unfold(0, n, 1) * base).sum(1), minlength=vocab_size**n)
        rows = counts.view(-1, vocab_size).double() + k
        cells = (held_out[max_n - n :].unfold(0, n, 1) * base).sum(1)
        chosen = (rows / rows.sum(1, keepdim=True)).flatten()[cells]
        result.append(chosen.log().mean().neg().exp())
    return torch.stack(result)


# right orders: with the probabilities of exercise 1 and the text cut into windows
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    def probability(window, n):
        context, token = window[:-1], window[-1]
        followers = [train[t] for t in range(n - 1, len(train)) if train[t - n + 1 : t] == context]
        return (followers.count(token) + k) / (len(followers) + k * vocab_size)

    def one(n):
        ends = range(max_n, len(held_out) + 1)
        return math.prod(probability(held_out[end - n : end], n) ** (-1 / len(ends)) for end in ends)

    return [one(n) for n in range(1, max_n + 1)]


# wrong sampling: the nearer token twice
# hint: You look at one token back
def sample(probabilities, start, noise):
    a, b = start
    tokens = []
    for u in noise:
        c = int((probabilities[a, b].cumsum(0) <= u).sum())
        tokens.append(c)
        a = b = c
    return tokens


# wrong sampling: a first-order model
# hint: You average over the older token
def sample(probabilities, start, noise):
    _, b = start
    tokens = []
    for u in noise:
        b = int((probabilities.mean(0)[b].cumsum(0) <= u).sum())
        tokens.append(b)
    return tokens
