"""Exercise set 08, the attention layer: what is asked, how it is tested, and the mistakes it can name."""

import itertools
import math
from functools import cache

import torch
import torch.nn.functional as F

from lecturelib.grading import Rubric, assert_close, draw
from lecturelib.layers import MultiHeadAttention, causal_mask, dot_product_attention, padding_mask

rubric = Rubric("08_attention_layer", title="The attention layer")
rubric.exercise("attention", title="Scaled dot-product attention", minutes=5, difficulty=1)
rubric.exercise(
    "masks",
    title="Causal and padding masks",
    minutes=10,
    difficulty=2,
    defines=("causal_padding_mask", "masked_attention"),
)
rubric.exercise(
    "heads",
    title="Many heads",
    minutes=20,
    difficulty=3,
    defines=("split_heads", "merge_heads", "MultiHeadAttention"),
)
rubric.exercise(
    "scaling", title="Why divide by √d?", minutes=25, difficulty=3, defines=("entropy", "scaling_experiment")
)
rubric.exercise(
    "equivariance",
    title="Equivariance, a proof by code",
    minutes=40,
    difficulty=4,
    defines=("equivariance_gap", "symmetry"),
)


# 1. Scaled dot-product attention


@rubric.reference
def attention(query, key, value):
    return dot_product_attention(query, key, value, need_weights=True)


def from_scores(scores, value, dim=-1):
    weights = scores.softmax(dim)
    return weights @ value, weights


@rubric.mistake("attention", "The scores are not scaled: divide them by √d, d the width of a key.")
def unscaled(query, key, value):
    return from_scores(query @ key.mT, value)


@rubric.mistake("attention", "You divide by d, not by its square root. Which power keeps the variance at 1?")
def scaled_by_d(query, key, value):
    return from_scores(query @ key.mT / key.shape[-1], value)


@rubric.mistake("attention", "You divide by the square root of the number of keys; it should be of their width d.")
def scaled_by_length(query, key, value):
    return from_scores(query @ key.mT / math.sqrt(key.shape[-2]), value)


@rubric.mistake(
    "attention",
    "Your softmax runs down the queries, so columns sum to 1. Each query shares itself out over the keys: dim=-1.",
)
def softmax_over_queries(query, key, value):
    return from_scores(query @ key.mT / math.sqrt(key.shape[-1]), value, dim=-2)


@rubric.mistake("attention", "Right numbers, wrong order: return the output first, then the weights.")
def swapped_pair(query, key, value):
    return attention(query, key, value)[::-1]


@rubric.mistake("attention", "The scores go straight to the values. Between them stands a softmax.")
def no_softmax(query, key, value):
    scores = query @ key.mT / math.sqrt(key.shape[-1])
    return scores @ value, scores


@rubric.mistake("attention", "exp overflows for large scores. Use torch.softmax, or subtract each row's maximum first.")
def overflowing(query, key, value):
    raised = (query @ key.mT / math.sqrt(key.shape[-1])).exp()
    weights = raised / raised.sum(-1, keepdim=True)
    return weights @ value, weights


def assert_attends(got, want):
    assert_close(got, want, what=("the output", "the weights"))


@rubric.test("attention", points=1, visible=True, hint="softmax(QKᵀ / √d) V, one factor at a time.")
def matches_the_formula(submission, rng):
    query, key, value = draw(rng, 2, 4, 3), draw(rng, 2, 5, 3), draw(rng, 2, 5, 6)
    assert_attends(submission.attention(query, key, value), attention(query, key, value))


@rubric.test("attention", points=1, visible=True, hint="The same for scores of a hundred, without NaN.")
def survives_large_scores(submission, rng):
    query, key, value = 40 * draw(rng, 2, 4, 3), 40 * draw(rng, 2, 5, 3), draw(rng, 2, 5, 6)
    assert_attends(submission.attention(query, key, value), attention(query, key, value))


@rubric.test(
    "attention",
    points=1,
    visible=False,
    topic="batch shapes, gradients",
    hint="Count axes from the end, so any batch shape will do.",
)
def takes_any_batch_shape_and_gives_gradients(submission, rng):
    for batch in ((), (2, 3)):
        query, key, value = draw(rng, *batch, 4, 6), draw(rng, *batch, 5, 6), draw(rng, *batch, 5, 7)
        upstream = (draw(rng, *batch, 4, 7), draw(rng, *batch, 4, 5))
        got = submission.attention.gradients(query, key, value, upstream=upstream)
        assert_close(got, rubric.solution.attention.gradients(query, key, value, upstream=upstream))


# 2. Masks


@rubric.reference
def causal_padding_mask(lengths, max_len):
    return causal_mask(max_len) & padding_mask(lengths, max_len)  # (B, T, T)


@rubric.reference
def masked_attention(query, key, value, mask=None):
    return dot_product_attention(query, key, value, mask)


@rubric.mistake(
    "causal_padding_mask",
    "A position may not see itself in your mask, so the first one sees nothing. Use j ≤ i, not j < i.",
)
def strictly_causal(lengths, max_len):
    return causal_padding_mask(lengths, max_len) & ~torch.eye(max_len, dtype=torch.bool)


@rubric.mistake(
    "causal_padding_mask",
    "Your mask looks into the future: query i (row) sees keys j ≥ i (column). You want the lower triangle.",
)
def sees_the_future(lengths, max_len):
    return causal_mask(max_len).mT & padding_mask(lengths, max_len)


@rubric.mistake("causal_padding_mask", "Your mask is upside down: True means *may* attend.")
def inverted_mask(lengths, max_len):
    return ~causal_padding_mask(lengths, max_len)


@rubric.mistake(
    "causal_padding_mask",
    "You hide the rows of padded queries. It is the padded *keys*, columns, that nobody may look at.",
)
def hides_padded_queries(lengths, max_len):
    return causal_mask(max_len) & padding_mask(lengths, max_len).mT


@rubric.mistake("causal_padding_mask", "The padding is still visible: use `lengths`.")
def only_causal(lengths, max_len):
    return causal_mask(max_len).expand(len(lengths), -1, -1)


@rubric.mistake("causal_padding_mask", "The future is still visible: where is the triangle?")
def only_padding(lengths, max_len):
    return padding_mask(lengths, max_len).expand(-1, max_len, -1)


@rubric.mistake(
    "masked_attention",
    "You fill the scores where the mask is True. True means may attend: fill where it is False, with ~mask.",
)
def fills_the_allowed(query, key, value, mask=None):
    return masked_attention(query, key, value, None if mask is None else ~mask)


@rubric.mistake(
    "masked_attention",
    "A score of 0 is not forbidden: exp(0) = 1. Fill with −∞ or a large negative number, before the softmax.",
)
def fills_with_zero(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(key.shape[-1])
    return from_scores(scores if mask is None else scores * mask, value)[0]


@rubric.mistake(
    "masked_attention",
    "You mask after the softmax, so the rows no longer sum to 1. Mask the scores, then take the softmax.",
)
def masks_the_weights(query, key, value, mask=None):
    weights = attention(query, key, value)[1]
    return (weights if mask is None else weights * mask) @ value


@rubric.test("masks", points=2, visible=True, hint="Row i, column j: j ≤ i, and j before the end of the sequence.")
def mask_is_causal_and_hides_padding(submission, rng):
    lengths = torch.tensor([4, 1, 6, 3])[torch.randperm(4, generator=rng)][:3]
    got = submission.causal_padding_mask(lengths, 6)
    assert_close(got, causal_padding_mask(lengths, 6), what="the mask")


@rubric.test("masks", points=1, visible=True, hint="Where the mask is False the weight must be exactly 0.")
def attends_only_where_allowed(submission, rng):
    query, key, value = draw(rng, 2, 5, 3), draw(rng, 2, 5, 3), draw(rng, 2, 5, 4)
    mask = causal_padding_mask(torch.tensor([4, 2]), 5)  # no row allows all, so none is empty upside down
    got = submission.masked_attention(query, key, value, mask)
    assert_close(got, masked_attention(query, key, value, mask), what="the output")


@rubric.test("masks", points=1, visible=True, hint="mask=None allows every key.")
def no_mask_allows_every_key(submission, rng):
    query, key, value = draw(rng, 2, 4, 3), draw(rng, 2, 5, 3), draw(rng, 2, 5, 6)
    got = submission.masked_attention(query, key, value)
    assert_close(got, masked_attention(query, key, value), what="the output")


@rubric.test(
    "masks",
    points=1,
    visible=False,
    topic="heads axis, large scores",
    hint="Try a heads axis, and large scores of either sign.",
)
def masks_broadcast_over_heads_and_large_scores(submission, rng):
    query, key, value = 30 * draw(rng, 2, 3, 5, 4), 30 * draw(rng, 2, 3, 5, 4), draw(rng, 2, 3, 5, 6)
    mask = causal_padding_mask(torch.tensor([2, 5]), 5)[:, None]
    upstream = draw(rng, 2, 3, 5, 6)
    got = submission.masked_attention.gradients(query, key, value, mask, upstream=upstream)
    want = rubric.solution.masked_attention.gradients(query, key, value, mask, upstream=upstream)
    assert_close(got, want, rtol=1e-3, atol=1e-4)


# 3. Heads


@rubric.reference
def split_heads(x, num_heads):
    batch, length, d_model = x.shape
    return x.view(batch, length, num_heads, d_model // num_heads).transpose(1, 2)  # (B, H, T, Dh)


@rubric.reference
def merge_heads(x):
    return x.transpose(1, 2).flatten(2)  # (B, T, D)


rubric.reference(MultiHeadAttention)


@rubric.mistake(
    "split_heads",
    "Right shape, scrambled numbers: a view cannot move an axis. View as (B, T, H, Dh), then transpose.",
)
def split_by_view(x, num_heads):
    return x.reshape(x.shape[0], num_heads, x.shape[1], -1)  # (B, H, T, Dh)


@rubric.mistake(
    "split_heads",
    "You deal the features out like cards. Head h should get the h-th *block* of Dh neighbouring features.",
)
def split_interleaved(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)  # (B, H, T, Dh)


@rubric.mistake(
    "merge_heads",
    "The heads are not back beside their features: transpose (B, H, T, Dh) to (B, T, H, Dh) before you merge.",
)
def merge_by_view(x):
    return x.reshape(x.shape[0], x.shape[2], -1)  # (B, T, D)


class Variant(MultiHeadAttention):
    """The right layer in small pieces, so that a mistake can change one."""

    def forward(self, x, mask=None):
        q, k, v = (split_heads(p(x), self.num_heads) for p in (self.query_proj, self.key_proj, self.value_proj))
        return self.finish(merge_heads(self.attend(q, k, v, self.lift(mask))))

    def lift(self, mask):
        return mask if mask is None or mask.dim() != 3 else mask[:, None]  # (B, 1, T, T)

    def attend(self, q, k, v, mask):
        return dot_product_attention(q, k, v, mask)

    def finish(self, x):
        return self.out_proj(x)


@rubric.mistake("MultiHeadAttention", "The heads are never mixed: `out_proj` comes last.")
class WithoutOutput(Variant):
    def finish(self, x):
        return x


@rubric.mistake(
    "MultiHeadAttention",
    "You scale by the width of the model. Each head's keys are only Dh = d_model / num_heads wide.",
)
class ScaledByModelWidth(Variant):
    def attend(self, q, k, v, mask):
        return dot_product_attention(q, k, v, mask, scale=1 / math.sqrt(self.d_model))


@rubric.mistake(
    "MultiHeadAttention",
    "Your mask lines up with the heads, not with the batch: give it a heads axis, mask[:, None].",
)
class MaskOnHeads(Variant):
    def lift(self, mask):
        return mask


@rubric.mistake("MultiHeadAttention", "You use the keys as values. What is averaged comes from `value_proj`.")
class KeysAsValues(Variant):
    def attend(self, q, k, v, mask):
        return dot_product_attention(q, k, k, mask)


@rubric.mistake("MultiHeadAttention", "You use the values as keys. What is compared comes from `key_proj`.")
class ValuesAsKeys(Variant):
    def attend(self, q, k, v, mask):
        return dot_product_attention(q, v, v, mask)


@rubric.mistake("MultiHeadAttention", "You never pass the mask on to the attention.")
class IgnoresMask(Variant):
    def lift(self, mask):
        return None


@rubric.mistake("MultiHeadAttention", "This is one wide head: split before you attend.")
class OneHead(Variant):
    def forward(self, x, mask=None):
        q, k, v = (p(x) for p in (self.query_proj, self.key_proj, self.value_proj))
        return self.out_proj(dot_product_attention(q, k, v, mask))


def weights_for(rng, d_model):
    shapes = {n: p.shape for n, p in MultiHeadAttention(d_model, 1).state_dict().items()}
    return {name: draw(rng, *shape) / math.sqrt(shape[-1]) for name, shape in shapes.items()}


def layers(submission, rng, d_model, num_heads):
    state = weights_for(rng, d_model)
    for source in (submission, rubric.solution):
        layer = source.MultiHeadAttention(d_model, num_heads)
        layer.load_state_dict(state)
        yield layer


@rubric.test("heads", points=1, visible=True, hint="(B, T, D) → (B, H, T, Dh); head h holds features h·Dh to (h+1)·Dh.")
def splits_features_into_blocks(submission, rng):
    x = draw(rng, 2, 5, 12)
    assert_close(submission.split_heads(x, 3), split_heads(x, 3), what="split_heads(x, 3)")


@rubric.test("heads", points=1, visible=True, hint="Merging undoes splitting.")
def merges_what_was_split(submission, rng):
    x = draw(rng, 2, 3, 5, 4)
    assert_close(submission.merge_heads(x), merge_heads(x), what="merge_heads(x)")


HEADS_NEED = ("split_heads", "merge_heads", "masked_attention")


@rubric.test("heads", points=2, visible=True, hint="Project, split, attend, merge, project.", needs=HEADS_NEED)
def layer_attends_in_every_head(submission, rng):
    mine, reference = layers(submission, rng, 12, 3)
    x = draw(rng, 2, 5, 12)
    assert_close(mine(x), reference(x), what="the output")


@rubric.test(
    "heads", points=1, visible=True, hint="One mask for each sequence, the same for all its heads.", needs=HEADS_NEED
)
def layer_masks_every_head_alike(submission, rng):
    mine, reference = layers(submission, rng, 12, 2)  # as many heads as sequences, so that nothing is broadcast by luck
    x, mask = draw(rng, 2, 5, 12), causal_padding_mask(torch.tensor([5, 2]), 5)
    assert_close(mine(x, mask=mask), reference(x, mask=mask), what="the output")


@rubric.test(
    "heads", points=1, visible=False, topic="gradients", hint="All four projections must learn.", needs=HEADS_NEED
)
def layer_passes_gradients_to_every_weight(submission, rng):
    mine, reference = layers(submission, rng, 20, 4)
    x, upstream, mask = draw(rng, 3, 5, 20), draw(rng, 3, 5, 20), causal_padding_mask(torch.tensor([5, 2, 3]), 5)
    got, want = (layer.gradients(x, mask=mask, upstream=upstream) for layer in (mine, reference))
    assert_close(got, want, rtol=1e-3, atol=1e-4)


# 4. Scaling


@rubric.reference
def entropy(scores):
    logs = scores.log_softmax(-1)
    return -(logs.exp() * logs).sum(-1)


def experiment(widths, num_samples, power=0.5, source=torch.randn, spread=torch.std, num_keys=16, shared=False):
    rows = []
    for width in widths:
        query, key = source(num_samples, 1, width), source(1 if shared else num_samples, num_keys, width)
        scores = (query @ key.mT).squeeze(1)  # (num_samples, 16)
        rows.append([spread(scores), entropy(scores).mean(), entropy(scores / width**power).mean()])
    return torch.tensor(rows)  # (len(widths), 3)


@rubric.reference
def scaling_experiment(widths, num_samples):
    return experiment(widths, num_samples)


@cache
def in_the_limit(width, num_samples=100_000):
    """What a row comes to with more and more samples: for a given query the scores are |q| times normal draws."""
    generator = torch.Generator().manual_seed(width)
    length = torch.randn(num_samples, width, generator=generator).norm(dim=1, keepdim=True)
    scores = length * torch.randn(num_samples, 16, generator=generator)
    return [math.sqrt(width), float(entropy(scores).mean()), float(entropy(scores / math.sqrt(width)).mean())]


@rubric.mistake("entropy", "That is entropy in bits. Nats use the natural logarithm.")
def entropy_in_bits(scores):
    return entropy(scores) / math.log(2)


@rubric.mistake("entropy", "The sign: −Σ p log p is never negative.")
def negative_entropy(scores):
    return -entropy(scores)


@rubric.mistake(
    "entropy",
    "A weight that underflows to 0 gives 0 · log 0 = NaN. Its share is 0: use log_softmax, or clamp in the log.",
)
def log_of_zero(scores):
    weights = scores.softmax(-1)
    return -(weights * weights.log()).sum(-1)


@rubric.mistake("entropy", "One number for each row: keep the leading axes and average outside.")
def averaged_entropy(scores):
    return entropy(scores).mean()


@rubric.mistake("scaling_experiment", "The third column is not scaled: divide by √width.")
def never_scaled(widths, num_samples):
    return experiment(widths, num_samples, power=0)


@rubric.mistake(
    "scaling_experiment",
    "You divide by the width itself, so wide heads see almost uniform weights. Divide by its square root.",
)
def scaled_by_width(widths, num_samples):
    return experiment(widths, num_samples, power=1)


@rubric.mistake("scaling_experiment", "The first column is the variance, d. The standard deviation is √d.")
def variance_column(widths, num_samples):
    return experiment(widths, num_samples, spread=torch.var)


@rubric.mistake(
    "scaling_experiment",
    "All your queries share one set of keys, so the table hangs on 16 draws. Draw 16 keys for *each* query.",
)
def shared_keys(widths, num_samples):
    return experiment(widths, num_samples, shared=True)


@rubric.mistake("scaling_experiment", "You draw 15 keys for a query. The task has 16.")
def one_key_too_few(widths, num_samples):
    return experiment(widths, num_samples, num_keys=15)


@rubric.mistake("scaling_experiment", "You draw 17 keys for a query. The task has 16.")
def one_key_too_many(widths, num_samples):
    return experiment(widths, num_samples, num_keys=17)


@rubric.mistake(
    "scaling_experiment",
    "torch.rand draws from [0, 1), whose mean is not 0. The argument needs mean 0 and variance 1: torch.randn.",
)
def uniform_draws(widths, num_samples):
    return experiment(widths, num_samples, source=torch.rand)


@rubric.test("scaling", points=1, visible=True, hint="−Σ p log p over the last axis; log 16 for sixteen equal weights.")
def entropy_is_right(submission, rng):
    scores = torch.cat([3 * draw(rng, 2, 3, 5), torch.zeros(2, 1, 5)], dim=1)
    assert_close(submission.entropy(scores), entropy(scores), what="the entropy")


@rubric.test("scaling", points=1, visible=True, hint="Almost all weight on one key: the entropy is almost 0.")
def entropy_survives_peaked_weights(submission, rng):
    scores = 400 * draw(rng, 4, 5)
    assert_close(submission.entropy(scores), entropy(scores), what="the entropy")


@rubric.test(
    "scaling",
    points=1,
    visible=True,
    hint="A row for each width, drawn by torch.randn.",
    needs=("entropy",),
    noise=0.08,
)
def experiment_shows_the_two_trends(submission, rng):
    got = submission.scaling_experiment([32, 128], 300)
    want = rubric.solution.scaling_experiment([32, 128], 300)
    assert_close(got, want, what="the table", rtol=0.06, atol=0.15)  # chance moves it by a fifth of that


def assert_sixteen_keys(submission, widths):
    """With so many samples chance moves the table by a fifth of what is allowed, and a 17th key by more than that."""
    got = submission.scaling_experiment(widths, 8_000)
    want = torch.tensor([in_the_limit(width) for width in widths])
    assert_close(got, want, what="the table of 8000 samples", rtol=0.015, atol=0.006)


@rubric.test(
    "scaling",
    points=1,
    visible=True,
    hint="num_samples queries, and for each its own 16 keys.",
    needs=("entropy",),
    noise=0.03,
)
def experiment_draws_sixteen_keys_for_each_query(submission, rng):
    assert_sixteen_keys(submission, [4, 8])


@rubric.test(
    "scaling",
    points=1,
    visible=False,
    topic="other widths",
    hint="Any list of widths will do.",
    needs=("entropy",),
    noise=0.08,
)
def experiment_holds_for_other_widths(submission, rng):
    widths = [2**k for k in (5 + torch.randperm(4, generator=rng)[:3]).tolist()]
    got = submission.scaling_experiment(widths, 300)
    assert_close(got, rubric.solution.scaling_experiment(widths, 300), what="the table", rtol=0.06, atol=0.15)
    assert_sixteen_keys(submission, [8, 4, 4])


# 5. Equivariance


@rubric.reference
def equivariance_gap(layer, x, order):
    return (layer(x[:, order]) - layer(x)[:, order]).abs().max().item()


def classify(layer, x, orders):
    before = layer(x)
    shuffled = [(order, layer(x[:, order])) for order in orders]
    if all(torch.allclose(after, before, atol=1e-4) for _, after in shuffled):
        return "invariant"
    if before.dim() == 3 and all(torch.allclose(after, before[:, order], atol=1e-4) for order, after in shuffled):
        return "equivariant"
    return "neither"


@rubric.reference
def symmetry(layer, x):
    return classify(layer, x, [list(order) for order in itertools.permutations(range(x.shape[1]))])


@rubric.mistake(
    "equivariance_gap",
    "You shuffle the sequences of the batch, axis 0. The tokens are axis 1: x[:, order].",
)
def shuffles_the_batch(layer, x, order):
    return (layer(x[order]) - layer(x)[order]).abs().max().item()


@rubric.mistake(
    "equivariance_gap",
    "You compare with the unshuffled output: that measures invariance. Shuffle the output too.",
)
def invariance_gap(layer, x, order):
    return (layer(x[:, order]) - layer(x)).abs().max().item()


@rubric.mistake(
    "equivariance_gap",
    "You shuffle the shuffled output once more. Undo it with order.argsort(), or shuffle the other side.",
)
def shuffles_twice(layer, x, order):
    return (layer(x[:, order])[:, order] - layer(x)).abs().max().item()


@rubric.mistake("equivariance_gap", "The gap is the *largest* difference, not the mean.")
def mean_gap(layer, x, order):
    return (layer(x[:, order]) - layer(x)[:, order]).abs().mean().item()


@rubric.mistake("equivariance_gap", "Differences have signs: take .abs() before the maximum.")
def signed_gap(layer, x, order):
    return (layer(x[:, order]) - layer(x)[:, order]).max().item()


@rubric.mistake(
    "symmetry",
    "One shuffle proves nothing: a layer can respect the reversal and no other. Try swaps of neighbours, or all.",
)
def only_reversal(layer, x):
    return classify(layer, x, [list(range(x.shape[1]))[::-1]])


@rubric.mistake(
    "symmetry",
    "One shuffle proves nothing: a layer can respect a cyclic shift and no swap. Try swaps of neighbours, or all.",
)
def only_shift(layer, x):
    return classify(layer, x, [torch.arange(x.shape[1]).roll(1).tolist()])


@rubric.mistake(
    "symmetry", "You swap the first two tokens and no others. Every pair of neighbours must be tried, or all orders."
)
def only_the_first_swap(layer, x):
    return classify(layer, x, [[1, 0, *range(2, x.shape[1])]])


@rubric.mistake(
    "symmetry",
    "You never answer 'invariant': look whether the output stays the same before you look whether it moves along.",
)
def never_invariant(layer, x):
    answer = symmetry(layer, x)
    return "neither" if answer == "invariant" else answer


@rubric.mistake(
    "symmetry",
    "A layer that gives every token the same output is both, and is to be called invariant: look for that first.",
)
def equivariant_first(layer, x):
    same = layer(x).dim() == 3 and (layer(x) - layer(x)[:, :1]).abs().max() < 1e-4
    return "equivariant" if same and symmetry(layer, x) == "invariant" else symmetry(layer, x)


@rubric.given
class Layers:
    """Layers to classify, with random weights, for inputs (B, T, 6); those with positions take up to four tokens."""

    def __init__(self, rng):
        self.weight, self.positions = draw(rng, 6, 6), draw(rng, 1, 4, 6)

    def self_attention(self, x):
        return F.scaled_dot_product_attention(x @ self.weight, x, x)

    def causal(self, x):
        return F.scaled_dot_product_attention(x @ self.weight, x, x, is_causal=True)

    def positioned(self, x):
        return self.self_attention(x + self.positions[:, : x.shape[1]])

    def faint(self, x):
        return self.self_attention(x + 0.05 * self.positions[:, : x.shape[1]])

    def negated(self, x):
        return -self.positioned(x)

    def pooled(self, x):
        return self.self_attention(x).mean(dim=1)

    def shared(self, x):
        return self.pooled(x)[:, None].expand_as(x)  # the same for every token: invariant and equivariant

    def mirrored(self, x):
        positions = self.positions[:, : x.shape[1]]
        return self.self_attention(x + positions + positions.flip(1))

    def paired(self, x):
        return self.self_attention(x + self.positions[:, [0, *range(x.shape[1] - 1)]])  # the first two have one place

    def convolved(self, x):
        return (x + x.roll(1, dims=1)).tanh()


ANSWERS = {
    "self_attention": "equivariant",
    "causal": "neither",
    "positioned": "neither",
    "faint": "neither",
    "pooled": "invariant",
    "shared": "invariant",
    "mirrored": "neither",
    "paired": "neither",
    "convolved": "neither",
}


@rubric.test("equivariance", points=2, visible=True, hint="Shuffle then layer, against layer then shuffle.")
def gap_is_the_largest_difference(submission, rng):
    zoo, x, order = Layers(rng), draw(rng, 3, 4, 6), torch.tensor([1, 2, 3, 0])
    for layer in (zoo.positioned, zoo.negated, zoo.causal):
        got, want = submission.equivariance_gap(layer, x, order), equivariance_gap(layer, x, order)
        assert_close(got, want, what="the gap of a layer that depends on the order", rtol=1e-3)


@rubric.test("equivariance", points=1, visible=True, hint="Self-attention without positions has no gap.")
def gap_of_self_attention_is_rounding(submission, rng):
    zoo, x = Layers(rng), draw(rng, 3, 7, 6)
    order = torch.randperm(7, generator=rng)
    got = submission.equivariance_gap(zoo.self_attention, x, order)
    assert_close(got, 0.0, what="the gap of plain self-attention", atol=1e-4)
    want = equivariance_gap(zoo.causal, x, order)
    got = submission.equivariance_gap(zoo.causal, x, order)
    assert_close(got, want, what="the gap of causal self-attention", rtol=1e-3)


@rubric.test(
    "equivariance",
    points=2,
    visible=True,
    hint="The name of what holds for *every* order of the tokens.",
    needs=("equivariance_gap",),
)
def symmetry_of_the_plain_layers(submission, rng):
    zoo, x = Layers(rng), draw(rng, 2, 3, 6)  # three tokens: six orders, so that trying all of them is quick
    for name in ("self_attention", "positioned", "pooled", "mirrored", "shared"):
        got = submission.symmetry(getattr(zoo, name), x)
        assert_close(got, ANSWERS[name], what=f"symmetry of {name.replace('_', ' ')}")


@rubric.test(
    "equivariance",
    points=2,
    visible=False,
    topic="other shuffles",
    hint="Some layers respect one shuffle and not the next.",
    needs=("equivariance_gap",),
)
def symmetry_is_not_fooled_by_one_shuffle(submission, rng):
    zoo, x = Layers(rng), draw(rng, 2, 3, 6)
    for name in ("causal", "paired", "convolved", "faint", "pooled"):
        assert_close(submission.symmetry(getattr(zoo, name), x), ANSWERS[name], what=f"symmetry of a layer ({name})")
