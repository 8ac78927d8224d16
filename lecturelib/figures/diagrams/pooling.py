"""Drawings of attention that pools, and of attention between two texts."""

from typing import Any

import torch

from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Part, Repeat, Titled, beside
from lecturelib.figures.diagrams.shapes import free_sizes, measure


def pooling_diagram(model: Any) -> Diagram:
    """A `PoolingClassifier` with attention: a learned query makes one vector of all states."""
    config = model.config
    batch, length = free_sizes(model, 2)
    letters = {"B": batch, "T": length, "E": config.embedding_dim, "2D": 2 * config.hidden_dim, "C": config.num_classes}
    tokens, lengths = torch.zeros(batch, length, dtype=torch.long), torch.full((batch,), length)
    shapes = measure(model, tokens, lengths, letters=letters, sized=True)
    words, states, pooled = shapes["encoder.embedding"], shapes["encoder.recurrent"], shapes["encoder.pooling"]

    def describe(narrow: bool) -> Part:
        pool = Column(
            [
                Box("keys: tanh(h W + b)", "attention", of=("encoder.pooling.key",)),
                Box(
                    "scores: key · u", "attention", note="u is learned, the same for all", of=("encoder.pooling.query",)
                ),
                Box("softmax over the words", "attention"),
                Box("weighted sum of the states", "attention", shape=pooled),
            ]
        )
        return Column(
            [
                Box("words", shape=""),
                Box("embedding", "embed", of=("encoder.embedding",), shape=words),
                Box("LSTM in both directions", "state", of=("encoder.recurrent",), shape=states),
                Repeat(pool, "pooling"),
                Box("linear: one score per class", "embed", of=("output",)),
            ]
        )

    alt = f"""Attention pooling: an LSTM in both directions gives a state for each word, {states}; a learned query is
    compared with a key of each state, a softmax gives weights, and the weighted sum of the states, {pooled}, is
    classified."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def hierarchical_diagram(model: Any) -> Diagram:
    """A `HierarchicalAttentionNetwork`: words are pooled into sentences, and sentences into the document."""
    config = model.config
    batch, sentences, words = free_sizes(model, 3)
    letters = {"B": batch, "S": sentences, "T": words, "E": config.embedding_dim, "2D": 2 * config.hidden_dim}
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

    def side(name: str, reads: str, other: str, copy: bool) -> Part:
        parts = [
            Box("embedding", "embed", of=("embedding",), copy=copy),
            Box("LSTM, both directions", "state", of=("encoder",), copy=copy),
            Box(f"find each word in\nthe {other}", "attention", of=(reads,)),
            Box("compare: own, found,\nown − found, own ∗ found", "plain"),
            Box("projection, ReLU", "embed", of=("projection",), copy=copy),
            Box("LSTM, both directions", "state", of=("composer",), copy=copy),
            Box("mean and maximum", "plain"),
        ]
        return Titled(name, Column(parts, gap=22))

    def describe(narrow: bool) -> Part:
        sides = beside(
            [
                side("premise", "premise_reads", "hypothesis", False),
                side("hypothesis", "hypothesis_reads", "premise", True),
            ],
            narrow=narrow,
        )
        judge = Column(
            [
                Box("all four side by side"),
                Box("tanh layer", "embed", of=("hidden",)),
                Box("linear", "embed", of=("output",)),
            ],
            gap=22,
        )
        return Column([sides, judge], gap=22, wires=False)

    alt = f"""ESIM: one LSTM reads premise and hypothesis; each word of one finds its counterpart in the other,
    {found[0]} and {found[1]}; what was found is compared with what was there, a second LSTM reads the comparison, and
    means and maxima of both sides are classified. Both sides share their weights."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def span_diagram(model: Any) -> Diagram:
    """A `SpanReader`: the question enters the passage word by word, and then points at a start and an end."""
    config = model.config
    batch, passage, question = free_sizes(model, 3, (2,))
    letters = {"B": batch, "S": passage, "T": question, "2D": 2 * config.hidden_dim}
    texts = [torch.zeros(batch, size, dtype=torch.long) for size in (passage, question)]
    lengths = [torch.full((batch,), size) for size in (passage, question)]
    shapes = measure(model, texts[0], lengths[0], texts[1], lengths[1], letters=letters, sized=True)
    memory, asked, answer = shapes["passage_reader"], shapes["question_pooling"], shapes[""]

    def describe(narrow: bool) -> Part:
        left = Column(
            [
                Box("embedding", "embed", of=("embedding",)),
                Box("find each word in\nthe question", "attention", of=("lookup_proj", "lookup")),
                Box("LSTM, both directions", "state", note="word, found, in the question?", of=("passage_reader",)),
            ],
            gap=22,
        )
        right = Column(
            [
                Box("embedding", "embed", of=("embedding",), copy=True),
                Box("LSTM, both directions", "state", of=("question_reader",)),
                Box("attention pooling", "attention", of=("question_pooling",)),
            ],
            gap=22,
        )
        sides = beside([Titled(f"passage: {memory}", left), Titled(f"question: {asked}", right)], narrow=narrow)
        turns = [Box("start and end: state against every word", "attention", of=("pointers",), shape=answer)]
        if config.num_turns > 1:
            turns.append(Box("read again, new state", "state", note="GRU", of=("reread", "turn")))
        return Column([sides, Repeat(Column(turns, gap=26), f"× {config.num_turns}")], gap=22, wires=False)

    alt = f"""A span reader: each word of the passage looks up its counterpart in the question and an LSTM reads both,
    {memory}; the question is pooled to one vector {asked}, which is compared with every word to give the probabilities
    of start and end, {answer}. With several turns the vector reads the passage again between answers."""
    return Diagram(alt, describe, {"": model}, (shapes,))
