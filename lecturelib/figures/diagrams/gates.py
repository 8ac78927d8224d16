"""Drawings of the gated cells: one step of an LSTM, whole or gate by gate, and one step of a GRU."""

from torch import zeros

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free, Note, Part, beside
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes
from lecturelib.layers.cells import GRU, LSTM, Cell

LSTM_WORDS = {
    "forget": "f, the forget gate: how much of the old memory stays.",
    "input": "i, the input gate: how much is written.",
    "candidate": "g, the candidate: what is written, from −1 to 1.",
    "output": "o, the output gate: how much of the memory is shown.",
}
GRU_WORDS = (
    "z, the update gate: how much of the old state stays; the rest, 1 − z, is replaced.\n\n"
    "r, the reset gate: how much of the old state the candidate hears.\n\n"
    "n, the candidate: what replaces it."
)
PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def rows_of(part: int, parts: int, names: tuple[str, ...] = PARAMETERS) -> tuple[str, ...]:
    """The rows of a cell's parameters that belong to one of its gates."""
    return tuple(f"{name}[{part}/{parts}]" for name in names)


def run_cell(cell: Cell) -> tuple[Shapes, dict[str, str]]:
    """The shapes of one step."""
    (batch,) = free_sizes(cell, 1)
    shapes = Shapes({"B": batch, "D": cell.hidden_dim, "E": cell.input_dim})
    x = zeros(batch, cell.input_dim)
    state = cell(x)
    return shapes, {"x": shapes.of("x", x), "h": shapes.of("h", state[0]), "c": shapes.of("c", state[-1])}


def lstm_diagram(cell: LSTM | None = None, gate: str | None = None) -> Diagram:
    """One step of an LSTM; with `gate` ("forget", "input", "candidate", "output") all but that one is faint."""
    cell = cell or LSTM(5, 7)
    if gate is not None and gate not in LSTM_WORDS:
        raise ValueError(f"gate must be one of {[*LSTM_WORDS]} or None, got {gate!r}")
    shapes, step = run_cell(cell)

    def pen(canvas: Canvas, x: float, y: float) -> None:
        _draw_lstm(canvas, x, y, gate, step)

    def describe(narrow: bool) -> Part:
        words = LSTM_WORDS[gate] if gate else "\n\n".join(LSTM_WORDS.values())
        note = Note(words, width=340 if narrow else 250, size=13)
        return beside([Free(346, 296, pen), note], narrow=narrow, gap=14 if narrow else 36, align="middle")

    alt = """One step of an LSTM. The memory C runs along the top: it is multiplied by the forget gate f, and the
    candidate g, multiplied by the input gate i, is added. The new state h is the tanh of the memory times the output
    gate o. All four are computed from the input x and the last state h."""
    if gate:
        alt = f"One step of an LSTM with one part brought out: {LSTM_WORDS[gate]}"
    return Diagram(alt, describe, {"": cell}, (shapes,))


def _draw_lstm(canvas: Canvas, x: float, y: float, gate: str | None, step: dict[str, str]) -> None:
    def faint(*gates: str) -> bool:
        return gate is not None and gate not in gates

    def state(left: float, top: float, text: str, *gates: str) -> Rect:
        return canvas.box(Rect(x + left, y + top, 40, 34), text, "state", faint=faint(*gates))

    old_c = state(0, 5, "C_{t-1}", "forget")
    new_c = canvas.box(
        Rect(x + 312, y + 5, 34, 34), "C_t", "state", faint=faint("forget", "input", "candidate", "output")
    )
    old_h = state(0, 196, "h_{t-1}", *LSTM_WORDS)
    new_h = canvas.box(Rect(x + 312, y + 196, 34, 34), "h_t", "state", faint=faint("output"))
    new_x = canvas.box(Rect(x + 134, y + 262, 40, 34), "x_t", faint=False)
    gates = {}
    for name, text, left, width, part, kind in (
        ("forget", "f", 48, 46, 1, "gate"),
        ("input", "i", 100, 46, 0, "gate"),
        ("candidate", "g", 152, 66, 2, "feed"),
        ("output", "o", 224, 48, 3, "gate"),
    ):
        rect = Rect(x + left, y + 130, width, 46)
        gates[name] = canvas.box(rect, text, kind, note=name, of=rows_of(part, 4), faint=faint(name))
    keep = canvas.operation(x + 71, y + 22, "⊙", faint=faint("forget"))
    add = canvas.operation(x + 154, y + 22, "+", faint=faint("input", "candidate"))
    write = canvas.operation(x + 154, y + 82, "⊙", faint=faint("input", "candidate"))
    show = canvas.operation(x + 290, y + 102, "⊙", faint=faint("output"))
    tanh = canvas.box(Rect(x + 266, y + 46, 48, 26), "", note="tanh", faint=faint("output"))

    canvas.wire(old_c.side("right"), keep.side("left"), faint=faint("forget"))
    canvas.wire(keep.side("right"), add.side("left"), faint=faint("forget"))
    canvas.wire(add.side("right"), new_c.side("left"), faint=faint("forget", "input", "candidate"))
    canvas.text(x + 210, y + 14, step["c"], style="shape", faint=faint("forget", "input", "candidate"))
    canvas.wire(gates["forget"].side("top"), keep.side("bottom"), faint=faint("forget"))
    canvas.wire(gates["input"].side("top"), (x + 123, y + 82), write.side("left"), faint=faint("input"))
    canvas.wire(gates["candidate"].side("top"), (x + 185, y + 82), write.side("right"), faint=faint("candidate"))
    canvas.wire(write.side("top"), add.side("bottom"), faint=faint("input", "candidate"))
    canvas.dot(x + 290, y + 22, faint=faint("output"))
    canvas.wire((x + 290, y + 22), tanh.side("top"), faint=faint("output"))
    canvas.wire(tanh.side("bottom"), show.side("top"), faint=faint("output"))
    canvas.wire(gates["output"].side("top"), (x + 248, y + 102), show.side("left"), faint=faint("output"))
    canvas.wire(show.side("bottom"), (x + 290, y + 213), new_h.side("left"), faint=faint("output"))
    canvas.text(x + 329, y + 247, step["h"], style="shape", faint=faint("output"))
    # Two buses: the last state, and below it the input; each gate takes from both.
    canvas.wire(old_h.side("right"), (x + 239, y + 213), tip=False)
    canvas.wire(new_x.side("top"), (x + 154, y + 243), tip=False)
    canvas.text(x + 204, y + 283, step["x"], style="shape")
    canvas.wire((x + 80, y + 243), (x + 257, y + 243), tip=False)
    canvas.dot(x + 154, y + 243)
    for name, rect in gates.items():
        axis = rect.middle[0]
        for shift, bus in ((-9, 213), (9, 243)):
            if name != "output" and (bus == 213 or name != "forget"):
                canvas.dot(axis + shift, y + bus, faint=faint(name))
            canvas.wire((axis + shift, y + bus), (axis + shift, rect.y + rect.h), faint=faint(name))


def gru_diagram(cell: GRU | None = None) -> Diagram:
    """One step of a GRU, as torch and cuDNN compute it: the reset gate works after the product with the state."""
    cell = cell or GRU(5, 7)
    shapes, step = run_cell(cell)

    def pen(canvas: Canvas, x: float, y: float) -> None:
        _draw_gru(canvas, x, y, step)

    def describe(narrow: bool) -> Part:
        note = Note(GRU_WORDS, width=340 if narrow else 250, size=13)
        return beside([Free(346, 320, pen), note], narrow=narrow, gap=14 if narrow else 36, align="middle")

    alt = """One step of a GRU. The state h runs along the top: it is multiplied by the update gate z, and the candidate
    n, multiplied by 1 − z, is added. The candidate reads the input and, through the reset gate r, a map of the last
    state."""
    return Diagram(alt, describe, {"": cell}, (shapes,))


def _draw_gru(canvas: Canvas, x: float, y: float, step: dict[str, str]) -> None:
    old = canvas.box(Rect(x, y + 5, 40, 34), "h_{t-1}", "state")
    new = canvas.box(Rect(x + 312, y + 5, 34, 34), "h_t", "state")
    new_x = canvas.box(Rect(x + 143, y + 286, 40, 34), "x_t")
    update = canvas.box(Rect(x + 60, y + 130, 56, 46), "z", "gate", note="update", of=rows_of(1, 3))
    share = rows_of(2, 3, ("weight_ih", "bias_ih"))
    candidate = canvas.box(Rect(x + 130, y + 130, 66, 46), "n", "feed", note="candidate", of=share)
    reset = canvas.box(Rect(x + 262, y + 130, 46, 46), "r", "gate", note="reset", of=rows_of(0, 3))
    mapped = rows_of(2, 3, ("weight_hh", "bias_hh"))
    matrix = canvas.box(Rect(x + 200, y + 188, 44, 30), "", "feed", note="map", of=mapped)
    keep = canvas.operation(x + 88, y + 22, "⊙")
    add = canvas.operation(x + 163, y + 22, "+")
    rest = canvas.operation(x + 126, y + 84, "1−")
    write = canvas.operation(x + 163, y + 84, "⊙")
    hear = canvas.operation(x + 222, y + 153, "⊙")

    canvas.wire(old.side("right"), keep.side("left"))
    canvas.wire(keep.side("right"), add.side("left"))
    canvas.wire(add.side("right"), new.side("left"))
    canvas.text(x + 238, y + 14, step["h"], style="shape")
    canvas.wire(update.side("top"), keep.side("bottom"))
    canvas.dot(x + 88, y + 84)
    canvas.wire((x + 88, y + 84), rest.side("left"))
    canvas.wire(rest.side("right"), write.side("left"))
    canvas.wire(candidate.side("top"), write.side("bottom"))
    canvas.wire(write.side("top"), add.side("bottom"))
    canvas.wire(reset.side("left"), hear.side("right"))
    canvas.wire(hear.side("left"), candidate.side("right"))
    canvas.wire(matrix.side("top"), hear.side("bottom"))
    # The last state goes down into a bus of its own; below it runs the input's.
    canvas.dot(x + 50, y + 22)
    canvas.wire((x + 50, y + 22), (x + 50, y + 240), (x + 276, y + 240), reset.side("bottom", -9))
    for axis, bottom in ((x + 79, update.y + update.h), (x + 222, matrix.y + matrix.h)):
        canvas.dot(axis, y + 240)
        canvas.wire((axis, y + 240), (axis, bottom))
    canvas.wire((x + 163, y + 264), (x + 97, y + 264), update.side("bottom", 9))
    canvas.wire((x + 163, y + 264), (x + 294, y + 264), reset.side("bottom", 9))
    canvas.dot(x + 163, y + 264)
    canvas.wire(new_x.side("top"), candidate.side("bottom"))
    canvas.text(x + 212, y + 307, step["x"], style="shape")
