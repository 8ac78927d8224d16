"""Run any cell over a sequence: stacked, in both directions, over padded batches."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from lecturelib.layers.cells import Cell, CellState, TorchCell
from lecturelib.layers.checks import check_lengths, ends

RecurrentState = tuple[CellState, ...]
"""One cell state for each layer and direction, layer by layer: forward 0, backward 0, forward 1, …; all (B, H)."""

KERNELS = {"RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu, "LSTM": torch.lstm, "GRU": torch.gru}
"""torch's fused kernels by the `mode` of the torch module that calls them."""


@dataclass(frozen=True)
class Trace:
    """Everything one cell did on its way through a sequence, in the order it read it (a backward cell: from the end).

    `states[t]` is the state before step t, a tuple of (B, H), and `states[T]` the last; they are the tensors of the
    graph itself, so a loss can be differentiated with respect to each. `gates[name]` is (B, T, H).
    """

    states: tuple[CellState, ...]
    gates: dict[str, Tensor]


class Recurrent(nn.Module):
    """Run cells over a sequence, layer upon layer; each layer reads the hidden states of the one below.

    Paper: depth, Graves et al. 2013 [graves2013speech]; both directions, Schuster & Paliwal 1997
    [schuster1997bidirectional]; dropout between layers only, Zaremba et al. 2014 [zaremba2014recurrent].
    Differs: nothing in value. The input projection of all steps is one product. A cell that has a fused kernel in
    torch (RNN, LSTM, GRU) runs on it, both directions in one call, with packed sequences when there is padding, so
    it equals `torch.nn.RNN`, `LSTM`, `GRU` bit for bit at the same speed; other cells, and `trace`, run a loop of
    `cell.step`. To pack, torch wants the lengths on the CPU: with `lengths` on a GPU each layer waits for them once.
    Where lengths have no values (on `meta`, under `torch.export` or `torch.vmap`) the loop runs in the kernel's place.
    Unlike torch's, a sequence of length 0 is allowed: its output is zeros, its state the initial one.

    Args:
        make_cell: called with (input_dim, hidden_dim) for each layer and direction: a cell class such as `LSTM`, or
            `functools.partial(LSTM, forget_bias=1.0)`
        input_dim: width of the input
        hidden_dim: width of the state, of each direction
        num_layers: cells on top of each other
        bidirectional: a second cell in each layer reads from the end; outputs are [forward; backward]
        dropout: of the outputs of every layer but the last, in training

    Shapes: x (B, T, input_dim) -> outputs (B, T, directions · hidden_dim) and the state after the last real token
    """

    def __init__(
        self,
        make_cell: Callable[[int, int], Cell],
        input_dim: int,
        hidden_dim: int,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {num_layers}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        self.input_dim, self.hidden_dim, self.num_layers = input_dim, hidden_dim, num_layers
        self.directions = 2 if bidirectional else 1
        self.output_dim = self.directions * hidden_dim
        self.dropout = nn.Dropout(dropout)
        self.cells = nn.ModuleList(
            make_cell(input_dim if layer == 0 else self.output_dim, hidden_dim)
            for layer in range(num_layers)
            for _ in range(self.directions)
        )

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Run over a padded batch.

        Args:
            x: (B, T, input_dim)
            lengths: (B,) number of real steps of each row; what comes after changes nothing, and the outputs there
                are zeros
            state: where to start; zeros when left out. For truncated backpropagation pass
                `detach_state(state)` of the chunk before

        Shapes: -> (B, T, directions · hidden_dim), a state for each layer and direction
        """
        outputs, state, _ = self._run(x, lengths, state, traced=False)
        return outputs, state

    def trace(
        self, x: Tensor, lengths: Tensor | None = None, state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState, tuple[Trace, ...]]:
        """As `forward`, step by step, and also return every state and gate of each layer and direction."""
        return self._run(x, lengths, state, traced=True)

    def initial_state(self, batch: int) -> RecurrentState:
        """Zeros for each layer and direction."""
        return tuple(cell.initial_state(batch) for cell in self._cells())

    def _cells(self) -> list[Cell]:
        return [cell for cell in self.cells if isinstance(cell, Cell)]

    def _run(
        self, x: Tensor, lengths: Tensor | None, state: RecurrentState | None, *, traced: bool
    ) -> tuple[Tensor, RecurrentState, tuple[Trace, ...]]:
        self._check(x, lengths, state)
        cells = self._cells()
        final: list[CellState] = []
        traces: list[Trace] = []
        for layer in range(self.num_layers):
            x = self.dropout(x) if layer else x
            here = slice(layer * self.directions, (layer + 1) * self.directions)
            is_worth_it = x.is_cuda or x.shape[1] > 1  # one step on a CPU is faster as plain products
            can_pack = lengths is None or _has_values(lengths)
            if not traced and x.numel() and is_worth_it and can_pack and all(cell.kernel() for cell in cells[here]):
                x, states = _run_fused(cells[here], x, lengths, None if state is None else state[here])
                final.extend(states)
                continue
            starts = tuple(cell.initial_state(len(x)) for cell in cells[here]) if state is None else state[here]
            outputs = []
            for direction, (cell, start) in enumerate(zip(cells[here], starts, strict=True)):
                output, trace = _run_steps(cell, x, lengths, start, reverse=direction == 1, traced=traced)
                outputs.append(output)
                final.append(trace.states[-1])
                traces.append(trace)
            x = torch.cat(outputs, dim=-1)  # (B, T, directions · H)
        return x, tuple(final), tuple(traces)

    def _check(self, x: Tensor, lengths: Tensor | None, state: RecurrentState | None) -> None:
        if x.dim() != 3 or x.shape[-1] != self.input_dim:
            raise ValueError(f"x must be (batch, length, {self.input_dim}), got {tuple(x.shape)}")
        batch, length, _ = x.shape
        if lengths is not None:
            check_lengths(lengths, batch, length)
        if state is None:
            return
        shapes = [[tuple(tensor.shape) for tensor in part] for part in state]
        allowed = [[(batch, self.hidden_dim)] * cell.num_states for cell in self._cells()]
        if shapes != allowed:
            raise ValueError(
                f"state must have one part for each of {self.num_layers} layers × {self.directions} directions, "
                f"with tensors {allowed[0]}; got {shapes}"
            )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Recurrent":
        """After a move to a GPU, lay each layer's weights out in one block, which cuDNN asks for."""
        super()._apply(fn, recurse)
        cells = self._cells()
        for first in range(0, len(cells), self.directions):
            layer = [cell for cell in cells[first : first + self.directions] if isinstance(cell, TorchCell)]
            if layer and layer[0].weight_ih.is_cuda:
                _torch_module(layer).flatten_parameters()
        return self


def gradient_norms(loss: Tensor, trace: Trace, *, part: int = 0) -> Tensor:
    """How much the loss feels each state on the way: the norm of ∂loss/∂h_t for every t, for each sequence.

    Paper: Bengio et al. 1994 [bengio1994learning] and Pascanu et al. 2013 [pascanu2013difficulty] explain its decay.
    Differs: nothing.

    Args:
        loss: a scalar computed from the traced run; its graph is kept
        trace: of one layer and direction
        part: which tensor of the state: 0 is h, 1 is an LSTM's c

    Shapes: -> (B, T); column t belongs to the state after step t
    """
    states = [state[part] for state in trace.states[1:]]
    grads = torch.autograd.grad(loss, states, retain_graph=True, allow_unused=True)
    norms = [torch.zeros_like(s[:, 0]) if g is None else g.norm(dim=-1) for s, g in zip(states, grads, strict=True)]
    return torch.stack(norms, dim=1)


def reverse_sequences(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Turn each sequence around within its own length; padding stays where it is.

    Differs: nothing; it is bookkeeping, not from a paper.

    Shapes: x (B, T) or (B, T, D), lengths (B,) -> same as x
    """
    if lengths is None:
        return x.flip(1)
    steps = torch.arange(x.shape[1], device=x.device)
    index = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)  # (B, T)
    return x.gather(1, index.view(*index.shape, *(1,) * (x.dim() - 2)).expand_as(x))


def _run_steps(
    cell: Cell, x: Tensor, lengths: Tensor | None, state: CellState, *, reverse: bool, traced: bool
) -> tuple[Tensor, Trace]:
    """A loop of `cell.step`. Past a row's length its state stands still and its output is zero."""
    if reverse:
        x = reverse_sequences(x, lengths)
    batch, num_steps, _ = x.shape
    real = None
    if lengths is not None:
        real = torch.arange(num_steps, device=x.device)[:, None, None] < lengths[:, None]  # (T, B, 1)
    states, gates = [state], []
    for t, projected in enumerate(cell.project(x).unbind(1)):
        active = cell.gates(projected, state)
        new = cell.advance(active, state)
        if real is not None:
            new = tuple(torch.where(real[t], after, before) for after, before in zip(new, state, strict=True))
        state = new
        states.append(state)
        if traced:
            gates.append(active)
    if num_steps == 0:
        return x.new_zeros(batch, 0, cell.hidden_dim), Trace(states=tuple(states), gates={})
    outputs = torch.stack([s[0] for s in states[1:]], dim=1)  # (B, T, H)
    if real is not None:
        outputs = outputs * real.transpose(0, 1)  # (B, T, 1)
    if reverse:
        outputs = reverse_sequences(outputs, lengths)
    named = {name: torch.stack([step[name] for step in gates], dim=1) for name in (gates[0] if gates else ())}
    return outputs, Trace(states=tuple(states), gates=named)


def _has_values(values: Tensor) -> bool:
    """Whether values could be read, if at the price of a stop: not on `meta`, exporting, faking or under `torch.vmap`.

    Shapes: values (B,)
    """
    if type(values) is not Tensor or values.is_meta:
        return False
    if torch.compiler.is_compiling() or values.device.type != "cpu":
        return True
    try:
        values[:1].tolist()
    except RuntimeError:  # vmap shows every example at once
        return False
    return True


@torch.compiler.disable  # the compiler would unroll the kernel into T steps; its own nn.LSTM is left out likewise
def _run_fused(
    cells: list[Cell], x: Tensor, lengths: Tensor | None, state: RecurrentState | None
) -> tuple[Tensor, RecurrentState]:
    """One layer, both directions, in one call of torch's kernel."""
    weights = [weight for cell in cells if isinstance(cell, TorchCell) for weight in cell.flat_weights()]
    kernel, x = cells[0].kernel(), x.to(weights[0].dtype)
    assert kernel is not None
    # has_biases, num_layers, dropout, train, bidirectional
    options = (True, 1, 0.0, torch.is_grad_enabled(), len(cells) == 2)
    if state is None:
        start = [x.new_zeros(len(cells), len(x), cells[0].hidden_dim)] * cells[0].num_states  # (directions, B, H) each
    else:
        start = [torch.stack(parts).to(x.dtype) for parts in zip(*state, strict=True)]  # (directions, B, H) each
    shortest = None if lengths is None else ends(lengths)
    if lengths is None or (shortest is not None and shortest[0] == x.shape[1]):
        outputs, *final = kernel(x, _single(start), weights, *options, True)
    else:
        # Packing refuses length 0: such rows run one step, which is thrown away below.
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        assert order is not None
        assert back is not None
        sorted_start = [s.index_select(1, order) for s in start]
        data, *final = kernel(packed.data, packed.batch_sizes, _single(sorted_start), weights, *options)
        packed = PackedSequence(data, packed.batch_sizes, order, back)
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        some = lengths[:, None] > 0  # (B, 1)
        outputs = outputs * some[:, None]
        final = [torch.where(some, f.index_select(1, back), s) for f, s in zip(final, start, strict=True)]
    return outputs, tuple(zip(*(f.unbind(0) for f in final), strict=True))


def _single(state: list[Tensor]) -> Tensor | list[Tensor]:
    """torch's kernels take (h, c) as a list but h alone as a tensor."""
    return state if len(state) > 1 else state[0]


def _torch_module(cells: list[TorchCell]) -> nn.RNNBase:
    """A torch module around the very parameters of one layer's cells."""
    first = cells[0]
    (mode,) = (name for name, kernel in KERNELS.items() if kernel is first.kernel())
    module = nn.RNNBase(mode, first.input_dim, first.hidden_dim, bidirectional=len(cells) == 2, device="meta")
    for cell, suffix in zip(cells, ("_l0", "_l0_reverse"), strict=False):
        for name, parameter in cell.named_parameters():
            setattr(module, name + suffix, parameter)
    return module
