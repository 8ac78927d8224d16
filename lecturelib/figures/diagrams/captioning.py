"""Drawing of a captioner that looks at an image before each word."""

from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, watched


def captioner_diagram(model: Any, grid: tuple[int, int] = (4, 6)) -> Diagram:
    """One step of a `ShowAttendTell`: look at all regions of the image, then step and write a word.

    Args:
        grid: rows and columns of regions, as drawn and as measured
    """
    config = model.config
    regions = grid[0] * grid[1]
    sides = tuple(side * config.image.stride for side in grid)
    (batch,) = free_sizes(model, 1, (*grid, *sides, regions, config.vocab_size))
    letters = {"B": batch, "N": regions, "D": config.image.d_model}
    letters |= {"V": config.vocab_size}
    with watched(model) as outputs:
        before = model.start(torch.zeros(batch, config.image.num_channels, *sides))
        logits, _ = model.step(torch.zeros(batch, dtype=torch.long), before)
        look = model.glimpse(before.hidden, before.keys, before.grid)
    shapes = Shapes(letters, outputs, sized=True)
    seen = {
        "regions": shapes.of("regions", before.grid),
        "weights": shapes.of("weights", look.weights),
        "context": shapes.of("context", look.context),
        "logits": shapes.of("logits", logits),
    }

    def pen(canvas: Canvas, x: float, y: float) -> None:
        wide, left = 216.0, x + 122
        encoder = canvas.box(
            Rect(left, y, wide, 60), "encoder", "state", note="convolutions, run once", shape=seen["regions"],
            of=("encoder",),
        )  # fmt: skip
        side, top = 22.0, y + 84
        columns, rows = grid[1], grid[0]
        across = left + (wide - side * columns) / 2
        canvas.cells(across, top, [["plain"] * columns for _ in range(rows)], side=side)
        canvas.text(across + side * columns + 8, top + side * rows / 2 + 4, "h_j", anchor="start")
        middle, bottom = left + wide / 2, top + side * rows
        canvas.wire(encoder.side("bottom"), (middle, top))
        first = canvas.box(
            Rect(x, y, 100, 60), "first state", "state", note="of the mean", of=("first_hidden", "first_cell")
        )
        canvas.wire(encoder.side("left"), first.side("right"))
        score = canvas.box(
            Rect(left, bottom + 26, wide, 46), "score every region", "attention", note="a small tanh network",
            of=("glimpse",),
        )  # fmt: skip
        canvas.wire((middle, bottom), score.side("top"))
        last = canvas.box(Rect(x + 16, score.y + 4, 68, 38), "s_{t-1}", "state")
        canvas.wire((last.middle[0], first.y + 60), last.side("top"))
        canvas.wire(last.side("right"), score.side("left"))
        weights = canvas.box(
            Rect(left, score.y + 72, wide, 46), "weights: softmax over j", "attention", shape=seen["weights"]
        )
        canvas.wire(score.side("bottom"), weights.side("top"))
        context = canvas.box(
            Rect(left, weights.y + 72, wide, 46), "context c_t: weighted sum", "attention", shape=seen["context"]
        )
        canvas.wire(weights.side("bottom"), context.side("top"))
        rail = left + wide + 12
        canvas.wire(
            (across + side * columns, top + side * rows - 10), (rail, top + side * rows - 10),
            (rail, context.middle[1]), context.side("right"),
        )  # fmt: skip
        gate = canvas.box(Rect(left, context.y + 72, wide, 34), "gate p_{see}", "gate", of=("gate",))
        canvas.wire(context.side("bottom"), gate.side("top"))
        word = canvas.box(Rect(x + 16, gate.y - 4, 84, 38), "y_{t-1}", "embed", of=("embedding",))
        canvas.wire(
            (x + 24, last.y + 38),
            (x + 24, gate.y - 16),
            (left - 12, gate.y - 16),
            (left - 12, gate.y + 8),
            (left, gate.y + 8),
        )
        lstm = canvas.box(Rect(left, gate.y + 62, wide, 46), "LSTM step: s_t", "state", of=("decoder",))
        canvas.wire(gate.side("bottom"), lstm.side("top"))
        canvas.wire(word.side("bottom"), (word.middle[0], lstm.middle[1]), lstm.side("left"))
        output = canvas.box(
            Rect(left, lstm.y + 74, wide, 46), "output layer", "embed", shape=seen["logits"],
            of=("from_hidden", "from_context", "output"),
        )  # fmt: skip
        canvas.wire(lstm.side("bottom"), output.side("top"))
        end = canvas.box(Rect(left + 48, output.y + 74, 120, 34), "next word y_t")
        canvas.wire(output.side("bottom"), end.side("top"))

    alt = f"""One step of a captioner with attention: convolutions turn the image into a grid of regions
    {seen["regions"]}; the decoder's last state scores every region; a softmax turns the scores into weights
    {seen["weights"]}; their weighted sum is the context {seen["context"]}, a new one for every word. Gate, LSTM and
    output layer make the next word of it."""
    height = 84 + 22 * grid[0] + 26 + 72 * 3 + 62 + 74 + 74 + 34
    return Diagram(alt, lambda narrow: Free(352, height, pen), {"": model}, (shapes,))
