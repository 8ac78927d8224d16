"""Drawings of attention that pools, and of attention between two texts."""

import itertools
from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Free, Part, Repeat
from lecturelib.figures.diagrams.shapes import free_sizes, measure


def pooling_diagram(model: Any) -> Diagram:
    """A `PoolingClassifier` with attention: a learned query makes one vector of all states."""
    config = model.config
    batch, length = free_sizes(model, 2)
    letters = {"B": batch, "T": length, "E": config.embedding_dim, "2D": 2 * config.hidden_dim, "C": config.num_classes}
    tokens, lengths = torch.zeros(batch, length, dtype=torch.long), torch.full((batch,), length)
    shapes = measure(model, tokens, lengths, letters=letters, sized=True)
    words, states, pooled = shapes["encoder.embedding"], shapes["encoder.recurrent"], shapes["encoder.pooling"]

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def box(top: float, text: str, kind: str, of: tuple[str, ...] = (), height: float = 32, note: str = "") -> Rect:
            return canvas.box(Rect(x + 55, y + top, 240, height), text, kind, of=of, note=note)

        canvas.text(x + 175, y + 12, "words", size=14, style="name")
        read = (
            box(22, "embedding", "embed", ("encoder.embedding",)),
            box(94, "LSTM in both directions", "state", ("encoder.recurrent",)),
            box(180, "keys: tanh(h W + b)", "attention", ("encoder.pooling.key",)),
            box(236, "scores: u · key", "attention", ("encoder.pooling.query",), 48, "u is learned, the same for all"),
            box(308, "softmax over the words", "attention"),
            box(364, "weighted sum of the states", "attention"),
            box(436, "linear: one score per class", "embed", ("output",)),
        )
        labels = {0: words, 1: states, 5: pooled}
        for number, (above, below) in enumerate(itertools.pairwise(read)):
            start, end = above.side("bottom"), below.side("top")
            canvas.wire(start, end, label=labels.get(number, ""), label_at=(start[0] + 7, start[1] + 18))
        branch, side, total = (x + 175, y + 158), x + 325, read[5].side("right")
        canvas.dot(*branch)
        canvas.wire(branch, (side, branch[1]), (side, total[1]), total)

    alt = f"""Attention pooling: an LSTM in both directions gives a state for each word, {states}; a learned query is
    compared with a key of each state, a softmax gives weights, and the weighted sum of the states, {pooled}, is
    classified."""
    return Diagram(alt, lambda narrow: Free(350, 468, pen), {"": model}, (shapes,))


def hierarchical_diagram(model: Any) -> Diagram:
    """A `HierarchicalAttentionNetwork`: words are pooled into sentences, and sentences into the document."""
    config = model.config
    batch, sentences, words = free_sizes(model, 3)
    letters = {"B": batch, "Ns": sentences, "T": words, "E": config.embedding_dim, "2D": 2 * config.hidden_dim}
    letters |= {"C": config.num_classes}
    tokens = torch.zeros(batch, sentences, words, dtype=torch.long)
    shapes = measure(model, tokens, torch.full((batch, sentences), words), letters=letters, sized=True)
    vectors, document = shapes["word_pooling"], shapes["sentence_pooling"]

    def level(reader: str, pooling: str, what: str, shape: str) -> Part:
        return Column(
            [
                Box("GRU in both directions", "state", of=(reader,)),
                Box("attention pooling", "attention", note=f"a query u for {what}", of=(pooling,), shape=shape),
            ]
        )

    def describe(narrow: bool) -> Part:
        return Column(
            [
                Box("embedding", "embed", of=("embedding",), shape=shapes["embedding"]),
                Repeat(level("word_reader", "word_pooling", "words", vectors), "each sentence"),
                Repeat(level("sentence_reader", "sentence_pooling", "sentences", document), "the document"),
                Box("linear: one score per class", "embed", of=("output",)),
            ]
        )

    alt = f"""A hierarchical attention network: words are read in both directions and pooled into one vector for each
    sentence, {vectors}; the sentence vectors are read and pooled in the same way into one vector for the document,
    {document}."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def esim_diagram(model: Any) -> Diagram:
    """An `ESIM`: premise and hypothesis are read, aligned with each other, compared, read again and judged."""
    config = model.config
    batch, premise, hypothesis = free_sizes(model, 3)
    letters = {"B": batch, "S": premise, "T": hypothesis, "D": config.hidden_dim, "C": config.num_classes}
    texts = [torch.zeros(batch, size, dtype=torch.long) for size in (premise, hypothesis)]
    lengths = [torch.full((batch,), size) for size in (premise, hypothesis)]
    shapes = measure(model, texts[0], lengths[0], texts[1], lengths[1], letters=letters, sized=True)
    found = shapes["premise_reads"], shapes["hypothesis_reads"]

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def side(left: float, name: str, reads: str, other: str, copy: bool) -> dict[str, Rect]:
            canvas.text(left + 80, y + 12, name, size=14, style="name")
            rows = (
                ("embedding", 22, 32, "embedding", "embed", ("embedding",), copy),
                ("read", 76, 32, "LSTM both ways", "state", ("encoder",), copy),
                ("find", 146, 48, f"find each word\nin the {other}", "attention", (reads,), False),
                ("compare", 216, 64, "own, found,\nown − found,\nown ⊙ found", "plain", (), False),
                ("project", 302, 32, "projection, ReLU", "embed", ("projection",), copy),
                ("compose", 356, 32, "LSTM both ways", "state", ("composer",), copy),
                ("pool", 410, 32, "mean, maximum", "plain", (), False),
            )
            boxes = {}
            for key, top, height, text, kind, of, is_copy in rows:
                boxes[key] = canvas.box(Rect(left, y + top, 160, height), text, kind, of=of, copy=is_copy)
            for above, below in itertools.pairwise(boxes.values()):
                canvas.wire(above.side("bottom"), below.side("top"))
            return boxes

        left = side(x, "premise", "premise_reads", "hypothesis", False)
        right = side(x + 190, "hypothesis", "hypothesis_reads", "premise", True)
        canvas.wire((x + 160, y + 88), (x + 171, y + 88), (x + 171, y + 160), (x + 190, y + 160))
        canvas.wire((x + 190, y + 98), (x + 179, y + 98), (x + 179, y + 180), (x + 160, y + 180))
        joined = canvas.box(Rect(x + 55, y + 472, 240, 32), "all four side by side")
        hidden = canvas.box(Rect(x + 55, y + 528, 240, 32), "tanh layer", "embed", of=("hidden",))
        output = canvas.box(Rect(x + 55, y + 584, 240, 32), "linear: three scores", "embed", of=("output",))
        for pooled in (left["pool"], right["pool"]):
            canvas.wire(pooled.side("bottom"), (pooled.middle[0], joined.y))
        canvas.wire(joined.side("bottom"), hidden.side("top"))
        canvas.wire(hidden.side("bottom"), output.side("top"))

    alt = f"""ESIM: one LSTM reads premise and hypothesis; each word of one finds its counterpart in the other,
    {found[0]} and {found[1]}; what was found is compared with what was there, a second LSTM reads the comparison, and
    means and maxima of both sides are classified. Both sides share their weights."""
    return Diagram(alt, lambda narrow: Free(350, 616, pen), {"": model}, (shapes,))


def span_diagram(model: Any) -> Diagram:
    """A `SpanReader`: the question enters the passage word by word, and then points at a start and an end."""
    config = model.config
    batch, passage, question = free_sizes(model, 3, (2,))
    letters = {"B": batch, "Tp": passage, "Tq": question, "2D": 2 * config.hidden_dim}
    texts = [torch.zeros(batch, size, dtype=torch.long) for size in (passage, question)]
    lengths = [torch.full((batch,), size) for size in (passage, question)]
    shapes = measure(model, texts[0], lengths[0], texts[1], lengths[1], letters=letters, sized=True)
    read, pooled, answer = shapes["passage_reader"], shapes["question_pooling"], shapes[""]

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def box(x0: float, top: float, height: float, text: str, kind: str, of: tuple[str, ...], **more: Any) -> Rect:
            return canvas.box(Rect(x + x0, y + top, more.pop("width", 162), height), text, kind, of=of, **more)

        canvas.text(x + 81, y + 12, "passage", size=14, style="name")
        canvas.text(x + 269, y + 12, "question", size=14, style="name")
        words = box(0, 22, 32, "embedding", "embed", ("embedding",))
        found = box(0, 78, 48, "find each word\nin the question", "attention", ("lookup_proj", "lookup"))
        memory = box(0, 150, 62, "LSTM both ways", "state", ("passage_reader",), shape=read)
        asked = box(188, 22, 32, "embedding", "embed", ("embedding",), copy=True)
        reader = box(188, 78, 48, "LSTM both ways", "state", ("question_reader",))
        state = box(188, 150, 62, "attention pooling", "attention", ("question_pooling",), shape=pooled)
        for above, below in ((words, found), (found, memory), (asked, reader), (reader, state)):
            canvas.wire(above.side("bottom"), below.side("top"))
        canvas.wire(asked.side("left"), (x + 175, asked.middle[1]), (x + 175, found.middle[1]), found.side("right"))
        point = box(25, 260, 62, "point at start and end", "attention", ("pointers",), width=300, shape=answer)
        for source in (memory, state):
            canvas.wire(source.side("bottom"), (source.middle[0], point.y))
        if config.num_turns > 1:
            again = box(
                25, 352, 62, "read the passage again", "state", ("reread", "turn"), width=300, note="GRU: new state"
            )
            canvas.wire(point.side("bottom"), again.side("top"))
            side = x + 341
            canvas.wire(again.side("right"), (side, again.middle[1]), (side, point.middle[1]), point.side("right"))
            canvas.text(x + 30, y + 344, f"{config.num_turns} turns", anchor="start")

    alt = f"""A span reader: each word of the passage looks up its counterpart in the question and an LSTM reads both,
    {read}; the question is pooled to one vector {pooled}, which is compared with every word to give the probabilities
    of start and end, {answer}. With several turns the vector reads the passage again between answers."""
    height = 414 if config.num_turns > 1 else 322
    return Diagram(alt, lambda narrow: Free(350, height, pen), {"": model}, (shapes,))
