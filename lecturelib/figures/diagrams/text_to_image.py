"""Drawing of text to image: a tokenizer of images, and a transformer over words and image ids."""

from typing import Any

import torch
from torch import nn

from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Box, Column, Part, Repeat, Titled, beside
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, watched

MEANINGS = {"N": "image ids", "P": "pixels of a side"}


def text_to_image_diagram(tokenizer: Any, drawer: Any) -> Diagram:
    """A `VQTokenizer` beside the `TextToImage` that goes on from a caption with its ids.

    Args:
        drawer: for square images of the tokenizer's codes
    """
    config, regions = drawer.config, drawer.config.image_len
    side = round(regions**0.5) * tokenizer.config.stride
    if side**2 != regions * tokenizer.config.stride**2 or config.num_codes != tokenizer.config.num_codes:
        raise ValueError(
            "need a square number of image ids and one number of codes, got "
            f"image_len={regions}, num_codes={config.num_codes} and {tokenizer.config.num_codes}"
        )
    length, both = drawer.max_len, nn.ModuleList([tokenizer, drawer])
    (batch,) = free_sizes(both, 1, (side, regions, length))
    images = torch.zeros(batch, tokenizer.config.num_channels, side, side)
    with watched(tokenizer) as outputs:
        seen = tokenizer(images)
    first = Shapes({"B": batch, "P": side, "N": regions}, outputs, meanings=MEANINGS)
    captions = torch.zeros(batch, config.caption_len, dtype=torch.long)
    with watched(drawer) as outputs:
        tokens, logits = drawer.join(captions, seen.ids), drawer(captions, seen.ids)
    letters = {"B": batch, "T": length, "D": config.d_model, "V": config.vocab_size + config.num_codes}
    second = Shapes(letters, outputs, sized=True)
    image, ids = first.of("images", seen.images), first.of("ids", seen.ids)
    joined, scores = second.of("tokens", tokens), second.of("logits", logits)
    hidden = second["gpt.final_norm"]

    def describe(narrow: bool) -> Part:
        painted = Column(
            [
                Box("image", shape=image),
                Box("encoder", "state", of=("tokenizer.shrink", "tokenizer.read", "tokenizer.to_code"),
                    note="strided convolutions"),
                Box("nearest code", "attention", of=("tokenizer.quantizer",),
                    note=f"one of {config.num_codes} in the codebook", shape=ids),
                Box("look up the codes", "attention", of=("tokenizer.quantizer",), copy=True),
                Box("decoder", "state", of=("tokenizer.from_code", "tokenizer.paint", "tokenizer.grow"),
                    note="transposed convolutions", shape=image),
                Box("image again"),
            ]
        )  # fmt: skip
        written = Column(
            [
                Box("words, then image ids", note="one sequence, one vocabulary", shape=joined),
                Box("embedding + positions", "embed", of=("drawer.gpt.token_embedding", "drawer.gpt.positions"),
                    shape=hidden),
                Repeat(Box("causal block", "attention", of=("drawer.gpt.blocks.*",), note="as in GPT"),
                       f"× {config.num_layers}"),
                Box("layer norm", "norm", of=("drawer.gpt.final_norm",), shape=hidden),
                Box("compare with embeddings", "embed", of=("drawer.gpt.token_embedding",), copy=True, shape=scores),
                Box("next word or next id"),
            ]
        )  # fmt: skip
        parts = [Titled("1 · the tokenizer", painted), Titled("2 · the transformer", written)]
        return beside(parts, narrow=narrow, gap=56.0)

    alt = f"""Two models, trained one after the other. The tokenizer: convolutions read an image {image}, each region is
    replaced by the nearest code of a codebook, which gives ids {ids}, and a decoder paints the image again from the
    codes. The transformer: the words of a caption and the ids of its image stand in one sequence {joined}; causal
    blocks predict every next token {scores}."""
    return Diagram(alt, describe, {"tokenizer": tokenizer, "drawer": drawer}, (first, second))
