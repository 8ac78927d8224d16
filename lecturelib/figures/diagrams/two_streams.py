"""Drawing of two streams, words and regions, that read each other."""

from itertools import pairwise
from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free
from lecturelib.figures.diagrams.shapes import free_sizes, measure

Row = tuple[str, float, str, tuple[str, ...], str]  # title, top, kind, modules, shape


def two_streams_diagram(model: Any) -> Diagram:
    """A `ViLBERTPretraining`: a stream of words, one of regions, the crossing between them, and the three heads."""
    config = model.config
    text, image = config.text, config.image
    alone = text.num_layers - image.num_layers
    batch, length, regions = free_sizes(model, 3, (1, config.vocab_size))
    letters = {"B": batch, "T": length, "N": regions, "Dw": text.d_model, "Dr": image.d_model}
    letters |= {"V": config.vocab_size, "C": config.num_region_classes}
    meanings = {
        "T": "words",
        "N": "regions",
        "Dw": "width of a word",
        "Dr": "width of a region",
        "C": "kinds of things",
    }
    tokens, seen = torch.zeros(batch, length, dtype=torch.long), torch.zeros(batch, regions, config.region_dim)
    shapes = measure(model, tokens, seen, letters=letters, sized=True, meanings=meanings)
    wide, high = 152.0, 46.0

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def stream(left: float, name: str, rows: list[Row]) -> list[Rect]:
            canvas.text(left + wide / 2, y + 12, name, size=14, style="name")
            boxes = [
                canvas.box(Rect(left, y + top, wide, high), title, kind, of=of, shape=shape)
                for title, top, kind, of, shape in rows
            ]
            for above, below in pairwise(boxes):
                canvas.wire(above.side("bottom"), below.side("top"))
            return boxes

        def part(side: str, what: str) -> tuple[str, ...]:
            return f"trunk.connections.*.{side}.{what}", f"trunk.connections.*.{side}.{what}_wiring"

        first, gap = (22 + high + 28 + (high + 28 if alone else 0)), high + 30
        co, feed, block, pool = (first + 48 + step * gap for step in range(4))
        pool += 26
        early = tuple(f"trunk.text_blocks.{number}" for number in range(alone))
        late = tuple(f"trunk.text_blocks.{number}" for number in range(alone, text.num_layers))
        table = ("trunk.token_embedding", "trunk.positions", "trunk.text_norm")
        words: list[Row] = [("embed, + position", 22.0, "embed", table, shapes["trunk.text_norm"])]
        if alone:
            title = "one block alone" if alone == 1 else f"{alone} blocks alone"
            words.append((title, 22 + high + 28, "attention", early, ""))
        words += [
            ("read the regions", co, "attention", part("text", "attention"), ""),
            ("feed-forward", feed, "feed", part("text", "feed_forward"), ""),
            ("self-attention", block, "attention", late, shapes["trunk.text_blocks.*"]),
        ]
        things: list[Row] = [
            ("project", 22.0, "embed", ("trunk.region_proj", "trunk.image_norm"), shapes["trunk.image_norm"]),
            ("read the words", co, "attention", part("image", "attention"), ""),
            ("feed-forward", feed, "feed", part("image", "feed_forward"), ""),
            ("self-attention", block, "attention", ("trunk.image_blocks.*",), shapes["trunk.image_blocks.*"]),
        ]
        left, right = x + 12, x + 188
        one, two = stream(left, "words", words), stream(right, "regions", things)
        canvas.frame(Rect(x, y + first, 352, pool - 26 - first), f"× {image.num_layers}")
        middle = [left + wide / 2, right + wide / 2]
        crossings = (
            (middle[0], two[-3].side("left", 8), x + 180, y + co - 16),
            (middle[1], one[-3].side("right", -8), x + 172, y + co - 26),
        )
        for start, end, bend, level in crossings:
            canvas.dot(start, level)
            canvas.wire((start, level), (bend, level), (bend, end[1]), end)
        return _heads(canvas, x, y + pool, one[-1], two[-1], shapes)

    height = 22 + high + 28 + (high + 28 if alone else 0) + 48 + 3 * (high + 30) + 26 + 172
    alt = f"""ViLBERT. Words and regions have a stream each. In each of {image.num_layers} layers the words read the
    regions and the regions read the words: queries from the own stream, keys and values from the other. A feed-forward
    net and a block of self-attention follow in each stream. Three heads guess masked words {shapes["words"]}, the
    content of masked regions {shapes["regions"]}, and from the product of the first word and the whole image whether
    the two match {shapes["matches"]}."""
    return Diagram(alt, lambda narrow: Free(352, height, pen), {"": model}, (shapes,))


def _heads(canvas: Canvas, x: float, y: float, words: Rect, regions: Rect, shapes: Any) -> None:
    """The three heads below the last blocks of both streams."""
    guess = canvas.box(
        Rect(x, y, 82, 62), "which\nword?", "gate", of=("words.transform", "words.norm", "words.output.bias"),
    )  # fmt: skip
    kind = canvas.box(Rect(x + 270, y, 82, 62), "what\nthing?", "gate", of=("regions",))
    canvas.wire((guess.middle[0], words.y + words.h), guess.side("top"))
    canvas.wire((kind.middle[0], regions.y + regions.h), kind.side("top"))
    one = canvas.box(Rect(x + 92, y + 8, 78, 46), "first\nword", "embed", of=("trunk.text_pooler",))
    two = canvas.box(Rect(x + 182, y + 8, 78, 46), "whole\nimage", "embed", of=("trunk.image_pooler",))
    canvas.wire((one.middle[0], words.y + words.h), one.side("top"))
    canvas.wire((two.middle[0], regions.y + regions.h), two.side("top"))
    times = canvas.operation(x + 176, y + 92, "⊙")
    canvas.wire(one.side("bottom"), (one.middle[0], y + 92), times.side("left"))
    canvas.wire(two.side("bottom"), (two.middle[0], y + 92), times.side("right"))
    match = canvas.box(
        Rect(x + 106, y + 126, 140, 46), "do they match?", "gate", of=("matches",), shape=shapes["matches"]
    )
    canvas.wire(times.side("bottom"), match.side("top"))
    canvas.text(guess.middle[0], y + 80, shapes["words"], style="shape")
    canvas.text(kind.middle[0], y + 80, shapes["regions"], style="shape")
