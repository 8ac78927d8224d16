"""Exercise set 20, inside a model: what is asked, how it is tested, and the mistakes it can name."""

import math

import torch
import torch.nn.functional as F

from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("20_inside_a_model", title="Inside a model")
rubric.exercise("parts", title="RMS norm and SwiGLU", minutes=15, difficulty=1, defines=("rms_norm", "swiglu"))
rubric.exercise("groups", title="Grouped keys", minutes=20, difficulty=2, defines=("lend", "grouped_attention"))
rubric.exercise(
    "induction", title="The induction score", minutes=20, difficulty=2, defines=("previous_score", "induction_score")
)
rubric.exercise("lens", title="The logit lens", minutes=15, difficulty=2, defines=("logit_lens",))
rubric.exercise(
    "ablation", title="Switch a head off", minutes=20, difficulty=3, defines=("head_outputs", "without_head")
)


# 1. RMS norm and SwiGLU


@rubric.reference
def rms_norm(x, gain, eps=1e-5):
    return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * gain


@rubric.reference
def swiglu(x, gate, widen, narrow):
    return (F.silu(x @ gate) * (x @ widen)) @ narrow


@rubric.mistake("rms_norm", "You subtract the mean, as a layer norm does. An RMS norm leaves it where it is.")
def subtracts_the_mean(x, gain, eps=1e-5):
    return rms_norm(x - x.mean(dim=-1, keepdim=True), gain, eps)


@rubric.mistake("rms_norm", "You divide by the mean square; take its root first.")
def no_root(x, gain, eps=1e-5):
    return x / (x.pow(2).mean(dim=-1, keepdim=True) + eps) * gain


@rubric.mistake("rms_norm", "You divide by the vector's length: the root of the *sum* of squares, not of the mean.")
def by_length(x, gain, eps=1e-5):
    return x / torch.sqrt(x.pow(2).sum(dim=-1, keepdim=True) + eps) * gain


@rubric.mistake("rms_norm", "Is your eps outside the square root? It is added to the mean square, under the root.")
def eps_outside(x, gain, eps=1e-5):
    return x / (x.pow(2).mean(dim=-1, keepdim=True).sqrt() + eps) * gain


@rubric.mistake(
    "rms_norm",
    "Your numbers are those without an eps. The eps that is given is added to the mean square, under the root.",
)
def no_eps(x, gain, eps=1e-5):
    return x / x.pow(2).mean(dim=-1, keepdim=True).sqrt() * gain


@rubric.mistake(
    "rms_norm", "You take one mean square of all tokens together. Each token has its own: the last axis only."
)
def over_everything(x, gain, eps=1e-5):
    return x / torch.sqrt(x.pow(2).mean() + eps) * gain


@rubric.mistake("rms_norm", "The gain is missing: each feature is multiplied by its own learned number at the end.")
def no_gain(x, gain, eps=1e-5):
    return rms_norm(x, torch.ones_like(gain), eps)


@rubric.mistake("swiglu", "The SiLU is on the wrong half: it goes through `gate`, and `widen` stays linear.")
def wrong_half(x, gate, widen, narrow):
    return swiglu(x, widen, gate, narrow)


@rubric.mistake("swiglu", "You gate by a sigmoid, which is the older GLU. SiLU is z times its sigmoid.")
def by_sigmoid(x, gate, widen, narrow):
    return ((x @ gate).sigmoid() * (x @ widen)) @ narrow


@rubric.mistake("swiglu", "You add the two halves. They are multiplied, feature by feature.")
def added(x, gate, widen, narrow):
    return (F.silu(x @ gate) + x @ widen) @ narrow


@rubric.mistake("swiglu", "You apply SiLU to the product. Only the gate passes through it, before the product.")
def silu_last(x, gate, widen, narrow):
    return F.silu((x @ gate) * (x @ widen)) @ narrow


def tokens_of(rng, *shape):
    return draw(rng, *shape) + 0.5  # a mean that is not zero


@rubric.test("parts", points=1, visible=True, hint="Square, mean over the last axis, add eps, root, divide, gain.")
def norm_divides_by_the_root_mean_square(submission, rng):
    x, gain = tokens_of(rng, 2, 3, 5), draw(rng, 5)
    assert_close(submission.rms_norm(x, gain), rms_norm(x, gain), what="the normalised tokens")
    assert_close(submission.rms_norm(x, gain, 0.5), rms_norm(x, gain, 0.5), what="the normalised tokens with eps=0.5")
    x = 0.003 * x  # so small that the eps of the signature shows
    assert_close(submission.rms_norm(x, gain), rms_norm(x, gain), what="small tokens, normalised")


@rubric.test("parts", points=1, visible=True, hint="SiLU of one product, times the other product, times `narrow`.")
def swiglu_gates(submission, rng):
    x, gate, widen, narrow = draw(rng, 3, 4, 5), draw(rng, 5, 7), draw(rng, 5, 7), draw(rng, 7, 5)
    assert_close(submission.swiglu(x, gate, widen, narrow), swiglu(x, gate, widen, narrow), what="the output")


@rubric.test("parts", points=1, visible=False, topic="other shapes", hint="One token alone, or a token of zeros.")
def parts_of_one_token(submission, rng):
    x, gain = tokens_of(rng, 6), draw(rng, 6)
    assert_close(submission.rms_norm(x, gain, 0.1), rms_norm(x, gain, 0.1), what="one normalised token")
    assert_close(submission.rms_norm(torch.zeros(2, 6), gain), torch.zeros(2, 6), what="normalised zeros")
    gate, widen, narrow = draw(rng, 6, 3), draw(rng, 6, 3), draw(rng, 3, 6)
    assert_close(submission.swiglu(x, gate, widen, narrow), swiglu(x, gate, widen, narrow), what="the output")


# 2. Grouped keys


@rubric.reference
def lend(kept, num_heads):
    return kept.repeat_interleave(num_heads // kept.shape[1], dim=1)


@rubric.reference
def grouped_attention(query, key, value):
    key, value = lend(key, query.shape[1]), lend(value, query.shape[1])
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(dim=-1) @ value


@rubric.mistake(
    "lend",
    "Your copies go round: 0, 1, 0, 1. Neighbouring query heads share a head, so the order is 0, 0, 1, 1: "
    "repeat_interleave, not repeat.",
)
def goes_round(kept, num_heads):
    return kept.repeat(1, num_heads // kept.shape[1], 1, 1)


@rubric.mistake("lend", "You repeat each head num_heads times. Each is lent to a group of num_heads / Hkv.")
def too_often(kept, num_heads):
    return kept.repeat_interleave(num_heads, dim=1)


@rubric.mistake("lend", "All query heads get the first head of keys. There are several: one for each group.")
def only_the_first(kept, num_heads):
    return kept[:, :1].expand(-1, num_heads, -1, -1)


@rubric.mistake("grouped_attention", "A token sees later ones: mask the scores above the diagonal before the softmax.")
def sees_the_future(query, key, value):
    key, value = lend(key, query.shape[1]), lend(value, query.shape[1])
    return (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).softmax(dim=-1) @ value


@rubric.mistake("grouped_attention", "The scores are not divided by the square root of the head's width.")
def unscaled(query, key, value):
    return grouped_attention(query * math.sqrt(query.shape[-1]), key, value)


@rubric.mistake("grouped_attention", "You average the keys. Keys decide the weights; what is averaged are the values.")
def averages_keys(query, key, value):
    return grouped_attention(query, key, key)


@rubric.test("groups", points=1, visible=True, hint="Head 0 of the keys serves the first group, head 1 the next.")
def heads_are_lent_in_order(submission, rng):
    kept = draw(rng, 3, 2, 5, 4)
    assert_close(submission.lend(kept, 6), lend(kept, 6), what="the lent heads")


@rubric.test("groups", points=2, visible=True, needs=("lend",), hint="Lend keys and values, then causal attention.")
def grouped_attention_is_causal(submission, rng):
    query, key, value = draw(rng, 2, 6, 5, 4), draw(rng, 2, 3, 5, 4), draw(rng, 2, 3, 5, 4)
    got = submission.grouped_attention(query, key, value)
    assert_close(got, grouped_attention(query, key, value), what="the attended values")


@rubric.test(
    "groups",
    points=1,
    visible=False,
    topic="one or all",
    needs=("lend",),
    hint="One head of keys; as many as of queries.",
)
def extremes_of_grouping(submission, rng):
    for heads in (1, 4):
        query, key, value = draw(rng, 2, 4, 3, 6), draw(rng, 2, heads, 3, 6), draw(rng, 2, heads, 3, 6)
        got = submission.grouped_attention(query, key, value)
        assert_close(got, grouped_attention(query, key, value), what=f"attention with keys of {heads} of 4 heads")


# 3. The induction score


@rubric.reference
def previous_score(weights):
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1)


@rubric.reference
def induction_score(weights):
    period = weights.shape[-1] // 2
    return weights.diagonal(offset=1 - period, dim1=-2, dim2=-1)[..., 1:].mean(dim=-1)


@rubric.mistake("previous_score", "That is how much a token attends to itself: go one below the diagonal.")
def itself(weights):
    return weights.diagonal(dim1=-2, dim2=-1).mean(dim=-1)


@rubric.mistake(
    "previous_score", "You read above the diagonal, where a causal head has zeros. Rows ask, columns answer."
)
def above(weights):
    return weights.diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=-1)


@rubric.mistake(
    "previous_score",
    "You divide by all tokens. The first has no predecessor: there are T - 1 numbers to average.",
)
def divided_by_all(weights):
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).sum(dim=-1) / weights.shape[-1]


@rubric.mistake(
    "induction_score",
    "You look at the same token in the first copy. An induction head looks at the token *after* it, which is "
    "what comes next.",
)
def same_token(weights):
    return weights.diagonal(offset=-(weights.shape[-1] // 2), dim1=-2, dim2=-1).mean(dim=-1)


@rubric.mistake("induction_score", "You look one too far back: it is the token after the earlier copy, not before it.")
def token_before(weights):
    return weights.diagonal(offset=-(weights.shape[-1] // 2) - 1, dim1=-2, dim2=-1).mean(dim=-1)


@rubric.mistake(
    "induction_score",
    "You also count the last token of the first copy, whose block has not begun to repeat: start at the second copy.",
)
def counts_the_first_copy(weights):
    period = weights.shape[-1] // 2
    return weights.diagonal(offset=1 - period, dim1=-2, dim2=-1).mean(dim=-1)


@rubric.mistake("induction_score", "One number for each head: average over tokens, not over heads.")
def over_heads_too(weights):
    return induction_score(weights).mean()


def attention_of(rng, *shape):
    scores = 2 * draw(rng, *shape)
    later = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(dim=-1)


@rubric.test("induction", points=1, visible=True, hint="The mean of the diagonal one below the main one.")
def previous_token_heads_are_found(submission, rng):
    weights = attention_of(rng, 3, 8, 8)
    assert_close(submission.previous_score(weights), previous_score(weights), what="the scores of the heads")


@rubric.test("induction", points=2, visible=True, hint="From token i of the second copy to token i - n + 1.")
def induction_heads_are_found(submission, rng):
    weights = attention_of(rng, 3, 10, 10)
    assert_close(submission.induction_score(weights), induction_score(weights), what="the scores of the heads")


@rubric.test("induction", points=1, visible=False, topic="many layers", hint="(L, H, T, T) gives (L, H).")
def scores_of_every_layer(submission, rng):
    weights = attention_of(rng, 4, 3, 14, 14)
    assert_close(submission.induction_score(weights), induction_score(weights), what="the scores of all layers")
    assert_close(submission.previous_score(weights), previous_score(weights), what="the scores of all layers")


# 4. The logit lens


@rubric.reference
def logit_lens(states, gain, embedding, eps=1e-5):
    return (rms_norm(states, gain, eps) @ embedding.T).softmax(dim=-1)


@rubric.mistake("logit_lens", "The final norm is missing. The head was trained on normalised states: apply it first.")
def no_norm(states, gain, embedding, eps=1e-5):
    return (states @ embedding.T).softmax(dim=-1)


@rubric.mistake("logit_lens", "Those are logits. Take the softmax over the vocabulary.")
def only_logits(states, gain, embedding, eps=1e-5):
    return rms_norm(states, gain, eps) @ embedding.T


@rubric.mistake("logit_lens", "Your softmax runs over the tokens of the text, not over the vocabulary, the last axis.")
def over_positions(states, gain, embedding, eps=1e-5):
    return (rms_norm(states, gain, eps) @ embedding.T).softmax(dim=-2)


@rubric.mistake("logit_lens", "You leave the gain out of the final norm; the model has learned it with the rest.")
def gainless(states, gain, embedding, eps=1e-5):
    return logit_lens(states, torch.ones_like(gain), embedding, eps)


@rubric.mistake("logit_lens", "You subtract the mean: the final norm of this model is an RMS norm.")
def layer_normed(states, gain, embedding, eps=1e-5):
    return logit_lens(states - states.mean(dim=-1, keepdim=True), gain, embedding, eps)


@rubric.test(
    "lens",
    points=2,
    visible=True,
    needs=("rms_norm",),
    hint="Final norm, then the embedding as a head, then a softmax.",
)
def lens_reads_every_layer(submission, rng):
    states, gain, embedding = tokens_of(rng, 4, 3, 6), draw(rng, 6) + 1, draw(rng, 9, 6)
    got = submission.logit_lens(states, gain, embedding)
    assert_close(got, logit_lens(states, gain, embedding), what="the probabilities")


@rubric.test(
    "lens",
    points=1,
    visible=False,
    topic="batches, small states",
    needs=("rms_norm",),
    hint="Any axes may come before the width. Small states show the eps.",
)
def lens_reads_batches(submission, rng):
    states, gain, embedding = tokens_of(rng, 3, 2, 4, 5), draw(rng, 5) + 1, draw(rng, 7, 5)
    got = submission.logit_lens(states, gain, embedding, 0.2)
    assert_close(got, logit_lens(states, gain, embedding, 0.2), what="the probabilities with eps=0.2")
    states = 0.003 * states
    got = submission.logit_lens(states, gain, embedding)
    assert_close(got, logit_lens(states, gain, embedding), what="the probabilities from small states")


# 5. Switch a head off


@rubric.reference
def head_outputs(mixed, output):
    matrices = output.unflatten(0, (mixed.shape[1], -1))
    return torch.einsum("bhtd,hdm->bhtm", mixed, matrices)


@rubric.reference
def without_head(mixed, output, head):
    parts = head_outputs(mixed, output)
    return parts.sum(dim=1) - parts[:, head]


@rubric.mistake("head_outputs", "Every head goes through the first rows of W^O. Head h has rows h·Dh to (h + 1)·Dh.")
def first_rows(mixed, output):
    return mixed @ output[: mixed.shape[-1]]


@rubric.mistake(
    "head_outputs", "You cut W^O by columns. The heads lie side by side in its *rows*; its columns are the stream."
)
def by_columns(mixed, output):
    matrices = output.T.unflatten(0, (mixed.shape[1], -1))
    return torch.einsum("bhtd,hdm->bhtm", mixed, matrices)


@rubric.mistake("without_head", "That is the head's own part. Take it away from the sum of all of them.")
def only_the_head(mixed, output, head):
    return head_outputs(mixed, output)[:, head]


@rubric.mistake("without_head", "Nothing was switched off: this is the sum over all heads.")
def all_heads(mixed, output, head):
    return head_outputs(mixed, output).sum(dim=1)


@rubric.mistake("without_head", "You average what is left. The heads' parts are added, also when one is missing.")
def averaged(mixed, output, head):
    return without_head(mixed, output, head) / (mixed.shape[1] - 1)


@rubric.test("ablation", points=2, visible=True, hint="Cut W^O into one matrix a head, by rows.")
def parts_of_the_heads(submission, rng):
    mixed, output = draw(rng, 2, 3, 4, 3), draw(rng, 9, 9)
    assert_close(submission.head_outputs(mixed, output), head_outputs(mixed, output), what="the heads' parts")


@rubric.test("ablation", points=1, visible=True, needs=("head_outputs",), hint="The sum of all parts but one.")
def one_head_is_off(submission, rng):
    mixed, output = draw(rng, 2, 3, 4, 3), draw(rng, 9, 9)
    for head in (0, 2):
        got = submission.without_head(mixed, output, head)
        assert_close(got, without_head(mixed, output, head), what=f"the output without head {head}")


@rubric.test(
    "ablation",
    points=1,
    visible=False,
    topic="other widths",
    needs=("head_outputs",),
    hint="The stream may have another width.",
)
def heads_and_stream_of_other_widths(submission, rng):
    mixed, output = draw(rng, 3, 4, 2, 5), draw(rng, 20, 7)
    assert_close(submission.without_head(mixed, output, 1), without_head(mixed, output, 1), what="the output")
