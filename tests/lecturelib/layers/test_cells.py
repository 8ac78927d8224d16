import pytest
import torch

from lecturelib.layers.cells import GRU, LSTM, RNN
from lecturelib.layers.cells_searched import MUT1, MUT2, MUT3, NASCell

B, D, H = 3, 5, 7
CELLS = [RNN, LSTM, GRU, MUT1, MUT2, MUT3, NASCell]


def run(cell, dim=D):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(B, dim, generator=generator)
    state = tuple(torch.randn(B, cell.hidden_dim, generator=generator) for _ in range(cell.num_states))
    return x, state, cell(x, state)


def with_known_weights(cell):
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return cell


@pytest.mark.parametrize("relu", [False, True])
def test_rnn_step_matches_torch(relu):
    theirs = torch.nn.RNNCell(D, H, nonlinearity="relu" if relu else "tanh")
    ours = RNN(D, H, nonlinearity="relu" if relu else "tanh")
    ours.load_state_dict(theirs.state_dict())
    x, (h,), (new,) = run(ours)
    torch.testing.assert_close(new, theirs(x, h))


def test_lstm_step_matches_torch():
    theirs, ours = torch.nn.LSTMCell(D, H), LSTM(D, H)
    ours.load_state_dict(theirs.state_dict())
    x, state, new = run(ours)
    torch.testing.assert_close(new, theirs(x, state))


def test_gru_step_matches_torch():
    theirs, ours = torch.nn.GRUCell(D, H), GRU(D, H)
    ours.load_state_dict(theirs.state_dict())
    x, (h,), (new,) = run(ours)
    torch.testing.assert_close(new, theirs(x, h))


def test_lstm_with_open_forget_and_closed_input_gate_keeps_its_memory():
    cell = LSTM(D, H)
    with torch.no_grad():
        cell.bias_ih[:H] = -100.0  # i = 0
        cell.bias_ih[H : 2 * H] = 100.0  # f = 1
    _, (_, c), (_, new_c) = run(cell)
    assert torch.equal(new_c, c)


def test_lstm_forget_bias_moves_only_the_forget_gate():
    torch.manual_seed(0)
    plain = LSTM(D, H)
    torch.manual_seed(0)
    biased = LSTM(D, H, forget_bias=1.5)
    change = biased.bias_ih - plain.bias_ih
    assert torch.allclose(change[H : 2 * H], torch.tensor(1.5))
    assert torch.equal(change[:H], torch.zeros(H))
    assert torch.equal(change[2 * H :], torch.zeros(2 * H))


@pytest.mark.parametrize("dim", [D, H])
def test_mut1_follows_the_paper(dim):
    cell = with_known_weights(MUT1(dim, H))
    x, (h,), (new,) = run(cell, dim)
    (w_xz, w_xr), (b_z, b_r) = cell.input_gates.weight.chunk(2), cell.input_gates.bias.chunk(2)
    lifted = x if dim == H else x @ cell.lift.weight.T
    z = torch.sigmoid(x @ w_xz.T + b_z)
    r = torch.sigmoid(x @ w_xr.T + h @ cell.hidden_reset.weight.T + b_r)
    inner = (r * h) @ cell.hidden_candidate.weight.T + torch.tanh(lifted) + cell.hidden_candidate.bias
    torch.testing.assert_close(new, torch.tanh(inner) * z + h * (1 - z))


@pytest.mark.parametrize("dim", [D, H])
def test_mut2_follows_the_paper(dim):
    cell = with_known_weights(MUT2(dim, H))
    x, (h,), (new,) = run(cell, dim)
    (w_xz, w_xh), (b_z, b_h) = cell.input_gates.weight.chunk(2), cell.input_gates.bias.chunk(2)
    lifted = x if dim == H else x @ cell.lift.weight.T
    z = torch.sigmoid(x @ w_xz.T + h @ cell.hidden_update.weight.T + b_z)
    r = torch.sigmoid(lifted + h @ cell.hidden_reset.weight.T + cell.hidden_reset.bias)
    inner = (r * h) @ cell.hidden_candidate.weight.T + x @ w_xh.T + b_h
    torch.testing.assert_close(new, torch.tanh(inner) * z + h * (1 - z))


def test_mut3_follows_the_paper():
    cell = with_known_weights(MUT3(D, H))
    x, (h,), (new,) = run(cell)
    (w_xz, w_xr, w_xh), (b_z, b_r, b_h) = cell.input_gates.weight.chunk(3), cell.input_gates.bias.chunk(3)
    z = torch.sigmoid(x @ w_xz.T + torch.tanh(h) @ cell.hidden_update.weight.T + b_z)
    r = torch.sigmoid(x @ w_xr.T + h @ cell.hidden_reset.weight.T + b_r)
    inner = (r * h) @ cell.hidden_candidate.weight.T + x @ w_xh.T + b_h
    torch.testing.assert_close(new, torch.tanh(inner) * z + h * (1 - z))


def test_nas_cell_follows_the_published_tree():
    cell = with_known_weights(NASCell(D, H))
    x, (h, c), (new_h, new_c) = run(cell)
    a = [x @ w.T for w in cell.input_branches.weight.chunk(8)]
    pairs = zip(cell.hidden_branches.weight.chunk(8), cell.hidden_branches.bias.chunk(8), strict=True)
    m = [h @ w.T + b for w, b in pairs]
    inner = [torch.multiply if k == 3 else torch.add for k in range(8)]
    outer = [torch.sigmoid, torch.relu, torch.sigmoid, torch.relu, torch.tanh, torch.sigmoid, torch.tanh, torch.sigmoid]
    leaf = [f(join(a[k], m[k])) for k, (f, join) in enumerate(zip(outer, inner, strict=True))]
    node = [
        torch.tanh(leaf[0] * leaf[1]),
        torch.tanh(leaf[2] + leaf[3]),
        torch.tanh(leaf[4] * leaf[5]),
        torch.sigmoid(leaf[6] + leaf[7]),
    ]
    want_c = torch.tanh(node[0] + c) * node[1]
    torch.testing.assert_close(new_c, want_c)
    torch.testing.assert_close(new_h, torch.tanh(want_c * torch.tanh(node[2] + node[3])))


@pytest.mark.parametrize("cell", CELLS)
def test_cell_gradient_matches_finite_differences(cell):
    torch.manual_seed(0)
    cell = cell(2, 3).double()
    x = torch.randn(2, 2, dtype=torch.double, requires_grad=True)
    state = tuple(torch.randn(2, 3, dtype=torch.double, requires_grad=True) for _ in range(cell.num_states))
    assert torch.autograd.gradcheck(lambda x, *state: cell(x, state), (x, *state))


@pytest.mark.parametrize("cell", CELLS)
def test_cell_with_wrong_input_says_both_shapes(cell):
    with pytest.raises(ValueError, match=r"\(batch, 5\), got \(3, 4\)"):
        cell(D, H)(torch.zeros(B, 4))
    with pytest.raises(ValueError, match="input_dim=0 and hidden_dim=7"):
        cell(0, H)
