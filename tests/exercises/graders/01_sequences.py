"""Exercise set 01, sequences: what is asked, how it is tested, and the mistakes it can name."""

import itertools
import math
from collections import Counter

import torch

from lecturelib.grading import Rubric, assert_close
from lecturelib.models import AddK, MarkovChain, NGramModel

rubric = Rubric("01_sequences", title="Sequences")
rubric.exercise(
    "smoothing", title="From counts to probabilities", minutes=5, difficulty=1, defines=("transition_matrix",)
)
rubric.exercise("perplexity", title="Perplexity", minutes=10, difficulty=2)
rubric.exercise("sampling", title="Sample from a second-order model", minutes=20, difficulty=3, defines=("sample",))
rubric.exercise("cells", title="Cells against data", minutes=25, difficulty=3, defines=("cell_counts", "unseen_share"))
rubric.exercise("orders", title="Perplexity against n", minutes=40, difficulty=4, defines=("perplexity_by_order",))


def draw_tokens(rng, length, vocab_size):
    """Token ids of unequal frequency, each id at least once and the first one last."""
    weights = torch.arange(1.0, vocab_size + 1)
    tokens = torch.multinomial(weights, length, replacement=True, generator=rng)
    tokens[:vocab_size] = torch.randperm(vocab_size, generator=rng)
    return tokens.tolist()


# 1. From counts to probabilities


@rubric.reference
def transition_matrix(tokens, vocab_size, k):
    return MarkovChain(vocab_size, AddK(k)).fit([tokens]).transition_matrix()


def pair_counts(tokens, vocab_size):
    counts = torch.zeros(vocab_size, vocab_size, dtype=torch.float64)
    for before, after in itertools.pairwise(tokens):
        counts[before, after] += 1
    return counts


@rubric.mistake(
    "transition_matrix", "Your table is transposed: the row is the token *before*, the column the token *after*."
)
def transposed(tokens, vocab_size, k):
    counts = pair_counts(tokens, vocab_size).T + k
    return counts / counts.sum(1, keepdim=True)


@rubric.mistake(
    "transition_matrix",
    "You divide by the number of all pairs, which gives P(before, after). Divide each row by its own sum.",
)
def joint(tokens, vocab_size, k):
    counts = pair_counts(tokens, vocab_size) + k
    return counts / counts.sum()


@rubric.mistake(
    "transition_matrix",
    "Your rows do not sum to 1: k is added to V cells of a row, so k·V is added below the line, not k.",
)
def one_k_below(tokens, vocab_size, k):
    counts = pair_counts(tokens, vocab_size)
    return (counts + k) / (counts.sum(1, keepdim=True) + k)


@rubric.mistake("transition_matrix", "You add k only where the count is 0. Every cell gets it, seen or not.")
def only_zeros(tokens, vocab_size, k):
    counts = pair_counts(tokens, vocab_size)
    counts = torch.where(counts == 0, k, counts)
    return counts / counts.sum(1, keepdim=True)


@rubric.mistake(
    "transition_matrix",
    "A pair that came five times counts once in your table. An indexed `+= 1` forgets repeats: loop, or use bincount.",
)
def once_each(tokens, vocab_size, k):
    counts = (pair_counts(tokens, vocab_size) > 0).double() + k
    return counts / counts.sum(1, keepdim=True)


@rubric.mistake(
    "transition_matrix", "Your text wraps around: the last token is followed by nothing, not by the first one."
)
def wraps_around(tokens, vocab_size, k):
    counts = pair_counts([*tokens, tokens[0]], vocab_size) + k
    return counts / counts.sum(1, keepdim=True)


@rubric.mistake(
    "transition_matrix",
    "Each column is divided by the sum of a row, not each row by its own: keep the axis, sum(dim=1, keepdim=True).",
)
def sums_along_the_columns(tokens, vocab_size, k):
    counts = pair_counts(tokens, vocab_size) + k
    return counts / counts.sum(1)


@rubric.mistake("transition_matrix", "k is never added: a pair that was not seen still has probability 0.")
def unsmoothed(tokens, vocab_size, k):
    counts = pair_counts(tokens, vocab_size)
    return counts / counts.sum(1, keepdim=True)


@rubric.test("smoothing", points=1, visible=True, hint="(count + k) over (sum of the row + k·V), cell by cell.")
def matches_the_formula(submission, rng):
    tokens = draw_tokens(rng, 60, 5)
    assert_close(submission.transition_matrix(tokens, 5, 0.5), transition_matrix(tokens, 5, 0.5), what="the matrix")


@rubric.test(
    "smoothing",
    points=1,
    visible=False,
    topic="unseen tokens",
    hint="A token that was never seen has a row too: a uniform one.",
)
def gives_unseen_tokens_a_uniform_row(submission, rng):
    tokens = draw_tokens(rng, 80, 4)
    got = submission.transition_matrix(tokens, 7, 0.1)
    assert_close(got, transition_matrix(tokens, 7, 0.1), what="the matrix, where tokens 4 to 6 never occur")


# 2. Perplexity


def surprises(probabilities, tokens):
    """−log P of each token after the first."""
    return -probabilities[tokens[:-1], tokens[1:]].log()


@rubric.reference
def perplexity(probabilities, tokens):
    return float(surprises(probabilities, tokens).mean().exp())


@rubric.mistake(
    "perplexity", "You divide by T. The first token has nothing before it: T tokens make T − 1 predictions."
)
def divides_by_length(probabilities, tokens):
    return float((surprises(probabilities, tokens).sum() / len(tokens)).exp())


@rubric.mistake("perplexity", "The mean surprise itself is the cross-entropy. Its exponential is the perplexity.")
def cross_entropy(probabilities, tokens):
    return float(surprises(probabilities, tokens).mean())


@rubric.mistake(
    "perplexity", "A sign is lost: yours is below 1. The surprise of a token is *minus* its log-probability."
)
def without_minus(probabilities, tokens):
    return float((-surprises(probabilities, tokens).mean()).exp())


@rubric.mistake("perplexity", "Two bases are mixed: e belongs to log, 2 belongs to log2. Take one of the pairs.")
def mixed_bases(probabilities, tokens):
    return float(2 ** surprises(probabilities, tokens).mean())


@rubric.mistake(
    "perplexity",
    "You average the numbers 1/p. Perplexity is their *geometric* mean: average the logarithms, then take exp.",
)
def arithmetic_mean(probabilities, tokens):
    return float(surprises(probabilities, tokens).exp().mean())


@rubric.mistake("perplexity", "You look up P[after, before]; the row is the token before.")
def reversed_lookup(probabilities, tokens):
    return perplexity(probabilities.mT, tokens)


@rubric.mistake(
    "perplexity", "The product of thousands of probabilities underflows to 0. Add logarithms instead of multiplying."
)
def underflowing(probabilities, tokens):
    product = probabilities[tokens[:-1], tokens[1:]].prod()
    return float(product ** (-1 / (len(tokens) - 1)))


def draw_matrix(rng, vocab_size):
    return (1.5 * torch.randn(vocab_size, vocab_size, generator=rng)).softmax(1).double()


@rubric.test("perplexity", points=1, visible=True, hint="exp of the mean of −log P(token | the one before it).")
def is_the_exponential_of_the_mean_surprise(submission, rng):
    probabilities, tokens = draw_matrix(rng, 5), draw_tokens(rng, 12, 5)
    got = submission.perplexity(probabilities, tokens)
    assert_close(got, perplexity(probabilities, tokens), what="the perplexity")


@rubric.test("perplexity", points=1, visible=True, hint="The same for 3000 tokens: a finite number.")
def survives_a_long_text(submission, rng):
    probabilities, tokens = draw_matrix(rng, 6), draw_tokens(rng, 3000, 6)
    got = submission.perplexity(probabilities, tokens)
    assert_close(got, perplexity(probabilities, tokens), what="the perplexity of 3000 tokens", rtol=1e-3)


@rubric.test(
    "perplexity",
    points=1,
    visible=False,
    topic="extremes",
    hint="A uniform guess has V; a token of probability 0 costs infinity.",
)
def knows_the_two_extremes(submission, rng):
    tokens = draw_tokens(rng, 40, 7)
    uniform = torch.full((7, 7), 1 / 7, dtype=torch.float64)
    assert_close(submission.perplexity(uniform, tokens), 7.0, what="the perplexity of a uniform guess")
    never = uniform.clone()
    never[tokens[3], tokens[4]] = 0
    never = never / never.sum(1, keepdim=True)
    assert_close(submission.perplexity(never, tokens), math.inf, what="the perplexity when a token has probability 0")


# 3. Sample from a second-order model


def walk(probabilities, start, noise, choose, move=lambda a, b, c: (b, c)):
    """Draw a token for each number of the noise; `choose` picks it from a cumulative sum, `move` makes the context."""
    (a, b), tokens = start, []
    for u in noise:
        tokens.append(choose(probabilities[a, b].cumsum(0), u))
        a, b = move(a, b, tokens[-1])
    return tokens


def first_above(cumulative, u):
    return int((cumulative <= u).sum())


def steps(cumulative):
    """The probabilities themselves again."""
    return cumulative.diff(prepend=torch.zeros(1))


@rubric.reference
def sample(probabilities, start, noise):
    return walk(probabilities, start, noise, first_above)


@rubric.mistake(
    "sample",
    "Your context is the wrong way round: P[a, b] has the *older* token first. New context: (b, c), not (c, b).",
)
def swapped_context(probabilities, start, noise):
    return walk(probabilities.transpose(0, 1), start, noise, first_above)


@rubric.mistake("sample", "Your context never moves: after each draw the new token becomes the nearer one.")
def frozen_context(probabilities, start, noise):
    return walk(probabilities, start, noise, first_above, move=lambda a, b, c: (a, b))


@rubric.mistake("sample", "The older token of your context never changes. Both move up: (a, b) becomes (b, c).")
def half_moved(probabilities, start, noise):
    return walk(probabilities, start, noise, first_above, move=lambda a, b, c: (a, c))


@rubric.mistake(
    "sample",
    "You always take the likeliest token and never look at the noise. That is greedy decoding, not sampling.",
)
def greedy(probabilities, start, noise):
    return walk(probabilities, start, noise, lambda cumulative, u: int(steps(cumulative).argmax()))


@rubric.mistake("sample", "Return the new tokens alone; yours begin with the two of the start.")
def with_start(probabilities, start, noise):
    return [*start, *sample(probabilities, start, noise)]


@rubric.mistake(
    "sample",
    "When u *equals* a cumulative sum you stop one token early, and with u = 0 you can draw a token of probability 0. "
    "Take the first c whose sum is greater than u.",
)
def stops_early(probabilities, start, noise):
    return walk(probabilities, start, noise, lambda cumulative, u: int((cumulative < u).sum()))


@rubric.mistake("sample", "You compare u with the probabilities themselves; compare it with their running sum.")
def without_sum(probabilities, start, noise):
    def choose(cumulative, u):
        above = steps(cumulative) > u
        return int(above.int().argmax()) if above.any() else len(above) - 1

    return walk(probabilities, start, noise, choose)


@rubric.mistake(
    "sample", "You look at one token back. This model looks at two: the row is P[a, b], and a is not always b."
)
def only_the_nearer(probabilities, start, noise):
    return walk(probabilities, start, noise, first_above, move=lambda a, b, c: (c, c))


@rubric.mistake("sample", "You average over the older token. It is known: the row is P[a, b] for the a that was there.")
def averages_the_older(probabilities, start, noise):
    return walk(probabilities.mean(0).expand_as(probabilities), start, noise, first_above)


def draw_table(rng, vocab_size, grain=16):
    """P[a, b, c] in sixteenths, so that running sums are exact in any order and any precision."""
    draws = torch.randint(vocab_size, (vocab_size, vocab_size, grain), generator=rng)
    return torch.nn.functional.one_hot(draws, vocab_size).sum(2).double() / grain


def draw_start(rng, vocab_size):
    return tuple(torch.randperm(vocab_size, generator=rng)[:2].tolist())


def as_list(answer):
    return answer.tolist() if isinstance(answer, torch.Tensor) else answer


@rubric.test("sampling", points=1, visible=True, hint="Row P[a, b], running sum, first entry above u, move on.")
def follows_the_noise(submission, rng):
    table, start = draw_table(rng, 4), draw_start(rng, 4)
    noise = ((torch.randint(16, (30,), generator=rng) + 0.5) / 16).tolist()  # between the running sums, never on one
    assert_close(submission.sample(table, start, noise), sample(table, start, noise), what="the tokens")


@rubric.test(
    "sampling",
    points=1,
    visible=True,
    hint="The first token whose running sum is *greater* than u, also where u is a sum, or 0.",
)
def never_draws_the_impossible(submission, rng):
    table, start, noise = draw_table(rng, 5), draw_start(rng, 5), []
    a, b = start
    for place in torch.randint(4, (20,), generator=rng).tolist():  # each number lies on a running sum, or is 0
        u = float(table[a, b].cumsum(0)[place])
        noise.append(u if u < 1 else 0.0)
        a, b = b, first_above(table[a, b].cumsum(0), noise[-1])
    assert_close(submission.sample(table, start, noise), sample(table, start, noise), what="the tokens")


@rubric.test(
    "sampling",
    points=2,
    visible=False,
    topic="other sizes",
    hint="Other sizes, a start of two equal tokens, and no noise at all.",
)
def holds_for_other_sizes(submission, rng):
    table = draw_table(rng, 7)
    noise = ((torch.randint(16, (100,), generator=rng) + 0.5) / 16).tolist()
    for start in ((3, 3), (6, 0)):
        got = submission.sample(table, start, noise)
        assert_close(as_list(got), sample(table, start, noise), what="the tokens")
    assert_close(as_list(submission.sample(table, (1, 2), [])), [], what="the tokens for no noise")


# 4. Cells against data


def grams(tokens, n):
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


@rubric.reference
def cell_counts(tokens, n, vocab_size):
    model = NGramModel(n, vocab_size).fit([tokens])
    return model.num_cells, model.seen_cells, sum(count == 1 for count in grams(tokens, n).values())


@rubric.reference
def unseen_share(train, held_out, n):
    known, asked = grams(train, n), grams(held_out, n)
    return sum(count for gram, count in asked.items() if gram not in known) / asked.total()


def described(found, possible):
    return possible, len(found), sum(count == 1 for count in found.values())


@rubric.mistake("cell_counts", "n choices of V are V to the power of n; you have n to the power of V.")
def power_upside_down(tokens, n, vocab_size):
    return described(grams(tokens, n), n**vocab_size)


@rubric.mistake("cell_counts", "n choices of V are not n·V but V·V·…·V.")
def product_of_the_two(tokens, n, vocab_size):
    return described(grams(tokens, n), n * vocab_size)


@rubric.mistake("cell_counts", "You count how many n-grams the text *has*. Cells are *different* n-grams: use a set.")
def every_occurrence(tokens, n, vocab_size):
    return vocab_size**n, len(tokens) - n + 1, cell_counts(tokens, n, vocab_size)[2]


@rubric.mistake("cell_counts", "The last n-gram is missing: T tokens hold T − n + 1 of them.")
def misses_the_last(tokens, n, vocab_size):
    return described(grams(tokens[:-1], n), vocab_size**n)


@rubric.mistake("cell_counts", "You cut the text into blocks. n-grams overlap: one begins at every token.")
def in_blocks(tokens, n, vocab_size):
    blocks = Counter(tuple(tokens[t : t + n]) for t in range(0, len(tokens) - n + 1, n))
    return described(blocks, vocab_size**n)


@rubric.mistake("cell_counts", "The third number is how many cells were seen *exactly* once; yours has the others.")
def more_than_once(tokens, n, vocab_size):
    possible, seen, once = cell_counts(tokens, n, vocab_size)
    return possible, seen, seen - once


@rubric.mistake(
    "unseen_share",
    "You count each different n-gram once. A reader meets them as often as they come: count every occurrence.",
)
def share_of_kinds(train, held_out, n):
    known, asked = grams(train, n), grams(held_out, n)
    return sum(gram not in known for gram in asked) / len(asked)


@rubric.mistake("unseen_share", "That is the share that *was* seen.")
def share_of_seen(train, held_out, n):
    return 1 - unseen_share(train, held_out, n)


@rubric.mistake(
    "unseen_share",
    "You glue the numbers of an n-gram together as text, where 1 11 and 11 1 are the same. Keep them apart, as tuples.",
)
def glued_as_text(train, held_out, n):
    def glued(tokens):
        return ["".join(map(str, tokens[i : i + n])) for i in range(len(tokens) - n + 1)]

    known, met = set(glued(train)), glued(held_out)
    return sum(gram not in known for gram in met) / len(met)


@rubric.mistake("unseen_share", "Divide by the number of n-grams, T − n + 1, not by the number of tokens.")
def over_tokens(train, held_out, n):
    return unseen_share(train, held_out, n) * (len(held_out) - n + 1) / len(held_out)


@rubric.mistake("unseen_share", "You ask which n-grams of the *training* text are missing in the other one.")
def the_other_way_round(train, held_out, n):
    return unseen_share(held_out, train, n)


@rubric.test(
    "cells", points=2, visible=True, hint="Vⁿ possible; a window of n slides by one; a Counter knows the rest."
)
def counts_the_cells(submission, rng):
    tokens = draw_tokens(rng, 90, 5)
    for n in (3, 2):
        assert_close(submission.cell_counts(tokens, n, 5), cell_counts(tokens, n, 5), what=f"the three counts, n = {n}")


@rubric.test(
    "cells", points=1, visible=True, hint="Of all n-grams of the held-out text: how many are not in the other?"
)
def measures_what_is_unseen(submission, rng):
    train, held_out = draw_tokens(rng, 60, 4), draw_tokens(rng, 45, 4)
    got = submission.unseen_share(train, held_out, 3)
    assert_close(got, unseen_share(train, held_out, 3), what="the unseen share")


@rubric.test(
    "cells", points=1, visible=False, topic="borders", hint="n = 1, a large vocabulary, a text of exactly one n-gram."
)
def counts_at_the_edges(submission, rng):
    tokens = draw_tokens(rng, 50, 6)
    for n, vocab_size in ((1, 6), (5, 1000)):
        got = submission.cell_counts(tokens, n, vocab_size)
        assert_close(got, cell_counts(tokens, n, vocab_size), what=f"the three counts, n = {n}")
    assert_close(submission.cell_counts(tokens[:4], 4, 6), (6**4, 1, 1), what="the three counts of one n-gram")
    assert_close(submission.unseen_share(tokens, tokens, 4), 0.0, what="the unseen share of the training text")
    got = submission.unseen_share([1, 11, 2, 12, 1, 1], [11, 1, 21, 2, 12, 11, 1], 2)
    assert_close(got, 5 / 6, what="the unseen share of tokens from 10 on")


# 5. Perplexity against n


@rubric.reference
def perplexity_by_order(train, held_out, vocab_size, max_n, k):
    perplexities = []
    for n in range(1, max_n + 1):
        model = NGramModel(n, vocab_size, AddK(k)).fit([train])
        places = range(max_n - 1, len(held_out))
        logs = [math.log(model.probability(held_out[t - n + 1 : t], held_out[t])) for t in places]
        perplexities.append(math.exp(-sum(logs) / len(logs)))
    return perplexities


def score_orders(train, held_out, max_n, k, below, *, first=None, longer=0):
    """As above, with the parts that mistakes change: what stands below the line, where to begin, longer contexts."""
    perplexities = []
    for n in range(1, max_n + 1):
        length = n - 1 + longer
        counts, followed = grams(train, length + 1), grams(train[:-1], length) if length else {(): len(train)}
        logs = []
        for t in range(max_n - 1 if first is None else first(n), len(held_out)):
            gram = tuple(held_out[max(0, t - length) : t + 1])
            logs.append(math.log((counts.get(gram, 0) + k) / below(followed.get(gram[:-1], 0), gram[:-1], n)))
        perplexities.append(math.exp(-sum(logs) / len(logs)))
    return perplexities


@rubric.mistake(
    "perplexity_by_order", "You count the text that you score. Count `train`, then score `held_out`: no peeking."
)
def peeks(train, held_out, vocab_size, max_n, k):
    return perplexity_by_order(held_out, held_out, vocab_size, max_n, k)


@rubric.mistake("perplexity_by_order", "You score the text that you counted. Count `train`, then score `held_out`.")
def scores_the_training_text(train, held_out, vocab_size, max_n, k):
    return perplexity_by_order(train, train, vocab_size, max_n, k)


@rubric.mistake(
    "perplexity_by_order",
    "Each n is scored on other tokens, so the numbers cannot be compared. Begin at position max_n − 1 for every n.",
)
def other_tokens(train, held_out, vocab_size, max_n, k):
    return score_orders(train, held_out, max_n, k, lambda count, *_: count + k * vocab_size, first=lambda n: n - 1)


@rubric.mistake(
    "perplexity_by_order",
    "A distribution over the next token has V outcomes whatever n is: add k·V below the line, not k·Vⁿ.",
)
def all_cells_below(train, held_out, vocab_size, max_n, k):
    return score_orders(train, held_out, max_n, k, lambda count, _, n: count + k * vocab_size**n)


@rubric.mistake(
    "perplexity_by_order",
    "The context at the very end of `train` is followed by nothing, yet you count it. Sum the counts of its followers.",
)
def counts_the_last_context(train, held_out, vocab_size, max_n, k):
    def below(count, context, n):
        return count + (n > 1 and context == tuple(train[1 - n :])) + k * vocab_size

    return score_orders(train, held_out, max_n, k, below)


@rubric.mistake(
    "perplexity_by_order",
    "Your contexts are one token too long: n = 1 looks at no token, n = 2 at one. An n-gram model has order n − 1.",
)
def order_for_n(train, held_out, vocab_size, max_n, k):
    return score_orders(train, held_out, max_n, k, lambda count, *_: count + k * vocab_size, longer=1)


@rubric.mistake(
    "perplexity_by_order",
    "You divide by the number of all n-grams: that is the probability of the n-gram, not of its last token.",
)
def joint_probability(train, held_out, vocab_size, max_n, k):
    return score_orders(train, held_out, max_n, k, lambda count, _, n: len(train) - n + 1 + k * vocab_size**n)


def draw_language(rng, lengths, vocab_size):
    """Two texts of one random language in which two tokens back matter."""
    table = (3 * torch.randn(vocab_size, vocab_size, vocab_size, generator=rng)).softmax(2).double()
    return [
        walk(table, draw_start(rng, vocab_size), torch.rand(length, generator=rng).tolist(), choose_inside)
        for length in lengths
    ]


def choose_inside(cumulative, u):
    return min(first_above(cumulative, u), len(cumulative) - 1)


@rubric.test(
    "orders", points=2, visible=True, hint="For each n: count train, then mean −log P over held_out, then exp."
)
def scores_every_order(submission, rng):
    train, held_out = draw_language(rng, (120, 80), 4)
    got = submission.perplexity_by_order(train, held_out, 4, 3, 0.1)
    assert_close(as_list(got), perplexity_by_order(train, held_out, 4, 3, 0.1), what="the perplexities")


@rubric.test(
    "orders",
    points=1,
    visible=True,
    hint="Only contexts that a token follows are counted; the last tokens of train have none.",
)
def counts_only_contexts_that_are_followed(submission, rng):
    train, held_out = draw_language(rng, (25, 60), 3)
    train[-2:], held_out[:9] = [2, 1], [2, 1, 0] * 3  # the held-out text asks for the context that ends the other one
    got = submission.perplexity_by_order(train, held_out, 3, 3, 0.02)
    assert_close(as_list(got), perplexity_by_order(train, held_out, 3, 3, 0.02), what="the perplexities")


@rubric.mistake(
    "perplexity_by_order",
    "Below the line you add k for each token that `train` has. Add it for each of the V there are: k · vocab_size.",
)
def vocabulary_of_the_text(train, held_out, vocab_size, max_n, k):
    return perplexity_by_order(train, held_out, len(set(train)), max_n, k)


@rubric.test(
    "orders",
    points=2,
    visible=False,
    topic="more orders",
    hint="More orders, a larger vocabulary, and a thousand tokens.",
)
def finds_the_turn(submission, rng):
    train, held_out = draw_language(rng, (900, 300), 5)
    got, want = (s.perplexity_by_order(train, held_out, 5, 6, 0.1) for s in (submission, rubric.solution))
    assert_close(as_list(got), want, what="the perplexities")
    got, want = (s.perplexity_by_order(train, held_out, 9, 2, 0.5) for s in (submission, rubric.solution))
    assert_close(as_list(got), want, what="the perplexities with tokens that never occur")
