"""Exercise set 02, recurrent networks: what is asked, how it is tested, and the mistakes it can name."""

import math

import torch

from lecturelib.grading import Rubric, assert_close, draw
from lecturelib.layers import RNN, Recurrent, reverse_sequences

rubric = Rubric("02_recurrent", title="Recurrent networks")
rubric.exercise("step", title="One step, then many", minutes=5, difficulty=1, defines=("rnn_step", "run_rnn"))
rubric.exercise("clipping", title="Gradient clipping", minutes=10, difficulty=2, defines=("clip_by_norm",))
rubric.exercise(
    "jacobian",
    title="How far a gradient gets",
    minutes=20,
    difficulty=3,
    defines=("step_jacobian", "gradient_reach"),
)
rubric.exercise(
    "bidirectional",
    title="Both directions, with padding",
    minutes=25,
    difficulty=3,
    defines=("reverse_padded", "run_both_ways"),
)
rubric.exercise("bptt", title="Backpropagation through time, by hand", minutes=40, difficulty=4, defines=("bptt",))


def draw_weights(rng, input_dim, hidden_dim):
    """W, U, b of a size that leaves tanh neither linear nor flat."""
    scale = 1 / math.sqrt(hidden_dim)
    return (
        draw(rng, hidden_dim, input_dim) * 0.6,
        draw(rng, hidden_dim, hidden_dim) * scale,
        draw(rng, hidden_dim) * 0.5,
    )


# 1. One step, then many


@rubric.reference
def rnn_step(x, h, W, U, b):
    return torch.tanh(x @ W.mT + h @ U.mT + b)


def unroll(x, h, step):
    states = []
    for t in range(x.shape[1]):
        h = step(x[:, t], h)
        states.append(h)
    return torch.stack(states, dim=1)  # (B, T, H)


@rubric.reference
def run_rnn(x, h, W, U, b):
    return unroll(x, h, lambda x, h: rnn_step(x, h, W, U, b))


@rubric.mistake("rnn_step", "U is used the wrong way round. Row vectors are multiplied by its transpose: h @ U.T.")
def transposed_recurrence(x, h, W, U, b):
    return torch.tanh(x @ W.mT + h @ U + b)


@rubric.mistake("rnn_step", "This step is linear: where is the tanh?")
def linear_step(x, h, W, U, b):
    return x @ W.mT + h @ U.mT + b


@rubric.mistake("rnn_step", "Your step has no memory: the last state h must come in, through U.")
def forgetful_step(x, h, W, U, b):
    return torch.tanh(x @ W.mT + b)


@rubric.mistake("rnn_step", "The bias is missing.")
def unbiased_step(x, h, W, U, b):
    return torch.tanh(x @ W.mT + h @ U.mT)


@rubric.mistake("rnn_step", "You squash with the logistic function. It is tanh here, between −1 and 1.")
def logistic_step(x, h, W, U, b):
    return torch.sigmoid(x @ W.mT + h @ U.mT + b)


@rubric.mistake("rnn_step", "You take the tanh of the input's share alone. Add up everything first, then take it once.")
def squashes_too_early(x, h, W, U, b):
    return torch.tanh(x @ W.mT + b) + h @ U.mT


@rubric.mistake("run_rnn", "You start from zeros. The first step must start from the h that is passed in.")
def starts_from_zeros(x, h, W, U, b):
    return run_rnn(x, torch.zeros_like(h), W, U, b)


@rubric.mistake("run_rnn", "Each of your steps starts from the first state: hand the *new* state on to the next step.")
def never_moves_on(x, h, W, U, b):
    return torch.stack([rnn_step(x[:, t], h, W, U, b) for t in range(x.shape[1])], dim=1)  # (B, T, H)


@rubric.mistake("run_rnn", "You return the last state only. Every state is wanted, (B, T, H).")
def last_state_only(x, h, W, U, b):
    return run_rnn(x, h, W, U, b)[:, -1]


@rubric.mistake("run_rnn", "Time is the first axis of your result. Stack along dim=1, so that the batch stays first.")
def time_first(x, h, W, U, b):
    return run_rnn(x, h, W, U, b).transpose(0, 1)


@rubric.mistake("run_rnn", "Your states are one step late: state t must already have read x[:, t].")
def states_before_reading(x, h, W, U, b):
    return torch.cat([h[:, None], run_rnn(x, h, W, U, b)[:, :-1]], dim=1)  # (B, T, H)


@rubric.test("step", points=1, visible=True, hint="Two products, a bias, one tanh around all of it.")
def one_step_is_the_equation(submission, rng):
    W, U, b = draw_weights(rng, 3, 5)
    x, h = draw(rng, 4, 3), draw(rng, 4, 5).tanh()
    assert_close(submission.rnn_step(x, h, W, U, b), rnn_step(x, h, W, U, b), what="the new state")


@rubric.test(
    "step", points=1, visible=True, hint="A loop over t that hands each state to the next step.", needs=("rnn_step",)
)
def a_run_is_a_chain_of_steps(submission, rng):
    W, U, b = draw_weights(rng, 3, 5)
    x, h = draw(rng, 2, 6, 3), draw(rng, 2, 5).tanh()
    assert_close(submission.run_rnn(x, h, W, U, b), run_rnn(x, h, W, U, b), what="the states")


@rubric.test(
    "step",
    points=1,
    visible=False,
    topic="gradients",
    hint="Gradients must pass through every step.",
    needs=("rnn_step",),
)
def a_run_passes_gradients_to_all_weights(submission, rng):
    W, U, b = draw_weights(rng, 4, 3)
    x, h, upstream = draw(rng, 2, 7, 4), draw(rng, 2, 3).tanh(), draw(rng, 2, 7, 3)
    got = submission.run_rnn.gradients(x, h, W, U, b, upstream=upstream)
    want = rubric.solution.run_rnn.gradients(x, h, W, U, b, upstream=upstream)
    assert_close(got, want, rtol=1e-3, atol=1e-4)


# 2. Gradient clipping


def total_norm(gradients):
    return torch.sqrt(sum((g**2).sum() for g in gradients))


@rubric.reference
def clip_by_norm(gradients, max_norm):
    norm = total_norm(gradients)
    factor = (max_norm / norm.clamp(min=1e-12)).clamp(max=1.0)
    return [g * factor for g in gradients], norm


@rubric.mistake(
    "clip_by_norm",
    "You clip each tensor by its own norm, which turns the step in another direction. One norm over all, one factor.",
)
def clips_one_by_one(gradients, max_norm):
    return [clip_by_norm([g], max_norm)[0][0] for g in gradients], total_norm(gradients)


@rubric.mistake("clip_by_norm", "You clip the entries. Clipping by norm shrinks the whole gradient by one factor.")
def clips_by_value(gradients, max_norm):
    return [g.clamp(-max_norm, max_norm) for g in gradients], total_norm(gradients)


@rubric.mistake("clip_by_norm", "A short gradient must stay as it is; yours is stretched. The factor is at most 1.")
def always_scales(gradients, max_norm):
    norm = total_norm(gradients)
    return [g * max_norm / norm for g in gradients], norm


@rubric.mistake("clip_by_norm", "Return the norm from *before* clipping: it tells you what would have happened.")
def norm_after_clipping(gradients, max_norm):
    clipped, _ = clip_by_norm(gradients, max_norm)
    return clipped, total_norm(clipped)


@rubric.mistake("clip_by_norm", "The norms of the parts do not add. Add the squares, then take the root.")
def adds_the_norms(gradients, max_norm):
    norm = sum(g.norm() for g in gradients)
    return [g * (max_norm / norm).clamp(max=1.0) for g in gradients], norm


@rubric.mistake("clip_by_norm", "That is the squared norm: the root is missing.")
def forgets_the_root(gradients, max_norm):
    norm = total_norm(gradients) ** 2
    return [g * (max_norm / norm).clamp(max=1.0) for g in gradients], norm


@rubric.mistake("clip_by_norm", "You take the largest entry for the norm. Here it is the root of the sum of squares.")
def largest_entry(gradients, max_norm):
    norm = torch.stack([g.abs().max() for g in gradients]).max()
    return [g * (max_norm / norm).clamp(max=1.0) for g in gradients], norm


def assert_clips(submission, gradients, max_norm):
    got, want = submission.clip_by_norm(gradients, max_norm), clip_by_norm(gradients, max_norm)
    assert_close(got, want, what=("the clipped gradients", "the norm"), rtol=1e-3)


@rubric.test(
    "clipping", points=1, visible=True, hint="One norm over all tensors; scale all of them by max_norm / norm."
)
def long_gradients_are_shortened(submission, rng):
    assert_clips(submission, [3 * draw(rng, 4, 3), 2 * draw(rng, 5), draw(rng, 2, 6)], 1.5)
    assert_clips(submission, [0.1 * draw(rng, 4, 3), 0.2 * draw(rng, 5), 0.1 * draw(rng, 6)], 0.05)


@rubric.test("clipping", points=1, visible=True, hint="Below max_norm nothing changes.")
def short_gradients_stay(submission, rng):
    gradients = [0.02 * draw(rng, 4, 3), 0.03 * draw(rng, 5), 0.01 * draw(rng, 2, 6)]
    assert_clips(submission, gradients, 2.0)


@rubric.test(
    "clipping",
    points=1,
    visible=False,
    topic="zero and huge gradients",
    hint="Think of gradients that are all zero, and of one that is huge.",
)
def zero_and_huge_gradients_are_no_trouble(submission, rng):
    assert_clips(submission, [torch.zeros(2, 3), torch.zeros(4)], 1.0)
    assert_clips(submission, [1e8 * draw(rng, 2, 3), draw(rng, 4), draw(rng, 3, 1, 2)], 0.7)


# 3. How far a gradient gets


@rubric.reference
def step_jacobian(h, U):
    return (1 - h**2)[:, None] * U


def chain(states, U, jacobian=None, grow=None):
    """For each t the product of the Jacobians of the steps after it, the last step leftmost."""
    jacobian = jacobian or step_jacobian
    grow = grow or (lambda product, factor: product @ factor)
    product = torch.eye(U.shape[0])
    products = [product]
    for h in states.flip(0)[:-1]:  # the last state first
        product = grow(product, jacobian(h, U))
        products.append(product)
    return products[::-1]


def largest_singular_values(matrices):
    return torch.stack([torch.linalg.matrix_norm(m, ord=2) for m in matrices])


@rubric.reference
def gradient_reach(states, U):
    return largest_singular_values(chain(states, U))


@rubric.mistake(
    "step_jacobian",
    "The slopes 1 − h² multiply the columns of U in yours. tanh comes after U, so they multiply its rows.",
)
def slopes_on_columns(h, U):
    return U * (1 - h**2)


@rubric.mistake("step_jacobian", "The slope of tanh is missing: scale row i of U by 1 − h_i².")
def without_slopes(h, U):
    return U.clone()


@rubric.mistake("step_jacobian", "The slope of tanh, in terms of its value h, is 1 − h², not 1 − h.")
def slope_without_square(h, U):
    return (1 - h)[:, None] * U


@rubric.mistake(
    "step_jacobian", "You take tanh of h once more. h is a state already: its slope is 1 − h², without another tanh."
)
def squashes_again(h, U):
    return (1 - h.tanh() ** 2)[:, None] * U


@rubric.mistake(
    "step_jacobian", "That is the transpose: row i is entry i of the new state, column j entry j of the old one."
)
def transposed_jacobian(h, U):
    return step_jacobian(h, U).mT


@rubric.mistake(
    "gradient_reach",
    "You multiply norms. That is only an upper bound: multiply the matrices, then take the norm of the product.",
)
def product_of_norms(states, U):
    norms = largest_singular_values([step_jacobian(h, U) for h in states])
    after = [norms[t + 1 :].prod() for t in range(len(states))]
    return torch.stack(after)


@rubric.mistake("gradient_reach", "Your Jacobians are in the wrong order: the *last* step stands leftmost.")
def first_step_leftmost(states, U):
    return largest_singular_values(chain(states, U, grow=lambda product, factor: factor @ product))


@rubric.mistake("gradient_reach", "That is the Frobenius norm. The reach is the largest singular value, ord=2.")
def frobenius(states, U):
    return torch.stack([m.norm() for m in chain(states, U)])


@rubric.mistake(
    "gradient_reach", "One step too many: from h_t to h_T lead the steps t+1 … T, so the last value is 1, not ‖J_T‖."
)
def one_step_too_many(states, U):
    return largest_singular_values([p @ step_jacobian(h, U) for p, h in zip(chain(states, U), states, strict=True)])


@rubric.mistake("gradient_reach", "Yours starts at the end: value t belongs to state t, so the 1 comes last.")
def counted_from_the_end(states, U):
    return gradient_reach(states, U).flip(0)


@rubric.mistake(
    "gradient_reach", "That is the spectral radius, the largest |eigenvalue|. A norm is the largest singular value."
)
def eigenvalues(states, U):
    return torch.stack([torch.linalg.eigvals(m).abs().max() for m in chain(states, U)])


def draw_run(rng, length, hidden_dim):
    W, U, b = draw_weights(rng, 3, hidden_dim)
    return run_rnn(draw(rng, 1, length, 3), torch.zeros(1, hidden_dim), W, U, b)[0], U  # (T, H), (H, H)


@rubric.test("jacobian", points=1, visible=True, hint="Entry (i, j) is ∂h'_i / ∂h_j: the chain rule through tanh.")
def one_jacobian_is_the_chain_rule(submission, rng):
    states, U = draw_run(rng, 3, 5)
    assert_close(submission.step_jacobian(states[-1], U), step_jacobian(states[-1], U), what="the Jacobian")


@rubric.test(
    "jacobian",
    points=2,
    visible=True,
    hint="Walk back from the end and multiply one more Jacobian to the right at every step.",
    needs=("step_jacobian",),
)
def reach_is_the_norm_of_the_product(submission, rng):
    states, U = draw_run(rng, 6, 4)
    assert_close(submission.gradient_reach(states, U), gradient_reach(states, U), what="the reach", rtol=1e-3)


@rubric.test(
    "jacobian",
    points=1,
    visible=False,
    topic="long and single runs",
    hint="Longer runs, and runs of a single state.",
    needs=("step_jacobian",),
)
def reach_of_long_and_of_single_runs(submission, rng):
    for length in (1, 40):
        states, U = draw_run(rng, length, 6)
        assert_close(submission.gradient_reach(states, U), gradient_reach(states, U), what="the reach", rtol=1e-3)


# 4. Both directions, with padding


@rubric.reference
def reverse_padded(x, lengths):
    return reverse_sequences(x, lengths)


def is_real(x, lengths):
    return (torch.arange(x.shape[1]) < lengths[:, None])[..., None]  # (B, T, 1)


def one_way(x, weights):
    return run_rnn(x, torch.zeros(len(x), len(weights[2])), *weights)


def both_ways(x, lengths, forward, backward, turn=reverse_padded, turn_back=reverse_padded):
    """The right answer in pieces, so that a mistake can change one."""
    real = is_real(x, lengths)
    ahead = one_way(x, forward) * real
    back = turn_back(one_way(turn(x, lengths), backward) * real, lengths)
    ends = ahead[torch.arange(len(x)), lengths - 1]  # (B, H)
    return torch.cat([ahead, back], dim=-1), torch.cat([ends, back[:, 0]], dim=-1)


@rubric.reference
def run_both_ways(x, lengths, forward, backward):
    runner = Recurrent(RNN, x.shape[-1], len(forward[2]), bidirectional=True)
    with torch.no_grad():
        for cell, (W, U, b) in zip(runner.cells, (forward, backward), strict=True):
            for parameter, value in zip(cell.parameters(), (W, U, b, torch.zeros_like(b)), strict=True):
                parameter.copy_(value)
        outputs, state = runner(x, lengths)
    return outputs, torch.cat([state[0][0], state[1][0]], dim=-1)


def flip_all(x, lengths):
    return x.flip(1)


@rubric.mistake("reverse_padded", "You turn the padding to the front. Each row is turned within its own length.")
def flips_the_padding_too(x, lengths):
    return x.flip(1)


@rubric.mistake("reverse_padded", "You reverse the batch, axis 0. Time is axis 1.")
def flips_the_batch(x, lengths):
    return x.flip(0)


@rubric.mistake("reverse_padded", "You reverse the features too: only axis 1 turns.")
def flips_the_features(x, lengths):
    return reverse_padded(x, lengths).flip(-1)


@rubric.mistake("reverse_padded", "All rows are turned within the longest length. Use each row's own, lengths[b].")
def turns_at_the_longest(x, lengths):
    return reverse_padded(x, lengths.max().expand_as(lengths))


@rubric.mistake("reverse_padded", "The padding is gone from your result; it should stay where it was, unchanged.")
def zeroes_the_padding(x, lengths):
    return reverse_padded(x, lengths) * is_real(x, lengths)


@rubric.mistake(
    "run_both_ways",
    "Your backward network reads the padding first, so its state is spoilt before the first word. Use reverse_padded.",
)
def backward_reads_padding(x, lengths, forward, backward):
    return both_ways(x, lengths, forward, backward, turn=flip_all, turn_back=flip_all)


@rubric.mistake(
    "run_both_ways",
    "The backward outputs are still in reading order from the end: turn them around before you join the two.",
)
def never_turns_back(x, lengths, forward, backward):
    outputs, _ = both_ways(x, lengths, forward, backward, turn_back=lambda x, lengths: x)
    return outputs, run_both_ways(x, lengths, forward, backward)[1]


@rubric.mistake(
    "run_both_ways", "Behind the end of a row your outputs are not zero: multiply by the mask of real steps."
)
def padding_is_not_zero(x, lengths, forward, backward):
    ahead = one_way(x, forward)
    back = reverse_padded(one_way(reverse_padded(x, lengths), backward), lengths)
    return torch.cat([ahead, back], dim=-1), run_both_ways(x, lengths, forward, backward)[1]


@rubric.mistake(
    "run_both_ways",
    "The forward half of your last state is taken at position T − 1, which is padding in short rows. Take lengths − 1.",
)
def forward_state_from_padding(x, lengths, forward, backward):
    outputs, last = run_both_ways(x, lengths, forward, backward)
    half = len(forward[2])
    return outputs, torch.cat([outputs[:, -1, :half], last[:, half:]], dim=-1)


@rubric.mistake(
    "run_both_ways",
    "The backward half of your last state is the one at the end of the row, where that network *starts*. It ends at 0.",
)
def backward_state_from_its_start(x, lengths, forward, backward):
    outputs, last = run_both_ways(x, lengths, forward, backward)
    half = len(forward[2])
    starts = outputs[torch.arange(len(x)), lengths - 1, half:]
    return outputs, torch.cat([last[:, :half], starts], dim=-1)


@rubric.mistake("run_both_ways", "Both directions use the forward weights. The backward network has its own.")
def shares_the_weights(x, lengths, forward, backward):
    return run_both_ways(x, lengths, forward, forward)


@rubric.mistake("run_both_ways", "The halves are swapped: forward first, then backward.")
def backward_first(x, lengths, forward, backward):
    return tuple(
        torch.cat(value.chunk(2, dim=-1)[::-1], dim=-1) for value in run_both_ways(x, lengths, forward, backward)
    )


def draw_lengths(rng):
    return torch.tensor([2, 3, 5])[torch.randperm(3, generator=rng)]


@rubric.test("bidirectional", points=1, visible=True, hint="Row b: positions 0 … lengths[b] − 1 turn, the rest stays.")
def turns_each_row_within_its_length(submission, rng):
    x, lengths = draw(rng, 3, 6, 4), draw_lengths(rng)
    assert_close(submission.reverse_padded(x, lengths), reverse_padded(x, lengths), what="the reversed batch")


@rubric.test(
    "bidirectional",
    points=2,
    visible=True,
    hint="Forward as it is; backward on the reversed batch, and turned back. Zero what is padding.",
    needs=("reverse_padded", "rnn_step", "run_rnn"),
)
def both_directions_meet_at_every_token(submission, rng):
    x, lengths = draw(rng, 3, 6, 4), draw_lengths(rng)
    forward, backward = draw_weights(rng, 4, 5), draw_weights(rng, 4, 5)
    got = submission.run_both_ways(x, lengths, forward, backward)
    want = run_both_ways(x, lengths, forward, backward)
    assert_close(got, want, what=("the outputs", "the last states"))


@rubric.test(
    "bidirectional",
    points=1,
    visible=False,
    topic="padding",
    hint="What stands in the padding must not matter: put large numbers there and look what changes.",
    needs=("reverse_padded", "rnn_step", "run_rnn"),
)
def padding_changes_nothing(submission, rng):
    x, lengths = draw(rng, 4, 7, 3), torch.tensor([7, 1, 4, 2])
    x = torch.where(is_real(x, lengths), x, 50 * x)
    forward, backward = draw_weights(rng, 3, 6), draw_weights(rng, 3, 6)
    got = submission.run_both_ways(x, lengths, forward, backward)
    assert_close(got, run_both_ways(x, lengths, forward, backward), what="outputs and last states")


# 5. Backpropagation through time


@rubric.reference
def bptt(x, h0, W, U, b, upstream):
    with torch.enable_grad():
        weights = [weight.detach().clone().requires_grad_() for weight in (W, U, b)]
        states = run_rnn(x, h0, *weights)
        return torch.autograd.grad(states, weights, grad_outputs=upstream)


def by_hand(
    x,
    h0,
    W,
    U,
    b,
    upstream,
    slope=lambda h: 1 - h**2,
    carry=lambda delta, U: delta @ U,
    previous=lambda before, after: before,
    first=0,
):
    """The right sum over time in pieces, so that a mistake can change one."""
    states = run_rnn(x, h0, W, U, b)
    before = torch.cat([h0[:, None], states[:, :-1]], dim=1)  # (B, T, H)
    dW, dU, db = torch.zeros_like(W), torch.zeros_like(U), torch.zeros_like(b)
    from_later = torch.zeros_like(h0)
    for t in reversed(range(first, x.shape[1])):
        delta = (upstream[:, t] + from_later) * slope(states[:, t])  # (B, H)
        dW += delta.mT @ x[:, t]
        dU += delta.mT @ previous(before, states)[:, t]
        db += delta.sum(0)
        from_later = carry(delta, U)
    return dW, dU, db


@rubric.mistake("bptt", "Nothing comes back from later steps: add what δ of the step after sends back, delta @ U.")
def without_carry(*arguments):
    return by_hand(*arguments, carry=lambda delta, U: torch.zeros_like(delta))


@rubric.mistake("bptt", "Going back, you use U.T, as on the way forwards. The way back takes its transpose: delta @ U.")
def carries_the_wrong_way(*arguments):
    return by_hand(*arguments, carry=lambda delta, U: delta @ U.mT)


@rubric.mistake("bptt", "The slope of tanh, 1 − h², is missing on the way back.")
def without_slope(*arguments):
    return by_hand(*arguments, slope=torch.ones_like)


@rubric.mistake("bptt", "To get the gradient for U, pair δ_t with the state *before* the step, h_{t−1}, not with h_t.")
def pairs_with_the_new_state(*arguments):
    return by_hand(*arguments, previous=lambda before, after: after)


@rubric.mistake("bptt", "The first step is left out of the sum: its state before is h0.")
def leaves_out_the_first_step(*arguments):
    return by_hand(*arguments, first=1)


@rubric.mistake("bptt", "To get the gradient for U: the state before the first step is h0; you put zeros there.")
def zeros_before_the_first_step(*arguments):
    dW, _, db = by_hand(*arguments)
    return dW, by_hand(*arguments, first=1)[1], db


@rubric.mistake("bptt", "Only the last step's upstream gradient is used. The loss may depend on every state directly.")
def upstream_at_the_end_only(x, h0, W, U, b, upstream):
    last = torch.zeros_like(upstream)
    last[:, -1] = upstream[:, -1]
    return by_hand(x, h0, W, U, b, last)


@rubric.mistake("bptt", "You average over the batch. The upstream gradient is already that of the whole loss: sum.")
def averages_the_batch(x, *rest):
    return tuple(gradient / len(x) for gradient in by_hand(x, *rest))


@rubric.mistake("bptt", "You average over time. The same weights act at every step, so their gradients add up.")
def averages_over_time(x, *rest):
    return tuple(gradient / x.shape[1] for gradient in by_hand(x, *rest))


@rubric.mistake("bptt", "Your run starts from zeros, not from h0.")
def ignores_the_start(x, h0, *rest):
    return by_hand(x, torch.zeros_like(h0), *rest)


@rubric.mistake("bptt", "Return the gradients for W, U and b, in that order.")
def wrong_order(*arguments):
    dW, dU, db = by_hand(*arguments)
    return dU, dW, db


def assert_gradients(submission, rng, batch, length, input_dim, hidden_dim):
    W, U, b = draw_weights(rng, input_dim, hidden_dim)
    x, h0 = draw(rng, batch, length, input_dim), draw(rng, batch, hidden_dim).tanh()
    upstream = draw(rng, batch, length, hidden_dim)
    got, want = submission.bptt(x, h0, W, U, b, upstream), bptt(x, h0, W, U, b, upstream)
    names = ("the gradient for W", "the gradient for U", "the gradient for b")
    assert_close(got, want, what=names, rtol=1e-3, atol=1e-4)


@rubric.test(
    "bptt",
    points=2,
    visible=True,
    hint="The gradients for W, U and b, added up over the two steps: few enough terms to write down.",
    needs=("rnn_step", "run_rnn"),
)
def two_steps_are_right(submission, rng):
    assert_gradients(submission, rng, 1, 2, 4, 3)


@rubric.test("bptt", points=2, visible=True, hint="Walk from the end to the start.", needs=("rnn_step", "run_rnn"))
def many_steps_are_what_autograd_gives(submission, rng):
    assert_gradients(submission, rng, 3, 7, 4, 5)


@rubric.test(
    "bptt", points=1, visible=False, topic="other lengths", hint="One step, and forty.", needs=("rnn_step", "run_rnn")
)
def single_and_long_sequences_are_right(submission, rng):
    assert_gradients(submission, rng, 2, 1, 3, 4)
    assert_gradients(submission, rng, 2, 40, 3, 6)
