"""Exercise set 06, attention pooling: what is asked, how it is tested, and the mistakes it can name."""

import torch

from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("06_attention_pooling", title="Attention pooling and attention between texts")
rubric.exercise(
    "pooling", title="A learned query pools a sentence", minutes=10, difficulty=2, defines=("attention_pool",)
)
rubric.exercise(
    "documents",
    title="Documents in one tensor",
    minutes=15,
    difficulty=2,
    defines=("pad_documents", "document_masks"),
)
rubric.exercise(
    "alignment", title="Two sentences, softly aligned", minutes=20, difficulty=3, defines=("soft_align", "enhance")
)
rubric.exercise(
    "spans", title="Where the answer begins and ends", minutes=20, difficulty=3, defines=("span_loss", "best_span")
)


def masked_softmax(scores, mask):
    """Over the last axis, where the mask allows; zeros where it allows nothing."""
    top = scores.masked_fill(~mask, -1e30).amax(-1, keepdim=True)
    raised = torch.where(mask, scores - top, torch.zeros_like(scores)).exp() * mask
    return raised / raised.sum(-1, keepdim=True).clamp_min(1e-30)


# 1. Pooling


def keys_of(states, W, b):
    return torch.tanh(states @ W + b)


@rubric.reference
def attention_pool(states, mask, W, b, u):
    weights = masked_softmax(keys_of(states, W, b) @ u, mask)
    return (weights.unsqueeze(1) @ states).squeeze(1), weights


def pooled(states, weights):
    return (weights.unsqueeze(1) @ states).squeeze(1), weights


@rubric.mistake(
    "attention_pool", "The padding gets weight: fill the scores of False positions with −∞ before the softmax."
)
def pools_padding(states, mask, W, b, u):
    return pooled(states, (keys_of(states, W, b) @ u).softmax(-1))


@rubric.mistake(
    "attention_pool",
    "You mask after the softmax, so the weights no longer sum to 1. Mask the scores, then take the softmax.",
)
def masks_the_weights(states, mask, W, b, u):
    return pooled(states, (keys_of(states, W, b) @ u).softmax(-1) * mask)


@rubric.mistake("attention_pool", "Without the tanh, W and u are one vector: h W u. The tanh stands between them.")
def without_tanh(states, mask, W, b, u):
    return pooled(states, masked_softmax((states @ W + b) @ u, mask))


@rubric.mistake("attention_pool", "b is missing: the key is tanh(h W + b).")
def without_bias(states, mask, W, b, u):
    return pooled(states, masked_softmax(torch.tanh(states @ W) @ u, mask))


@rubric.mistake(
    "attention_pool", "You average the keys h̄. They only decide the weights: the average is over the states h."
)
def averages_the_keys(states, mask, W, b, u):
    weights = masked_softmax(keys_of(states, W, b) @ u, mask)
    return pooled(keys_of(states, W, b), weights)


@rubric.mistake("attention_pool", "That is a sum, not an average: a softmax makes the weights of a sentence sum to 1.")
def sums_the_scores(states, mask, W, b, u):
    return pooled(states, (keys_of(states, W, b) @ u) * mask)


@rubric.mistake("attention_pool", "Right numbers, wrong order: return the pooled vector first, then the weights.")
def swapped_pair(states, mask, W, b, u):
    return attention_pool(states, mask, W, b, u)[::-1]


def sentences(rng, batch=3, length=5, width=4, hidden=4):
    inputs = draw(rng, batch, length, width), draw(rng, width, hidden), draw(rng, hidden), 2 * draw(rng, hidden)
    lengths = torch.tensor([length - 2, length, 1, 2])[:batch]
    return inputs[0], torch.arange(length) < lengths[:, None], *inputs[1:]


@rubric.test("pooling", points=2, visible=True, hint="Scores, mask, softmax, average: one line each.")
def pools_by_the_formula(submission, rng):
    given = sentences(rng)
    assert_close(submission.attention_pool(*given), attention_pool(*given), what=("the vector", "the weights"))


@rubric.test(
    "pooling",
    points=1,
    visible=False,
    topic="other widths, large scores",
    hint="W need not be square, and scores may be large.",
)
def pools_with_other_widths(submission, rng):
    states, mask, W, b, u = sentences(rng, batch=4, length=6, width=3, hidden=7)
    given = (states, mask, W, b, 60 * u)
    assert_close(submission.attention_pool(*given), attention_pool(*given), what=("the vector", "the weights"))


@rubric.test(
    "pooling",
    points=1,
    visible=False,
    topic="a sentence without words",
    hint="A row of the mask that is all False: softmax of nothing is NaN. Give zeros.",
)
def pools_nothing_to_zeros(submission, rng):
    states, mask, *rest = sentences(rng)
    mask = mask & torch.tensor([[True], [False], [True]])
    assert_close(submission.attention_pool(states, mask, *rest), attention_pool(states, mask, *rest))


# 2. Documents


@rubric.reference
def pad_documents(documents, pad_id):
    count = max(len(document) for document in documents)
    width = max(len(sentence) for document in documents for sentence in document)
    ids = torch.full((len(documents), count, width), pad_id)
    lengths = torch.zeros(len(documents), count, dtype=torch.long)
    for i, document in enumerate(documents):
        for j, sentence in enumerate(document):
            ids[i, j, : len(sentence)] = torch.tensor(sentence)
            lengths[i, j] = len(sentence)
    return ids, lengths


@rubric.reference
def document_masks(lengths, max_words):
    return torch.arange(max_words) < lengths[..., None], lengths > 0


@rubric.mistake("pad_documents", "The free places must hold pad_id, not 0.")
def pads_with_zero(documents, pad_id):
    return pad_documents(documents, 0)


@rubric.mistake("pad_documents", "A sentence that is only padding has length 0, not the length of the row.")
def lengths_of_rows(documents, pad_id):
    ids, lengths = pad_documents(documents, pad_id)
    return ids, lengths.masked_fill(lengths == 0, ids.shape[2])


@rubric.mistake("pad_documents", "You pad on the left. Words come first, padding after them.")
def pads_on_the_left(documents, pad_id):
    ids, lengths = pad_documents(documents, pad_id)
    for i, row in enumerate(lengths.tolist()):
        for j, length in enumerate(row):
            ids[i, j] = ids[i, j].roll(-length)
    return ids, lengths


@rubric.mistake(
    "pad_documents", "You cut long sentences. The tensor is as wide as the longest of all, wherever it stands."
)
def as_wide_as_first_sentences(documents, pad_id):
    width = max(len(document[0]) for document in documents)
    return pad_documents([[sentence[:width] for sentence in document] for document in documents], pad_id)


@rubric.mistake("document_masks", "Off by one: word t is real when t < length, for t counted from 0.")
def one_word_too_many(lengths, max_words):
    return torch.arange(max_words) <= lengths[..., None], lengths > 0


@rubric.mistake("document_masks", "Your masks are upside down: True means real.")
def upside_down(lengths, max_words):
    words, real = document_masks(lengths, max_words)
    return ~words, ~real


@rubric.mistake("document_masks", "Padding sentences count as real in your second mask: their length is 0.")
def every_sentence_is_real(lengths, max_words):
    return document_masks(lengths, max_words)[0], torch.ones_like(lengths, dtype=torch.bool)


def some_documents(rng, count=3):
    sizes = torch.randint(1, 5, (count, 4), generator=rng).tolist()
    documents = [
        [torch.randint(1, 30, (words,), generator=rng).tolist() for words in row[: 2 + i % 3]]
        for i, row in enumerate(sizes)
    ]
    documents[-1][1] = [7, 8, 9, 10, 11]  # the longest is not the first
    return documents


@rubric.test("documents", points=2, visible=True, hint="Three axes: document, sentence, word.")
def pads_documents(submission, rng):
    documents = some_documents(rng)
    assert_close(submission.pad_documents(documents, 31), pad_documents(documents, 31), what=("the ids", "the lengths"))


@rubric.test("documents", points=1, visible=True, hint="One mask for words (B, S, T), one for sentences (B, S).")
def masks_words_and_sentences(submission, rng):
    lengths = torch.tensor([[3, 1, 0], [2, 4, 3], [1, 0, 0]])[torch.randperm(3, generator=rng)]
    got = submission.document_masks(lengths, 4)
    assert_close(got, document_masks(lengths, 4), what=("the mask of words", "the mask of sentences"))


@rubric.test(
    "documents",
    points=1,
    visible=False,
    topic="one document, spare width",
    hint="max_words may be more than the longest sentence, and a batch may have one document.",
)
def takes_other_sizes(submission, rng):
    documents = some_documents(rng, count=1)
    assert_close(submission.pad_documents(documents, 2), pad_documents(documents, 2))
    lengths = torch.randint(0, 5, (2, 5), generator=rng)
    assert_close(submission.document_masks(lengths, 7), document_masks(lengths, 7))


# 3. Alignment


@rubric.reference
def soft_align(a, b, a_mask, b_mask):
    scores = a @ b.mT
    return masked_softmax(scores, b_mask.unsqueeze(1)) @ b, masked_softmax(scores.mT, a_mask.unsqueeze(1)) @ a


@rubric.reference
def enhance(own, found):
    return torch.cat([own, found, own - found, own * found], dim=-1)


@rubric.mistake(
    "soft_align",
    "You transpose the weights. Each direction needs its own softmax: over j for words of a, over i for words of b.",
)
def transposes_the_weights(a, b, a_mask, b_mask):
    weights = masked_softmax(a @ b.mT, b_mask.unsqueeze(1))
    return weights @ b, weights.mT @ a


@rubric.mistake("soft_align", "Padding is looked at: mask the words of the text that is read, in both directions.")
def aligns_with_padding(a, b, a_mask, b_mask):
    return (a @ b.mT).softmax(-1) @ b, (b @ a.mT).softmax(-1) @ a


@rubric.mistake("soft_align", "The scores of ESIM are plain dot products: nothing is divided by √d.")
def scaled(a, b, a_mask, b_mask):
    scores = a @ b.mT / a.shape[-1] ** 0.5
    return masked_softmax(scores, b_mask.unsqueeze(1)) @ b, masked_softmax(scores.mT, a_mask.unsqueeze(1)) @ a


@rubric.mistake("soft_align", "The two results are swapped: first what a's words find in b, then what b's find in a.")
def swapped_sides(a, b, a_mask, b_mask):
    return soft_align(a, b, a_mask, b_mask)[::-1]


@rubric.mistake("enhance", "The sign is turned round: the difference is own − found.")
def found_minus_own(own, found):
    return torch.cat([own, found, found - own, own * found], dim=-1)


@rubric.mistake("enhance", "ESIM takes the difference with its sign; |u − v| is for two sentence vectors.")
def without_sign(own, found):
    return torch.cat([own, found, (own - found).abs(), own * found], dim=-1)


@rubric.mistake("enhance", "Put the four parts side by side along the features, the last axis.")
def along_the_words(own, found):
    return torch.cat([own, found, own - found, own * found], dim=-2)


def two_texts(rng, scale=1.0):
    a, b = scale * draw(rng, 3, 4, 5), scale * draw(rng, 3, 6, 5)
    a_mask = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]
    b_mask = torch.arange(6) < torch.tensor([3, 6, 5])[:, None]
    return a, b, a_mask, b_mask


@rubric.test("alignment", points=2, visible=True, hint="One matrix of scores, two softmaxes.")
def aligns_both_ways(submission, rng):
    given = two_texts(rng)
    got = submission.soft_align(*given)
    assert_close(got, soft_align(*given), what=("what a finds in b", "what b finds in a"))


@rubric.test("alignment", points=1, visible=True, hint="own, found, own − found, own ∗ found: in this order.")
def enhances(submission, rng):
    own, found = draw(rng, 2, 3, 4), draw(rng, 2, 3, 4)
    assert_close(submission.enhance(own, found), enhance(own, found), what="the comparison")


@rubric.test(
    "alignment",
    points=2,
    visible=False,
    topic="large scores, gradients",
    hint="Large scores of either sign must not give NaN, in the gradients either.",
)
def aligns_large_scores_with_gradients(submission, rng):
    given = two_texts(rng, scale=8.0)
    upstream = (draw(rng, 3, 4, 5), draw(rng, 3, 6, 5))
    got = submission.soft_align.gradients(*given, upstream=upstream)
    assert_close(got, rubric.solution.soft_align.gradients(*given, upstream=upstream), rtol=1e-3, atol=1e-4)


# 4. Spans


def log_probabilities(scores, mask):
    return scores.masked_fill(~mask, -1e30).log_softmax(-1)


def chosen(scores, places):
    return scores.gather(1, places[:, None]).squeeze(1)


@rubric.reference
def span_loss(start_scores, end_scores, mask, starts, ends):
    first = chosen(log_probabilities(start_scores, mask), starts)
    last = chosen(log_probabilities(end_scores, mask), ends)
    return -(first + last).mean()


@rubric.reference
def best_span(start_scores, end_scores, max_len):
    length = start_scores.shape[1]
    allowed = torch.ones(length, length, dtype=torch.bool).triu().tril(max_len - 1)
    sums = (start_scores[:, :, None] + end_scores[:, None, :]).masked_fill(~allowed, -torch.inf)
    best = sums.flatten(1).argmax(1)
    return torch.stack([best // length, best % length], dim=1)


@rubric.mistake("span_loss", "Padding takes part in the softmax. Fill its scores with −∞ first.")
def counts_padding(start_scores, end_scores, mask, starts, ends):
    return span_loss(start_scores, end_scores, torch.ones_like(mask), starts, ends)


@rubric.mistake("span_loss", "Only the start is scored: add −log p of the end.")
def only_starts(start_scores, end_scores, mask, starts, ends):
    return -chosen(log_probabilities(start_scores, mask), starts).mean()


@rubric.mistake("span_loss", "The two terms are added, not averaged: your loss is half of what it should be.")
def half(start_scores, end_scores, mask, starts, ends):
    return span_loss(start_scores, end_scores, mask, starts, ends) / 2


@rubric.mistake("span_loss", "You add up the batch. Take the mean over its questions.")
def summed(start_scores, end_scores, mask, starts, ends):
    return span_loss(start_scores, end_scores, mask, starts, ends) * len(starts)


@rubric.mistake(
    "best_span", "You choose start and end each for itself, so an answer may end before it starts. Score pairs."
)
def each_for_itself(start_scores, end_scores, max_len):
    return torch.stack([start_scores.argmax(1), end_scores.argmax(1)], dim=1)


@rubric.mistake(
    "best_span",
    "You fix the best start and then look for an end. A worse start may have a far better end: score all pairs.",
)
def start_first(start_scores, end_scores, max_len):
    first = start_scores.argmax(1)
    places = torch.arange(start_scores.shape[1])
    allowed = (places >= first[:, None]) & (places < first[:, None] + max_len)
    return torch.stack([first, end_scores.masked_fill(~allowed, -torch.inf).argmax(1)], dim=1)


@rubric.mistake("best_span", "Off by one: a span from s to e has e − s + 1 words, and that is at most max_len.")
def one_word_longer(start_scores, end_scores, max_len):
    return best_span(start_scores, end_scores, max_len + 1)


@rubric.mistake("best_span", "max_len is not used: long spans win whenever their ends are good.")
def any_length(start_scores, end_scores, max_len):
    return best_span(start_scores, end_scores, start_scores.shape[1])


@rubric.test("spans", points=2, visible=True, hint="A masked log-softmax, the right entry of each row, and a mean.")
def scores_spans(submission, rng):
    start, end = 2 * draw(rng, 4, 6), 2 * draw(rng, 4, 6)
    mask = torch.arange(6) < torch.tensor([6, 3, 4, 5])[:, None]
    starts, ends = torch.tensor([2, 0, 1, 3]), torch.tensor([4, 2, 1, 4])
    given = start, end, mask, starts, ends
    assert_close(submission.span_loss.gradients(*given), rubric.solution.span_loss.gradients(*given), what="the loss")


@rubric.test("spans", points=2, visible=True, hint="All pairs s ≤ e < s + max_len: which sum is the largest?")
def finds_the_best_span(submission, rng):
    start, end = draw(rng, 12, 8), draw(rng, 12, 8)
    start[0, 6], end[0, 1] = 5.0, 5.0  # apart, the two point backwards
    start[1, 0], start[1, 3], end[1, 4] = 3.0, 2.8, 4.0  # the best start is too far from the best end
    start[2, 2], end[2, 5] = 6.0, 6.0  # one word too long
    start[3, 0], end[3, 7] = 6.0, 6.0  # much too long
    assert_close(submission.best_span(start, end, 3), best_span(start, end, 3), what="the spans")


@rubric.test(
    "spans",
    points=1,
    visible=False,
    topic="one word, whole passage",
    hint="Try max_len = 1, and one longer than the text.",
)
def finds_spans_of_any_length(submission, rng):
    start, end = draw(rng, 9, 5), draw(rng, 9, 5)
    for max_len in (1, 2, 11):
        assert_close(submission.best_span(start, end, max_len), best_span(start, end, max_len), what="the spans")
