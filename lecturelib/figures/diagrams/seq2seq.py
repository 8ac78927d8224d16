"""Drawings of recurrent encoders and decoders, without attention and with the first one."""

from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free, Part
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, watched


def encoder_decoder_diagram(model: Any) -> Diagram:
    """A `Seq2Seq`: one network reads the source, its last state starts another that writes the target."""
    config = model.config
    batch, source, target = free_sizes(model, 3)
    letters = {"B": batch, "S": source, "T": target, "D": config.d_model}
    letters |= {"V": config.target_vocab_size}
    read = torch.zeros(batch, source, dtype=torch.long), torch.full((batch,), source)
    with watched(model) as outputs:
        model(*read, torch.zeros(batch, target, dtype=torch.long))
        thought = model.start(*read).hidden[-1][0]
    shapes = Shapes(letters, outputs, sized=True)
    state, logits = shapes.of("thought vector", thought), shapes["output"]
    layers = "LSTM" if config.num_layers == 1 else f"LSTM×{config.num_layers}"
    words = ["x_3", "x_2", "x_1"] if config.reverse_source else ["x_1", "x_2", "x_3"]

    def describe(narrow: bool) -> Part:
        pitch, first = (82.0, 42.0) if narrow else (136.0, 56.0)
        thought_x = first + 3 * pitch - (2 if narrow else 20)

        def row(canvas: Canvas, x: float, y: float, tokens: list[str], table: str, network: str) -> list[Rect]:
            cells: list[Rect] = []
            for index, text in enumerate(tokens):
                axis, copy = x + first + index * pitch, index > 0
                token = canvas.box(Rect(axis - 28, y, 56, 32), text)
                embed = canvas.box(Rect(axis - 34, y + 54, 68, 30), "", "embed", note="embed", of=(table,), copy=copy)
                cell = canvas.box(Rect(axis - 31, y + 108, 62, 34), layers, "state", of=(network,), copy=copy)
                canvas.wire(token.side("bottom"), embed.side("top"))
                canvas.wire(embed.side("bottom"), cell.side("top"))
                if cells:
                    canvas.wire(cells[-1].side("right"), cell.side("left"))
                cells.append(cell)
            return cells

        def pen(canvas: Canvas, x: float, y: float) -> None:
            encoder = row(canvas, x, y, words, "source_embedding", "encoder")
            thought = canvas.box(Rect(x + thought_x - 40, y + 94, 80, 62), "thought\nvector", "gate", shape=state)
            canvas.wire(encoder[-1].side("right"), thought.side("left"))
            decoder = row(canvas, x, y + 206, ["start", "y_1", "y_2"], "target_embedding", "decoder")
            here = decoder[0].middle[1]
            middle, turn = thought.middle[0], x + first - 42
            canvas.wire((middle, y + 156), (middle, y + 182), (turn, y + 182), (turn, here), decoder[0].side("left"))
            for index, (cell, text) in enumerate(zip(decoder, ["y_1", "y_2", "end"], strict=True)):
                axis, copy = cell.middle[0], index > 0
                rect = Rect(axis - 34, y + 372, 68, 30)
                out = canvas.box(rect, "", "embed", note="output", of=("output",), copy=copy)
                word = canvas.box(Rect(axis - 28, y + 430, 56, 32), text)
                canvas.wire(cell.side("bottom"), out.side("top"))
                canvas.wire(out.side("bottom"), word.side("top"))
            canvas.wire(decoder[-1].side("right"), (decoder[-1].x + 62 + 17, here))
            canvas.text(x + thought_x + 40, y + 392, "for all steps:", anchor="end")
            canvas.text(x + thought_x + 40, y + 410, logits, style="shape", anchor="end")

        return Free(thought_x + 40, 462, pen)

    order = "from its end" if config.reverse_source else "from its start"
    alt = f"""Encoder and decoder: an LSTM reads the source words {order}; its last state, the thought vector {state},
    is all that the second LSTM gets. That one starts from it and writes the target, reading what it has written."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def bahdanau_diagram(model: Any) -> Diagram:
    """One step of a `BahdanauSeq2Seq`: look back at all annotations, then step and write."""
    config = model.config
    batch, source, target = free_sizes(model, 3, (1,))
    letters = {"B": batch, "S": source, "T": target, "D": config.hidden_dim, "2D": 2 * config.hidden_dim}
    letters |= {"E": config.embedding_dim, "V": config.target_vocab_size}
    read = torch.zeros(batch, source, dtype=torch.long), torch.full((batch,), source)
    with watched(model) as outputs:
        state = model.start(*read)
        logits, after = model.step(torch.zeros(batch, dtype=torch.long), state)
        query = state.hidden.unsqueeze(1)
        context, weights = model.attention(query, state.annotations, state.annotations, state.mask)
    shapes = Shapes(letters, outputs, sized=True)
    step = {
        "annotations": shapes.of("annotations", state.annotations),
        "weights": shapes.of("weights", weights.squeeze(1)),
        "context": shapes.of("context", context.squeeze(1)),
        "embedded": shapes["target_embedding"],
        "state": shapes.of("state", after.hidden),
        "logits": shapes.of("logits", logits),
    }

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def box(x0: float, x1: float, top: float, height: float, text: str, kind: str = "plain", **more: Any) -> Rect:
            return canvas.box(Rect(x + x0, y + top, x1 - x0, height), text, kind, **more)

        y += 14
        bridge = box(0, 74, -14, 60, "bridge", "state", note="gives s_0", of=("bridge",))
        once = ("source_embedding", "encoder")
        note, given = "embedding, bidirectional GRU", step["annotations"]
        encoder = box(92, 336, -14, 60, "encoder, run once", "state", note=note, shape=given, of=once)
        canvas.wire(encoder.side("left"), bridge.side("right"))
        before = box(0, 56, 146, 38, "s_{t-1}", "state")
        canvas.wire((before.middle[0], bridge.y + 60), before.side("top"))
        score = box(92, 336, 142, 46, "score every h_j", "attention", note="a small tanh network", of=("attention",))
        for j in range(1, 5):
            axis = x + 92 + 244 * (j - 0.5) / 4
            word = canvas.box(Rect(axis - 24, y + 76, 48, 34), f"h_{j}", "state")
            canvas.wire((axis, encoder.y + 60), word.side("top"))
            canvas.wire(word.side("bottom"), (axis, score.y))
        canvas.wire(before.side("right"), score.side("left"))
        softmax = box(92, 336, 218, 46, "weights: softmax over j", "attention", shape=step["weights"])
        canvas.wire(score.side("bottom"), softmax.side("top"))
        summed = box(92, 336, 294, 46, "context c_t: weighted sum", "attention", shape=step["context"])
        canvas.wire(softmax.side("bottom"), summed.side("top"))
        side = x + 348
        canvas.frame(Rect(x + 92, y + 69, 244, 48))
        canvas.wire((x + 336, y + 93), (side, y + 93), (side, y + 317), summed.side("right"))
        last = box(16, 84, 294, 46, "y_{t-1}", "embed", shape=step["embedded"], of=("target_embedding",))
        joined = box(92, 336, 370, 34, "s_{t-1},  y_{t-1},  c_t")
        canvas.wire(summed.side("bottom"), joined.side("top"))
        canvas.wire(last.side("bottom"), (last.middle[0], y + 378), (joined.x, y + 378))
        canvas.wire((x + 8, before.y + 38), (x + 8, y + 395), (joined.x, y + 395))
        gru = box(92, 208, 434, 46, "GRU step", "state", shape=step["state"], of=("decoder",))
        output = box(220, 336, 434, 46, "maxout layer", "embed", shape=step["logits"], of=("output",))
        for made, text in ((gru, "s_t"), (output, "next word y_t")):
            canvas.wire((made.middle[0], joined.y + 34), made.side("top"))
            end = canvas.box(Rect(made.x, y + 510, made.w, 34), text)
            canvas.wire(made.side("bottom"), end.side("top"))

    alt = f"""One step of Bahdanau's decoder: its last state is compared with every annotation of the source; a softmax
    turns the scores into weights {step["weights"]}; their weighted sum of the annotations is the context
    {step["context"]}. State, last word and context then give the next state and the next word."""
    return Diagram(alt, lambda narrow: Free(350, 558, pen), {"": model}, (shapes,))
