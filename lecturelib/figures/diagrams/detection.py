"""Drawing of a detector whose learned queries look at an image."""

import itertools
from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, watched


def detr_diagram(model: Any) -> Diagram:
    """A `DETR`: on the left the image becomes regions, on the right queries read them, and each query answers."""
    config = model.config
    stride = config.image.stride
    taken = {size for parameter in model.parameters() for size in parameter.shape}
    batch, *sides = free_sizes(model, 60)
    down, across = next(
        (height, width)
        for height, width in itertools.pairwise(sides)
        if not {height * width, height * stride, width * stride} & {*taken, batch}
    )
    letters = {"B": batch, "N": down * across, "D": config.d_model, "Q": config.num_queries}
    with watched(model) as outputs:
        answers = model(torch.zeros(batch, config.image.num_channels, down * stride, across * stride))
    shapes = Shapes(letters, outputs, sized=True, meanings={"N": "regions"})
    seen = {
        "regions": shapes["project"],
        "read": shapes["encoder.*"],
        "queries": shapes.of("queries", model.queries),
        "slots": shapes["decoder.*"],
        "classes": shapes.of("classes", answers.logits[:, -1]),
        "boxes": shapes.of("boxes", answers.boxes[:, -1]),
    }

    def pen(canvas: Canvas, x: float, y: float) -> None:
        wide, right = 150.0, x + 190
        steps = ((0.0, "convolutions", "backbone", "image → grid"), (72.0, "linear", "project", "to width D"))
        eyes = [
            canvas.box(Rect(x + 4, y + top, wide, 46), text, "state", note=note, of=(path,))
            for top, text, path, note in steps
        ]
        canvas.wire(eyes[0].side("bottom"), eyes[1].side("top"))
        canvas.frame(Rect(x, y + 152, wide + 8, 166), f"× {config.encoder_layers}")
        encoder = [
            canvas.box(
                Rect(x + 10, y + 178, wide - 12, 60), "self-attention", "attention", of=("encoder.*.mixer",),
                note="+ positions to\nqueries and keys",
            ),
            canvas.box(
                Rect(x + 10, y + 262, wide - 12, 46), "feed-forward", "feed", note="each region alone",
                of=("encoder.*.feed_forward", "encoder.*.feed_forward_wiring"),
            ),
        ]  # fmt: skip
        axis = encoder[0].middle[0]
        start = (axis, eyes[1].y + 46)
        canvas.wire(start, encoder[0].side("top"), label=seen["regions"], label_at=(axis + 7, start[1] + 17))
        canvas.wire(encoder[0].side("bottom"), encoder[1].side("top"))
        queries = canvas.box(
            Rect(right, y, wide, 60), "object queries", "embed", note="learned", shape=seen["queries"], of=("queries",)
        )
        slots = canvas.box(Rect(right, y + 88, wide, 34), "slots: zeros")
        canvas.frame(Rect(right - 12, y + 152, wide + 24, 262), f"× {config.decoder_layers}")
        rows = (
            (178.0, 60.0, "self-attention", "attention", ("mixer",), "+ own query to\nqueries and keys"),
            (262.0, 74.0, "cross-attention", "attention", ("cross",), "+ own query to\nqueries, positions\nto keys"),
            (360.0, 46.0, "feed-forward", "feed", ("feed_forward", "feed_forward_wiring"), "each slot alone"),
        )
        blocks = [
            canvas.box(
                Rect(right, y + top, wide, height), text, kind, note=note, of=tuple(f"decoder.*.{part}" for part in of)
            )
            for top, height, text, kind, of, note in rows
        ]
        canvas.wire(slots.side("bottom"), blocks[0].side("top"))
        for above, below in itertools.pairwise(blocks):
            canvas.wire(above.side("bottom"), below.side("top"))
        rail = right + wide + 6
        canvas.wire(
            queries.side("right"), (rail, queries.middle[1]), (rail, blocks[0].middle[1]), blocks[0].side("right")
        )
        canvas.wire((rail, blocks[0].middle[1]), (rail, blocks[1].middle[1]), blocks[1].side("right"))
        turn = x + 170
        bottom = encoder[1].y + 46
        canvas.wire(
            (axis, bottom), (axis, bottom + 26), (turn, bottom + 26), (turn, blocks[1].middle[1]),
            blocks[1].side("left"), label=seen["read"], label_at=(axis, bottom + 44), anchor="middle",
        )  # fmt: skip
        norm = canvas.box(Rect(right, y + 452, wide, 32), "layer norm", "norm", of=("decoder_norm",))
        start = blocks[2].side("bottom")
        canvas.wire(start, norm.side("top"), label=seen["slots"], label_at=(start[0] + 7, start[1] + 24))
        heads = (
            (x + 30, "class, or none", "class_head", seen["classes"], "linear"),
            (right, "box: x, y, w, h", "box_head", seen["boxes"], "three layers"),
        )
        middle = norm.middle[0]
        for left, text, path, shape, note in heads:
            head = canvas.box(Rect(left, y + 522, wide, 60), text, "feed", note=note, shape=shape, of=(path,))
            if left < right:
                canvas.wire((middle, y + 504), (head.middle[0], y + 504), head.side("top"))
            else:
                canvas.wire(norm.side("bottom"), head.side("top"))
        canvas.dot(middle, y + 504)

    plural = "s" if config.encoder_layers > 1 else ""
    alt = f"""DETR. On the left convolutions and a linear map turn the image into regions {seen["regions"]}, and
    an encoder of {config.encoder_layers} layer{plural} lets them read each other, with positions added
    to queries and keys. On the right {config.num_queries} learned object queries {seen["queries"]} are
    added to slots that start at zero; in each of {config.decoder_layers} decoder layers the slots read
    each other and then the regions. Each slot ends in a class or none {seen["classes"]} and a box
    {seen["boxes"]}."""
    return Diagram(alt, lambda narrow: Free(352, 584, pen), {"": model}, (shapes,))
