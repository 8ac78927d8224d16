"""Watch an LSTM read: its gates, its memory and its output, character by character and unit by unit."""

from collections.abc import Sequence

import numpy as np

from lecturelib.figures.explorers.explorer import Explorer, pack
from lecturelib.layers.recurrent import Trace

SHOWN = ("forget f", "input i", "output o", "candidate g", "memory C", "hidden h")
VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}


class GateExplorer(Explorer):
    """Choose a unit and a character; see the three gates as bars and the step of the memory as arithmetic.

    Args:
        trace: one sequence (B = 1) through an LSTM, from `Recurrent.trace`
        tokens: what the LSTM read, T names; spaces and line ends are made visible
        start: unit and character shown first, counted from 0
    """

    title = "What do the gates do while it reads?"
    hint = "step through the text and watch the forget gate."

    def __init__(self, trace: Trace, tokens: Sequence[str], *, start: tuple[int, int] = (0, 0)) -> None:
        if {"forget", "input", "output", "candidate"} - trace.gates.keys():
            raise ValueError(f"the trace must be an LSTM's; its gates are {', '.join(trace.gates) or 'none'}")
        gates = [trace.gates[name.split()[0]] for name in SHOWN[:4]]
        batch, length, units = gates[0].shape
        if batch != 1 or length != len(tokens):
            raise ValueError(f"need one sequence of {len(tokens)} tokens, got gates of shape {(batch, length, units)}")
        if not (0 <= start[0] < units and 0 <= start[1] < length):
            raise ValueError(f"start={start} is outside (units, characters) = {(units, length)}")
        self.before = np.stack([state[1][0].detach().cpu().numpy() for state in trace.states[:-1]])  # (T, H)
        states = [np.stack([s[part][0].detach().cpu().numpy() for s in trace.states[1:]]) for part in (1, 0)]
        self.values = np.stack([*(gate[0].detach().cpu().numpy() for gate in gates), *states])  # (6, T, H)
        self.tokens = [VISIBLE.get(token, token) for token in tokens]
        self.start = start

    def data(self) -> dict[str, object]:
        return {
            "values": pack(self.values),
            "before": pack(self.before),
            "tokens": self.tokens,
            "shown": list(SHOWN),
            "start": list(self.start),
        }

    def text(self) -> str:
        unit, place = self.start
        forget, write, _, candidate, memory, _ = self.values[:, place, unit]
        return (
            f"An LSTM of {self.values.shape[2]} units reads “{''.join(self.tokens)}”. At “{self.tokens[place]}” "
            f"(character {place + 1}) unit {unit + 1} keeps {forget:.3f} of its memory and writes {write:.3f} of its "
            f"candidate {candidate:.3f}; its memory is then {memory:.3f}."
        )
