"""Recurrent cells: what happens at one step. `lecturelib.layers.recurrent` runs them over a sequence."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CellState = tuple[Tensor, ...]


class Cell(nn.Module, ABC):
    """One step of a recurrent network: an input and the last state give the next; its first tensor is the output.

    A step is split in three, so that each part can be shared, skipped or looked at:

        projected = cell.project(x)               the part that needs no state: done for all steps in one product
        gates = cell.gates(projected, state)      every gate and candidate, by name
        state = cell.advance(gates, state)        the next state

    Paper: the equations are each cell's own.
    Differs: the papers write one step as a whole; the split changes no value.

    Args:
        input_dim: width of the input at a step
        hidden_dim: width of each tensor of the state
    """

    num_states = 1  # tensors in a state: h, or h and c

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        if input_dim < 1 or hidden_dim < 1:
            raise ValueError(
                f"a cell needs widths of at least 1, got input_dim={input_dim} and hidden_dim={hidden_dim}"
            )
        self.input_dim, self.hidden_dim = input_dim, hidden_dim

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """The share of the input in every gate: (..., input_dim) -> (..., P), where P is the cell's own."""

    @abstractmethod
    def gates(self, projected: Tensor, state: CellState) -> dict[str, Tensor]:
        """All gate activations and candidates of one step, by name: (B, P), a state of (B, H) -> each (B, H)."""

    @abstractmethod
    def advance(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """The next state from the gates and the last one: each (B, H)."""

    def step(self, projected: Tensor, state: CellState) -> CellState:
        """One step from an input that is already projected."""
        return self.advance(self.gates(projected, state), state)

    def forward(self, x: Tensor, state: CellState | None = None) -> CellState:
        """One step: x (B, input_dim), state of (B, H) tensors (zeros when left out) -> the next state."""
        if x.dim() != 2 or x.shape[-1] != self.input_dim:
            raise ValueError(f"x must be (batch, {self.input_dim}), got {tuple(x.shape)}")
        return self.step(self.project(x), self.initial_state(x.shape[0]) if state is None else state)

    def initial_state(self, batch: int) -> CellState:
        """Zeros, on the device and in the type of the weights."""
        weight = next(self.parameters())
        return tuple(weight.new_zeros(batch, self.hidden_dim) for _ in range(self.num_states))

    def kernel(self) -> Callable[..., Any] | None:
        """torch's fused kernel that runs this cell over a whole sequence, where there is one."""
        return None

    def extra_repr(self) -> str:
        return f"{self.input_dim}, {self.hidden_dim}"


class TorchCell(Cell):
    """A cell whose four parameters are laid out as torch's, so that torch's kernels and checkpoints fit it.

    Paper: none; it is the layout of `torch.nn.RNNBase`.
    Differs: nothing.
    """

    num_gates: int

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__(input_dim, hidden_dim)
        rows = self.num_gates * hidden_dim
        self.weight_ih = nn.Parameter(torch.empty(rows, input_dim))
        self.weight_hh = nn.Parameter(torch.empty(rows, hidden_dim))
        self.bias_ih = nn.Parameter(torch.empty(rows))
        self.bias_hh = nn.Parameter(torch.empty(rows))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden_dim), 1 / math.sqrt(hidden_dim))

    def flat_weights(self) -> list[Tensor]:
        """The parameters in the order torch's kernels want them."""
        return [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]


class RNN(TorchCell):
    """Elman's network: h' = tanh(U x + W h + b).

    Paper: Elman 1990 [elman1990finding]; U, W are `weight_ih`, `weight_hh` here.
    Differs: tanh (or relu [le2015simple]) where Elman has a logistic unit; two biases, as torch has, which are
    one in effect. Over whole sequences the runner calls torch's fused `rnn_tanh` or `rnn_relu`.

    Args:
        nonlinearity: "tanh" or "relu"
    """

    num_gates = 1

    def __init__(self, input_dim: int, hidden_dim: int, *, nonlinearity: Literal["tanh", "relu"] = "tanh") -> None:
        super().__init__(input_dim, hidden_dim)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def project(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_ih, self.bias_ih + self.bias_hh)  # (..., H)

    def gates(self, projected: Tensor, state: CellState) -> dict[str, Tensor]:
        total = projected + F.linear(state[0], self.weight_hh)
        return {"candidate": total.tanh() if self.nonlinearity == "tanh" else total.relu()}

    def advance(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        return (gates["candidate"],)

    def kernel(self) -> Callable[..., Any]:
        return torch.rnn_tanh if self.nonlinearity == "tanh" else torch.rnn_relu


class LSTM(TorchCell):
    """Long short-term memory: a cell state that is kept, added to and read through three gates.

    c' = f ⊙ c + i ⊙ g and h' = o ⊙ tanh(c'). With f = 1 and i = 0 the cell state, and its gradient, pass unchanged.

    Paper: Hochreiter & Schmidhuber 1997 [hochreiter1997long]; forget gate of Gers et al. 2000 [gers2000learning].
    Differs: no peephole connections; two biases, as torch has, which are one in effect. Over whole sequences the
    runner calls torch's fused `lstm`, which projects the inputs of all steps in one product.

    Args:
        forget_bias: added to the forget gate's bias at the start; 1 makes an untrained cell remember
            [jozefowicz2015empirical]
    """

    num_states = 2
    num_gates = 4

    def __init__(self, input_dim: int, hidden_dim: int, *, forget_bias: float = 0.0) -> None:
        super().__init__(input_dim, hidden_dim)
        with torch.no_grad():
            self.bias_ih[hidden_dim : 2 * hidden_dim] += forget_bias

    def project(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_ih, self.bias_ih + self.bias_hh)  # (..., 4 H)

    def gates(self, projected: Tensor, state: CellState) -> dict[str, Tensor]:
        total = projected + F.linear(state[0], self.weight_hh)  # (B, 4 H)
        i, f, g, o = total.chunk(4, dim=-1)  # (B, H) each
        return {"input": i.sigmoid(), "forget": f.sigmoid(), "candidate": g.tanh(), "output": o.sigmoid()}

    def advance(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        memory = gates["forget"] * state[1] + gates["input"] * gates["candidate"]
        return gates["output"] * memory.tanh(), memory

    def kernel(self) -> Callable[..., Any]:
        return torch.lstm


class GRU(TorchCell):
    """Gated recurrent unit: h' = z ⊙ h + (1 − z) ⊙ n, with a reset gate r inside the candidate n.

    Paper: Cho et al. 2014 [cho2014learning], Equations 5 to 8.
    Differs: r multiplies U h after the product, n = tanh(W x + r ⊙ (U h + b)), as in torch and cuDNN; the paper
    resets h before it, n = tanh(W x + U (r ⊙ h)). Over whole sequences the runner calls torch's fused `gru`.
    """

    num_gates = 3

    def project(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_ih, self.bias_ih)  # (..., 3 H)

    def gates(self, projected: Tensor, state: CellState) -> dict[str, Tensor]:
        r_in, z_in, n_in = projected.chunk(3, dim=-1)  # (B, H) each
        r_hidden, z_hidden, n_hidden = F.linear(state[0], self.weight_hh, self.bias_hh).chunk(3, dim=-1)
        reset = (r_in + r_hidden).sigmoid()
        return {
            "reset": reset,
            "update": (z_in + z_hidden).sigmoid(),
            "candidate": (n_in + reset * n_hidden).tanh(),
        }

    def advance(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        return (gates["candidate"] + gates["update"] * (state[0] - gates["candidate"]),)

    def kernel(self) -> Callable[..., Any]:
        return torch.gru
