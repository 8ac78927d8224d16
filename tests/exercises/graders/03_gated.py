"""Exercise set 03, gated cells: what is asked, how it is tested, and the mistakes it can name."""

import math

import torch

from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("03_gated", title="Gated cells")
rubric.exercise("lstm", title="One step of an LSTM", minutes=5, difficulty=1, defines=("lstm_step",))
rubric.exercise("gru", title="One step of a GRU", minutes=10, difficulty=2, defines=("gru_step",))
rubric.exercise(
    "forget_bias",
    title="How far open must the forget gate be?",
    minutes=20,
    difficulty=3,
    defines=("open_forget_gate", "bias_to_keep"),
)
rubric.exercise(
    "flow",
    title="Which way does the gradient go?",
    minutes=40,
    difficulty=4,
    defines=("gradient_flow", "explain"),
)


# 1. One step of an LSTM


@rubric.reference
def lstm_step(x, h, c, W, U, b):
    return torch.lstm_cell(x, (h, c), W, U, b, torch.zeros_like(b))


def blocks(x, h, W, U, b, names="ifgo"):
    """The four sums by the letter of their gate, as if the blocks stood in the order of `names`."""
    return dict(zip(names, (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1), strict=True))


def finish(a, c):
    memory = a["f"].sigmoid() * c + a["i"].sigmoid() * a["g"].tanh()
    return a["o"].sigmoid() * memory.tanh(), memory


@rubric.mistake(
    "lstm_step",
    "You read the blocks as i, f, o, g, the order of some other libraries. Here it is i, f, g, o, as in PyTorch.",
)
def order_of_the_slide(x, h, c, W, U, b):
    return finish(blocks(x, h, W, U, b, names="ifog"), c)


@rubric.mistake("lstm_step", "Your f and i are swapped: f multiplies the old memory, i the candidate.")
def forget_and_input_swapped(x, h, c, W, U, b):
    return finish(blocks(x, h, W, U, b, names="figo"), c)


@rubric.mistake(
    "lstm_step",
    "Your memory never forgets: c + i ⊙ g is the cell of 1997. Multiply the old memory by the forget gate.",
)
def never_forgets(x, h, c, W, U, b):
    a = blocks(x, h, W, U, b)
    memory = c + a["i"].sigmoid() * a["g"].tanh()
    return a["o"].sigmoid() * memory.tanh(), memory


@rubric.mistake("lstm_step", "The candidate g is no gate: it needs a tanh, so that it can also write negative numbers.")
def candidate_through_sigmoid(x, h, c, W, U, b):
    a = blocks(x, h, W, U, b)
    memory = a["f"].sigmoid() * c + a["i"].sigmoid() * a["g"].sigmoid()
    return a["o"].sigmoid() * memory.tanh(), memory


@rubric.mistake("lstm_step", "Between the memory and the output stands a tanh: h' = o ⊙ tanh(c').")
def shows_the_bare_memory(x, h, c, W, U, b):
    _, memory = lstm_step(x, h, c, W, U, b)
    return blocks(x, h, W, U, b)["o"].sigmoid() * memory, memory


@rubric.mistake("lstm_step", "You show the old memory. h' is made from the new one: o ⊙ tanh(c').")
def shows_the_old_memory(x, h, c, W, U, b):
    return blocks(x, h, W, U, b)["o"].sigmoid() * c.tanh(), lstm_step(x, h, c, W, U, b)[1]


@rubric.mistake("lstm_step", "Right numbers, wrong order: return the hidden state h' first, then the memory c'.")
def swapped_pair(x, h, c, W, U, b):
    return lstm_step(x, h, c, W, U, b)[::-1]


@rubric.mistake("lstm_step", "The bias b is missing from the sums.")
def without_bias(x, h, c, W, U, b):
    return lstm_step(x, h, c, W, U, torch.zeros_like(b))


def lstm_inputs(rng, batch, width, hidden):
    x, h, c = draw(rng, batch, width), draw(rng, batch, hidden), 2 * draw(rng, batch, hidden)
    return x, h, c, draw(rng, 4 * hidden, width), draw(rng, 4 * hidden, hidden), draw(rng, 4 * hidden)


def assert_pair(got, want):
    assert_close(got, want, what=("the hidden state h'", "the memory c'"))


@rubric.test("lstm", points=2, visible=True, hint="The six lines of the LSTM, with the blocks in the order i, f, g, o.")
def lstm_step_matches_the_equations(submission, rng):
    inputs = lstm_inputs(rng, 3, 4, 5)
    assert_pair(submission.lstm_step(*inputs), lstm_step(*inputs))


@rubric.test(
    "lstm",
    points=1,
    visible=False,
    topic="gradients",
    hint="Every weight must get its gradient, in the first step too.",
)
def lstm_step_passes_gradients(submission, rng):
    inputs, upstream = lstm_inputs(rng, 2, 6, 3), (draw(rng, 2, 3), draw(rng, 2, 3))
    got = submission.lstm_step.gradients(*inputs, upstream=upstream)
    assert_close(got, rubric.solution.lstm_step.gradients(*inputs, upstream=upstream))


# 2. One step of a GRU


@rubric.reference
def gru_step(x, h, W, U, b_input, b_hidden):
    return torch.gru_cell(x, h, W, U, b_input, b_hidden)


def shares(x, h, W, U, b_input, b_hidden):
    """What the input and the hidden state give to r, z and n."""
    return (x @ W.mT + b_input).chunk(3, dim=-1), (h @ U.mT + b_hidden).chunk(3, dim=-1)


@rubric.mistake(
    "gru_step", "Your update gate is upside down: here z is the share of the *old* state, z ⊙ h + (1 − z) ⊙ n."
)
def update_upside_down(x, h, W, U, b_input, b_hidden):
    (r, z, n), (hr, hz, hn) = shares(x, h, W, U, b_input, b_hidden)
    z, candidate = (z + hz).sigmoid(), (n + (r + hr).sigmoid() * hn).tanh()
    return (1 - z) * h + z * candidate


@rubric.mistake(
    "gru_step",
    "You reset h before the product, U (r ⊙ h), as the paper does. Here, as in PyTorch, r comes after: r ⊙ (U h + b).",
)
def resets_before_the_product(x, h, W, U, b_input, b_hidden):
    (r, z, n), (hr, hz, _) = shares(x, h, W, U, b_input, b_hidden)
    reset, z = (r + hr).sigmoid(), (z + hz).sigmoid()
    hn = (reset * h) @ U.chunk(3)[2].mT + b_hidden.chunk(3)[2]
    return z * h + (1 - z) * (n + hn).tanh()


@rubric.mistake("gru_step", "The reset gate also hits the input. It resets only the hidden state's share.")
def resets_everything(x, h, W, U, b_input, b_hidden):
    (r, z, n), (hr, hz, hn) = shares(x, h, W, U, b_input, b_hidden)
    z, candidate = (z + hz).sigmoid(), ((r + hr).sigmoid() * (n + hn)).tanh()
    return z * h + (1 - z) * candidate


@rubric.mistake("gru_step", "Your candidate never resets: multiply the hidden state's share of it by r.")
def never_resets(x, h, W, U, b_input, b_hidden):
    (_, z, n), (_, hz, hn) = shares(x, h, W, U, b_input, b_hidden)
    z = (z + hz).sigmoid()
    return z * h + (1 - z) * (n + hn).tanh()


@rubric.mistake("gru_step", "You read the blocks as z, r, n. They stand as r, z, n: reset first.")
def update_block_first(x, h, W, U, b_input, b_hidden):
    (z, r, n), (hz, hr, hn) = shares(x, h, W, U, b_input, b_hidden)
    z = (z + hz).sigmoid()
    return z * h + (1 - z) * (n + (r + hr).sigmoid() * hn).tanh()


@rubric.mistake(
    "gru_step", "b_hidden of the candidate stands outside your reset. It belongs inside: r ⊙ (U h + b_hidden)."
)
def bias_outside_the_reset(x, h, W, U, b_input, b_hidden):
    (r, z, n), (hr, hz, hn) = shares(x, h, W, U, b_input, b_hidden)
    z, bias = (z + hz).sigmoid(), b_hidden.chunk(3)[2]
    return z * h + (1 - z) * (n + (r + hr).sigmoid() * (hn - bias) + bias).tanh()


@rubric.mistake("gru_step", "You return the candidate alone. The new state mixes it with the old one through z.")
def candidate_alone(x, h, W, U, b_input, b_hidden):
    (r, _, n), (hr, _, hn) = shares(x, h, W, U, b_input, b_hidden)
    return (n + (r + hr).sigmoid() * hn).tanh()


def gru_inputs(rng, batch, width, hidden):
    x, h = draw(rng, batch, width), draw(rng, batch, hidden)
    return (
        x,
        h,
        draw(rng, 3 * hidden, width),
        draw(rng, 3 * hidden, hidden),
        draw(rng, 3 * hidden),
        draw(rng, 3 * hidden),
    )


@rubric.test(
    "gru", points=2, visible=True, hint="Compute r, z and n one after the other, and compare each with its line."
)
def gru_step_matches_the_equations(submission, rng):
    inputs = gru_inputs(rng, 3, 4, 5)
    assert_close(submission.gru_step(*inputs), gru_step(*inputs), what="the new state")


@rubric.test(
    "gru",
    points=1,
    visible=False,
    topic="gradients",
    hint="With z = 1 the old state must pass unchanged, gradient and all.",
)
def gru_step_passes_gradients(submission, rng):
    inputs, upstream = gru_inputs(rng, 2, 6, 3), draw(rng, 2, 3)
    got = submission.gru_step.gradients(*inputs, upstream=upstream)
    assert_close(got, rubric.solution.gru_step.gradients(*inputs, upstream=upstream))


# 3. The forget bias


@rubric.reference
def open_forget_gate(b, value):
    hidden = len(b) // 4
    return torch.cat([b[:hidden], torch.full_like(b[:hidden], value), b[2 * hidden :]])  # (4 H,)


@rubric.reference
def bias_to_keep(share, gap):
    return -math.log(math.expm1(-math.log(share) / gap))


def with_block(b, start, block):
    hidden = len(b) // 4
    return torch.cat([b[: start * hidden], block, b[(start + 1) * hidden :]])  # (4 H,)


@rubric.mistake(
    "open_forget_gate",
    "You set the first block, the input gate's: the cell now writes at every step. The forget gate's is the second.",
)
def opens_the_input_gate(b, value):
    return with_block(b, 0, torch.full_like(b[: len(b) // 4], value))


@rubric.mistake("open_forget_gate", "You set all four blocks. Only the forget gate's changes.")
def opens_everything(b, value):
    return torch.full_like(b, value)


@rubric.mistake("open_forget_gate", "You add the value to the block. The task is to set it, whatever was there before.")
def adds_to_the_bias(b, value):
    return with_block(b, 1, b.chunk(4)[1] + value)


@rubric.mistake("open_forget_gate", "You set the third block, the candidate's. The order is i, f, g, o.")
def sets_the_candidate(b, value):
    return with_block(b, 2, torch.full_like(b[: len(b) // 4], value))


@rubric.mistake("open_forget_gate", "You write into the bias you were given. Return a new one: b.clone() first.")
def writes_into_the_bias(b, value):
    b[len(b) // 4 : len(b) // 2] = value
    return b


@rubric.mistake(
    "bias_to_keep",
    "Your bias keeps this share in *one* step. After n steps f is multiplied n times: you need fⁿ = share.",
)
def keeps_for_one_step(share, gap):
    return math.log(share / (1 - share))


@rubric.mistake("bias_to_keep", "That is the forget gate f itself. What bias b gives σ(b) = f?")
def the_gate_itself(share, gap):
    return share ** (1 / gap)


@rubric.mistake("bias_to_keep", "The sign: a positive bias opens the gate. Undo the sigmoid with log(f / (1 − f)).")
def upside_down(share, gap):
    return -bias_to_keep(share, gap)


@rubric.mistake(
    "bias_to_keep", "You divide the gap out instead of taking a root: n equal factors of product s are each s^(1/n)."
)
def shares_divided_by_gap(share, gap):
    f = 1 - (1 - share) / gap
    return math.log(f / (1 - f))


@rubric.mistake("bias_to_keep", "log(gap) is the answer for a share of 1/e, nearly. The share must matter.")
def ignores_the_share(share, gap):
    return math.log(gap)


@rubric.test(
    "forget_bias", points=1, visible=True, hint="Of the four blocks i, f, g, o the second is set; the others stay."
)
def opens_one_block(submission, rng):
    b = draw(rng, 12)
    assert_close(submission.open_forget_gate(b, 2.5), open_forget_gate(b, 2.5), what="the bias")


@rubric.test("forget_bias", points=2, visible=True, hint="First f, the n-th root of the share; then undo the sigmoid.")
def bias_keeps_the_share(submission, rng):
    for share, gap in ((0.5, 1), (0.5, 10), (0.8, 60), (0.1, 7), (0.9, 20)):  # half precision is too coarse for some
        got = submission.bias_to_keep(share, gap)
        assert_close(got, bias_to_keep(share, gap), what=f"the bias for share {share} and gap {gap}")


@rubric.test(
    "forget_bias",
    points=1,
    visible=False,
    topic="long gaps",
    hint="Gaps of thousands of steps, and other widths, must work too.",
)
def bias_works_for_other_gaps(submission, rng):
    b, value = draw(rng, 20), float(draw(rng, 1))
    assert_close(submission.open_forget_gate(b, value), open_forget_gate(b, value), what="the bias")
    assert_close(submission.open_forget_gate.arguments_after(b, value)[0], b, what="the old bias after the call")
    # float32 is enough, and has fewer digits left of 1 − f the longer the gap is
    for longest, rtol in ((20, 1e-4), (20, 1e-4), (5000, 1e-3), (5000, 1e-3)):
        share = float(0.05 + 0.9 * torch.rand((), generator=rng))
        gap = int(torch.randint(2, longest, (), generator=rng))
        got = submission.bias_to_keep(share, gap)
        assert_close(got, bias_to_keep(share, gap), what=f"the bias for share {share:.3f} and gap {gap}", rtol=rtol)


# 4. Gradient flow


def run_flow(inputs, h, c, W, U, b, upstream, *, cut=False, cut_memory=False, of="c"):
    """∂loss/∂c_t (or h_t) at every step, (T, B, H)."""
    hiddens, memories = [], []
    c = c.detach().requires_grad_()  # so that there is a graph even if everything else is cut
    h = h.detach().requires_grad_()
    for x in inputs:
        h, c = lstm_step(x, h.detach() if cut else h, c.detach() if cut_memory else c, W, U, b)
        hiddens.append(h)
        memories.append(c)
    states = memories if of == "c" else hiddens
    gradients = torch.autograd.grad((h * upstream).sum(), states, allow_unused=True)
    return torch.stack([torch.zeros_like(c) if g is None else g for g in gradients])  # (T, B, H)


def norms(gradients):
    return gradients.flatten(1).norm(dim=1)  # (T,)


@rubric.reference
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    return norms(run_flow(inputs, h, c, W, U, b, upstream, cut=cut))


@rubric.mistake(
    "gradient_flow", "You keep the memory *before* each step. Entry 0 belongs to c₁, what the first step has left."
)
def memories_before(inputs, h, c, W, U, b, upstream, cut=False):
    memories = [c := c.detach().requires_grad_()]
    for x in inputs:
        h, c = lstm_step(x, h.detach() if cut else h, c, W, U, b)
        memories.append(c)
    return norms(torch.stack(torch.autograd.grad((h * upstream).sum(), memories[:-1])))


def judge(full, highway):
    if full[0] < 1e-3 * full[-1]:
        return "vanishes"
    return "highway" if highway[0] > 0.5 * full[0] else "detour"


@rubric.reference
def explain(inputs, h, c, W, U, b, upstream):
    weights = (inputs, h, c, W, U, b, upstream)
    return judge(gradient_flow(*weights), gradient_flow(*weights, cut=True))


@rubric.mistake(
    "gradient_flow",
    "These are the gradients with respect to the hidden states h. The question is about the memories c.",
)
def flow_of_the_hidden_states(inputs, h, c, W, U, b, upstream, cut=False):
    return norms(run_flow(inputs, h, c, W, U, b, upstream, cut=cut, of="h"))


@rubric.mistake("gradient_flow", "Your list runs backwards in time: entry 0 belongs to the first step.")
def flow_backwards(inputs, h, c, W, U, b, upstream, cut=False):
    return gradient_flow(inputs, h, c, W, U, b, upstream, cut).flip(0)


@rubric.mistake("gradient_flow", "`cut` changes nothing in your run: with cut=True detach h before each step.")
def never_cuts(inputs, h, c, W, U, b, upstream, cut=False):
    return gradient_flow(inputs, h, c, W, U, b, upstream)


@rubric.mistake("gradient_flow", "You cut the memory c, the highway itself. `cut` detaches h; c must stay connected.")
def cuts_the_highway(inputs, h, c, W, U, b, upstream, cut=False):
    return norms(run_flow(inputs, h, c, W, U, b, upstream, cut_memory=cut))


@rubric.mistake("gradient_flow", "The gradients have signs: take their norm, not their sum.")
def sums_with_signs(inputs, h, c, W, U, b, upstream, cut=False):
    return run_flow(inputs, h, c, W, U, b, upstream, cut=cut).flatten(1).sum(dim=1)


@rubric.mistake("gradient_flow", "The loss weighs h_T by `upstream`; you add h_T up as it is.")
def ignores_the_upstream(inputs, h, c, W, U, b, upstream, cut=False):
    return gradient_flow(inputs, h, c, W, U, b, torch.ones_like(upstream), cut)


@rubric.mistake(
    "explain",
    "You never answer 'vanishes': first compare the first step's gradient with the last step's.",
)
def never_vanishes(inputs, h, c, W, U, b, upstream):
    weights = (inputs, h, c, W, U, b, upstream)
    full, highway = gradient_flow(*weights), gradient_flow(*weights, cut=True)
    return "highway" if highway[0] > 0.5 * full[0] else "detour"


@rubric.mistake(
    "explain",
    "A gradient that arrives need not have come by the highway: measure again with cut=True; compare step one.",
)
def takes_survival_for_highway(inputs, h, c, W, U, b, upstream):
    full = gradient_flow(inputs, h, c, W, U, b, upstream)
    return "vanishes" if full[0] < 1e-3 * full[-1] else "highway"


@rubric.mistake(
    "explain", "You call small gradients vanished. Small against what? Divide by the gradient at the last step."
)
def absolute_threshold(inputs, h, c, W, U, b, upstream):
    weights = (inputs, h, c, W, U, b, upstream)
    full, highway = gradient_flow(*weights), gradient_flow(*weights, cut=True)
    if full[0] < 1e-3:
        return "vanishes"
    return "highway" if highway[0] > 0.5 * full[0] else "detour"


@rubric.mistake(
    "explain", "You ask which way a gradient goes before you ask whether there is one: 'vanishes' comes first."
)
def asks_the_way_first(inputs, h, c, W, U, b, upstream):
    weights = (inputs, h, c, W, U, b, upstream)
    full, highway = gradient_flow(*weights), gradient_flow(*weights, cut=True)
    if highway[0] > 0.5 * full[0]:
        return "highway"
    return "vanishes" if full[0] < 1e-3 * full[-1] else "detour"


@rubric.mistake(
    "explain",
    "The highway need not carry nearly all: 'highway' begins where it carries more than half.",
)
def asks_for_nearly_all(inputs, h, c, W, U, b, upstream):
    weights = (inputs, h, c, W, U, b, upstream)
    full, highway = gradient_flow(*weights), gradient_flow(*weights, cut=True)
    if full[0] < 1e-3 * full[-1]:
        return "vanishes"
    return "highway" if highway[0] > 0.9 * full[0] else "detour"


@rubric.mistake("explain", "'highway' and 'detour' are swapped.")
def exchanged_names(inputs, h, c, W, U, b, upstream):
    answer = explain(inputs, h, c, W, U, b, upstream)
    return {"highway": "detour", "detour": "highway"}.get(answer, answer)


def flow_inputs(rng, length, batch, width, hidden):
    _, h, c, W, U, b = lstm_inputs(rng, batch, width, hidden)
    return draw(rng, length, batch, width), h, c, 0.5 * W, 0.7 * U, b, draw(rng, batch, hidden)


def cell_of_kind(rng, kind, length, hidden):
    """Weights whose gradient goes one known way: the gates are set by their biases, i, f, g and o in that order."""
    gates = {"vanishes": (2.0, -2.0, 0.0, 0.0), "highway": (-3.0, 9.0, 0.0, 0.0), "detour": (9.0, -9.0, 0.0, 9.0)}[kind]
    b = torch.tensor(gates).repeat_interleave(hidden)
    W, U = 0.05 * draw(rng, 4 * hidden, 3), 0.05 * draw(rng, 4 * hidden, hidden)
    if kind == "detour":  # h turns round and round through the candidate, and the memory holds nothing itself
        turn, _ = torch.linalg.qr(draw(rng, hidden, hidden))
        U = torch.cat([U[: 2 * hidden], 1.05 * turn, U[3 * hidden :]])  # (4 H, H)
    inputs, h, c = 0.01 * draw(rng, length, 2, 3), 0.01 * draw(rng, 2, hidden), 0.01 * draw(rng, 2, hidden)
    return inputs, h, c, W, U, b, draw(rng, 2, hidden)


def cell_that_keeps(rng, share, length, hidden):
    """Without a detour: `share` of the gradient at the last step is left at the first."""
    forget = bias_to_keep(share, length - 1)
    b = torch.tensor([0.0, forget, 0.0, 0.0]).repeat_interleave(hidden)
    inputs, h, c = torch.zeros(length, 2, 3), torch.zeros(2, hidden), 0.01 * draw(rng, 2, hidden)
    return inputs, h, c, draw(rng, 4 * hidden, 3), torch.zeros(4 * hidden, hidden), b, draw(rng, 2, hidden)


def cell_of_two_ways(rng, share, length, hidden):
    """Of the gradient at the first step `share` is left when the detour is cut: U is made as large as that takes."""
    inputs, h, c, W, U, b, upstream = cell_of_kind(rng, "highway", length, hidden)
    b[:hidden], low, high = 0.0, 0.0, 4.0
    for _ in range(20):
        strength = (low + high) / 2
        U = U.clone()
        U[2 * hidden : 3 * hidden] = strength * torch.eye(hidden)
        weights = (inputs, h, c, W, U, b, upstream)
        left = gradient_flow(*weights, cut=True)[0] / gradient_flow(*weights)[0]
        low, high = (strength, high) if left > share else (low, strength)
    return weights


FLOW_NEEDS = ("lstm_step",)


@rubric.test(
    "flow", points=2, visible=True, hint="Keep every c in a list; torch.autograd.grad takes the list.", needs=FLOW_NEEDS
)
def flow_is_measured(submission, rng):
    weights = flow_inputs(rng, 6, 2, 3, 4)
    assert_close(submission.gradient_flow(*weights), gradient_flow(*weights), what="the gradient norms", rtol=1e-3)


@rubric.test("flow", points=1, visible=True, hint="With cut=True only the memory connects the steps.", needs=FLOW_NEEDS)
def flow_is_cut_at_the_hidden_state(submission, rng):
    weights = flow_inputs(rng, 6, 2, 3, 4)
    got, want = submission.gradient_flow(*weights, cut=True), gradient_flow(*weights, cut=True)
    assert_close(got, want, what="the gradient norms with cut=True", rtol=1e-3)


EXPLAIN_NEEDS = ("lstm_step", "gradient_flow")


@rubric.test("flow", points=2, visible=True, hint="Two measurements, two comparisons.", needs=EXPLAIN_NEEDS)
def explains_three_cells(submission, rng):
    for kind in ("vanishes", "highway", "detour"):
        weights = cell_of_kind(rng, kind, 12, 4)
        assert_close(submission.explain(*weights), kind, what="the explanation")
        tiny = (*weights[:-1], 1e-5 * weights[-1])
        assert_close(submission.explain(*tiny), kind, what="the explanation, with a loss 100,000 times smaller")
    got = submission.explain(*cell_of_two_ways(rng, 0.7, 8, 4))
    assert_close(got, "highway", what="the explanation where the highway carries 0.7 of the gradient")


@rubric.test(
    "flow",
    points=0.5,
    visible=False,
    topic="other cells",
    hint="Other lengths, other widths, any order.",
    needs=EXPLAIN_NEEDS,
)
def explains_other_cells(submission, rng):
    kinds = ("vanishes", "highway", "detour", "highway", "vanishes")
    for index in torch.randperm(5, generator=rng).tolist():
        weights = cell_of_kind(rng, kinds[index], 15 + index, 5)
        assert_close(submission.explain(*weights), kinds[index], what="the explanation")
    inputs, h, c, W, U, b, upstream = cell_of_kind(rng, "vanishes", 18, 5)
    got = submission.explain(inputs, h, c, W, torch.zeros_like(U), b, upstream)
    assert_close(got, "vanishes", what="the explanation of a cell without a detour")
    for share, kind in ((7e-4, "vanishes"), (1.5e-3, "highway")):
        got = submission.explain(*cell_that_keeps(rng, share, 10, 4))
        assert_close(got, kind, what=f"the explanation where {share:g} of the gradient is left")
    for share, kind in ((0.55, "highway"), (0.45, "detour")):
        got = submission.explain(*cell_of_two_ways(rng, share, 8, 4))
        assert_close(got, kind, what=f"the explanation where the highway carries {share:g} of the gradient")


@rubric.test("flow", points=0.5, visible=False, topic="other sizes", hint="Other lengths and widths.", needs=FLOW_NEEDS)
def flow_of_other_sizes(submission, rng):
    weights = flow_inputs(rng, 9, 3, 2, 5)
    assert_close(submission.gradient_flow(*weights), gradient_flow(*weights), what="the gradient norms", rtol=1e-3)
