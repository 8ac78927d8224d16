"""A drawing of what goes in and what comes out, for each kind of task that has a sequence in it."""

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Column, Free, Part, Row, Titled

KINDS: dict[str, tuple[range, range]] = {  # the steps that read an input, the steps that write an output
    "one to one": (range(1, 2), range(1, 2)),
    "one to many": (range(1, 2), range(1, 4)),
    "many to one": (range(1, 4), range(3, 4)),
    "many to many": (range(1, 4), range(3, 6)),
    "many to many, step by step": (range(1, 4), range(1, 4)),
}
SIDE, HIGH, PITCH, LEVEL = 36.0, 30.0, 50.0, 52.0


def task_kinds_diagram() -> Diagram:
    """Five patterns: which steps read an input x, which write an output y, with a state h carried between them."""

    def describe(narrow: bool) -> Part:
        kinds = [Titled(name, _pattern(inputs, outputs)) for name, (inputs, outputs) in KINDS.items()]
        rows = [kinds[:2], *([kind] for kind in kinds[2:])] if narrow else [kinds[:3], kinds[3:]]
        return Column([Row(row, gap=46.0) for row in rows], gap=26.0, wires=False)

    alt = """Five patterns of inputs x above, states h in the middle and outputs y below: one to one; one to many; many
    to one; many to many, with the outputs after the last input has been read; and many to many, step by step, with one
    output for every input."""
    return Diagram(alt, describe)


def _pattern(inputs: range, outputs: range) -> Part:
    last = max(inputs[-1], outputs[-1])

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def place(step: int, level: int) -> Rect:
            return Rect(x + (step - 1) * PITCH, y + level * LEVEL, SIDE, HIGH)

        for step in range(1, last + 1):
            state = canvas.box(place(step, 1), f"h_{step}", "state")
            if step > 1:
                canvas.wire(place(step - 1, 1).side("right"), state.side("left"))
            if step in inputs:
                canvas.wire(canvas.box(place(step, 0), f"x_{step}", "embed").side("bottom"), state.side("top"))
            if step in outputs:
                output = canvas.box(place(step, 2), f"y_{step - outputs[0] + 1}", "feed")
                canvas.wire(state.side("bottom"), output.side("top"))

    return Free((last - 1) * PITCH + SIDE, 2 * LEVEL + HIGH, pen)
