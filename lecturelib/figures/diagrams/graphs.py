"""Drawings of networks on graphs and sets, and of masks as graphs."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Free, Part, Repeat, Residual, Row, Titled, beside
from lecturelib.figures.diagrams.shapes import free_sizes, measure

RADIUS, SIDE, CELL = 58.0, 28.0, 17.0
NODES = {"N": "nodes", "T": "elements"}


def masks_diagram(masks: Mapping[str, Tensor]) -> Diagram:
    """Each mask twice: as a graph, with an arrow from each node to whoever hears it, and as the matrix it is.

    Args:
        masks: by name, boolean (N, N) with at most 7 nodes; row i is what node i may hear
    """
    for name, mask in masks.items():
        if mask.dtype != torch.bool or mask.dim() != 2 or mask.shape[0] != mask.shape[1] or not 2 <= len(mask) <= 7:
            raise ValueError(f"{name!r} must be a square boolean mask of 2 to 7 nodes, got {mask.dtype} {mask.shape}")

    def describe(narrow: bool) -> Part:
        drawn: list[Part] = [Titled(name, _mask(mask)) for name, mask in masks.items()]
        across = 2 if narrow else len(drawn)
        rows = [Row(drawn[start : start + across], gap=34.0) for start in range(0, len(drawn), across)]
        return Column(rows, gap=28.0, wires=False)

    told = ", ".join(f"{name} ({int(mask.sum())} of {mask.numel()} entries)" for name, mask in masks.items())
    alt = f"""The same {len(next(iter(masks.values())))} nodes under several masks, each drawn as a graph with an arrow
    wherever the matrix below it allows attention: {told}."""
    return Diagram(alt, describe)


def _mask(mask: Tensor) -> Part:
    count = len(mask)
    width, middle = 2 * RADIUS + SIDE, RADIUS + SIDE / 2

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def place(node: int) -> tuple[float, float]:
            angle = 2 * math.pi * node / count - math.pi / 2
            return x + middle + RADIUS * math.cos(angle), y + middle + RADIUS * math.sin(angle)

        def rim(node: int, towards: tuple[float, float]) -> tuple[float, float]:
            (x0, y0), (x1, y1) = place(node), towards
            part = (SIDE / 2 + 1) / max(abs(x1 - x0), abs(y1 - y0))  # where the line leaves the square
            return x0 + part * (x1 - x0), y0 + part * (y1 - y0)

        for target, source in mask.nonzero().tolist():
            if target != source:
                canvas.wire(rim(source, place(target)), rim(target, place(source)))
        for node in range(count):
            at = place(node)
            canvas.box(Rect(at[0] - SIDE / 2, at[1] - SIDE / 2, SIDE, SIDE), str(node + 1), "attention")
        grid = [["attention" if allowed else "" for allowed in row] for row in mask.tolist()]
        canvas.cells(x + middle - CELL * count / 2, y + width + 18, grid, side=CELL)

    return Free(width, width + 18 + CELL * count, pen)


def graph_network_diagram(model: Any) -> Diagram:
    """A `GraphNetwork` of two layers: each maps every node, weighs the messages along the edges and adds them up."""
    config = model.config
    nodes, num_edges = free_sizes(model, 2, (config.num_classes,))
    letters = {"N": nodes, "E": config.input_dim, "C": config.num_classes, "D": config.hidden_dim}
    edges = torch.zeros(2, num_edges, dtype=torch.long)
    x = torch.zeros(nodes, config.input_dim)
    shapes = measure(model, x, edges, letters=letters, sized=True, meanings=NODES)
    is_attention = config.layer != "convolution"

    def layer(number: int, heads: int) -> Part:
        many = f"{heads} heads" if heads > 1 else "one head"
        note = f"{many}, weights by attention" if is_attention else "weights by degree"
        return Box(
            "messages from neighbours",
            "attention",
            of=(f"layers.{number}",),
            note=note,
            shape=shapes[f"layers.{number}"],
        )

    def describe(narrow: bool) -> Part:
        return Column(
            [
                Box("features of the nodes", shape=shapes.of("x", x)),
                layer(0, config.num_heads),
                Box("elu" if is_attention else "relu", "feed"),
                layer(1, 1),
                Box("logits: a topic for each node", shape=""),
            ]
        )

    if config.num_layers != 2:
        raise ValueError(f"the drawing is of two layers, got a network of {config.num_layers}")
    alt = f"""A graph network: every node's features {shapes.of("x", x)} pass two layers in which it adds up messages
    from its neighbours, {shapes["layers.0"]} and {shapes["layers.1"]}, with a nonlinearity between."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def sets_diagram(deep: Any, attending: Any) -> Diagram:
    """`DeepSets` beside a `SetTransformer`: elements meet only in the pool, or in every block before it."""
    batch, length = free_sizes(attending, 2, (size for weight in deep.parameters() for size in weight.shape))
    lengths = torch.full((batch,), length)

    def measured(model: Any, width: int) -> Any:
        config = model.config
        letters = {"B": batch, "T": length, "E": config.input_dim, "D": width}
        return measure(model, torch.zeros(batch, length, config.input_dim), lengths, letters=letters, meanings=NODES)

    first, second = measured(deep, deep.config.hidden_dim), measured(attending, attending.config.d_model)

    def describe(narrow: bool) -> Part:
        left = Column(
            [
                Repeat(Box("φ: two layers", "feed", of=("deep.element",), shape=first["element"]), "each element"),
                Box(f"{deep.config.pooling} over the set", "attention"),
                Box("ρ: two layers", "feed", of=("deep.whole",), shape=first["whole"]),
            ]
        )
        right = Column(
            [
                Repeat(Box("linear", "embed", of=("set.embed",), shape=second["embed"]), "each element"),
                Repeat(
                    Box("all elements attend to all", "attention", of=("set.blocks",), shape=second["blocks.*"]),
                    f"× {attending.config.num_layers}",
                ),
                Repeat(
                    Box("linear, relu", "feed", of=("set.before_pool",), shape=second["before_pool"]), "each element"
                ),
                Box("one learned query attends", "attention", of=("set.seed", "set.pool"), shape=second["pool"]),
                Box("linear", "embed", of=("set.output",), shape=second["output"]),
            ]
        )
        return beside([Titled("Deep Sets", left), Titled("Set Transformer", right)], narrow=narrow, gap=60.0)

    alt = f"""Deep Sets maps each element alone, {first["element"]}, and pools once; a Set Transformer lets all elements
    attend to all, {second["blocks.*"]}, before one learned query pools them."""
    return Diagram(alt, describe, {"deep": deep, "set": attending}, (first, second))


def graph_transformer_diagram(model: Any) -> Diagram:
    """A `GraphTransformer`: transformer blocks over nodes, with the graph as a bias on every score."""
    config = model.config
    batch, nodes = free_sizes(model, 2)
    letters = {"B": batch, "N": nodes, "E": config.input_dim, "D": config.d_model, "H": config.num_heads}
    x, distances = torch.zeros(batch, nodes, config.input_dim), torch.zeros(batch, nodes, nodes, dtype=torch.long)
    shapes = measure(model, x, distances, letters=letters, sized=True, meanings=NODES)

    def describe(narrow: bool) -> Part:
        attention = Residual(
            [
                Box("layer norm", "norm", of=("blocks.*.mixer_wiring",)),
                Box("attention, scores + bias", "attention", of=("blocks.*.mixer",), shape=shapes["blocks.*.mixer"]),
            ]
        )
        feed = Residual(
            [
                Box("layer norm", "norm", of=("blocks.*.feed_forward_wiring",)),
                Box("feed-forward", "feed", of=("blocks.*.feed_forward",)),
            ]
        )
        nodes_part = Column(
            [
                Box("linear", "embed", of=("embed",), shape=shapes["embed"]),
                Repeat(Column([attention, feed]), f"× {config.num_layers}"),
                Box("layer norm", "norm", of=("norm",)),
                Box("linear", "embed", of=("output",), shape=shapes["output"]),
            ]
        )
        edges_part = Column(
            [
                Box("distances in the graph", shape=shapes.of("distances", distances)),
                Box("one number per distance\nand head", "gate", of=("bias",), note="goes to every block"),
                Box("bias", shape="", note=shapes["bias"]),
            ]
        )
        return beside([Titled("nodes", nodes_part), Titled("edges", edges_part)], narrow=narrow, gap=50.0)

    alt = f"""A graph transformer: nodes pass {config.num_layers} transformer blocks, {shapes["blocks.*.mixer"]}, in
    which all attend to all; a table turns the distance of each pair into a bias {shapes["bias"]} on its score."""
    return Diagram(alt, describe, {"": model}, (shapes,))
