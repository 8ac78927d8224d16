"""The reference of `lecturelib` on the site: one page for each room, written from the docstrings.

A page holds the directive

    ```{room} layers
    ```

which becomes every public name of `lecturelib.layers`, grouped by the file that defines it, with links to the chapters
whose code imports it. Our docstrings are plain text with a few fixed openings (`Paper:`, `Differs:`, `Shapes:`),
citation keys in brackets, and indented examples; `to_rst` says in Sphinx's words what those mean.
"""

import ast
import importlib
import inspect
import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOM = re.compile(r"^```\{room\} (?P<room>\w+)\n```$", flags=re.MULTILINE)
OPENING = re.compile(r"^(Paper|Differs|Shapes|Ids|Outcomes): ")
CITATION = re.compile(r"(?P<said>[\w-]+(?: et al\.| & [\w-]+)? \d{4} )?\[(?P<key>[a-z]+\d{4}[a-z]\w*)\]")
BAR = re.compile(r"(?<!`)\|(?=[^`]*(?:`[^`]*`[^`]*)*$)")  # outside code; a pair of bars would be a substitution
SECTIONS = ("Args:", "Returns:", "Attributes:", "Raises:")
LONGEST_VALUE = 160


def to_rst(lines: list[str]) -> list[str]:
    """A docstring of ours as reStructuredText."""
    out: list[str] = []
    for i, line in enumerate(lines):
        text = CITATION.sub(cite, BAR.sub(r"\\|", line))
        if OPENING.match(line):
            text = OPENING.sub(r"**\1.** ", text)
            if out and out[-1].strip():
                out.append("")
        ends_with_colon = line.rstrip().endswith(":") and not line.strip().startswith(SECTIONS)
        if ends_with_colon and is_example(lines, i):
            text += ":"
        out.append(text)
    return out


def cite(match: re.Match[str]) -> str:
    """A citation in the running text where the authors and the year were named, else one in brackets."""
    return f":cite:t:`{match['key']}`" if match["said"] else f":cite:p:`{match['key']}`"


def is_example(lines: list[str], i: int) -> bool:
    """Whether what follows line i, after a blank line, is indented more than it."""
    if i + 2 >= len(lines) or lines[i + 1].strip():
        return False
    return indentation(lines[i + 2]) > indentation(lines[i])


def indentation(line: str) -> int:
    """Spaces before the first character."""
    return len(line) - len(line.lstrip())


def imported_names(source: str) -> set[str]:
    """The public names, such as `lecturelib.layers.Block`, that a cell of code imports."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with a magic
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lecturelib."):
            room = ".".join((node.module or "").split(".")[:2])
            found |= {f"{room}.{alias.name}" for alias in node.names}
    return found


@cache
def chapters_by_name(book: Path) -> dict[str, list[str]]:
    """For each public name the chapters whose cells import it, in order."""
    users = defaultdict(list)
    for path in sorted(book.glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        names = set().union(*(imported_names("".join(c["source"])) for c in cells if c["cell_type"] == "code"))
        for name in names:
            users[name].append(path.stem)
    return users


def short_value(value: object) -> str:
    """A constant's value on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def entry(room: str, name: str, thing: Any) -> list[str]:
    """The reStructuredText of one public name."""
    full = f"lecturelib.{room}.{name}"
    if inspect.isclass(thing):
        return [f".. autoclass:: {full}", "   :members:"]
    if inspect.isroutine(thing):
        return [f".. autofunction:: {full}"]
    return [f".. py:data:: {full}", "", f"   ``{short_value(thing)}``"]


def taught_in(book: Path, full: str) -> list[str]:
    """A line that links to the chapters which use a name, or nothing."""
    links = [f":doc:`/{chapter}`" for chapter in chapters_by_name(book).get(full, [])]
    return ["", "   In chapters: " + ", ".join(links)] if links else []


def room_page(room: str, book: Path) -> str:
    """The body of one room's page: a section for each file, and in it each public name."""
    package = importlib.import_module(f"lecturelib.{room}")
    groups: dict[str, list[str]] = defaultdict(list)
    elsewhere: list[str] = []  # what this room offers too, and another room's page describes
    for name in package.__all__:
        thing = getattr(package, name)
        home = getattr(thing, "__module__", None) or type(thing).__module__
        if not home.startswith(package.__name__) and hasattr(thing, "__module__"):
            elsewhere.append(f"{{py:obj}}`lecturelib.{home.split('.')[1]}.{name}`")
            continue
        groups[home if home.startswith(package.__name__) else package.__name__].append(name)
    parts = [(package.__doc__ or "").strip()]
    for home in sorted(groups):
        heading = home.removeprefix(package.__name__).strip(".") or "Constants"
        about = (importlib.import_module(home).__doc__ or "").strip().split("\n\n")[0]
        parts += [f"## {heading.replace('.', ' · ').replace('_', ' ')}", about if heading != "Constants" else ""]
        for name in sorted(groups[home], key=str.lower):
            rst = entry(room, name, getattr(package, name)) + taught_in(book, f"lecturelib.{room}.{name}")
            parts.append("\n".join(["```{eval-rst}", *rst, "```"]))
    if elsewhere:
        parts.insert(1, "Also here, described with its own room: " + ", ".join(elsewhere) + ".")
    return "\n\n".join(part for part in parts if part)


def expand_rooms(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write the names of a room where its page asks for them."""
    source[0] = ROOM.sub(lambda match: room_page(match["room"], Path(app.srcdir)), source[0])


def rewrite_docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Before napoleon reads a docstring."""
    lines[:] = to_rst(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", expand_rooms)
    app.connect("autodoc-process-docstring", rewrite_docstring, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
