"""Drawing of a captioner whose decoder is a transformer, over convolutions or over patches."""

from typing import Any

import torch

from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import PAD, Box, Column, Part, Repeat
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, measure
from lecturelib.figures.diagrams.transformer import ReadAndWrite, block_parts
from lecturelib.figures.diagrams.vision import patch_grid


def caption_transformer_diagram(model: Any, grid: tuple[int, int] = (4, 6)) -> Diagram:
    """A `CaptionTransformer` or `ViTCaptioner`: the image on the left, the caption on the right.

    Args:
        grid: rows and columns of regions, as drawn and as measured; a `ViTCaptioner` has its own
    """
    config, image = model.config, model.config.image
    has_patches = hasattr(image, "patch_size")
    grid = image.grid if has_patches else grid
    side = image.patch_size if has_patches else image.stride
    sides = (grid[0] * side, grid[1] * side)
    regions = grid[0] * grid[1]
    batch, length = free_sizes(model, 2, (*grid, *sides, regions))
    letters = {"B": batch, "T": length, "D": config.d_model, "V": config.vocab_size, "N": regions, "E": image.d_model}
    images = torch.zeros(batch, image.num_channels, *sides)
    tokens = torch.zeros(batch, length, dtype=torch.long)
    region = "patch" if has_patches else "region"
    meanings = {"N": "patches" if has_patches else "regions", "E": f"width of a {region}"}
    shapes = measure(model, images, tokens, letters=letters, sized=True, meanings=meanings)
    pixels, ids = shapes.of("images", images), shapes.of("caption", tokens)

    def describe(narrow: bool) -> Part:
        first: list[Part] = [patch_grid(grid, "" if narrow else pixels)]
        first += _patches(model, shapes, narrow) if has_patches else [_convolutions(narrow)]
        gap = 22.0 if narrow else 70.0
        return ReadAndWrite(Column(first), _decoder(model, shapes, ids, narrow), memory=shapes["encoder"], gap=gap)

    seen = "a transformer over patches" if has_patches else "convolutions"
    alt = f"""A captioner: {seen} turn an image into {regions} vectors, once. The caption so far goes through
    {config.num_layers} decoder blocks, each with masked self-attention over words, cross-attention whose keys and
    values are the {regions} vectors, and a feed-forward net. The last word's vector scores every next word."""
    return Diagram(alt, describe, {"": model}, (shapes,))


def _convolutions(narrow: bool) -> Box:
    note = "" if narrow else "run once"
    return Box("convo-\nlutions" if narrow else "convolutions", "state", of=("encoder",), note=note)


def _patches(model: Any, shapes: Shapes, narrow: bool) -> list[Part]:
    attention = "self-\nattention" if narrow else "self-attention"
    inner = block_parts(
        model.encoder.blocks[0], "encoder.blocks.*", shapes, attention=attention, notes=False, tight=narrow
    )
    return [
        Box("patch\nembedding", "embed", of=("encoder.patches",), shape="" if narrow else shapes["encoder.patches"]),
        Box("+ positions", "embed", of=("encoder.positions",), shape=shapes["encoder.blocks.*"]),
        Repeat(inner, f"× {model.config.image.num_layers}", 6.0 if narrow else PAD),
        Box("layer norm", "norm", of=("encoder.norm",)),
    ]


def _decoder(model: Any, shapes: Shapes, ids: str, narrow: bool) -> Column:
    masked = "masked\nattention" if narrow else "masked\nself-attention"
    at = "decoder.blocks.*"
    inner = block_parts(
        model.decoder.blocks[0], at, shapes, attention=masked, memory="cross", notes=False, tight=narrow
    )
    table = ("decoder.embedding",)
    return Column(
        [
            Box("caption so far", shape=ids),
            Box("embedding", "embed", of=table, note="a row for\neach word" if narrow else "a row for each word"),
            Box("+ positions", "embed", shape=shapes[at]),
            Repeat(inner, f"× {model.config.num_layers}", 6.0 if narrow else PAD),
            Box("layer norm", "norm", of=("decoder.norm",), shape=shapes["decoder.norm"]),
            Box("compare with\nembedding", "embed", of=table, copy=True, shape=shapes["decoder"]),
            Box("logits"),
        ]
    )
