"""Exercise set 14, efficient attention: what is asked, how it is tested, and the mistakes it can name."""

import torch

from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("14_efficient_attention", title="Efficient attention")
rubric.exercise(
    "linear",
    title="Move the brackets",
    minutes=25,
    difficulty=3,
    defines=("linear_attention", "causal_linear_attention"),
)
rubric.exercise(
    "features", title="Random features", minutes=20, difficulty=3, defines=("positive_features", "performer")
)
rubric.exercise("low_rank", title="Few keys for many", minutes=10, difficulty=2, defines=("linformer",))
rubric.exercise("blocks", title="Who sees whom in blocks", minutes=20, difficulty=3, defines=("block_mask",))
rubric.exercise("hashing", title="Buckets", minutes=25, difficulty=4, defines=("lsh_buckets", "chunk_mask"))


# 1. Linear attention


@rubric.reference
def linear_attention(q, k, v):
    return q @ (k.T @ v) / (q @ k.sum(dim=0))[:, None]


@rubric.reference
def causal_linear_attention(q, k, v):
    weights = (q @ k.T).tril()
    return weights @ v / weights.sum(dim=1, keepdim=True)


@rubric.mistake("linear_attention", "The division is missing: each row of weights must sum to 1.")
def not_normalised(q, k, v):
    return q @ (k.T @ v)


@rubric.mistake(
    "linear_attention", "You take a softmax. There is none here: the weights are the products themselves, normalised."
)
def with_a_softmax(q, k, v):
    return (q @ k.T).softmax(dim=1) @ v


@rubric.mistake("linear_attention", "You divide by the number of keys. Divide by the sum of the query's own weights.")
def divided_by_the_length(q, k, v):
    return q @ (k.T @ v) / len(k)


@rubric.mistake(
    "linear_attention", "You normalise over the queries: each column of weights sums to 1. Each row should."
)
def normalised_over_queries(q, k, v):
    weights = q @ k.T
    return weights / weights.sum(dim=0) @ v


@rubric.mistake("causal_linear_attention", "Your queries see later keys: query i may use keys 0 to i only.")
def sees_the_future(q, k, v):
    return linear_attention(q, k, v)


@rubric.mistake("causal_linear_attention", "A query sees its own key too: 0 to i, with i.")
def without_itself(q, k, v):
    weights = (q @ k.T).tril(-1)
    return weights @ v / weights.sum(dim=1, keepdim=True).clamp(min=1e-9)


@rubric.mistake(
    "causal_linear_attention", "You leave later keys out of the sum but divide by the weights of all. Both stop at i."
)
def divided_by_all(q, k, v):
    return (q @ k.T).tril() @ v / (q @ k.sum(dim=0))[:, None]


def positive(rng, *shape):
    return draw(rng, *shape).abs() + 0.1


@rubric.test("linear", points=1, visible=True, hint="kᵀ v first: (m, D). Then q times that, divided by q · (sum of k).")
def mixes_all_keys(submission, rng):
    q, k, v = positive(rng, 5, 3), positive(rng, 7, 3), draw(rng, 7, 4)
    assert_close(submission.linear_attention(q, k, v), linear_attention(q, k, v), what="the mixture")


@rubric.test("linear", points=1, visible=True, hint="A running sum of k vᵀ, and one of k, up to key i.")
def mixes_keys_so_far(submission, rng):
    q, k, v = positive(rng, 6, 3), positive(rng, 6, 3), draw(rng, 6, 4)
    assert_close(submission.causal_linear_attention(q, k, v), causal_linear_attention(q, k, v), what="the mixture")


@rubric.test("linear", points=1, visible=False, topic="gradients", hint="Other sizes, one key, and gradients.")
def linear_attention_passes_gradients(submission, rng):
    q, k, v, upstream = positive(rng, 4, 6), positive(rng, 4, 6), draw(rng, 4, 2), draw(rng, 4, 2)
    for name in ("linear_attention", "causal_linear_attention"):
        got = getattr(submission, name).gradients(q, k, v, upstream=upstream)
        want = getattr(rubric.solution, name).gradients(q, k, v, upstream=upstream)
        assert_close(got, want, rtol=1e-3, atol=1e-5)
    q, k, v = positive(rng, 1, 2), positive(rng, 1, 2), draw(rng, 1, 3)
    assert_close(submission.causal_linear_attention(q, k, v), v, what="one token")


# 2. Random features


@rubric.reference
def positive_features(x, w):
    return (x @ w.T - x.square().sum(dim=1, keepdim=True) / 2).exp() / len(w) ** 0.5


@rubric.reference
def performer(q, k, v, w):
    root = q.shape[1] ** 0.25
    return linear_attention(positive_features(q / root, w), positive_features(k / root, w), v)


@rubric.mistake("positive_features", "The square is missing: exp(w · x − |x|² / 2).")
def no_square(x, w):
    return (x @ w.T).exp() / len(w) ** 0.5


@rubric.mistake("positive_features", "Half of |x|², not all of it.")
def whole_square(x, w):
    return (x @ w.T - x.square().sum(dim=1, keepdim=True)).exp() / len(w) ** 0.5


@rubric.mistake("positive_features", "You divide by m. Two features are multiplied, so each is divided by √m.")
def divided_by_m(x, w):
    return positive_features(x, w) / len(w) ** 0.5


@rubric.mistake("positive_features", "Divide by √m, or the products grow with the number of features.")
def not_divided(x, w):
    return positive_features(x, w) * len(w) ** 0.5


@rubric.mistake("performer", "Not scaled: attention has q · k / √D, so divide queries and keys by the fourth root.")
def unscaled(q, k, v, w):
    return linear_attention(positive_features(q, w), positive_features(k, w), v)


@rubric.mistake("performer", "You divide queries and keys by √D each, so the scores by D. Each by the fourth root.")
def scaled_twice(q, k, v, w):
    root = q.shape[1] ** 0.5
    return linear_attention(positive_features(q / root, w), positive_features(k / root, w), v)


@rubric.test("features", points=1, visible=True, hint="One number for each w: exp(w · x − |x|² / 2) / √m.")
def makes_features(submission, rng):
    x, w = draw(rng, 5, 3), draw(rng, 7, 3)
    assert_close(submission.positive_features(x, w), positive_features(x, w), what="the features")


@rubric.test(
    "features",
    points=1,
    visible=True,
    hint="Features of q / D^¼ and of k / D^¼, then linear attention.",
    needs=("linear_attention", "positive_features"),
)
def estimates_attention(submission, rng):
    q, k, v, w = draw(rng, 5, 3), draw(rng, 6, 3), draw(rng, 6, 4), draw(rng, 8, 3)
    assert_close(submission.performer(q, k, v, w), performer(q, k, v, w), what="the estimate")


@rubric.test(
    "features",
    points=1,
    visible=False,
    topic="many features",
    hint="With many features it must come near softmax attention.",
    needs=("linear_attention", "positive_features"),
)
def comes_near_softmax(submission, rng):
    q, k, v, w = 0.5 * draw(rng, 4, 2), 0.5 * draw(rng, 5, 2), draw(rng, 5, 3), draw(rng, 4000, 2)
    want = (q @ k.T / 2**0.5).softmax(dim=1) @ v
    assert_close(submission.performer(q, k, v, w), want, atol=0.1, rtol=0.1, what="softmax attention")


# 3. Low rank


@rubric.reference
def linformer(q, k, v, e, f):
    return (q @ (e.T @ k).T / q.shape[1] ** 0.5).softmax(dim=1) @ (f.T @ v)


@rubric.mistake("linformer", "E mixes the keys and F the values; yours are swapped.")
def swapped_mixtures(q, k, v, e, f):
    return linformer(q, k, v, f, e)


@rubric.mistake("linformer", "The scores are not divided by √D.")
def no_root(q, k, v, e, f):
    return linformer(q * q.shape[1] ** 0.5, k, v, e, f)


@rubric.mistake("linformer", "Your values are mixed by E too. They have a matrix of their own, F.")
def one_matrix(q, k, v, e, f):
    return linformer(q, k, v, e, e)


@rubric.test("low_rank", points=1, visible=True, hint="Eᵀ k are the keys and Fᵀ v the values; then attention as usual.")
def attends_to_mixtures(submission, rng):
    q, k, v, e, f = draw(rng, 6, 3), draw(rng, 6, 3), draw(rng, 6, 5), draw(rng, 6, 2), draw(rng, 6, 2)
    assert_close(submission.linformer(q, k, v, e, f), linformer(q, k, v, e, f), what="the mixture")


@rubric.test("low_rank", points=1, visible=False, topic="gradients", hint="E and F are learned.")
def mixtures_get_gradients(submission, rng):
    q, k, v, e, f = draw(rng, 5, 4), draw(rng, 5, 4), draw(rng, 5, 3), draw(rng, 5, 2), draw(rng, 5, 2)
    upstream = draw(rng, 5, 3)
    got = submission.linformer.gradients(q, k, v, e, f, upstream=upstream)
    want = rubric.solution.linformer.gradients(q, k, v, e, f, upstream=upstream)
    assert_close(got, want, rtol=1e-3, atol=1e-5)


# 4. Blocks


def blocks_mask(links, block, *, window=1, ends=True, columns=True):
    count = len(links)
    apart = (torch.arange(count)[:, None] - torch.arange(count)).abs()
    seen = apart <= window
    for row, others in enumerate(links):
        for other in others:
            seen[row, other] = True
    if ends:
        seen[0] = seen[-1] = True
        if columns:
            seen[:, 0] = seen[:, -1] = True
    return seen.repeat_interleave(block, 0).repeat_interleave(block, 1)


@rubric.reference
def block_mask(links, block):
    return blocks_mask(links, block)


@rubric.mistake("block_mask", "The first and the last block see all and are seen by all. Yours are like the others.")
def no_ends(links, block):
    return blocks_mask(links, block, ends=False)


@rubric.mistake("block_mask", "The first and the last block see all, but not all see them: columns too, not rows only.")
def rows_only(links, block):
    return blocks_mask(links, block, columns=False)


@rubric.mistake("block_mask", "A block sees its two neighbours as well as itself.")
def no_window(links, block):
    return blocks_mask(links, block, window=0)


@rubric.mistake("block_mask", "Your random links go both ways. Block i sees its links; they need not see it.")
def both_ways(links, block):
    return blocks_mask(links, block) | blocks_mask(links, block).T


@rubric.mistake("block_mask", "Your random links are missing.")
def no_links(links, block):
    return blocks_mask([[] for _ in links], block)


@rubric.mistake("block_mask", "Your mask is upside down: True means *may* attend.")
def upside_down(links, block):
    return ~block_mask(links, block)


@rubric.test("blocks", points=2, visible=True, hint="A small table of blocks first; then repeat rows and columns.")
def draws_the_mask(submission, rng):
    links = [[], [4], [5], [0], [1], [3], []]
    assert_close(submission.block_mask(links, 2), block_mask(links, 2), what="the mask")


@rubric.test("blocks", points=1, visible=False, topic="other sizes", hint="Blocks of one token, and no links at all.")
def draws_other_masks(submission, rng):
    for links, block in (
        ([[], [5], [4], [6], [], [1], [2], []], 3),
        ([[] for _ in range(5)], 1),
        ([[2, 4], [3, 5], [0, 5], [1], [], [2]], 2),
    ):
        assert_close(submission.block_mask(links, block), block_mask(links, block), what="the mask")


# 5. Hashing


@rubric.reference
def lsh_buckets(x, rotation):
    turned = x @ rotation
    return torch.cat((turned, -turned), dim=1).argmax(dim=1)


@rubric.reference
def chunk_mask(buckets, chunk):
    return mask_of(buckets.argsort(stable=True), chunk)


def mask_of(order, chunk, *, back=1, wrap=True):
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order)) // chunk
    step = number[:, None] - number
    step = step % (len(order) // chunk) if wrap else step
    return (step >= 0) & (step <= back)


@rubric.mistake("lsh_buckets", "The negated half is missing: a direction and its opposite are two buckets.")
def half_the_buckets(x, rotation):
    return (x @ rotation).argmax(dim=1)


@rubric.mistake("lsh_buckets", "You take the largest absolute value, so opposite vectors share a bucket.")
def absolute(x, rotation):
    return (x @ rotation).abs().argmax(dim=1)


@rubric.mistake(
    "lsh_buckets",
    "Each vector is in the bucket of its opposite. The position of the *largest* number counts, with x R first and "
    "−x R second.",
)
def negative_first(x, rotation):
    turned = x @ rotation
    return torch.cat((-turned, turned), dim=1).argmax(dim=1)


@rubric.mistake("chunk_mask", "Your chunks are cut from the sequence as it stands. Sort by bucket first.")
def unsorted(buckets, chunk):
    return mask_of(torch.arange(len(buckets)), chunk)


@rubric.mistake("chunk_mask", "A chunk sees the one before it in the order, too.")
def own_chunk_only(buckets, chunk):
    return mask_of(buckets.argsort(stable=True), chunk, back=0)


@rubric.mistake("chunk_mask", "The chunk before the first is the last.")
def nothing_before_the_first(buckets, chunk):
    return mask_of(buckets.argsort(stable=True), chunk, wrap=False)


@rubric.mistake("chunk_mask", "Your chunks see the chunk after them. It is the one before.")
def looks_ahead(buckets, chunk):
    return chunk_mask(buckets, chunk).T


@rubric.mistake("chunk_mask", "You compare buckets. Chunks are cut from the sorted order, wherever a bucket ends.")
def same_bucket(buckets, chunk):
    return buckets[:, None] == buckets


@rubric.test("hashing", points=1, visible=True, hint="Multiply, append the negative, take the argmax.")
def hashes(submission, rng):
    x, rotation = draw(rng, 9, 4), draw(rng, 4, 3)
    assert_close(submission.lsh_buckets(x, rotation), lsh_buckets(x, rotation), what="the buckets")


@rubric.test("hashing", points=2, visible=True, hint="Where does each token stand when sorted? Divide by the chunk.")
def sees_its_chunk_and_the_one_before(submission, rng):
    buckets = torch.tensor([2, 0, 1, 2, 0, 1, 3, 0, 2, 1, 1, 0])
    assert_close(submission.chunk_mask(buckets, 3), chunk_mask(buckets, 3), what="the mask")


@rubric.test("hashing", points=1, visible=False, topic="other sizes", hint="Equal buckets keep their order.")
def sees_other_chunks(submission, rng):
    for buckets, chunk in ((torch.tensor([1, 1, 0, 0, 1, 0, 3, 3]), 2), (torch.zeros(12, dtype=torch.long), 4)):
        assert_close(submission.chunk_mask(buckets, chunk), chunk_mask(buckets, chunk), what="the mask")
    x, rotation = draw(rng, 30, 5), draw(rng, 5, 8)
    assert_close(submission.lsh_buckets(x, rotation), lsh_buckets(x, rotation), what="many buckets")
