"""Drawings of networks that read one step after the other."""

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free, Part, Titled, beside
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, watched
from lecturelib.layers.cells import RNN
from lecturelib.layers.recurrent import Recurrent

BOX = 40.0


def node(
    canvas: Canvas, x: float, y: float, text: str, kind: str = "plain", *, width: float = 44.0, **more: object
) -> Rect:
    """A small box around (x, y)."""
    return canvas.box(Rect(x - width / 2, y - 17, width, 34), text, kind, **more)  # type: ignore[arg-type]


def cells(layer: Recurrent, direction: int = 0) -> tuple[str, ...]:
    """The cells of all layers that read in one direction: forwards (0) or backwards (1)."""
    return tuple(f"cells.{index}" for index in range(direction, len(layer.cells), layer.directions))


def check_directions(layer: Recurrent, directions: int) -> None:
    """Refuse a layer that the drawing would not show whole."""
    if layer.directions != directions:
        raise ValueError(f"this drawing has {directions} direction(s), and the layer has {layer.directions}")


def run(layer: Recurrent) -> tuple[Shapes, dict[str, str]]:
    """Shapes of a recurrent layer's input at a step, state and output at a step."""
    batch, length = free_sizes(layer, 2)
    letters = {"B": batch, "T": length, "D": layer.hidden_dim, "E": layer.input_dim}
    if layer.directions == 2:
        letters["2D"] = layer.output_dim
    x = torch.zeros(batch, length, layer.input_dim)
    with watched(layer) as outputs:
        y, state = layer(x)
    shapes = Shapes(letters, outputs)
    step = {
        "x": shapes.of("x at a step", x[:, 0]),
        "h": shapes.of("state", state[0][0]),
        "y": shapes.of("output at a step", y[:, 0]),
    }
    return shapes, step


def rnn_diagram(layer: Recurrent | None = None) -> Diagram:
    """A recurrent layer with its loop, and the same layer unrolled over four steps."""
    layer = layer or Recurrent(RNN, 5, 7)
    check_directions(layer, 1)
    shapes, step = run(layer)

    def folded(canvas: Canvas, x: float, y: float) -> None:
        axis = x + 56
        top = node(canvas, axis, y + 17, "x_t")
        cell = node(canvas, axis, y + 97, "cell", "state", width=64, of=cells(layer))
        out = node(canvas, axis, y + 177, "h_t")
        canvas.wire(top.side("bottom"), cell.side("top"), label=step["x"], label_at=(axis - 7, y + 50), anchor="end")
        canvas.wire(cell.side("bottom"), out.side("top"), label=step["h"])
        side = cell.x + cell.w
        canvas.wire(
            (side, y + 104), (side + 30, y + 104), (side + 30, y + 62), (side - 14, y + 62), (side - 14, cell.y)
        )

    def unrolled(pitch: float) -> Free:
        def pen(canvas: Canvas, x: float, y: float) -> None:
            before = node(canvas, x + 16, y + 97, "h_0", width=32)
            for t in range(1, 5):
                axis = x + 34 + (t - 0.5) * pitch + 6
                top = node(canvas, axis, y + 17, f"x_{t}")
                cell = node(canvas, axis, y + 97, "cell", "state", width=52, of=cells(layer), copy=True)
                out = node(canvas, axis, y + 177, f"h_{t}")
                canvas.wire(top.side("bottom"), cell.side("top"))
                canvas.wire(before.side("right"), cell.side("left"))
                canvas.wire(cell.side("bottom"), out.side("top"))
                before = cell
            canvas.wire(before.side("right"), (before.x + before.w + 22, y + 97))
            canvas.text(x + 40 + 2 * pitch, y + 216, "the same cell, with the same weights, at every step")

        return Free(40 + 4 * pitch + 14, 222, pen)

    def describe(narrow: bool) -> Part:
        parts = [
            Titled("with its loop", Free(130, 196, folded)),
            Titled("unrolled in time", unrolled(76 if narrow else 112)),
        ]
        return beside(parts, narrow=narrow, gap=36)

    alt = f"""A recurrent network. On one side a cell with a loop: it takes the input {step["x"]} and its own last
    state, and gives the next state {step["h"]}. Unrolled, the same cell stands at every step, and hands its state to
    the step after it."""
    return Diagram(alt, describe, {"": layer}, (shapes,))


def bidirectional_diagram(layer: Recurrent | None = None) -> Diagram:
    """Both directions of a recurrent layer: each input feeds both, and h_t is both states side by side."""
    layer = layer or Recurrent(RNN, 5, 7, bidirectional=True)
    check_directions(layer, 2)
    shapes, step = run(layer)

    def describe(narrow: bool) -> Part:
        pitch = 76.0 if narrow else 150.0
        half = 19.0

        def pen(canvas: Canvas, x: float, y: float) -> None:
            done: list[tuple[Rect, Rect]] = []
            for t in range(1, 5):
                axis, copy = x + (t - 0.5) * pitch, t > 1
                top = node(canvas, axis, y + 17, f"x_{t}", width=72)
                forward = node(canvas, axis - half, y + 92, "→", "state", width=34, of=cells(layer, 0), copy=copy)
                back = node(canvas, axis + half, y + 152, "←", "state", width=34, of=cells(layer, 1), copy=copy)
                out = node(canvas, axis, y + 228, f"h_{t}", width=72)
                canvas.wire(top.side("bottom", -half), forward.side("top"))
                canvas.wire(top.side("bottom", half), back.side("top"))
                canvas.wire(
                    forward.side("bottom"),
                    out.side("top", -half),
                    label="" if copy else step["h"],
                    label_at=(axis - half - 4, y + 190),
                    anchor="end",
                )
                canvas.wire(back.side("bottom"), out.side("top", half))
                if done:
                    canvas.wire(done[-1][0].side("right"), forward.side("left"))
                    canvas.wire(back.side("left"), done[-1][1].side("right"))
                done.append((forward, back))
            canvas.wire(out.side("bottom"), (axis, y + 262), label=step["y"])

            middle = x + 2 * pitch
            canvas.text(middle, y + 288, "→ the forward cell, reading from the start")
            canvas.text(middle, y + 306, "← the backward cell, reading from the end")
            canvas.text(middle, y + 324, "h_t: both states, side by side")

        return Free(4 * pitch, 330, pen)

    alt = f"""A bidirectional recurrent layer: each input x_t goes to a forward cell and to a backward cell. The forward
    cells hand their state to the right, the backward cells to the left, and h_t, {step["y"]}, is both states of step t
    side by side."""
    return Diagram(alt, describe, {"": layer}, (shapes,))


def bptt_diagram(layer: Recurrent | None = None) -> Diagram:
    """Backpropagation through time: the states go forwards, the gradient of the loss goes back through every step."""
    layer = layer or Recurrent(RNN, 5, 7)
    check_directions(layer, 1)
    shapes, step = run(layer)

    def describe(narrow: bool) -> Part:
        pitch = 80.0 if narrow else 150.0

        def pen(canvas: Canvas, x: float, y: float) -> None:
            done: list[Rect] = []
            for t in range(1, 5):
                axis, copy = x + 26 + (t - 1) * pitch, t > 1
                top = node(canvas, axis, y + 17, f"x_{t}")
                cell = node(canvas, axis, y + 92, f"h_{t}", "state", width=48, of=cells(layer), copy=copy)
                canvas.wire(top.side("bottom"), cell.side("top"), label="" if copy else step["x"])
                if done:
                    canvas.wire(done[-1].side("right", -8), cell.side("left", -8))
                    canvas.wire(cell.side("left", 8), done[-1].side("right", 8), style="back")
                    canvas.text(axis - pitch / 2, y + 124, f"J_{t}")
                done.append(cell)
            last = done[-1]
            loss = node(canvas, last.middle[0], y + 172, "L", width=48)
            canvas.wire(last.side("bottom", -10), loss.side("top", -10))
            canvas.wire(loss.side("top", 10), last.side("bottom", 10), style="back")
            canvas.text(last.x - 4 if narrow else loss.x - 10, y + 176, "loss", anchor="end")
            canvas.text(x, y + 208, "solid: states go forwards, and each is kept", anchor="start")
            canvas.text(x, y + 226, "dashed: the gradient comes back, and each step", anchor="start")
            canvas.text(x, y + 244, "multiplies it by its Jacobian J_t, transposed", anchor="start")

        return Free(52 + 3 * pitch, 250, pen)

    alt = """Backpropagation through time: four steps of one recurrent network. The states go forwards to the loss L;
    the gradient comes back from L through the last state and every state before it, and step t multiplies it by its
    Jacobian J_t, transposed. The same weights stand at every step."""
    return Diagram(alt, describe, {"": layer}, (shapes,))
