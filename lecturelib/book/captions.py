"""A caption under whatever a cell draws: a plot, an explorer, a diagram."""

import html
import re
from typing import Protocol


class Drawn(Protocol):
    """What has an HTML form: pictures, explorers and diagrams."""

    def _repr_html_(self) -> str: ...


class Captioned:
    """A drawing and its caption, as one figure; the site adds the number of the chapter and of the figure."""

    def __init__(self, drawn: Drawn, caption: str, name: str) -> None:
        self.drawn, self.caption, self.name = drawn, caption, name

    def __repr__(self) -> str:
        return f"[figure: {self.caption} {self.drawn!r}]"

    def _repr_html_(self) -> str:
        return (
            f'<figure class="course-figure" data-name="{self.name}" style="margin:0.8em 0">{self.drawn._repr_html_()}'
            f'<figcaption style="margin-top:0.4em">{html.escape(self.caption)}</figcaption></figure>'
        )


def captioned(drawn: Drawn, *, caption: str, name: str) -> Captioned:
    """Put a caption under a drawing, and give it a name by which the prose points at it: {numref}`name`.

    Args:
        drawn: a picture, an explorer or a diagram
        caption: the finding, in whole sentences of plain text: σ² and √d, not TeX, for JupyterLab and Colab show it too
        name: lower case with hyphens, unique in the book, such as "al-fig-variance"
    """
    caption = " ".join(caption.split())
    if len(caption.split()) < 4 or caption[-1] not in ".!?" or "$" in caption:
        raise ValueError(f"a caption must be a plain sentence that states the finding, got {caption!r}")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name):
        raise ValueError(
            f'the name of a figure must be lower-case words joined by hyphens ("al-fig-map"), got {name!r}'
        )
    return Captioned(drawn, caption, name)
