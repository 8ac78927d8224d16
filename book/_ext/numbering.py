"""Numbers of chapters, and figures out of cells.

The file 08_attention_layer.ipynb is chapter 8, whether or not there is a 07: its title, its place in the sidebar and
the browser's tab say so, and its equations and figures are (8.1), Figure 8.1 and so on, wherever they are referred to.

A cell that ends with `captioned(...)` becomes a figure of the page, with its number before the caption.
"""

import html
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors.toctree import TocTreeCollector
from sphinx.transforms import SphinxTransform

FIGURE = re.compile(
    r'<figure class="course-figure" data-name="(?P<name>[^"]+)"[^>]*>(?P<drawn>.*)'
    r"<figcaption[^>]*>(?P<caption>.*?)</figcaption></figure>",
    re.DOTALL,
)


def chapter_number(docname: str) -> int | None:
    """The number a chapter's file name begins with; None for every other page."""
    number = re.match(r"\d+(?=_)", docname)
    return int(number.group()) if number else None


def number_chapters(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Give each chapter its number and, by it, each equation and figure; sections stay without."""
    for docname, toc in env.tocs.items():
        number = chapter_number(docname)
        if number is None:
            continue
        references = list(toc.findall(nodes.reference))
        env.toc_secnumbers[docname] = {reference["anchorname"]: None for reference in references} | {"": (number,)}
        references[0]["secnumber"] = [number]
        for titles in (env.titles, env.longtitles):
            titles[docname]["secnumber"] = [number]
    return [*env.toc_secnumbers, *TocTreeCollector().assign_figure_numbers(env)]


class FiguresFromCells(SphinxTransform):
    """Turn what `captioned` wrote into a figure of the document, so that it is counted and can be referred to."""

    default_priority = 200  # before Sphinx gives ids to what it counts

    def apply(self, **kwargs: Any) -> None:
        for bundle in list(self.document.findall(nodes.container)):
            if bundle.get("nb_element") != "mime_bundle":
                continue
            for raw in bundle.findall(nodes.raw):
                if found := FIGURE.fullmatch(raw.astext().strip()):
                    self.wrap(bundle, raw, found)
                    break

    def wrap(self, bundle: nodes.container, raw: nodes.raw, found: re.Match[str]) -> None:
        raw.children = [nodes.Text(found["drawn"])]
        raw.rawsource = found["drawn"]
        figure = nodes.figure(classes=["course-figure"], names=[found["name"]])
        figure.source, figure.line = bundle.source, bundle.line
        bundle.replace_self(figure)
        caption = html.unescape(found["caption"])
        figure += [bundle, nodes.caption(caption, caption)]
        self.document.note_explicit_target(figure, figure)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_transform(FiguresFromCells)
    app.connect("env-get-updated", number_chapters, priority=600)  # after Sphinx itself, which would number in order
    return {"parallel_read_safe": True, "parallel_write_safe": True}
