"""Exercise set 05, attention in recurrent networks: what is asked, how it is tested, and the mistakes it can name."""

import math

import torch
from torch import nn

from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("05_attention_rnn", title="Attention in recurrent networks")
rubric.exercise("additive", title="The additive score", minutes=5, difficulty=1, defines=("additive_scores",))
rubric.exercise(
    "luong",
    title="Luong's three scores",
    minutes=10,
    difficulty=2,
    defines=("dot_scores", "general_scores", "concat_scores"),
)
rubric.exercise(
    "softmax", title="A softmax that knows about padding", minutes=15, difficulty=2, defines=("masked_softmax",)
)
rubric.exercise(
    "local", title="The local window", minutes=25, difficulty=3, defines=("local_m_weights", "local_p_weights")
)
rubric.exercise("decoder", title="A decoder that looks back", minutes=40, difficulty=4, defines=("AttentiveDecoder",))


# 1. The additive score


def added(query, keys, W, U):
    return (query @ W.T)[:, None] + keys @ U.T  # (B, Ts, A)


@rubric.reference
def additive_scores(query, keys, W, U, v):
    return added(query, keys, W, U).tanh() @ v


@rubric.mistake("additive_scores", "Without the tanh the sum is linear, and the query shifts every score alike.")
def without_tanh(query, keys, W, U, v):
    return added(query, keys, W, U) @ v


@rubric.mistake(
    "additive_scores",
    "You take tanh of each part on its own and add: then the query shifts every score alike. Add first, then tanh.",
)
def tanh_of_each(query, keys, W, U, v):
    return ((query @ W.T).tanh()[:, None] + (keys @ U.T).tanh()) @ v


@rubric.mistake("additive_scores", "The tanh belongs inside: v · tanh(…), not tanh(v · …). A score may exceed 1.")
def tanh_outside(query, keys, W, U, v):
    return (added(query, keys, W, U) @ v).tanh()


@rubric.mistake("additive_scores", "These are weights already. The softmax comes later; a score may be negative.")
def softmax_too_early(query, keys, W, U, v):
    return additive_scores(query, keys, W, U, v).softmax(-1)


@rubric.mistake("additive_scores", "The projections are multiplied. They are *added*, hence the name.")
def multiplied(query, keys, W, U, v):
    return ((query @ W.T)[:, None] * (keys @ U.T)).tanh() @ v


def additive_case(rng, batch=2, length=5):
    return draw(rng, batch, 3), draw(rng, batch, length, 4), draw(rng, 6, 3), draw(rng, 6, 4), draw(rng, 6)


@rubric.test("additive", points=1, visible=True, hint="v · tanh(W q + U k_j), one number for every source position j.")
def additive_scores_match_the_formula(submission, rng):
    case = additive_case(rng)
    assert_close(submission.additive_scores(*case), additive_scores(*case), what="the scores")


@rubric.test(
    "additive",
    points=1,
    visible=False,
    topic="gradients",
    hint="One sentence, one position, and gradients for all five.",
)
def additive_scores_have_their_gradients(submission, rng):
    for batch, length in ((1, 7), (3, 1)):
        case, upstream = additive_case(rng, batch, length), draw(rng, batch, length)
        got, want = (s.additive_scores.gradients(*case, upstream=upstream) for s in (submission, rubric.solution))
        assert_close(got, want, rtol=1e-3, atol=1e-4)


# 2. Luong's scores


@rubric.reference
def dot_scores(query, keys):
    return torch.einsum("bd,btd->bt", query, keys)


@rubric.reference
def general_scores(query, keys, W):
    return dot_scores(query, keys @ W.T)


@rubric.reference
def concat_scores(query, keys, W, v):
    return (beside(query, keys) @ W.T).tanh() @ v


def beside(query, keys):
    return torch.cat([query[:, None].expand(-1, keys.shape[1], -1), keys], dim=-1)  # (B, Ts, Dq + Dk)


@rubric.mistake("dot_scores", "Luong's dot is not divided by √d; that came two years later.")
def scaled_dot(query, keys):
    return dot_scores(query, keys) / math.sqrt(keys.shape[-1])


@rubric.mistake("dot_scores", "That is the cosine. A dot product keeps the lengths of both vectors.")
def cosine(query, keys):
    return torch.cosine_similarity(query[:, None], keys, dim=-1)


@rubric.mistake("dot_scores", "Row b of the query goes with row b of the keys only; you mix the sentences of a batch.")
def rolled_batch(query, keys):
    return dot_scores(query.roll(1, 0), keys)


@rubric.mistake(
    "general_scores", "W is on the wrong side: q · (W k), not (W q) · k. Unless W is symmetric they differ."
)
def general_turned(query, keys, W):
    return dot_scores(query, keys @ W)


@rubric.mistake("general_scores", "W is never used: this is the dot score.")
def general_is_dot(query, keys, W):
    return dot_scores(query, keys)


@rubric.mistake("general_scores", "Both sides are projected. In *general* only the key is: q · (W k).")
def general_twice(query, keys, W):
    return dot_scores(query @ W.T, keys @ W.T)


@rubric.mistake("concat_scores", "You put the key first. W was made for [q; k], the query on top.")
def key_first(query, keys, W, v):
    turned = torch.cat([keys, query[:, None].expand(-1, keys.shape[1], -1)], dim=-1)  # (B, Ts, Dk + Dq)
    return (turned @ W.T).tanh() @ v


@rubric.mistake("concat_scores", "There is a tanh between W and v; without it the query cannot matter after a softmax.")
def concat_linear(query, keys, W, v):
    return beside(query, keys) @ W.T @ v


@rubric.test("luong", points=1, visible=True, hint="q · k_j, batch row by batch row.")
def dot_scores_match(submission, rng):
    query, keys = draw(rng, 3, 4), draw(rng, 3, 5, 4)
    assert_close(submission.dot_scores(query, keys), dot_scores(query, keys), what="the dot scores")


@rubric.test("luong", points=1, visible=True, hint="q · (W k_j). W is not symmetric.")
def general_scores_match(submission, rng):
    query, keys, W = draw(rng, 3, 4), draw(rng, 3, 5, 4), draw(rng, 4, 4)
    assert_close(submission.general_scores(query, keys, W), general_scores(query, keys, W), what="the general scores")


@rubric.test("luong", points=1, visible=True, hint="v · tanh(W [q; k_j]): the query repeated beside every key.")
def concat_scores_match(submission, rng):
    query, keys, W, v = draw(rng, 3, 4), draw(rng, 3, 5, 4), draw(rng, 6, 8), draw(rng, 6)
    assert_close(submission.concat_scores(query, keys, W, v), concat_scores(query, keys, W, v), what="concat")


@rubric.test(
    "luong",
    points=1,
    visible=False,
    topic="gradients",
    hint="A general W need not be square, and all must have gradients.",
)
def luong_scores_have_their_gradients(submission, rng):
    query, keys, upstream = draw(rng, 2, 3), draw(rng, 2, 6, 5), draw(rng, 2, 6)
    cases = {"general_scores": (draw(rng, 3, 5),), "concat_scores": (draw(rng, 7, 8), draw(rng, 7))}
    for name, weights in cases.items():
        got, want = (
            getattr(s, name).gradients(query, keys, *weights, upstream=upstream) for s in (submission, rubric.solution)
        )
        assert_close(got, want, rtol=1e-3, atol=1e-4)


# 3. Masked softmax


def real(scores, lengths):
    return torch.arange(scores.shape[-1]) < lengths[:, None]  # (B, Ts)


@rubric.reference
def masked_softmax(scores, lengths):
    mask = real(scores, lengths)
    top = scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    raised = torch.where(mask, (scores - top).where(mask, 0.0).exp(), 0.0)
    return raised / raised.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


@rubric.mistake("masked_softmax", "The padding gets weight. Its scores must be −∞ before the softmax.")
def padding_has_weight(scores, lengths):
    return scores.softmax(-1)


@rubric.mistake(
    "masked_softmax",
    "A large score in the padding pushes the words down to 0. The padding must be out of the way before you look for "
    "the row's largest score.",
)
def largest_of_the_padding(scores, lengths):
    raised = (scores - scores.amax(-1, keepdim=True)).exp() * real(scores, lengths)
    return raised / raised.sum(-1, keepdim=True).clamp(min=1e-30)


@rubric.mistake(
    "masked_softmax", "You blank the padding after the softmax, so what is left no longer adds up to one. Mask first."
)
def masked_after(scores, lengths):
    return scores.softmax(-1) * real(scores, lengths)


@rubric.mistake("masked_softmax", "A score of 0, or near it, is not a weight of 0: exp(0) = 1. Put −∞ there.")
def zero_scores(scores, lengths):
    return (scores * real(scores, lengths)).softmax(-1)


@rubric.mistake("masked_softmax", "You keep one position too many: position lengths[b] is padding already.")
def one_too_many(scores, lengths):
    return masked_softmax(scores, (lengths + 1).clamp(max=scores.shape[-1]))


@rubric.mistake("masked_softmax", "Upside down: you keep the padding and mask the words.")
def keeps_the_padding(scores, lengths):
    return scores.masked_fill(real(scores, lengths), -1e9).softmax(-1)


@rubric.mistake("masked_softmax", "NaN: a source of length 0 leaves nothing to divide by. Its row is all zeros.")
def empty_is_nan(scores, lengths):
    return scores.masked_fill(~real(scores, lengths), -math.inf).softmax(-1)


@rubric.mistake(
    "masked_softmax", "A source of length 0 must get no weight at all; you spread one evenly over its padding."
)
def empty_is_even(scores, lengths):
    return scores.masked_fill(~real(scores, lengths), -1e9).softmax(-1)


@rubric.mistake("masked_softmax", "exp of a large score overflows. Subtract the row's largest score first.")
def overflows(scores, lengths):
    raised = scores.exp() * real(scores, lengths)
    return raised / raised.sum(-1, keepdim=True).clamp(min=1e-30)


@rubric.mistake("masked_softmax", "Your columns add up to one. Each *row* is a distribution over source positions.")
def over_the_batch(scores, lengths):
    return scores.masked_fill(~real(scores, lengths), -1e9).softmax(0)


@rubric.test("softmax", points=1, visible=True, hint="Weights of the words add up to one, those of the padding are 0.")
def padding_gets_no_weight(submission, rng):
    scores, lengths = 2 * draw(rng, 3, 6), torch.tensor([4, 6, 1])
    assert_close(submission.masked_softmax(scores, lengths), masked_softmax(scores, lengths), what="the weights")


@rubric.test("softmax", points=1, visible=True, hint="An empty source: a row of zeros, not NaN.")
def an_empty_source_gets_zeros(submission, rng):
    scores, lengths = draw(rng, 3, 5), torch.tensor([3, 0, 5])
    assert_close(submission.masked_softmax(scores, lengths), masked_softmax(scores, lengths), what="the weights")


@rubric.test("softmax", points=1, visible=True, hint="Scores of a few hundred must not overflow.")
def large_scores_do_not_overflow(submission, rng):
    scores, lengths = 300 * draw(rng, 4, 5), torch.tensor([2, 5, 4, 3])
    assert_close(submission.masked_softmax(scores, lengths), masked_softmax(scores, lengths), what="the weights")


@rubric.test(
    "softmax",
    points=1,
    visible=False,
    topic="gradients",
    hint="Gradients too must be free of NaN, and zero on the padding.",
)
def softmax_has_clean_gradients(submission, rng):
    scores, lengths, upstream = draw(rng, 3, 5), torch.tensor([2, 5, 1]), draw(rng, 3, 5)
    scores = torch.where(real(scores, lengths), scores, 300.0)
    got, want = (s.masked_softmax.gradients(scores, lengths, upstream=upstream) for s in (submission, rubric.solution))
    assert_close(got, want)


@rubric.test(
    "softmax", points=1, visible=False, topic="padding", hint="The padding may hold anything, also very large scores."
)
def padding_may_hold_anything(submission, rng):
    scores, lengths = draw(rng, 3, 6), torch.tensor([3, 0, 4])
    spoiled = torch.where(real(scores, lengths), scores, 500.0)
    assert_close(submission.masked_softmax(spoiled, lengths), masked_softmax(scores, lengths), what="the weights")


# 4. Local windows


def windowed(scores, centre, lengths, window):
    """Softmax over the real positions within `window` of the centre (B, 1)."""
    near = ((torch.arange(scores.shape[-1]) - centre).abs() <= window) & real(scores, lengths)
    return scores.masked_fill(~near, -1e9).softmax(-1) * near


def bell(scores, centre, window, power=2.0, spread=0.5):
    distance = (torch.arange(scores.shape[-1]) - centre).abs()  # (B, Ts)
    return torch.exp(-(distance**power) / (2 * (spread * window) ** 2))


def middle(scores, time, lengths):
    return (lengths - 1).clamp(max=time)[:, None]  # (B, 1)


@rubric.reference
def local_m_weights(scores, time, lengths, window):
    return windowed(scores, middle(scores, time, lengths), lengths, window)


@rubric.reference
def local_p_weights(scores, centre, lengths, window):
    return windowed(scores, centre[:, None], lengths, window) * bell(scores, centre[:, None], window)


@rubric.mistake("local_m_weights", "Both ends belong to the window: |j − p| ≤ window, 2 · window + 1 positions.")
def window_without_ends(scores, time, lengths, window):
    return windowed(scores, middle(scores, time, lengths), lengths, window - 0.5)


@rubric.mistake("local_m_weights", "Only the past: the window reaches `window` positions to *both* sides.")
def window_of_the_past(scores, time, lengths, window):
    turned = scores.masked_fill(torch.arange(scores.shape[-1]) > middle(scores, time, lengths), -1e9)
    return windowed(turned, middle(scores, time, lengths), lengths, window)


@rubric.mistake("local_m_weights", "The window covers padding: positions from lengths[b] on get no weight.")
def window_on_padding(scores, time, lengths, window):
    return windowed(scores, middle(scores, time, lengths), lengths.clamp(min=scores.shape[-1]), window)


@rubric.mistake(
    "local_m_weights",
    "The window has run out of the source: when time reaches its end, the window stays at the last word, lengths − 1.",
)
def window_runs_out(scores, time, lengths, window):
    return windowed(scores, torch.tensor([[time]]), lengths, window)


@rubric.mistake("local_m_weights", "Weights outside the window were cut off after the softmax. Cut before it.")
def cut_after(scores, time, lengths, window):
    full = scores.masked_fill(~real(scores, lengths), -1e9).softmax(-1)
    return full * ((torch.arange(scores.shape[-1]) - middle(scores, time, lengths)).abs() <= window)


@rubric.mistake("local_p_weights", "The Gaussian is missing: multiply by exp(−(j − p)² / 2σ²) after the softmax.")
def without_bell(scores, centre, lengths, window):
    return windowed(scores, centre[:, None], lengths, window)


@rubric.mistake("local_p_weights", "σ is half the window, not the window.")
def wide_bell(scores, centre, lengths, window):
    return without_bell(scores, centre, lengths, window) * bell(scores, centre[:, None], window, spread=1.0)


@rubric.mistake("local_p_weights", "You divide by the sum at the end. The Gaussian is *not* normalised away.")
def renormalised(scores, centre, lengths, window):
    weights = local_p_weights(scores, centre, lengths, window)
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)


@rubric.mistake("local_p_weights", "The distance is not squared: a Gaussian falls with (j − p)².")
def laplace(scores, centre, lengths, window):
    return without_bell(scores, centre, lengths, window) * bell(scores, centre[:, None], window, power=1.0)


@rubric.mistake("local_p_weights", "p is a real number and stays one: do not round it.")
def rounded_centre(scores, centre, lengths, window):
    return local_p_weights(scores, centre.round(), lengths, window)


@rubric.test("local", points=1, visible=True, hint="Softmax over |j − p| ≤ window, with p = time, inside the source.")
def monotonic_window_moves_with_time(submission, rng):
    scores, lengths = draw(rng, 3, 12), torch.tensor([12, 10, 9])
    for time in (0, 3, 7):
        got, want = submission.local_m_weights(scores, time, lengths, 2), local_m_weights(scores, time, lengths, 2)
        assert_close(got, want, what=f"the weights at time {time}")


@rubric.test(
    "local", points=1, visible=True, hint="Short sources: no weight on padding, and the window stops at the end."
)
def monotonic_window_stays_in_the_source(submission, rng):
    scores, lengths = draw(rng, 3, 9), torch.tensor([9, 4, 2])
    for time in (2, 3, 8, 30):
        got, want = submission.local_m_weights(scores, time, lengths, 2), local_m_weights(scores, time, lengths, 2)
        assert_close(got, want, what=f"the weights at time {time}")


@rubric.test(
    "local", points=2, visible=True, hint="Softmax in the window, then times the Gaussian with σ = window / 2."
)
def predictive_window_is_a_bell(submission, rng):
    scores, lengths = draw(rng, 3, 11), torch.tensor([11, 9, 6])
    centre = torch.tensor([4.3, 6.75, 2.6]) + 0.2 * torch.rand(3, generator=rng)
    got, want = submission.local_p_weights(scores, centre, lengths, 3), local_p_weights(scores, centre, lengths, 3)
    assert_close(got, want, what="the weights")


@rubric.test(
    "local", points=1, visible=False, topic="borders", hint="Centres at either end, windows wider than the source."
)
def predictive_window_at_the_edges(submission, rng):
    scores, lengths = draw(rng, 4, 8), torch.tensor([8, 5, 3, 8])
    centre = torch.tensor([0.1, 4.9, 2.2, 6.0])
    for window in (1, 2, 20):
        got = submission.local_p_weights(scores, centre, lengths, window)
        assert_close(got, local_p_weights(scores, centre, lengths, window), what=f"the weights, window {window}")


@rubric.test(
    "local",
    points=1,
    visible=False,
    topic="gradients",
    hint="The gradient must reach the predicted position, or it never learns.",
)
def predictive_window_learns_where_to_look(submission, rng):
    scores, lengths, upstream = draw(rng, 2, 9), torch.tensor([9, 7]), draw(rng, 2, 9)
    centre = torch.tensor([4.4, 3.2])
    got, want = (
        s.local_p_weights.gradients(scores, centre, lengths, 3, upstream=upstream)
        for s in (submission, rubric.solution)
    )
    assert_close(got, want, rtol=1e-3, atol=1e-4)


# 5. The decoder


@rubric.reference
class AttentiveDecoder(nn.Module):
    """The decoder in small pieces, so that a mistake can change one."""

    def __init__(self, embedding_dim, annotation_dim, hidden_dim, attention_dim):
        super().__init__()
        self.W = nn.Parameter(torch.randn(attention_dim, hidden_dim) / math.sqrt(hidden_dim))
        self.U = nn.Parameter(torch.randn(attention_dim, annotation_dim) / math.sqrt(annotation_dim))
        self.v = nn.Parameter(torch.randn(attention_dim) / math.sqrt(attention_dim))
        self.cell = nn.GRUCell(embedding_dim + annotation_dim, hidden_dim)

    def forward(self, embedded, annotations, lengths, state):
        states, contexts, alignment = [], [], []
        for token in embedded.unbind(1):
            weights = self.align(state, annotations, lengths)
            context = self.mix(weights, annotations)
            state = self.advance(token, context, state)
            states.append(state)
            contexts.append(context)
            alignment.append(weights)
        return torch.stack(states, 1), torch.stack(contexts, 1), torch.stack(alignment, 1)

    def align(self, state, annotations, lengths):
        return masked_softmax(additive_scores(state, annotations, self.W, self.U, self.v), lengths)

    def mix(self, weights, annotations):
        return (weights[:, None] @ annotations).squeeze(1)  # (B, A)

    def advance(self, token, context, state):
        return self.cell(torch.cat([token, context], dim=-1), state)


@rubric.mistake("AttentiveDecoder", "The decoder looks at padding: pass the lengths on to your masked softmax.")
class SeesPadding(AttentiveDecoder):
    def align(self, state, annotations, lengths):
        return additive_scores(state, annotations, self.W, self.U, self.v).softmax(-1)


@rubric.mistake("AttentiveDecoder", "The context never changes: ask again before every step, with the newest state.")
class LooksOnce(AttentiveDecoder):
    def forward(self, embedded, annotations, lengths, state):
        weights, states = self.align(state, annotations, lengths), []
        context = self.mix(weights, annotations)
        for token in embedded.unbind(1):
            state = self.advance(token, context, state)
            states.append(state)
        times = embedded.shape[1]
        return (
            torch.stack(states, 1),
            context[:, None].expand(-1, times, -1),
            weights[:, None].expand(-1, times, -1),
        )


@rubric.mistake(
    "AttentiveDecoder",
    "You step first and look afterwards, as Luong does. Here the query is the state *before* the step.",
)
class StepsFirst(AttentiveDecoder):
    def forward(self, embedded, annotations, lengths, state):
        states, contexts, alignment = [], [], []
        context = annotations.new_zeros(len(annotations), annotations.shape[-1])
        for token in embedded.unbind(1):
            state = self.advance(token, context, state)
            weights = self.align(state, annotations, lengths)
            context = self.mix(weights, annotations)
            states.append(state)
            contexts.append(context)
            alignment.append(weights)
        return torch.stack(states, 1), torch.stack(contexts, 1), torch.stack(alignment, 1)


@rubric.mistake("AttentiveDecoder", "Your states begin with s₀. Row t is the state *after* step t: s₁ comes first.")
class ReturnsOldStates(AttentiveDecoder):
    def forward(self, embedded, annotations, lengths, state):
        states, contexts, alignment = super().forward(embedded, annotations, lengths, state)
        return torch.cat([state[:, None], states[:, :-1]], dim=1), contexts, alignment


@rubric.mistake("AttentiveDecoder", "The cell was made for [token; context]: the embedded token comes first.")
class ContextFirst(AttentiveDecoder):
    def advance(self, token, context, state):
        return self.cell(torch.cat([context, token], dim=-1), state)


@rubric.mistake("AttentiveDecoder", "The state does not move on: every step starts again from the first state.")
class ForgetsItsState(AttentiveDecoder):
    def forward(self, embedded, annotations, lengths, state):
        pieces = [
            super(ForgetsItsState, self).forward(one[:, None], annotations, lengths, state)
            for one in embedded.unbind(1)
        ]
        return tuple(torch.cat(parts, dim=1) for parts in zip(*pieces, strict=True))


@rubric.mistake(
    "AttentiveDecoder", "You take the one best annotation. Soft attention averages them all by their weights."
)
class HardChoice(AttentiveDecoder):
    def mix(self, weights, annotations):
        return annotations[torch.arange(len(annotations)), weights.argmax(-1)]


def decoders(submission, rng, sizes):
    shapes = {name: p.shape for name, p in AttentiveDecoder(*sizes).state_dict().items()}
    state = {name: 1.5 * draw(rng, *shape) / math.sqrt(shape[-1]) for name, shape in shapes.items()}
    for source in (submission, rubric.solution):
        decoder = source.AttentiveDecoder(*sizes)
        decoder.load_state_dict(state)
        yield decoder


def decoder_case(rng, sizes, batch, target, source):
    embedded, annotations = draw(rng, batch, target, sizes[0]), draw(rng, batch, source, sizes[1])
    return embedded, annotations, draw(rng, batch, sizes[2])


DECODER_NEEDS = ("additive_scores", "masked_softmax")
NAMES = ("states", "contexts", "weights")


def assert_decodes(got, want):
    assert isinstance(got, tuple | list), "return three tensors: states, contexts, weights"
    assert len(got) == 3, f"return three tensors, states, contexts and weights; you return {len(got)} things"
    for name, one, other in zip(NAMES, got, want, strict=True):
        assert_close(one, other, what=name)


@rubric.test(
    "decoder",
    points=1,
    visible=True,
    hint="Score, softmax, average, step; the query is the state *before* the step.",
    needs=DECODER_NEEDS,
)
def one_step_is_right(submission, rng):
    sizes = (3, 4, 5, 6)
    mine, reference = decoders(submission, rng, sizes)
    embedded, annotations, state = decoder_case(rng, sizes, 2, 1, 7)
    lengths = torch.tensor([7, 7])
    assert_decodes(mine(embedded, annotations, lengths, state), reference(embedded, annotations, lengths, state))


@rubric.test(
    "decoder",
    points=2,
    visible=True,
    hint="Every step looks again, with the state the step before has left.",
    needs=DECODER_NEEDS,
)
def many_steps_are_right(submission, rng):
    sizes = (3, 4, 5, 6)
    mine, reference = decoders(submission, rng, sizes)
    embedded, annotations, state = decoder_case(rng, sizes, 2, 4, 7)
    lengths = torch.tensor([7, 3])
    assert_decodes(mine(embedded, annotations, lengths, state), reference(embedded, annotations, lengths, state))


@rubric.test(
    "decoder",
    points=2,
    visible=False,
    topic="gradients",
    hint="All weights of the decoder must learn.",
    needs=DECODER_NEEDS,
)
def the_decoder_passes_gradients(submission, rng):
    sizes = (4, 3, 6, 5)
    mine, reference = decoders(submission, rng, sizes)
    embedded, annotations, state = decoder_case(rng, sizes, 3, 5, 6)
    lengths = torch.tensor([6, 2, 4])
    upstream = [draw(rng, 3, 5, sizes[2]), draw(rng, 3, 5, sizes[1]), draw(rng, 3, 5, 6)]
    got, want = (d.gradients(embedded, annotations, lengths, state, upstream=upstream) for d in (mine, reference))
    assert_close(got, want, rtol=1e-3, atol=1e-4)
