"""A drawing of a model that cannot disagree with it: boxes name modules, and the shapes on wires are measured."""

import html
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from lecturelib.figures.diagrams.canvas import STYLE, Canvas, Rect
from lecturelib.figures.diagrams.parts import Column, Note, Part
from lecturelib.figures.diagrams.shapes import Shapes, matching
from lecturelib.figures.plots.picture import PAGE_STYLE

MARGIN = 6.0
LARGEST, TALLEST = 1.35, 800.0  # a drawing may grow to fill the column, but not beyond a screen
_SLICE = re.compile(r"(.*)\[(\d+)/(\d+)\]")


@dataclass
class View:
    """A drawing laid out: its SVG, its size, and the canvas that says where everything is."""

    canvas: Canvas
    width: float
    height: float


class Diagram:
    """A drawing together with the sentence that says what it shows; the last line of a cell displays it.

    Args:
        alt: what the drawing shows, in a sentence: its accessible name and its plain-text output
        describe: gives the parts, for a wide page and (`narrow`) for a phone
        models: the models that are drawn, by the first name of the paths that boxes have, or under "" for one alone
        shapes: the measurements that the drawing was made from
    """

    def __init__(
        self,
        alt: str,
        describe: Callable[[bool], Part],
        models: dict[str, nn.Module] | None = None,
        shapes: tuple[Shapes, ...] = (),
    ) -> None:
        self.alt = " ".join(alt.split())
        if len(self.alt) < 20:
            raise ValueError(f"alt text must be a sentence that states what the drawing shows, got {alt!r}")
        self.models, self.shapes = models or {}, shapes
        self.wide, self.narrow = (_lay_out(self._with_legend(describe(narrow))) for narrow in (False, True))

    def __repr__(self) -> str:
        return f"[diagram: {self.alt}]"

    def _repr_html_(self) -> str:
        drawings = self._svg(self.wide, "for-page") + self._svg(self.narrow, "for-phone")
        if self._svg(self.wide, "") == self._svg(self.narrow, ""):  # many are narrow enough for a phone as they are
            drawings = self._svg(self.wide, "for-all")
        figure = f'<div class="lecturelib-figure lecturelib-diagram">{drawings}</div>'
        return f"{figure}{PAGE_STYLE}<style>{STYLE}</style>"

    def _svg(self, view: View, css: str) -> str:
        scale = min(LARGEST, max(1.0, TALLEST / view.height))
        box = f"0 0 {view.width:.0f} {view.height:.0f}"
        return (
            f'<svg class="{css}" role="img" aria-label="{html.escape(self.alt)}" viewBox="{box}" '
            f'style="max-width:{scale * view.width:.0f}px">'
            f"{''.join(view.canvas.svg)}</svg>"
        )

    def _with_legend(self, part: Part) -> Part:
        """Below the drawing, what the letters on its wires mean."""
        view = _lay_out(part)
        labels = " ".join(words.text for words in view.canvas.words if words.style == "shape")
        used = set(re.findall(r"[A-Z][a-z]?", labels))
        lines = list(dict.fromkeys(line for shapes in self.shapes for line in shapes.legend(used)))
        if not lines:
            return part
        text = " · ".join(line.replace(" ", "\u00a0") for line in lines)  # an entry is never torn
        return Column([part, Note(text, width=max(view.width - 2 * MARGIN, 330), centred=True)], gap=14, wires=False)

    def problems(self) -> list[str]:
        """Where drawing and models disagree: unknown modules, and parameters in no box or in more than one."""
        found = []
        for view in (self.wide, self.narrow):
            shares: dict[str, Counter[str]] = {
                f"{prefix}.{name}".lstrip("."): Counter()
                for prefix, model in self.models.items()
                for name, _ in model.named_parameters()
            }
            for box in view.canvas.boxes:
                for path in box.of:
                    whole, share = (
                        (match[1], f"{match[2]}/{match[3]}") if (match := _SLICE.fullmatch(path)) else (path, "1")
                    )
                    names = self._named(whole)
                    if not names:
                        found.append(f"{box.text!r} stands for {path!r}, which the model does not have")
                    if box.copy:
                        continue
                    for name in shares:
                        if any(name == n or name.startswith(f"{n}.") for n in names):
                            shares[name][share] += 1
            found += [f"{name} is in boxes {dict(seen)}" for name, seen in shares.items() if not _is_once(seen)]
        return found

    def _named(self, path: str) -> list[str]:
        if "" in self.models:
            return matching(self.models[""], path)
        prefix, _, rest = path.partition(".")
        return [f"{prefix}.{name}" for name in matching(self.models[prefix], rest)] if prefix in self.models else []


def _is_once(seen: Counter[str]) -> bool:
    if seen == Counter({"1": 1}):
        return True
    total = max((int(share.partition("/")[2] or 0) for share in seen), default=0)
    return total > 0 and seen == Counter(f"{k}/{total}" for k in range(total))


def _lay_out(part: Part) -> View:
    canvas = Canvas()
    part.draw(canvas, 0.0, 0.0)
    rects = [box.rect for box in canvas.boxes] + [words.rect for words in canvas.words] + canvas.extents
    rects += [Rect(x, y, 0, 0) for wire in canvas.wires for x, y in wire]
    left, top = min(r.x for r in rects) - MARGIN, min(r.y for r in rects) - MARGIN
    width = max(r.x + r.w for r in rects) + MARGIN - left
    height = max(r.y + r.h for r in rects) + MARGIN - top
    shifted = Canvas()
    part.draw(shifted, -left, -top)
    return View(shifted, width, height)
