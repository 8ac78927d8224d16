"""Drawings of cheap attention: the family by the scores that are computed, two orders of a product, and latents."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lecturelib.figures.diagrams.canvas import NOTE, Canvas, Rect, text_width
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Free, Part, Row, Titled, beside
from lecturelib.figures.diagrams.shapes import free_sizes, measure

SIDE = 11.0


def mixer_family_diagram(families: Mapping[str, Mapping[str, Tensor]]) -> Diagram:
    """Families of mixers, each mixer a small matrix with a filled cell for every score that it computes.

    Args:
        families: by what they do, and within that by the mixer's name, boolean matrices of at most 16 rows and columns:
            a row for whoever asks, a column for whatever is asked
    """
    for name, matrix in ((name, matrix) for mixers in families.values() for name, matrix in mixers.items()):
        if matrix.dtype != torch.bool or matrix.dim() != 2 or max(matrix.shape) > 16:
            raise ValueError(
                f"{name!r} must be a boolean matrix of at most 16 × 16, got {matrix.dtype} {tuple(matrix.shape)}"
            )

    def describe(narrow: bool) -> Part:
        rows: list[Part] = []
        for family, mixers in families.items():
            drawn: list[Part] = [_pattern(name, matrix) for name, matrix in mixers.items()]
            across = 2 if narrow else len(drawn)
            lines = [Row(drawn[start : start + across], gap=26.0) for start in range(0, len(drawn), across)]
            rows.append(Titled(family, Column(lines, gap=16.0, wires=False)))
        return Column(rows, gap=24.0, wires=False)

    told = "; ".join(
        f"{family}: " + ", ".join(f"{name} ({int(matrix.sum())} cells)" for name, matrix in mixers.items())
        for family, mixers in families.items()
    )
    return Diagram(f"Which scores are computed for the same tokens, by family. {told}.", describe)


def _pattern(name: str, matrix: Tensor) -> Part:
    rows, columns = matrix.shape
    scores = f"{int(matrix.sum())} scores"
    width = max(columns * SIDE, text_width(name, NOTE), text_width(scores, NOTE))

    def pen(canvas: Canvas, x: float, y: float) -> None:
        grid = [["attention" if on else "" for on in row] for row in matrix.tolist()]
        canvas.cells(x + (width - columns * SIDE) / 2, y, grid, side=SIDE)
        canvas.text(x + width / 2, y + rows * SIDE + 17, name)
        canvas.text(x + width / 2, y + rows * SIDE + 33, scores)

    return Free(width, rows * SIDE + 38, pen)


def bracketing_diagram(length: int, width: int, features: int) -> Diagram:
    """The product of three matrices in its two orders, with what stands in memory in between drawn to scale.

    Args:
        length: N, rows of queries, keys and values
        width: of the values
        features: of queries and keys
    """
    if min(length, width, features) < 1:
        raise ValueError(f"length, width and features must be at least 1, got {length}, {width} and {features}")

    def matrix(rows: int, columns: int, name: str, kind: str) -> Part:
        unit = 104 / length
        w, h = max(columns * unit, 8.0), max(rows * unit, 8.0)
        label = f"{rows} × {columns}"
        room = max(w, text_width(label, NOTE))

        def pen(canvas: Canvas, x: float, y: float) -> None:
            canvas.box(Rect(x + (room - w) / 2, y + 104 - h if rows == length else y, w, h), "", kind)
            canvas.text(x + room / 2, y + 104 + 17, name)
            canvas.text(x + room / 2, y + 104 + 33, label)

        return Free(room, 104 + 38, pen)

    def describe(narrow: bool) -> Part:
        q, k, v = (
            matrix(length, wide, name, "plain") for name, wide in (("q", features), ("k", features), ("v", width))
        )
        table = Row([q, k, matrix(length, length, "q kᵀ", "attention"), v], gap=10.0)
        small = Row([q, k, v, matrix(features, width, "kᵀ v", "attention")], gap=10.0)
        quadratic, linear = length * length * (features + width), 2 * length * features * width
        return beside(
            [
                Titled(f"(q kᵀ) v: {quadratic:,} multiplications", table),
                Titled(f"q (kᵀ v): {linear:,} multiplications", small),
            ],
            narrow=narrow,
            gap=40.0,
        )

    alt = f"""The same product in two orders. With the scores first a table of {length} by {length} stands in between;
    with keys and values first, one of {features} by {width}."""
    return Diagram(alt, describe)


def latent_mixing_diagram(layer: Any) -> Diagram:
    """A `LatentMixing`: a few latents read all tokens, think among themselves, and all tokens read the latents."""
    count, d_model = layer.latents.shape
    batch, length = free_sizes(layer, 2, (count, d_model))
    x = torch.zeros(batch, length, d_model)
    shapes = measure(layer, x, letters={"B": batch, "T": length, "M": count, "D": d_model}, meanings={"M": "latents"})
    blocks = tuple(f"blocks.{number}" for number in range(len(layer.blocks)))

    def describe(narrow: bool) -> Part:
        thinking = (
            [Box("latents attend to latents", "attention", of=blocks, shape=shapes["blocks.*"])] if blocks else []
        )
        return Column(
            [
                Box("tokens", shape=shapes.of("x", x)),
                Box(
                    "learned latents read all tokens",
                    "attention",
                    of=("latents", "read"),
                    note="scores: M × T",
                    shape=shapes["read"],
                ),
                *thinking,
                Box("norm", "norm", of=("norm",), shape=shapes["norm"]),
                Box("every token reads the latents", "attention", of=("answer",), note="scores: T × M", shape=""),
                Box("tokens", shape=shapes["answer"]),
            ]
        )

    alt = f"""Mixing through latents: a few learned vectors read all tokens, {shapes["read"]}, attend to each other, and
    are read by every token, which gives {shapes["answer"]} again."""
    return Diagram(alt, describe, {"": layer}, (shapes,))
