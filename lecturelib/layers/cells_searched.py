"""Cells that a computer found: three by mutating the GRU, one by a controller that writes architectures."""

import torch
from torch import Tensor, nn

from lecturelib.layers.cells import GRU, LSTM, RNN, Cell, CellState


class MUT1(Cell):
    """The mutated cell without a recurrent update gate: z sees only the input.

        z  = σ(W_xz x + b_z)
        r  = σ(W_xr x + W_hr h + b_r)
        h' = tanh(W_hh (r ⊙ h) + tanh(x) + b_h) ⊙ z + h ⊙ (1 − z)

    Paper: Jozefowicz et al. 2015 [jozefowicz2015empirical], Section 3.5; `hidden_candidate.bias` is b_h.
    Differs: tanh(x) is as wide as the input, so where input_dim ≠ hidden_dim a bias-free matrix `lift` first
    brings x to hidden_dim; the paper leaves this open.
    """

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__(input_dim, hidden_dim)
        self.input_gates = nn.Linear(input_dim, 2 * hidden_dim)  # W_xz, W_xr with b_z, b_r
        self.lift = _lift(input_dim, hidden_dim)
        self.hidden_reset = nn.Linear(hidden_dim, hidden_dim, bias=False)  # W_hr
        self.hidden_candidate = nn.Linear(hidden_dim, hidden_dim)  # W_hh, b_h

    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.input_gates(x), self.lift(x).tanh()], dim=-1)  # (..., 3 H)

    def gates(self, projected: Tensor, state: CellState) -> dict[str, Tensor]:
        z_in, r_in, x_in = projected.chunk(3, dim=-1)  # (B, H) each
        (hidden,) = state
        reset = (r_in + self.hidden_reset(hidden)).sigmoid()
        candidate = (self.hidden_candidate(reset * hidden) + x_in).tanh()
        return {"update": z_in.sigmoid(), "reset": reset, "candidate": candidate}

    def advance(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        return _mix(gates, state)


class MUT2(Cell):
    """The mutated cell whose reset gate adds the input as it is.

        z  = σ(W_xz x + W_hz h + b_z)
        r  = σ(x + W_hr h + b_r)
        h' = tanh(W_hh (r ⊙ h) + W_xh x + b_h) ⊙ z + h ⊙ (1 − z)

    Paper: Jozefowicz et al. 2015 [jozefowicz2015empirical], Section 3.5.
    Differs: where input_dim ≠ hidden_dim a bias-free matrix `lift` first brings the x inside r to hidden_dim; the
    paper leaves this open.
    """

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__(input_dim, hidden_dim)
        self.input_gates = nn.Linear(input_dim, 2 * hidden_dim)  # W_xz, W_xh with b_z, b_h
        self.lift = _lift(input_dim, hidden_dim)
        self.hidden_update = nn.Linear(hidden_dim, hidden_dim, bias=False)  # W_hz
        self.hidden_reset = nn.Linear(hidden_dim, hidden_dim)  # W_hr, b_r
        self.hidden_candidate = nn.Linear(hidden_dim, hidden_dim, bias=False)  # W_hh

    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.input_gates(x), self.lift(x)], dim=-1)  # (..., 3 H)

    def gates(self, projected: Tensor, state: CellState) -> dict[str, Tensor]:
        z_in, n_in, x_in = projected.chunk(3, dim=-1)  # (B, H) each
        (hidden,) = state
        update = (z_in + self.hidden_update(hidden)).sigmoid()
        reset = (x_in + self.hidden_reset(hidden)).sigmoid()
        candidate = (self.hidden_candidate(reset * hidden) + n_in).tanh()
        return {"update": update, "reset": reset, "candidate": candidate}

    def advance(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        return _mix(gates, state)


class MUT3(Cell):
    """The mutated cell whose update gate sees the hidden state through a tanh.

        z  = σ(W_xz x + W_hz tanh(h) + b_z)
        r  = σ(W_xr x + W_hr h + b_r)
        h' = tanh(W_hh (r ⊙ h) + W_xh x + b_h) ⊙ z + h ⊙ (1 − z)

    Paper: Jozefowicz et al. 2015 [jozefowicz2015empirical], Section 3.5.
    Differs: nothing.
    """

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__(input_dim, hidden_dim)
        self.input_gates = nn.Linear(input_dim, 3 * hidden_dim)  # W_xz, W_xr, W_xh with b_z, b_r, b_h
        self.hidden_update = nn.Linear(hidden_dim, hidden_dim, bias=False)  # W_hz
        self.hidden_reset = nn.Linear(hidden_dim, hidden_dim, bias=False)  # W_hr
        self.hidden_candidate = nn.Linear(hidden_dim, hidden_dim, bias=False)  # W_hh

    def project(self, x: Tensor) -> Tensor:
        return self.input_gates(x)  # (..., 3 H)

    def gates(self, projected: Tensor, state: CellState) -> dict[str, Tensor]:
        z_in, r_in, n_in = projected.chunk(3, dim=-1)  # (B, H) each
        (hidden,) = state
        update = (z_in + self.hidden_update(hidden.tanh())).sigmoid()
        reset = (r_in + self.hidden_reset(hidden)).sigmoid()
        candidate = (self.hidden_candidate(reset * hidden) + n_in).tanh()
        return {"update": update, "reset": reset, "candidate": candidate}

    def advance(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        return _mix(gates, state)


class NASCell(Cell):
    """The cell that neural architecture search found on Penn Treebank: eight branches joined in a binary tree.

    Each branch k has a share a_k of the input and m_k of the hidden state. From the leaves to the root:

        left   = tanh(σ(a_0 + m_0) · relu(a_1 + m_1))      right  = tanh(σ(a_2 + m_2) + relu(a_3 · m_3))
        third  = tanh(tanh(a_4 + m_4) · σ(a_5 + m_5))      fourth = σ(tanh(a_6 + m_6) + σ(a_7 + m_7))
        c' = tanh(left + c) · right                        h' = tanh(c' · tanh(third + fourth))

    Paper: Zoph & Le 2017 [zoph2017neural], Figure 8 (the cell below the LSTM).
    Differs: follows the authors' released TensorFlow cell where the figure leaves room; one bias per branch, at the
    hidden state's side as there (so that branch 3, a product, can pass at h = 0), where theirs are off by default.
    """

    num_states = 2

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__(input_dim, hidden_dim)
        self.input_branches = nn.Linear(input_dim, 8 * hidden_dim, bias=False)
        self.hidden_branches = nn.Linear(hidden_dim, 8 * hidden_dim)

    def project(self, x: Tensor) -> Tensor:
        return self.input_branches(x)  # (..., 8 H)

    def gates(self, projected: Tensor, state: CellState) -> dict[str, Tensor]:
        a = projected.chunk(8, dim=-1)  # 8 of (B, H)
        m = self.hidden_branches(state[0]).chunk(8, dim=-1)  # 8 of (B, H)
        return {
            "left": ((a[0] + m[0]).sigmoid() * (a[1] + m[1]).relu()).tanh(),
            "right": ((a[2] + m[2]).sigmoid() + (a[3] * m[3]).relu()).tanh(),
            "third": ((a[4] + m[4]).tanh() * (a[5] + m[5]).sigmoid()).tanh(),
            "fourth": ((a[6] + m[6]).tanh() + (a[7] + m[7]).sigmoid()).sigmoid(),
        }

    def advance(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        memory = (gates["left"] + state[1]).tanh() * gates["right"]
        return (memory * (gates["third"] + gates["fourth"]).tanh()).tanh(), memory


CELLS: dict[str, type[Cell]] = {
    "rnn": RNN,
    "lstm": LSTM,
    "gru": GRU,
    "mut1": MUT1,
    "mut2": MUT2,
    "mut3": MUT3,
    "nas": NASCell,
}
"""Every cell by the name that configs know it by."""


def _lift(input_dim: int, hidden_dim: int) -> nn.Module:
    return nn.Identity() if input_dim == hidden_dim else nn.Linear(input_dim, hidden_dim, bias=False)


def _mix(gates: dict[str, Tensor], state: CellState) -> CellState:
    return (gates["candidate"] * gates["update"] + state[0] * (1 - gates["update"]),)
