from functools import partial

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lecturelib.layers.cells import GRU, LSTM, RNN
from lecturelib.layers.cells_searched import MUT1, MUT2, MUT3, NASCell
from lecturelib.layers.recurrent import Recurrent, _torch_module, gradient_norms, reverse_sequences
from lecturelib.layers.state import detach_state
from lecturelib.models import load

B, T, D, H = 3, 6, 4, 5
LENGTHS = torch.tensor([4, 6, 1])
CELLS = [RNN, LSTM, GRU, MUT1, MUT2, MUT3, NASCell]
TORCH = {
    "tanh": (RNN, torch.nn.RNN),
    "relu": (partial(RNN, nonlinearity="relu"), partial(torch.nn.RNN, nonlinearity="relu")),
    "lstm": (LSTM, torch.nn.LSTM),
    "gru": (GRU, torch.nn.GRU),
}


def inputs(seed=0):
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(seed))


def stacked(state):
    """Our states as torch's (layers · directions, B, H) tensors."""
    return [torch.stack(parts) for parts in zip(*state, strict=True)]


def flat(state):
    return [tensor for part in state for tensor in part]


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("given_state", [False, True])
def test_recurrent_matches_torch(kind, bidirectional, padded, given_state):
    cell, peer = TORCH[kind]
    ours = Recurrent(cell, D, H, num_layers=2, bidirectional=bidirectional)
    theirs = peer(D, H, num_layers=2, bidirectional=bidirectional, batch_first=True)
    load(ours, theirs)
    x = inputs().requires_grad_()
    state = None
    if given_state:
        generator = torch.Generator().manual_seed(3)
        state = tuple(tuple(torch.randn(B, H, generator=generator) for _ in s) for s in ours.initial_state(B))
    hx = None if state is None else tuple(stacked(state)) if kind == "lstm" else stacked(state)[0]
    outputs, final = ours(x, LENGTHS if padded else None, state)
    if padded:
        packed, want_final = theirs(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False), hx)
        want, _ = pad_packed_sequence(packed, batch_first=True)
    else:
        want, want_final = theirs(x, hx)
    want_final = want_final if kind == "lstm" else (want_final,)
    torch.testing.assert_close(outputs, want)
    torch.testing.assert_close(stacked(final), list(want_final))

    def loss(outputs, final):
        return outputs.square().sum() + sum((k + 1) * f.sin().sum() for k, f in enumerate(final))

    named = dict(theirs.named_parameters())
    want_grads = torch.autograd.grad(loss(want, want_final), [x, *named.values()])
    grads = torch.autograd.grad(loss(outputs, stacked(final)), [x, *ours.parameters()])
    torch.testing.assert_close(grads, want_grads)


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_of_one_step_matches_torch(kind, bidirectional):
    """Decoders ask for one step at a time; on a CPU that is not worth a call of the fused kernel."""
    cell, peer = TORCH[kind]
    ours = Recurrent(cell, D, H, num_layers=2, bidirectional=bidirectional)
    theirs = peer(D, H, num_layers=2, bidirectional=bidirectional, batch_first=True)
    load(ours, theirs)
    x = inputs()[:, :1]
    torch.testing.assert_close(ours(x)[0], theirs(x)[0])
    outputs, final = ours(x, torch.tensor([1, 0, 1])[:B])
    torch.testing.assert_close(outputs[1], torch.zeros_like(outputs[1]))
    assert all((part[1] == 0).all() for state in final for part in state)


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("lengths", [None, torch.tensor([4, 6, 0])])
def test_recurrent_fused_equals_steps(kind, lengths):
    ours = Recurrent(TORCH[kind][0], D, H, num_layers=2, bidirectional=True)
    x = inputs().requires_grad_()
    fused, fused_state = ours(x, lengths)
    steps, state, _ = ours.trace(x, lengths)
    torch.testing.assert_close(fused, steps)
    torch.testing.assert_close(flat(fused_state), flat(state))
    parameters = [x, *ours.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(fused.square().sum(), parameters), torch.autograd.grad(steps.square().sum(), parameters)
    )


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_ignores_padding(cell):
    ours = Recurrent(cell, D, H, num_layers=2, bidirectional=True)
    x = inputs()
    garbage = x.clone()
    for row, length in enumerate(LENGTHS):
        garbage[row, length:] = 1e3
    outputs, state = ours(x, LENGTHS)
    changed, changed_state = ours(garbage, LENGTHS)
    torch.testing.assert_close(outputs, changed)
    torch.testing.assert_close(flat(state), flat(changed_state))
    for row, length in enumerate(LENGTHS):
        alone, alone_state = ours(x[row : row + 1, :length])
        torch.testing.assert_close(outputs[row : row + 1, :length], alone)
        assert not outputs[row, length:].any()
        torch.testing.assert_close([s[row : row + 1] for s in flat(state)], flat(alone_state))


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_of_length_zero_keeps_the_initial_state(cell):
    ours = Recurrent(cell, D, H, bidirectional=True)
    start = tuple(tuple(torch.full((B, H), 0.1 + k) for _ in part) for k, part in enumerate(ours.initial_state(B)))
    outputs, state = ours(inputs(), torch.tensor([2, 0, 6]), start)
    assert not outputs[1].any()
    torch.testing.assert_close([s[1] for s in flat(state)], [s[1] for s in flat(start)])
    assert not any(torch.equal(s[0], i[0]) for s, i in zip(flat(state), flat(start), strict=True))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shape", [(0, T, D), (B, 0, D)])
def test_recurrent_of_nothing_is_empty(cell, shape):
    ours = Recurrent(cell, D, H, num_layers=2, bidirectional=True)
    outputs, state = ours(torch.zeros(shape), torch.zeros(shape[0], dtype=torch.long))
    assert outputs.shape == (shape[0], shape[1], 2 * H)
    assert all(s.shape == (shape[0], H) and not s.any() for s in flat(state))


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_in_chunks_equals_one_run_and_detached_state_stops_the_gradient(cell):
    ours = Recurrent(cell, D, H, num_layers=2)
    x = inputs().requires_grad_()
    whole, final = ours(x)
    first, state = ours(x[:, :4])
    second, chunk_final = ours(x[:, 4:], state=state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(flat(final), flat(chunk_final))
    cut, _ = ours(x[:, 4:], state=detach_state(state))
    (grad,) = torch.autograd.grad(cut.square().sum(), x)
    assert not grad[:, :4].any()
    assert (grad[:, 4:].abs().sum(dim=-1) > 0).all()


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_trace_shows_the_states_and_gates_of_every_step(cell):
    ours = Recurrent(cell, D, H, num_layers=2, bidirectional=True)
    x = inputs()
    outputs, state, traces = ours.trace(x, LENGTHS)
    assert len(traces) == 4
    top_forward, top_backward = traces[2:]
    last = int(LENGTHS[1])  # row 1 has no padding
    for t in range(last):
        torch.testing.assert_close(outputs[1, t, :H], top_forward.states[t + 1][0][1])
        torch.testing.assert_close(outputs[1, t, H:], top_backward.states[last - t][0][1])
    torch.testing.assert_close(top_forward.states[-1], state[2])
    bottom = traces[0]
    gates = ours.cells[0].gates(ours.cells[0].project(x[:, 0]), bottom.states[0])
    assert gates.keys() == bottom.gates.keys()
    for name, values in gates.items():
        assert bottom.gates[name].shape == (B, T, H)
        torch.testing.assert_close(bottom.gates[name][:, 0], values)


def test_gradient_norms_of_a_linear_recurrence_decay_like_its_powers():
    ours = Recurrent(partial(RNN, nonlinearity="relu"), 1, 1)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
        ours.cells[0].weight_ih.fill_(1.0)
        ours.cells[0].weight_hh.fill_(0.5)
    outputs, _, (trace,) = ours.trace(torch.ones(2, 4, 1))
    norms = gradient_norms(outputs[:, -1].sum(), trace)
    torch.testing.assert_close(norms, torch.tensor([0.125, 0.25, 0.5, 1.0]).expand(2, 4))


def test_gradient_norms_of_an_open_memory_cell_do_not_decay():
    ours = Recurrent(LSTM, D, H)
    with torch.no_grad():
        ours.cells[0].weight_hh.zero_()
        ours.cells[0].bias_ih[H : 2 * H] = 100.0
    _, state, (trace,) = ours.trace(inputs())
    norms = gradient_norms(state[0][1].sum(), trace, part=1)
    torch.testing.assert_close(norms, torch.full((B, T), H**0.5))


def test_reverse_sequences_turns_each_row_within_its_length():
    x = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7], [8, 0, 0, 0]])
    want = torch.tensor([[3, 2, 1, 0], [7, 6, 5, 4], [8, 0, 0, 0]])
    lengths = torch.tensor([3, 4, 1])
    assert torch.equal(reverse_sequences(x, lengths), want)
    wide = torch.stack([x, 10 * x], dim=-1)
    assert torch.equal(reverse_sequences(wide, lengths), torch.stack([want, 10 * want], dim=-1))
    assert torch.equal(reverse_sequences(reverse_sequences(x)), x)


def test_recurrent_dropout_is_between_layers_and_only_in_training():
    x = inputs()
    one = Recurrent(GRU, D, H, dropout=0.9)
    torch.testing.assert_close(one(x)[0], one.eval()(x)[0])
    two = Recurrent(GRU, D, H, num_layers=2, dropout=0.9)
    assert not torch.allclose(two(x)[0], two.eval()(x)[0])
    torch.testing.assert_close(two(x)[0], two(x)[0])


def test_load_without_biases_leaves_zeros():
    theirs = torch.nn.GRU(D, H, bias=False, batch_first=True)
    ours = load(Recurrent(GRU, D, H), theirs)
    torch.testing.assert_close(ours(inputs())[0], theirs(inputs())[0])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.LSTM(D, H), "cannot copy a torch LSTM into a GRU"),
        (torch.nn.GRU(D, H, num_layers=2), "2 layers × 1 directions"),
        (torch.nn.GRU(D + 1, H), r"weight_ih_l0 has shape \(15, 5\), needed \(15, 4\)"),
        (torch.nn.LSTM(D, H, proj_size=2), "proj_size"),
    ],
)
def test_load_of_another_shape_says_what_differs(module, message):
    with pytest.raises(ValueError, match=message):
        load(Recurrent(GRU, D, H), module)


def test_recurrent_errors_name_what_was_given():
    ours = Recurrent(GRU, D, H, num_layers=2)
    with pytest.raises(ValueError, match=r"\(batch, length, 4\), got \(3, 6, 9\)"):
        ours(torch.zeros(B, T, 9))
    with pytest.raises(ValueError, match=r"lengths must be \(3,\) integers, got torch.int64 \(2,\)"):
        ours(inputs(), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"between 0 and the padded length 6, got \[1, 7, 2\]"):
        ours(inputs(), torch.tensor([1, 7, 2]))
    with pytest.raises(ValueError, match="2 layers × 1 directions"):
        ours(inputs(), state=ours.initial_state(B)[:1])
    with pytest.raises(ValueError, match="num_layers must be at least 1, got 0"):
        Recurrent(GRU, D, H, num_layers=0)
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1.0"):
        Recurrent(GRU, D, H, dropout=1.0)


@pytest.mark.accelerator
@pytest.mark.parametrize("kind", TORCH)
def test_recurrent_on_a_gpu_equals_the_cpu(kind):
    """Warnings are errors here, so this also shows that cuDNN finds the weights in one block."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    ours = Recurrent(TORCH[kind][0], D, H, num_layers=2, bidirectional=True)
    want, _ = ours(inputs(), LENGTHS)
    got, _ = ours.cuda()(inputs().cuda(), LENGTHS.cuda())
    torch.testing.assert_close(got.cpu(), want, atol=1e-4, rtol=1e-4)


def test_recurrent_weights_shared_with_a_torch_module_are_the_same_parameters():
    """What `flatten_parameters` rearranges on a GPU must be the cells' own weights, not copies."""
    ours = Recurrent(LSTM, D, H, bidirectional=True)
    module = _torch_module(list(ours.cells))
    want = [weight for cell in ours.cells for weight in cell.flat_weights()]
    assert all(a is b for a, b in zip(module._flat_weights, want, strict=True))
