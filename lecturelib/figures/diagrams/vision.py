"""Drawings of vision transformers: patches, the tokens beside them, windows and pyramids."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import NAME, Canvas, Rect, text_width
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Free, Part, Repeat, Row, Titled
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, measure, watched
from lecturelib.figures.diagrams.transformer import block_parts


@dataclass
class Tokens(Part):
    """A strip of tokens, each a (text, kind, of); below it a head for some of them: (token, text, note, of, shape)."""

    tokens: Sequence[tuple[str, str, tuple[str, ...]]]
    shape: str = ""
    heads: Sequence[tuple[int, str, str, tuple[str, ...], str]] = ()

    def _widths(self) -> list[float]:
        return [text_width(text, NAME, "name") + 14 for text, _, _ in self.tokens]

    def size(self) -> tuple[float, float]:
        strip = sum(self._widths()) + 4 * (len(self.tokens) - 1) + 12
        return max(strip, len(self.heads) * 158.0 - 10), 42 + (96 if self.heads else 0)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        total, widths = self.size()[0], self._widths()
        strip = sum(widths) + 4 * (len(widths) - 1) + 12
        canvas.frame(Rect(x + (total - strip) / 2, y, strip, 42))
        left, cells = x + (total - strip) / 2 + 6, []
        for (text, kind, of), width in zip(self.tokens, widths, strict=True):
            cells.append(canvas.box(Rect(left, y + 6, width, 30), text, kind, of=of))
            left += width + 4
        for index, (token, text, note, of, shape) in enumerate(self.heads):
            first = x + (total - (len(self.heads) * 158 - 10)) / 2
            head = canvas.box(Rect(first + 158 * index, y + 78, 148, 60), text, "embed", note=note, of=of, shape=shape)
            start, end = cells[token].side("bottom"), head.side("top")
            canvas.wire(start, (start[0], y + 57), (end[0], y + 57), end)


def patch_grid(grid: tuple[int, int], shape: str) -> Part:
    """A picture cut into patches, numbered where there are few enough."""
    rows, columns = grid
    side = 18.0 if rows * columns <= 36 else 96.0 / max(rows, columns)
    words = [[str(i * columns + j + 1) for j in range(columns)] for i in range(rows)] if side == 18 else None

    def pen(canvas: Canvas, x: float, y: float) -> None:
        canvas.cells(x, y, [["plain"] * columns] * rows, side=side, words=words)

    return Free(side * columns, side * rows, pen, shape)


def _images(model: Any) -> tuple[torch.Tensor, dict[str, int]]:
    config = model.config
    size = config.image_size if isinstance(config.image_size, tuple) else (config.image_size,) * 2
    rows, columns = (side // config.patch_size for side in size)
    taken = (*size, rows, columns, rows * columns, rows * columns + 1, rows * columns + 2)
    (batch,) = free_sizes(model, 1, taken)
    letters = {"B": batch, "D": config.d_model, "C": config.num_classes, "N": rows * columns}
    return torch.zeros(batch, config.num_channels, *size), letters


def _patches(count: int) -> list[tuple[str, str, tuple[str, ...]]]:
    texts = [str(n) for n in range(1, count + 1)] if count <= 4 else ["1", "2", "…", str(count)]
    return [(text, "plain", ()) for text in texts]


def vit_diagram(model: Any) -> Diagram:
    """A `ViT`: patches become tokens, a class token joins them, and the head reads it."""
    if len(model.encoder.prefix_tokens) != 1:
        raise ValueError("a ViT has one token before its patches; draw a distilled DeiT with deit_diagram")
    images, letters = _images(model)
    count, config = letters["N"], model.config
    letters["1+N"] = count + 1
    shapes = measure(model, images, letters=letters, sized=True)
    tokens = shapes["encoder.blocks.*"]
    learned = ("class", "embed", ("encoder.prefix_tokens",))

    def describe(narrow: bool) -> Part:
        blocks = block_parts(model.encoder.blocks[0], "encoder.blocks.*", shapes, note="every patch looks at all")
        reads = ("head", "reads the class token", ("head",), shapes["head"])
        return Column(
            [
                patch_grid(config.grid, shapes.of("images", images)),
                Box(
                    "patch embedding",
                    "embed",
                    of=("encoder.patches",),
                    note="one map for all patches",
                    shape=shapes["encoder.patches"],
                ),
                Tokens([learned, *_patches(count)], tokens),
                Box("+ positions", "embed", of=("encoder.positions",), note="learned, one per place", shape=tokens),
                Repeat(blocks, f"× {config.num_layers}"),
                Box("layer norm", "norm", of=("encoder.norm",), shape=shapes["encoder.norm"]),
                Tokens([("class", "embed", ()), *_patches(count)], heads=[(0, *reads)]),
            ]
        )

    alt = f"""A vision transformer: an image is cut into {count} patches, one map makes a token of each, a learned class
    token joins them, positions are added, {config.num_layers} blocks follow, and a head reads the class token alone."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def deit_diagram(model: Any) -> Diagram:
    """The tokens of a distilled `DeiT`: one learns from the label, the other from the teacher."""
    if model.distillation_head is None:
        raise ValueError("this DeiT has no distillation token to draw; build it with DeiT.distilled(config)")
    images, letters = _images(model)
    count, config = letters["N"], model.config
    letters["2+N"] = count + 2
    shapes = measure(model, images, letters=letters, sized=True)
    tokens = shapes["encoder.blocks.*"]
    learned = [(text, "embed", (f"encoder.prefix_tokens.{i}",)) for i, text in enumerate(("class", "distil"))]
    read = [(text, "embed", ()) for text in ("class", "distil")]

    def describe(narrow: bool) -> Part:
        blocks = ("encoder.blocks", "encoder.norm")
        heads = [
            (0, "head", "learns from the label", ("head",), shapes["head"]),
            (1, "second head", "learns from the teacher", ("distillation_head",), shapes["distillation_head"]),
        ]
        embed = Box("patch embedding", "embed", of=("encoder.patches",), shape=shapes["encoder.patches"])
        return Column(
            [
                embed,
                Tokens([*learned, *_patches(count)], tokens),
                Box("+ positions", "embed", of=("encoder.positions",), shape=tokens),
                Box(f"{config.num_layers} blocks", "attention", of=blocks, note="all tokens look at all", shape=tokens),
                Tokens([*read, *_patches(count)], heads=heads),
            ]
        )

    alt = f"""DeiT's tokens: a class token and a distillation token stand before {count} patches and go through all
    {config.num_layers} blocks. A head reads the class token and learns from the label; a second head reads the
    distillation token and learns from the teacher."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def cait_diagram(model: Any) -> Diagram:
    """The tokens of a `CaiT`: patches first, alone; then a class token reads them and leaves them as they are."""
    images, letters = _images(model)
    count, config = letters["N"], model.config
    shapes = measure(model, images, letters=letters, sized=True)
    patches, token = shapes["blocks.*"], shapes["class_blocks.*"]

    def describe(narrow: bool) -> Part:
        reads = (0, "head", "reads the class token", ("norm", "head"), shapes["head"])
        embed = Box("patch embedding", "embed", of=("patches",), shape=shapes["patches"])
        first = f"{config.num_layers} blocks"
        second = f"{config.num_class_layers} class-attention blocks"
        return Column(
            [
                embed,
                Box("+ positions", "embed", of=("positions",), shape=patches),
                Tokens(_patches(count), patches),
                Box(first, "attention", of=("blocks",), note="patches look at patches", shape=patches),
                Tokens([("class", "embed", ("class_token",)), *_patches(count)]),
                Box(second, "attention", of=("class_blocks",), note="only the class token changes", shape=token),
                Tokens([("class", "embed", ())], heads=[reads]),
            ]
        )

    alt = f"""CaiT's tokens: {count} patches go through {config.num_layers} blocks alone. Only then a class token joins;
    in {config.num_class_layers} more blocks it reads the patches, which stay as they are, and a head reads it."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def window_grid(window: tuple[int, int], shift: tuple[int, int]) -> Part:
    """Two by two windows of patches, or what a shift makes of them; one window is blue, borders are heavy."""
    side = 112.0 / (2 * window[0])
    rows, columns = 2 * window[0], 2 * window[1]

    numbers = [
        [(i - shift[0]) // window[0] * 3 + (j - shift[1]) // window[1] for j in range(columns)] for i in range(rows)
    ]
    first = numbers[shift[0]][shift[1]]
    grid = [["attention" if number == first else "plain" for number in row] for row in numbers]

    def pen(canvas: Canvas, x: float, y: float) -> None:
        canvas.cells(x, y, grid, side=side, regions=numbers)

    return Free(columns * side, rows * side, pen)


def swin_pair_diagram(model: Any, stage: int = 0) -> Diagram:
    """Two blocks of a `Swin` that follow each other: windows, then windows moved by half."""
    blocks = {"first": model.stages[stage].blocks[0], "second": model.stages[stage].blocks[1]}
    window, width = blocks["first"].mixer.window, blocks["first"].mixer_wiring.norm.normalized_shape[0]
    rows, columns = 2 * window[0], 2 * window[1]
    (batch,) = free_sizes(model, 1, (rows, columns))
    measured: dict[str, Shapes] = {}
    for name, block in blocks.items():
        with watched(block) as outputs:
            block(torch.zeros(batch, rows, columns, width))
        under = {f"{name}.{path}".rstrip("."): found for path, found in outputs.items()}
        measured[name] = Shapes({"B": batch, "D": width}, under)
    shifts = {name: block.mixer.effective_shift((rows, columns)) for name, block in blocks.items()}

    def column(name: str, narrow: bool) -> Part:
        text = "window\nattention" if name == "first" else "shifted\nwindows"
        inner = block_parts(blocks[name], name, measured[name], attention=text, notes=False, tight=narrow)
        stream = Column([Box("patches", shape=measured[name][name], width=0 if narrow else 190), inner])
        parts = Column([window_grid(window, shifts[name]), stream], gap=16, wires=False)
        return Titled("a block" if name == "first" else "and the next", parts)

    alt = f"""Two Swin blocks that follow each other, each with attention and a feed-forward net on a residual stream.
    In the first, attention stays within windows of {window[0]} × {window[1]} patches; in the second the windows are
    moved by {shifts["second"][0]} and {shifts["second"][1]}, so that neighbours which a border kept apart now meet."""
    return Diagram(
        alt,
        lambda narrow: Row([column(name, narrow) for name in blocks], gap=16 if narrow else 80),
        dict(blocks),
        tuple(measured.values()),
    )


@dataclass
class _Stage(Part):
    """A stage of a pyramid, and beside it a grid with one cell for each window."""

    text: str
    windows: tuple[int, int]
    of: tuple[str, ...]
    shape: str

    def size(self) -> tuple[float, float]:
        return 346.0, max(46.0, 9.0 * self.windows[0])

    def entry(self) -> float:
        return (self.size()[1] - 46) / 2

    def exit(self) -> float:
        return self.entry()

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        down, across = self.windows
        note = f"{down} × {across} windows" if down * across > 1 else "one window"
        canvas.box(Rect(x + 83, y + self.entry(), 180, 46), self.text, "attention", note=note, of=self.of)
        side = min(9.0, 76 / across)
        canvas.cells(x + 270, y + (self.size()[1] - down * side) / 2, [["attention"] * across] * down, side=side)


def swin_diagram(model: Any) -> Diagram:
    """The pyramid of a `Swin`: the grid halves and the width doubles from stage to stage."""
    config = model.config
    size = config.image_size if isinstance(config.image_size, tuple) else (config.image_size,) * 2
    grids = [config.stage_grid(stage) for stage in range(len(config.num_layers))]
    (batch,) = free_sizes(model, 1, (*size, *(side for grid in grids for side in grid)))
    letters = {"B": batch, "D": config.d_model}
    letters |= {f"{2**stage}D": config.width(stage) for stage in range(1, len(grids))}
    images = torch.zeros(batch, config.num_channels, *size)
    shapes = measure(model, images, letters=letters | {"C": config.num_classes}, sized=True)

    def stage_part(stage: int) -> Part:
        window, (rows, columns) = config.stage_window(stage), grids[stage]
        windows = -(-rows // window[0]), -(-columns // window[1])
        text = f"stage {stage + 1}: {config.num_layers[stage]} blocks"
        return _Stage(text, windows, (f"stages.{stage}.blocks",), shapes[f"stages.{stage}"])

    def describe(narrow: bool) -> Part:
        parts: list[Part] = [
            Box("image", shape=shapes.of("images", images)),
            Box("patch embedding, layer norm", "embed", of=("patches", "patch_norm"), shape=shapes["patch_norm"]),
        ]
        for stage in range(len(grids)):
            if stage:
                merging = f"stages.{stage}.merging"
                note = "2 × 2 patches become one"
                parts.append(Box("patch merging", "norm", of=(merging,), note=note, shape=shapes[merging]))
            parts.append(stage_part(stage))
        parts += [
            Box("layer norm, mean of all patches", "norm", of=("norm",)),
            Box("head", "embed", of=("head",), shape=shapes["head"]),
            Box("logits of the classes"),
        ]
        return Column(parts)

    first, last = grids[0], grids[-1]
    alt = f"""Swin's pyramid: {first[0]} × {first[1]} patches of width {config.d_model} become, over {len(grids)}
    stages, {last[0]} × {last[1]} of width {config.width(len(grids) - 1)}. Between stages, patch merging joins 2 × 2
    neighbours; attention stays within windows, of which there are fewer from stage to stage."""
    return Diagram(alt, describe, {"": model}, (shapes,))
