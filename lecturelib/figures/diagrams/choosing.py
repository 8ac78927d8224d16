"""A drawing that helps to choose: three questions about the data, and what each answer speaks for."""

from lecturelib.figures.diagrams.canvas import Canvas, Rect
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free, Part

QUESTIONS = (
    ("Is the answer within", "a few tokens?", "convolution", "few data, in parallel", "embed"),
    ("Does one state sum up", "all that came before?", "recurrence", "constant memory", "state"),
    ("Does it stand anywhere,", "found by what it says?", "attention", "memory grows", "attention"),
)
ASK, ANSWER, HIGH, PITCH, ACROSS = 156.0, 186.0, 54.0, 92.0, 54.0


def choosing_diagram() -> Diagram:
    """Three questions from top to bottom, with the mixer that a yes speaks for beside each, and the pair at the end."""

    def describe(narrow: bool) -> Part:
        across = 38.0 if narrow else ACROSS
        answer = 162.0 if narrow else ANSWER

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
            pair = Rect(x, y + len(QUESTIONS) * PITCH, ASK + across + answer, HIGH)
            canvas.box(pair, "several of these", "gate", note="stack layers of both kinds, and measure")
            canvas.wire(last.side("bottom"), (last.middle[0], pair.y))
            canvas.text(last.middle[0] + 12, pair.y - (PITCH - HIGH) / 2 + 4, "or", anchor="start")

        return Free(ASK + across + answer, len(QUESTIONS) * PITCH + HIGH, pen)

    alt = """Three questions from top to bottom. Is the answer within a few tokens? Then convolution: few data, in
    parallel. Does one state sum up all that came before? Then recurrence: constant memory. Does it stand
    anywhere, found by what it says? Then attention: memory grows. Or several of these: stack layers of both
    kinds, and measure."""
    return Diagram(alt, describe)
