"""Drawing of what images and language have in common once both are tokens: one mechanism, and what is read from it."""

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free

OUTPUTS = {  # what comes out, and in which form
    "a caption": "words, one by one",
    "objects": "a set of boxes",
    "a class": "a thing, or an event",
    "a match": "does the text fit?",
    "an image": "ids, one by one",
    "a mask": "pixels of one thing",
}


def images_and_language_diagram() -> Diagram:
    """Images and words become tokens, attention lets them read each other, and heads turn the result into answers."""
    across, high = 2, 48.0
    rows = -(-len(OUTPUTS) // across)

    def pen(canvas: Canvas, x: float, y: float) -> None:
        image = canvas.box(
            Rect(x, y, 170, 62), "image or video", "plain", note="pixels, patches, regions,\nor pieces of video"
        )
        words = canvas.box(
            Rect(x + 178, y, 170, 62), "words or clicks", "plain", note="embedded, with\ntheir positions"
        )
        tokens = [
            canvas.box(Rect(x, y + 96, 170, 34), "image tokens", "embed"),
            canvas.box(Rect(x + 178, y + 96, 170, 34), "word tokens", "embed"),
        ]
        latents = canvas.box(
            Rect(x, y + 166, 128, 66), "a few latents", "attention", note="read every pixel:\na Perceiver"
        )
        attention = canvas.box(
            Rect(x + 136, y + 166, 212, 66),
            "attention",
            "attention",
            note="tokens read their own kind,\nand the other kind",
        )
        for source, token in zip((image, words), tokens, strict=True):
            canvas.wire(source.side("bottom"), token.side("top"))
        top = attention.y + attention.h + 34
        for reader, starts in ((latents, (latents.middle[0],)), (attention, (x + 153, tokens[1].middle[0]))):
            for start in starts:
                canvas.wire((start, tokens[0].y + tokens[0].h), (start, reader.y))
            canvas.wire(reader.side("bottom"), (reader.middle[0], top))
        canvas.frame(Rect(x, top, 348, rows * (high + 10) + 34), "one of these is read out", at="start")
        for place, (name, form) in enumerate(OUTPUTS.items()):
            row, column = divmod(place, across)
            rect = Rect(x + 10 + column * 169, top + 28 + row * (high + 10), 159, high)
            canvas.box(rect, name, "feed", note=form)

    alt = f"""An image or a video becomes image tokens, and words or clicks become word tokens. Attention lets tokens
    read their own kind and the other kind; in a Perceiver a few latents read every pixel. From
    the result come {", ".join(OUTPUTS)}."""
    return Diagram(" ".join(alt.split()), lambda narrow: Free(348, 300 + rows * (high + 10), pen))
