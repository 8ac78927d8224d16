"""Drawings of what compute buys, of a layer with experts, and of the ways to share a training among machines."""

from collections.abc import Callable
from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free, Part, Titled, beside
from lecturelib.figures.diagrams.shapes import free_sizes, measure

Pen = Callable[[Canvas, float, float], None]
PARTS = 4  # machines, pieces of a batch, layers: four of each


def budget_diagram() -> Diagram:
    """What a budget of compute is spent on, and what comes of it."""

    def pen(canvas: Canvas, x: float, y: float) -> None:
        compute = canvas.box(Rect(x + 55, y, 230, 52), "compute C", "state", note="operations that we can pay for")
        size = canvas.box(Rect(x, y + 112, 150, 52), "parameters N", "feed", note="how large a model")
        data = canvas.box(Rect(x + 190, y + 112, 150, 52), "tokens D", "embed", note="how much text")
        parts = "a floor, plus a part for N,\nplus a part for D"
        loss = canvas.box(Rect(x + 55, y + 224, 230, 70), "loss L(N, D)", "attention", note=parts)
        for part in (size, data):
            start, end = compute.side("bottom"), part.side("top")
            canvas.wire(start, (start[0], start[1] + 24), (end[0], start[1] + 24), end)
            start, end = part.side("bottom"), loss.side("top")
            canvas.wire(start, (start[0], end[1] - 24), (end[0], end[1] - 24), end)
        canvas.text(x + 170, y + 142, "×", size=18, style="name")

    alt = """A budget of compute C is split between parameters N, how large a model is, and tokens D, how much text it
    reads; their product is fixed by C. The loss has a floor, a part that falls with N and a part that falls with D."""
    return Diagram(alt, lambda narrow: Free(340, 294, pen))


def switch_diagram(layer: Any) -> Diagram:
    """A `SwitchFFN`: a router sends each token to one of several feed-forward nets."""
    width, experts = layer.router.in_features, len(layer.experts)
    batch, length = free_sizes(layer, 2)
    letters = {"B": batch, "T": length, "D": width, "Ne": experts}
    shapes = measure(layer, torch.zeros(batch, length, width), letters=letters, sized=True)
    stream, routed = shapes[""], shapes["router"]
    side, middle = 320 / experts, 80.0
    chosen = int(middle / side)

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def expert(number: int) -> Rect:
            place = Rect(x + number * side + 2, y + 226, side - 4, 40)
            return canvas.box(place, str(number + 1), "feed", of=(f"experts.{number}",), faint=number != chosen)

        canvas.text(x + middle, y + 12, "tokens", size=14, style="name")
        router = canvas.box(Rect(x + 170, y + 62, 150, 32), "router", "gate", of=("router",))
        softmax = canvas.box(Rect(x + 170, y + 126, 150, 48), "softmax", "gate", note="the largest one wins")
        switch = canvas.operation(x + middle, y + 196, "⊙")
        beside_wire = (x + middle - 7, y + 100)
        canvas.wire((x + middle, y + 20), switch.side("top"), label=stream, label_at=beside_wire, anchor="end")
        canvas.dot(x + middle, y + 42)
        canvas.wire((x + middle, y + 42), (x + 245, y + 42), router.side("top"))
        canvas.wire(router.side("bottom"), softmax.side("top"), label=routed, label_at=(x + 252, y + 110))
        canvas.wire(softmax.side("bottom"), (x + 245, y + 196), switch.side("right"))
        one = [expert(number) for number in range(experts)][chosen]
        canvas.wire(switch.side("bottom"), (x + middle, y + 226))
        canvas.text(x + 208, y + 288, "experts: each token uses one")
        times = canvas.operation(x + middle, y + 326, "×")
        canvas.wire((x + middle, one.y + one.h), times.side("top"))
        canvas.wire(softmax.side("right"), (x + 340, y + 150), (x + 340, y + 326), times.side("right"))
        canvas.text(x + 208, y + 318, "its probability")
        canvas.wire(times.side("bottom"), (x + middle, y + 374), label=stream, label_at=(x + middle + 7, y + 358))

    alt = f"""A Switch layer: each token goes through a router, whose softmax gives a probability for each of {experts}
    experts, {routed}; the token passes only through the expert with the largest, and what comes out, {stream}, is
    multiplied by that probability."""
    return Diagram(alt, lambda narrow: Free(344, 376, pen), {"": layer}, (shapes,))


def parallel_diagram() -> Diagram:
    """Three ways to train one model on four machines: by data, by matrix, and by layer."""
    ways = {
        "data parallel": ("each machine: all layers,\na quarter of the batch", _split_batch),
        "tensor parallel": ("each machine: a quarter of every\nmatrix, the whole batch", _split_matrices),
        "pipeline parallel": ("each machine: a quarter of the\nlayers; pieces follow each other", _split_layers),
    }

    def describe(narrow: bool) -> Part:
        panels = [Titled(name, _panel(pen, says.split("\n"))) for name, (says, pen) in ways.items()]
        return beside(panels, narrow=narrow, gap=12)

    alt = """Three ways to train on four machines. Data parallel: every machine has all layers and reads a quarter of
    the batch; gradients are averaged. Tensor parallel: every machine has a quarter of every matrix and reads the whole
    batch; results are joined in every layer. Pipeline parallel: every machine has a quarter of the layers; pieces of
    the batch follow each other through them."""
    return Diagram(alt, describe)


def _panel(pen: Pen, lines: list[str]) -> Part:
    """A way's drawing, and below it what each machine has."""

    def draw(canvas: Canvas, x: float, y: float) -> None:
        pen(canvas, x, y)
        for number, line in enumerate(lines):
            canvas.text(x + 110, y + 204 + 16 * number, line)

    return Free(220, 226, draw)


def _split_batch(canvas: Canvas, x: float, y: float) -> None:
    for machine in range(PARTS):
        left = x + 55 * machine
        canvas.box(Rect(left + 6, y, 42, 26), f"1/{PARTS}", "embed")
        canvas.wire((left + 27, y + 26), (left + 27, y + 46))
        for layer in range(PARTS):
            canvas.box(Rect(left + 4, y + 46 + 24 * layer, 46, 22), "", "feed")
        canvas.wire((left + 27, y + 140), (left + 27, y + 156), tip=False)
    canvas.box(Rect(x + 6, y + 156, 208, 26), "average the gradients", "state")


def _split_matrices(canvas: Canvas, x: float, y: float) -> None:
    canvas.box(Rect(x + 6, y, 208, 26), "the whole batch", "embed")
    canvas.wire((x + 110, y + 26), (x + 110, y + 42))
    for layer in range(2):
        top = y + 42 + 70 * layer
        for machine in range(PARTS):
            canvas.box(Rect(x + 55 * machine + 4, top, 46, 26), f"1/{PARTS}", "feed")
        canvas.wire((x + 110, top + 30), (x + 110, top + 40), tip=False)
        canvas.box(Rect(x + 6, top + 40, 208, 26), "join", "state")


def _split_layers(canvas: Canvas, x: float, y: float) -> None:
    for machine in range(PARTS):
        top = y + 46 * machine
        canvas.box(Rect(x + 2, top, 84, 34), f"layers {machine + 1}/{PARTS}", "feed")
        if machine + 1 < PARTS:
            canvas.wire((x + 44, top + 34), (x + 44, top + 46))
        pieces = [str(time - machine + 1) if machine <= time < machine + PARTS else "" for time in range(2 * PARTS - 1)]
        canvas.cells(x + 94, top + 8, [["embed" if piece else "" for piece in pieces]], side=18, words=[pieces])
    canvas.text(x + 157, y + 184, "time →")
