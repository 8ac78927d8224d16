"""The parts of a drawing, which nest; where everything stands follows from the nesting.

    Column([Box("token embedding", "embed", of=("token_embedding",), shape=shapes["token_embedding"]),
            Repeat(Residual([Box("layer norm", "norm"), Box("attention", "attention")]), "× 12")])

Data flows from top to bottom. A box names what it stands for (`of`), and `shape` is written on the wire that leaves it.
`Free` holds what does not nest: it is given a canvas and draws on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lecturelib.figures.diagrams.canvas import NAME, NOTE, Canvas, Rect, text_width

GAP, PAD, BYPASS = 30.0, 12.0, 24.0


class Part(ABC):
    """Anything with a size that can be drawn; wires enter it at the top of its axis and leave at the bottom."""

    shape: str = ""  # of what leaves it

    @abstractmethod
    def size(self) -> tuple[float, float]:
        """Width and height."""

    @abstractmethod
    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw with the left upper corner at (x, y)."""

    def entry(self) -> float:
        """How far below its top an arriving wire ends."""
        return 0.0

    def exit(self) -> float:
        """How far above its bottom a leaving wire starts."""
        return 0.0

    def arrives_with_tip(self) -> bool:
        """Whether the wire that enters ends in an arrow here."""
        return True

    def widest_box(self) -> float:
        """The width that boxes of a column above each other share."""
        return 0.0

    def set_box_width(self, width: float) -> None:  # noqa: B027 - most parts have no box of their own
        """Make all boxes of the main column this wide."""


@dataclass
class Box(Part):
    """A named box; `of` are paths of modules or parameters, with * for any number of a list."""

    text: str
    kind: str = "plain"
    of: tuple[str, ...] = ()
    note: str = ""
    shape: str = ""
    name: str = ""
    copy: bool = False
    width: float = 0.0

    def size(self) -> tuple[float, float]:
        lines = NAME * 1.22 * len(self.text.split("\n")) + NOTE * 1.22 * len([n for n in self.note.split("\n") if n])
        return self.widest_box(), lines + 15

    def widest_box(self) -> float:
        widths = [text_width(line, NAME, "name") for line in self.text.split("\n")]
        widths += [text_width(line, NOTE, "soft") for line in self.note.split("\n")]
        return max(self.width, max(widths) + 18)

    def set_box_width(self, width: float) -> None:
        self.width = width

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        rect = Rect(x, y, *self.size())
        canvas.box(rect, self.text, self.kind, note=self.note, of=self.of, copy=self.copy, name=self.name)


@dataclass
class Free(Part):
    """A drawing by hand, of this width and height: `pen` is called with the canvas and the left upper corner."""

    width: float
    height: float
    pen: Callable[[Canvas, float, float], None]
    shape: str = ""

    def size(self) -> tuple[float, float]:
        return self.width, self.height

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        canvas.extents.append(Rect(x, y, self.width, self.height))
        self.pen(canvas, x, y)


class Column(Part):
    """Parts above each other, with a wire from each to the next and its shape beside it."""

    def __init__(self, parts: Sequence[Part], *, gap: float = GAP, wires: bool = True) -> None:
        self.parts, self.gap, self.wires = list(parts), gap, wires
        self.shape = self.parts[-1].shape
        if wires:
            self.set_box_width(self.widest_box())

    def widest_box(self) -> float:
        return max(part.widest_box() for part in self.parts)

    def set_box_width(self, width: float) -> None:
        for part in self.parts:
            part.set_box_width(width)

    def size(self) -> tuple[float, float]:
        sizes = [part.size() for part in self.parts]
        return max(w for w, _ in sizes), sum(h for _, h in sizes) + self.gap * (len(sizes) - 1)

    def entry(self) -> float:
        return self.parts[0].entry()

    def exit(self) -> float:
        return self.parts[-1].exit()

    def arrives_with_tip(self) -> bool:
        return self.parts[0].arrives_with_tip()

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        axis = x + self.size()[0] / 2
        before: tuple[Part, float] | None = None
        for part in self.parts:
            width, height = part.size()
            part.draw(canvas, axis - width / 2, y)
            if before and self.wires:
                above, bottom = before
                canvas.wire(
                    (axis, bottom - above.exit()),
                    (axis, y + part.entry()),
                    label=above.shape,
                    label_at=(axis + 7, y - self.gap / 2),
                    tip=part.arrives_with_tip(),
                )
            before = (part, y + height)
            y += height + self.gap


class Residual(Column):
    """A column with a bypass around it, which is added again at its end."""

    def __init__(self, parts: Sequence[Part], *, shape: str = "", bypass: float = BYPASS) -> None:
        super().__init__(parts)
        self.inner, self.shape, self.bypass = self.shape, shape, bypass

    def size(self) -> tuple[float, float]:
        width, height = super().size()
        return width + 2 * self.bypass, height + 22 + GAP + 22  # a branch above, an addition below

    def entry(self) -> float:
        return 22 + super().entry()

    def exit(self) -> float:
        return 0.0

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        width, height = self.size()
        axis, plus = x + width / 2, y + height - 11
        super().draw(canvas, x, y + 22)
        bottom = plus - 11 - GAP
        label = {"label": self.inner, "label_at": (axis + 7, bottom + GAP / 2 - 2)}
        canvas.wire((axis, bottom), (axis, plus - 11), **label)  # type: ignore[arg-type]
        canvas.dot(axis, y + 6)
        side = x + width - 6
        canvas.wire((axis, y + 6), (side, y + 6), (side, plus), (axis + 11, plus))
        canvas.operation(axis, plus, "+")


@dataclass
class Repeat(Part):
    """A dashed frame around a part that stands several times, or belongs together."""

    part: Part
    label: str
    pad: float = PAD

    def __post_init__(self) -> None:
        self.shape = self.part.shape

    def size(self) -> tuple[float, float]:
        width, height = self.part.size()
        return width + 2 * self.pad, height + 24 + self.pad

    def entry(self) -> float:
        return 24 + self.part.entry()

    def exit(self) -> float:
        return self.pad + self.part.exit()

    def arrives_with_tip(self) -> bool:
        return self.part.arrives_with_tip()

    def widest_box(self) -> float:
        return self.part.widest_box()

    def set_box_width(self, width: float) -> None:
        self.part.set_box_width(width)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        width, height = self.size()
        canvas.frame(Rect(x, y, width, height))
        room = width / 2 - 10
        left = text_width(self.label, 13, "name") > room - 6
        canvas.text(
            x + 10 if left else x + width - 10,
            y + 17,
            self.label,
            size=13,
            style="name",
            anchor="start" if left else "end",
        )
        self.part.draw(canvas, x + self.pad, y + 24)


class Row(Part):
    """Parts side by side; a title may stand above each."""

    def __init__(self, parts: Sequence[Part], *, gap: float = 24.0, align: str = "top") -> None:
        self.parts, self.gap, self.align = list(parts), gap, align

    def size(self) -> tuple[float, float]:
        sizes = [part.size() for part in self.parts]
        return sum(w for w, _ in sizes) + self.gap * (len(sizes) - 1), max(h for _, h in sizes)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        tallest = self.size()[1]
        for part in self.parts:
            width, height = part.size()
            spare = {"top": 0.0, "middle": (tallest - height) / 2, "bottom": tallest - height}[self.align]
            part.draw(canvas, x, y + spare)
            x += width + self.gap


def beside(parts: Sequence[Part], *, narrow: bool, gap: float = 30.0, align: str = "top") -> Part:
    """Side by side where there is room, above each other on a phone."""
    return Column(parts, gap=gap, wires=False) if narrow else Row(parts, gap=gap, align=align)


@dataclass
class Titled(Part):
    """A part under a heading."""

    title: str
    part: Part

    def size(self) -> tuple[float, float]:
        width, height = self.part.size()
        return max(width, text_width(self.title, NAME, "name")), height + 28

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        width, _ = self.size()
        canvas.text(x + width / 2, y + 13, self.title, size=NAME, style="name")
        self.part.draw(canvas, x + (width - self.part.size()[0]) / 2, y + 28)


class Note(Part):
    """Lines of words, wrapped to a width; an empty string leaves half a line."""

    def __init__(
        self, text: str, *, width: float, style: str = "soft", size: float = NOTE + 0.5, centred: bool = False
    ) -> None:
        self.width, self.style, self.text_size, self.centred = width, style, size, centred
        self.lines: list[str] = []
        for paragraph in text.split("\n"):
            line = ""
            for word in paragraph.split(" "):
                if line and text_width(f"{line} {word}", size, style) > width:
                    self.lines.append(line)
                    line = word
                else:
                    line = f"{line} {word}" if line else word
            self.lines.append(line)

    def size(self) -> tuple[float, float]:
        return self.width, sum(self._height(line) for line in self.lines)

    def _height(self, line: str) -> float:
        return self.text_size * (1.35 if line else 0.6)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        canvas.extents.append(Rect(x, y, *self.size()))
        for line in self.lines:
            y += self._height(line)
            if line:
                where = x + self.width / 2 if self.centred else x
                anchor = "middle" if self.centred else "start"
                canvas.text(where, y - self.text_size * 0.3, line, size=self.text_size, style=self.style, anchor=anchor)
