"""Drawings of attention over videos: a non-local block, and ViViT with an encoder for space and one for time."""

import math
from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Free, Part, Repeat
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, measure, watched
from lecturelib.figures.diagrams.vision import Tokens


def non_local_diagram(block: Any, grid: tuple[int, int, int] = (8, 2, 12)) -> Diagram:
    """A `NonLocalBlock` in a video: queries, keys and values of all positions, and what they read added to the input.

    Args:
        grid: frames, rows and columns, as measured
    """
    width, inner, positions = block.d_model, block.query_proj.out_features, math.prod(grid)
    (batch,) = free_sizes(block, 1, (*grid, positions))
    x = torch.zeros(batch, width, *grid)
    with watched(block) as outputs:
        block(x)
        tokens = x.flatten(2).mT
        weights = block.similarity(block.query_proj(tokens), block.key_proj(tokens))
        read = weights @ block.value_proj(tokens)
    letters = {"B": batch, "N": positions, "D": width} | ({} if inner == width else {"Dh": inner})
    shapes = Shapes(letters, outputs, sized=True, meanings={"N": "positions in all frames", "Dh": "inner width"})
    step = {
        "x": shapes.of("x", x),
        "tokens": shapes.of("tokens", tokens),
        "weights": shapes.of("weights", weights),
        "read": shapes.of("read", read),
        "out": shapes["out_proj"],
    }

    def pen(canvas: Canvas, x0: float, y0: float) -> None:
        def box(left: float, right: float, top: float, text: str, kind: str, **more: Any) -> Rect:
            return canvas.box(Rect(x0 + left, y0 + top, right - left, 46), text, kind, **more)

        features = box(52, 270, 0, "features of all frames", "plain", shape=step["x"])
        flat = box(52, 270, 74, "one long list of positions", "plain", shape=step["tokens"])
        canvas.wire(features.side("bottom"), flat.side("top"))
        for axis, text, part in ((50, "queries", "query"), (161, "keys", "key"), (272, "values", "value")):
            made = box(axis - 50, axis + 50, 148, text, "attention", of=(f"{part}_proj",), shape=shapes[f"{part}_proj"])
            start = min(max(axis, 76), 246)  # where the wire leaves the box above
            corner = () if start == axis else ((x0 + start, y0 + 134), (x0 + axis, y0 + 134))
            canvas.wire((x0 + start, flat.y + flat.h), *corner, made.side("top"))
            canvas.wire(made.side("bottom"), (x0 + axis, y0 + (296 if part == "value" else 222)))
        weigh = box(0, 211, 222, "weights of all pairs", "attention", shape=step["weights"])
        read_out = box(0, 322, 296, "mean of the values by weight", "attention", shape=step["read"])
        canvas.wire(weigh.side("bottom"), (x0 + 105.5, read_out.y))
        last = box(52, 270, 370, "last map, zero at first", "attention", of=("out_proj",), shape=step["out"])
        canvas.wire(read_out.side("bottom"), last.side("top"))
        plus = canvas.operation(x0 + 161, y0 + 446, "+")
        canvas.wire(last.side("bottom"), plus.side("top"))
        rail = x0 + 338
        canvas.wire(features.side("right"), (rail, features.middle[1]), (rail, y0 + 446), plus.side("right"))
        end = box(52, 270, 482, "input plus what was read", "plain", shape=step["x"])
        canvas.wire(plus.side("bottom"), end.side("top"))

    alt = f"""A non-local block: the features of all frames {step["x"]} become one list of {positions} positions; each
    gives a query, a key and a value; weights {step["weights"]} between all pairs of positions average the values; a
    last map, zero at first, maps the result back to {step["out"]}, and it is added to the input."""
    return Diagram(alt, lambda narrow: Free(342, 528, pen), {"": block}, (shapes,))


def vivit_diagram(model: Any) -> Diagram:
    """A `ViViT` with a factorised encoder: tubelets of one time attend to each other, then the times do."""
    if not hasattr(model.encoder, "temporal"):
        raise ValueError("the drawing is of an encoder in space and one in time; this ViViT has a joint one")
    config = model.config
    times, rows, columns = config.grid
    places = rows * columns
    height, width = config.image_size if isinstance(config.image_size, tuple) else (config.image_size,) * 2
    taken = {times, places, 1 + times, 1 + places, rows, columns, height, width, config.num_frames}
    used = taken | {size for parameter in model.parameters() for size in parameter.shape}
    batch = next(size for size in free_sizes(model, 50, taken) if size * times not in used)
    letters = {"B": batch, "D": config.d_model, "Nt": times, "Ns": places}
    letters |= (
        {} if config.num_classes in taken else {"C": config.num_classes}
    )  # a size that two axes have stays a number
    letters |= {"1+Ns": 1 + places, "1+Nt": 1 + times, "B·Nt": batch * times}
    videos = torch.zeros(batch, config.num_frames, config.num_channels, height, width)
    meanings = {"Nt": f"= {times} times", "Ns": f"= {places} places"}
    shapes = measure(model, videos, letters=letters, sized=True, meanings=meanings)

    def strips() -> Part:
        side = min(14.0, 220 / columns)
        step = rows * side + 6

        def pen(canvas: Canvas, x: float, y: float) -> None:
            for time in range(min(times, 4)):
                canvas.cells(x, y + time * step, [["plain"] * columns] * rows, side=side)

        return Free(side * columns, step * min(times, 4) - 6, pen, shapes.of("videos", videos))

    def numbered(count: int, word: str = "") -> list[tuple[str, str, tuple[str, ...]]]:
        numbers = [str(n) for n in range(1, count + 1)] if count <= 4 else ["1", "2", "…", str(count)]
        return [(word + number if number != "…" else number, "plain", ()) for number in numbers]

    def blocks(encoder: Any) -> str:
        return f"{len(encoder.blocks)} blocks" if len(encoder.blocks) > 1 else "a block"

    def describe(narrow: bool) -> Part:
        space, time = "encoder.spatial", "encoder.temporal"
        spatial = Column(
            [
                Tokens([("class", "embed", (f"{space}.class_token",)), *numbered(places)], shapes[f"{space}.blocks.*"]),
                Box("+ positions in a frame", "embed", of=(f"{space}.positions",), shape=shapes[f"{space}.blocks.*"]),
                Box(
                    f"{blocks(model.encoder.spatial)} over space",
                    "attention",
                    of=(f"{space}.blocks", f"{space}.norm"),
                    note="tubelets of one time look at each other",
                    shape=shapes[space],
                ),
            ]
        )
        return Column(
            [
                strips(),
                Box("tubelet embedding", "embed", of=("tubelets",), shape=shapes["tubelets"]),
                Repeat(spatial, f"× {times} times"),
                Tokens([("class", "embed", (f"{time}.class_token",)), *numbered(times, "t=")], shapes[time]),
                Box("+ positions in time", "embed", of=(f"{time}.positions",), shape=shapes[time]),
                Box(
                    f"{blocks(model.encoder.temporal)} over time",
                    "attention",
                    of=(f"{time}.blocks", f"{time}.norm"),
                    note="the times' class tokens look at each other",
                    shape=shapes[time],
                ),
                Box("head", "embed", of=("head",), note="reads the class token", shape=shapes["head"]),
                Box("logits of the classes"),
            ]
        )

    alt = f"""ViViT with a factorised encoder: a video is cut into tubelets at {times} times and {places} places. For
    each time alone, a class token and its {places} tubelets pass blocks over space; then the {times} class tokens, with
    one more, pass blocks over time, and a head reads that last one."""
    return Diagram(alt, describe, {"": model}, (shapes,))
