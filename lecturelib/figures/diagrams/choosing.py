"""A drawing that helps to choose: what to ask about the data, which mixer to try then, and what corrects the choice."""

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free, Part

QUESTIONS = (
    ("Does a pretrained model", "exist for data like yours?", "use it", "and fine-tune it", "gate"),
    ("Is the answer within", "a few tokens?", "convolution", "needs little data, parallel", "embed"),
    ("Does one state sum up", "all that came before?", "recurrence", "constant memory", "state"),
    ("Is it anywhere before,", "found by its content?", "attention", "memory grows", "attention"),
)
CORRECTIONS = (
    "fewer than 100 examples: what fits the rule",
    "long texts to write: a state or a window",
    "reading must be fast: not a GRU",
)
ASK, ANSWER, HIGH, PITCH, ACROSS, LINE = 160.0, 182.0, 54.0, 86.0, 50.0, 17.0


def choosing_diagram() -> Diagram:
    """Four questions from top to bottom, what to try after a yes beside each, the pair, and three corrections."""

    def describe(narrow: bool) -> Part:
        across = 34.0 if narrow else ACROSS
        answer = 162.0 if narrow else ANSWER
        wide, strip = ASK + across + answer, HIGH + (len(CORRECTIONS) - 1) * LINE

        def pen(canvas: Canvas, x: float, y: float) -> None:
            last = None
            for level, (first, second, name, note, kind) in enumerate(QUESTIONS):
                ask = Rect(x, y + level * PITCH, ASK, HIGH)
                canvas.box(ask, "", note=f"{first}\n{second}")
                said = canvas.box(Rect(x + ASK + across, ask.y, answer, HIGH), name, kind, note=note)
                canvas.wire(ask.side("right"), said.side("left"))
                canvas.text(x + ASK + across / 2, ask.middle[1] - 7, "yes")
                if last is not None:
                    canvas.wire(last.side("bottom"), ask.side("top"))
                    canvas.text(ask.middle[0] + 12, ask.y - (PITCH - HIGH) / 2 + 4, "no", anchor="start")
                last = ask
            assert last is not None
            pair = Rect(x, y + len(QUESTIONS) * PITCH, wide, HIGH)
            canvas.box(pair, "several of these", "gate", note="stack layers of both kinds, and measure")
            canvas.wire(last.side("bottom"), (last.middle[0], pair.y))
            canvas.text(last.middle[0] + 12, pair.y - (PITCH - HIGH) / 2 + 4, "or", anchor="start")
            corrected = Rect(x, pair.y + HIGH + (PITCH - HIGH) / 2, wide, strip)
            canvas.box(corrected, "then correct the choice", note="\n".join(CORRECTIONS))

        return Free(wide, len(QUESTIONS) * PITCH + HIGH + (PITCH - HIGH) / 2 + strip, pen)

    alt = """Four questions from top to bottom. Does a pretrained model exist for data like yours? Then use it, and
    fine-tune it. Is the answer within a few tokens? Then convolution: needs little data, parallel. Does one state sum
    up all that came before? Then recurrence: constant memory. Is it anywhere before, found by its content? Then
    attention: memory grows. Or several of these: stack layers of both kinds, and measure. Below: then correct the
    choice. With fewer than 100 examples take what fits the rule; for long texts to write, a state or a window; if
    reading must be fast, not a GRU."""
    return Diagram(alt, describe)
