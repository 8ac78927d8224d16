"""Drawing of a segmenter by prompt: tokens and image read each other, and tokens become masks."""

from typing import Any

import torch

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free
from lecturelib.figures.diagrams.shapes import Shapes, free_sizes, watched

ROWS = 5  # of regions, in the run that measures
MEANINGS = {"B": "batch", "N": "regions", "T": "tokens", "M": "masks", "K": "width of a pixel"}


def segmenter_diagram(model: Any) -> Diagram:
    """A `PromptableSegmenter`: the tokens of the prompt on the left, the regions of the image on the right."""
    config = model.config
    side = ROWS * config.image.stride
    sizes = {"N": ROWS * ROWS, "D": config.d_model, "M": config.num_masks, "K": config.d_model // 8, "P": 4 * ROWS}
    batch, *free = free_sizes(model, 12, (*sizes.values(), ROWS, side))
    tokens = next(size for size in free if size > config.num_masks + 2)
    points = tokens - config.num_masks - 1
    with watched(model) as outputs:
        images = torch.zeros(batch, config.image.num_channels, side, side)
        masks = model(images, torch.zeros(batch, points, 2), torch.zeros(batch, points, dtype=torch.long))
        weights = torch.stack([network(torch.zeros(batch, config.d_model)) for network in model.decoder.hypernetworks])
    shapes = Shapes({"B": batch, "T": tokens} | sizes, outputs, meanings=MEANINGS)
    seen = {
        "regions": shapes["neck"],
        "tokens": shapes["decoder.blocks.*"],
        "pixels": shapes["decoder.widen_again"],
        "weights": shapes.of("weights", weights.transpose(0, 1)),
        "logits": shapes.of("logits", masks.logits),
        "quality": shapes.of("quality", masks.quality),
    }

    def pen(canvas: Canvas, x: float, y: float) -> None:
        wide, right = 154.0, x + 180
        left = x + 8

        def box(at: float, top: float, text: str, kind: str, **more: Any) -> Rect:
            return canvas.box(Rect(at, top, wide, more.pop("tall", 46)), text, kind, **more)

        point = box(left, y, "points, corners", "plain", tall=34)
        image = box(right, y, "image", "plain", tall=34)
        prompt = box(left, y + 62, "prompt encoder", "embed", note="position and kind", of=("prompt",))
        encoder = box(right, y + 62, "image encoder", "state", note="run once", of=("encoder", "neck"))
        own = box(
            left, y + 134, "learned tokens", "embed", note="quality, masks", tall=46,
            of=("decoder.quality_token", "decoder.mask_tokens"),
        )  # fmt: skip
        canvas.wire(point.side("bottom"), prompt.side("top"))
        canvas.wire(image.side("bottom"), encoder.side("top"))
        canvas.wire(prompt.side("bottom"), own.side("top"))
        top = own.y + 46 + 34
        canvas.frame(Rect(x, top, right + wide + 8 - x, 340))
        canvas.text(right + wide, top + 17, f"× {config.num_layers}", size=13, style="name", anchor="end")
        block = "decoder.blocks.*."

        def names(part: str) -> tuple[str, str]:
            return f"{block}{part}", f"{block}{part}_wiring"

        among = box(left, top + 30, "tokens → tokens", "attention", note="self-attention", of=names("among"))
        look = box(left, among.y + 76, "tokens → image", "attention", note="cross-attention", of=names("look"))
        think = box(left, look.y + 76, "feed-forward", "feed", of=names("feed_forward"))
        answer = box(right, think.y + 76, "image → tokens", "attention", note="cross-attention", of=names("answer"))
        canvas.wire(
            own.side("bottom"), among.side("top"), label=seen["tokens"], label_at=(own.middle[0] + 7, own.y + 67)
        )
        canvas.wire(among.side("bottom"), look.side("top"))
        canvas.wire(look.side("bottom"), think.side("top"))
        stream = right + wide / 2
        canvas.wire(
            encoder.side("bottom"), (stream, answer.y), label=seen["regions"], label_at=(stream + 7, own.y + 67)
        )
        canvas.wire((stream, look.middle[1]), look.side("right"))
        axis = left + wide / 2
        canvas.wire((axis, answer.middle[1]), answer.side("left"))
        below = top + 340 + 34
        last = box(
            left,
            below,
            "tokens → image",
            "attention",
            note="once more",
            of=("decoder.last_look", "decoder.last_wiring"),
        )
        canvas.wire(think.side("bottom"), last.side("top"))
        widen = box(
            right, below, "to pixels", "state", note="each region 4 × 4",
            of=("decoder.widen", "decoder.widen_norm", "decoder.widen_again"),
        )  # fmt: skip
        canvas.wire(answer.side("bottom"), widen.side("top"))
        hyper = box(
            left, below + 80, "a classifier each", "feed", note="hypernetworks", tall=62, shape=seen["weights"],
            of=("decoder.hypernetworks",),
        )  # fmt: skip
        canvas.wire(last.side("bottom"), hyper.side("top"))
        product = box(right, below + 88, "dot products", "plain")
        canvas.wire(
            widen.side("bottom"), product.side("top"), label=seen["pixels"], label_at=(stream - 7, below + 70),
            anchor="end",
        )  # fmt: skip
        canvas.wire(hyper.side("right"), product.side("left"))
        guess = box(
            left, hyper.y + 100, "quality of each", "gate", note="predicted IoU", tall=62, shape=seen["quality"],
            of=("decoder.quality_head",),
        )  # fmt: skip
        canvas.wire((left + 14, below + 46), (left + 14, hyper.y - 14), (x - 8, hyper.y - 14), (x - 8, guess.middle[1]),
                    guess.side("left"))  # fmt: skip
        end = box(right, hyper.y + 108, "masks", "plain", shape=seen["logits"])
        canvas.wire(product.side("bottom"), end.side("top"))

    alt = f"""A segmenter by prompt. Points become tokens, and {config.num_masks} learned tokens for masks and one for
    their quality join them. In {config.num_layers} blocks the tokens attend to each other, then to the image, pass a
    feed-forward net, and the image attends to the tokens. At the end each mask token becomes a classifier of pixels,
    and {config.num_masks} masks {seen["logits"]} with a predicted IoU each {seen["quality"]} come out."""
    return Diagram(
        alt, lambda narrow: Free(350, 834, lambda canvas, x, y: pen(canvas, x + 8, y)), {"": model}, (shapes,)
    )
