"""The front page: an explorer out of a chapter, cards for all chapters, and how the course proves its claims.

    ```{explorer} 08_attention_layer AttentionExplorer
    ```

shows the explorer that a chapter's stored outputs hold.

    ```{chapters}
    01_sequences sq-fig-whole: Counting letters, and the wall that counting meets
    ```

makes a card for each chapter of the table of contents, under the captions of its parts: number, title, this line, the
figure named here as a thumbnail, minutes of reading, exercises.

    ```{proof}
    ```

counts what is asserted, tested and graded, at the time of the build.
"""

import ast
import json
import math
import re
from html import escape
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WORDS_A_MINUTE, LINES_A_MINUTE = 180, 12
FOLDED = {"hide-input", "remove-input", "remove-cell", "hide-cell"}
FIGURE = re.compile(r"<svg\b[^>]*>.*?</svg>", re.DOTALL)
POINTS = re.compile(r"^\*\*[\d.]+ points? · about ", re.MULTILINE)  # the line that a release gives to each exercise
LARGEST_THUMBNAIL = 40_000  # characters of SVG; a larger figure is detail that nobody sees at this size


def cells_of(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source_of(cell: dict[str, Any]) -> str:
    """What stands in a cell."""
    return "".join(cell["source"])


def shown_html(cells: list[dict[str, Any]]) -> list[str]:
    """Every HTML output, in order."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return ["".join(output["data"]["text/html"]) for output in outputs if "text/html" in output.get("data", {})]


def title_of(cells: list[dict[str, Any]]) -> str:
    """The first heading."""
    text = "\n".join(source_of(cell) for cell in cells if cell["cell_type"] == "markdown")
    found = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
    if found is None:
        raise ValueError("a chapter without a title")
    return found.group(1)


def minutes_of(cells: list[dict[str, Any]]) -> int:
    """How long a reader takes, rounded up to five minutes."""
    words = sum(len(source_of(cell).split()) for cell in cells if cell["cell_type"] == "markdown")
    code = [
        cell for cell in cells if cell["cell_type"] == "code" and not FOLDED & set(cell["metadata"].get("tags", []))
    ]
    lines = sum(len(source_of(cell).splitlines()) for cell in code)
    return 5 * math.ceil((words / WORDS_A_MINUTE + lines / LINES_A_MINUTE) / 5)


def exercises_of(path: Path) -> int:
    """How many exercises a set has; none when there is no set."""
    if not path.exists():
        return 0
    return sum(bool(POINTS.search(source_of(cell))) for cell in cells_of(path))


def thumbnail(cells: list[dict[str, Any]], name: str) -> str:
    """The figure of this name, small and for the eye alone; a diagram brings the rules that it is drawn by."""
    named = [page for page in shown_html(cells) if f'data-name="{name}"' in page]
    drawn = [svg for page in named for svg in FIGURE.findall(page) if "for-phone" not in svg[:300]]
    if not drawn:
        raise ValueError(f"no figure {name} is drawn as SVG")
    if len(drawn[0]) > LARGEST_THUMBNAIL:
        raise ValueError(f"figure {name} has {len(drawn[0]):,} characters, a thumbnail {LARGEST_THUMBNAIL:,} at most")
    rules = "".join(re.findall(r"<style>(?=\.lecturelib-diagram).*?</style>", named[0], flags=re.DOTALL))
    head, body = drawn[0].split(">", 1)
    head = re.sub(r'\s(role|aria-label|id|class)="[^"]*"', "", head)
    head += ' aria-hidden="true" preserveAspectRatio="xMidYMin slice">'  # fills the card; of a tall drawing, the top
    body = re.sub(r"<title>.*?</title>|<desc>.*?</desc>", "", body, flags=re.DOTALL)
    return f'<span class="lecturelib-diagram">{head}{body}</span>{rules}' if rules else head + body


def read_card(line: str) -> tuple[str, str, str]:
    """Chapter, figure and sentence of a line of the directive."""
    match = re.fullmatch(r"(\S+) (\S+): (.+)", line.strip())
    if match is None:
        raise ValueError(f'a card is "chapter figure: sentence", got {line!r}')
    return match.group(1), match.group(2), match.group(3)


def card(book: Path, page: str, figure: str, line: str) -> str:
    """The card of one chapter."""
    cells = cells_of(book / f"{page}.ipynb")
    exercises = exercises_of(book.parent / "exercises" / f"{page}.ipynb")
    facts = f"{minutes_of(cells)} min" + (f" · {exercises} exercise{'s' * (exercises > 1)}" if exercises else "")
    return (
        f'<a class="chapter-card" href="{page}.html"><span class="thumbnail">{thumbnail(cells, figure)}</span>'
        f'<span class="words"><strong><span class="number">{int(page[:2])}</span> {escape(title_of(cells))}</strong>'
        f"<span>{escape(line)}</span><small>{facts}</small></span></a>"
    )


def counted_proof(root: Path) -> list[tuple[int, str]]:
    """What the course checks, counted: cells that assert, tests, exercises."""
    chapters = sorted((root / "book").glob("[0-9][0-9]_*.ipynb"))
    cells = [cell for path in chapters for cell in cells_of(path) if cell["cell_type"] == "code"]
    asserting = sum(bool(re.search(r"^\s*assert |testing\.assert_", source_of(cell), re.MULTILINE)) for cell in cells)
    tests = 0
    for path in (root / "tests").rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tests += sum(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in ast.walk(tree))
    exercises = sum(exercises_of(path) for path in (root / "exercises").glob("*.ipynb"))
    return [
        (asserting, "cells assert what the text claims"),
        (tests, "tests run on every change"),
        (exercises, "exercises grade themselves"),
        (0, "requests leave your machine"),
    ]


class Explorer(SphinxDirective):
    """An explorer out of a chapter's stored outputs."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        chapter, kind = self.arguments
        path = Path(self.env.srcdir) / f"{chapter}.ipynb"
        self.env.note_dependency(str(path))
        found = [page for page in shown_html(cells_of(path)) if f'data-explorer="{kind}-' in page]
        if not found:
            raise self.error(f"{chapter} shows no {kind}")
        start = found[0].index('<div class="lecturelib-explorer"')
        end = found[0].index("</script>", start) + len("</script>")
        return [nodes.raw("", f'<div class="text_html">{found[0][start:end]}</div>', format="html")]


class Chapters(SphinxDirective):
    """Cards of all chapters, under the captions of their parts."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        book = Path(self.env.srcdir)
        cards = {page: (figure, line) for page, figure, line in map(read_card, filter(str.strip, self.content))}
        out = []
        for part in yaml.safe_load((book / "_toc.yml").read_text(encoding="utf-8"))["parts"]:
            pages = [chapter["file"] for chapter in part["chapters"] if re.match(r"\d\d_", chapter["file"])]
            if missing := [page for page in pages if page not in cards]:
                raise self.error(f"no line about {', '.join(missing)}")
            if pages:
                shown = "".join(card(book, page, *cards[page]) for page in pages)
                out.append(
                    f'<p class="part-caption">{escape(part["caption"])}</p><div class="chapter-cards">{shown}</div>'
                )
        return [nodes.raw("", "".join(out), format="html")]


class Proof(SphinxDirective):
    """A strip of counts."""

    def run(self) -> list[nodes.Node]:
        counts = counted_proof(Path(self.env.srcdir).parent)
        items = "".join(f"<li><b>{count:,}</b> {escape(text)}</li>" for count, text in counts)
        return [nodes.raw("", f'<ul class="proof">{items}</ul>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("explorer", Explorer)
    app.add_directive("chapters", Chapters)
    app.add_directive("proof", Proof)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
