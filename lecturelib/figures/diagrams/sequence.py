"""A drawing of what a language model factorises."""

from lecturelib.figures.diagrams.canvas import NAME, Canvas, Rect, text_width
from lecturelib.figures.diagrams.diagram import Diagram
from lecturelib.figures.diagrams.parts import Free, Part

PHONE = 358.0  # units that a drawing may be wide there


def chain_rule_diagram(words: tuple[str, ...] = ("the", "cat", "sat", "down"), n: int | None = None) -> Diagram:
    """The probability of a sequence as a product, one row a factor; with `n`, an n-gram model forgets what is faint."""
    if n is not None and n < 1:
        raise ValueError(f"an n-gram model has n of at least 1, got {n}")

    def pen(canvas: Canvas, x: float, y: float, pitch: float, side: float) -> None:
        for t, word in enumerate(words):
            top = y + 46 * t
            for j, before in enumerate(words[:t]):
                forgotten = n is not None and j < t - n + 1
                canvas.box(Rect(x + j * pitch, top, side, 32), before, faint=forgotten)
            rect = canvas.box(Rect(x + t * pitch, top, side, 32), word, "attention")
            if t and (n is None or n > 1):
                canvas.wire((rect.x - (pitch - side), top + 16), (rect.x, top + 16))
        given = "all words before it" if n is None else "nothing" if n == 1 else f"the last {n - 1} before it"
        where = y + 46 * len(words) + 8
        canvas.text(x, where, f"each row: one word, given {given}", anchor="start")
        if n is not None:
            canvas.text(x, where + 18, f"what is faint, a {n}-gram model forgets", anchor="start")

    if not words:
        raise ValueError("there is no word to draw")
    widest = max(text_width(word, NAME, "name") for word in words) + 14

    if len(words) * (widest + 20) - 20 > PHONE:
        raise ValueError(f"{len(words)} words of this length do not fit side by side on a phone; take fewer or shorter")

    def describe(narrow: bool) -> Part:
        side = widest if narrow else max(widest, 110)
        pitch = side + (20 if narrow else 34)
        width = pitch * len(words) - (pitch - side)
        height = 46 * len(words) + (30 if n is not None else 12)
        return Free(width, height, lambda canvas, x, y: pen(canvas, x, y, pitch, side))

    forgets = "" if n is None else f" A {n}-gram model keeps only the last {n - 1} words of each row."
    alt = f"""The chain rule as a staircase: the probability of “{" ".join(words)}” is a product of {len(words)}
    factors, one per row, each the probability of one word given the words before it.{forgets}"""
    return Diagram(alt, describe)
