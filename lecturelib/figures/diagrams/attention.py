"""Drawings of multi-head attention: as data flow, and where positions enter."""

from typing import NamedTuple

import torch
from torch import Tensor

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free, Part
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, watched
from lecturelib.layers.attention import MultiHeadAttention


class Flow(NamedTuple):
    """Every tensor on the way through multi-head attention, in the order of the drawing."""

    query: Tensor
    key: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    split_queries: Tensor
    split_keys: Tensor
    split_values: Tensor
    scores: Tensor
    weights: Tensor
    heads: Tensor
    merged: Tensor
    out: Tensor


def flow(layer: MultiHeadAttention, query: Tensor, key: Tensor) -> Flow:
    """Multi-head attention as it is drawn, one step after the other; the last tensor is what the layer gives."""

    def split(x: Tensor) -> Tensor:
        return x.unflatten(2, (layer.num_heads, layer.head_dim)).transpose(1, 2)  # (B, H, T, Dh)

    queries, keys, values = layer.query_proj(query), layer.key_proj(key), layer.value_proj(key)
    q, k, v = split(queries), split(keys), split(values)
    scores = q @ k.transpose(-2, -1) / layer.head_dim**0.5  # (B, H, Tq, Tk)
    weights = scores.softmax(dim=-1)
    heads = weights @ v  # (B, H, Tq, Dh)
    merged = heads.transpose(1, 2).flatten(2)  # (B, Tq, D)
    return Flow(query, key, queries, keys, values, q, k, v, scores, weights, heads, merged, layer.out_proj(merged))


def run_flow(layer: MultiHeadAttention) -> tuple[Shapes, dict[str, str]]:
    """The shape of every tensor in the drawing."""
    batch, num_queries, num_keys = free_sizes(layer, 3, (layer.num_heads, layer.head_dim))
    sizes = {"B": batch, "D": layer.d_model, "H": layer.num_heads, "Dh": layer.head_dim}
    letters = sizes | {"Tq": num_queries, "Tk": num_keys}
    query = torch.zeros(batch, num_queries, layer.d_model)
    key = torch.zeros(batch, num_keys, layer.kv_dim)
    with watched(layer) as outputs:
        tensors = flow(layer, query, key)
    shapes = Shapes(letters, outputs)
    return shapes, {name: shapes.of(name, tensor) for name, tensor in tensors._asdict().items()}


def attention_diagram(layer: MultiHeadAttention | None = None) -> Diagram:
    """Multi-head attention as data flow, with the shape of every tensor."""
    layer = layer or MultiHeadAttention(48, 4)
    shapes, step = run_flow(layer)

    def pen(canvas: Canvas, x: float, y: float) -> None:
        def box(x0: float, x1: float, top: float, text: str, shape: str, kind: str = "plain", of: str = "") -> Rect:
            rect = Rect(x + x0, y + top, x1 - x0, 44)
            return canvas.box(rect, text, kind, of=(of,) if of else (), shape=step[shape])

        asks, asked = box(0, 112, 0, "who asks", "query"), box(118, 348, 0, "who is asked", "key")
        columns = ((56, "query", "queries", asks), (174, "key", "keys", asked), (292, "value", "values", asked))
        for axis, name, plural, source in columns:
            made = box(axis - 56, axis + 56, 68, plural, plural, "attention", f"{name}_proj")
            canvas.wire((x + axis, source.y + source.h), made.side("top"))
            split = box(axis - 56, axis + 56, 136, "split in heads", f"split_{plural}")
            canvas.wire(made.side("bottom"), split.side("top"))
            canvas.wire(split.side("bottom"), (x + axis, y + (340 if name == "value" else 204)))
        scores = box(0, 230, 204, "scores: query · key / √Dh", "scores", "attention")
        weights = box(0, 230, 272, "mask, softmax over keys", "weights", "attention")
        canvas.wire(scores.side("bottom"), weights.side("top"))
        summed = box(0, 348, 340, "sum of the values by these weights", "heads", "attention")
        canvas.wire(weights.side("bottom"), (x + 115, summed.y))
        merged = box(60, 288, 408, "merge the heads", "merged")
        canvas.wire(summed.side("bottom"), merged.side("top"))
        out = box(60, 288, 476, "one more map: output", "out", "attention", "out_proj")
        canvas.wire(merged.side("bottom"), out.side("top"))

    def describe(narrow: bool) -> Part:
        return Free(348, 520, pen)

    alt = f"""Multi-head attention as data flow. Queries come from who asks, keys and values from who is asked; each is
    split into {layer.num_heads} heads. Queries and keys give scores {step["scores"]}; a mask and a softmax make weights
    of them; the weights sum the values; the heads are merged and mapped once more to {step["out"]}."""
    return Diagram(alt, describe, {"": layer}, (shapes,))


def positions_diagram(
    added: MultiHeadAttention | None = None,
    rotary: MultiHeadAttention | None = None,
    bias: MultiHeadAttention | None = None,
) -> Diagram:
    """Where positions enter: added to the tokens, as a turn of queries and keys, or as a bias of the scores.

    Pass layers to draw theirs; `positions` parts with parameters stand in the coloured box of their layer.
    """
    layers = {"added": added, "rotary": rotary, "bias": bias}
    models = {name: layer or MultiHeadAttention(8, 2) for name, layer in layers.items()}
    titles = {"added": "added", "rotary": "turned", "bias": "biased"}
    under = {"added": "to the token", "rotary": "(RoPE)", "bias": "(ALiBi, T5)"}

    def column(canvas: Canvas, x: float, y: float, name: str, width: float) -> None:
        axis, part = x + width / 2, getattr(models[name], "positions", None)
        canvas.text(axis, y + 12, titles[name], size=14, style="name")
        canvas.text(axis, y + 29, under[name])
        position = (f"{name}.positions",) if part is not None else ()
        before: Rect | None = None
        for top, text, kind, of, where in (
            (42, "token", "plain", (), ""),
            (100, "+ position", "embed", position, "added"),
            (158, "queries, keys", "attention", (f"{name}.query_proj", f"{name}.key_proj"), ""),
            (216, "turn by angle", "embed", position, "rotary"),
            (274, "scores", "attention", (), ""),
            (332, "+ by distance", "embed", position, "bias"),
            (390, "weighted sum", "attention", (f"{name}.value_proj", f"{name}.out_proj"), ""),
        ):
            if where in ("", name):
                here = canvas.box(Rect(x, y + top, width, 34), text, kind, of=of)
                if before is not None:
                    canvas.wire(before.side("bottom"), here.side("top"))
                before = here

    def describe(narrow: bool) -> Part:
        width, gap = (116.0, 4.0) if narrow else (150.0, 50.0)

        def pen(canvas: Canvas, x: float, y: float) -> None:
            for index, name in enumerate(models):
                column(canvas, x + index * (width + gap), y, name, width)

        return Free(3 * width + 2 * gap, 426, pen)

    alt = """Three places where positions enter attention. Added: a vector for the position is added to the token,
    before everything else. Turned (rotary): queries and keys are turned by an angle that grows with their position.
    Biased: a number that depends on the distance is added to each score."""
    return Diagram(alt, describe, dict(models))
