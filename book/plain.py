"""Write a plain twin of every chapter, book/plain/NN_name.ipynb, for Colab, JupyterLab and download.

A chapter is written in MyST, which the site understands and notebooks show raw. In its twin numbers stand where they
were glued in, references and citations are links to the site, boxes are block quotes and equations carry their numbers
as tags. Code cells and stored outputs are the chapter's own.

python book/plain.py            write all twins, and the first cell of every notebook, from the address in _config.yml
python book/plain.py --check    write nothing; name what is out of step
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
import yaml
from docutils.nodes import make_id
from nbformat import NotebookNode
from pybtex.database import Entry, parse_file

from lecturelib.book.addresses import colab_url, file_url, install_source, repository_url, site_url

ROOT = Path(__file__).resolve().parent.parent
FIGURE = re.compile(r'<figure class="course-figure" data-name="([^"]+)"')
TOKEN = re.compile(
    r"""
    (?P<fence>^(?P<ticks>`{3,}|~{3,})(?!\{).*?^(?P=ticks)[ ]*$)
  | (?P<role>\{(?P<kind>[\w:.-]+)\}`(?P<content>[^`]+)`)
  | (?P<span>(?P<quote>`+)(?!`).+?(?<!`)(?P=quote)(?!`))
  | (?P<display>\$\$(?P<tex>.+?)\$\$(?:[ \t]*\((?P<equation>[\w:.-]+)\))?)
  | (?P<inline>\$[^$]+\$)
  | (?P<link>\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]*)\))
  | (?P<label>^\((?P<name>[\w:.-]+)\)=[ \t]*\n+)
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
BOX = re.compile(
    r"^(?P<fence>:{3,}|`{3,})\{(?P<kind>[\w:-]+)\}[ \t]*(?P<title>.*)\n(?P<body>(?:.*\n)*?)(?P=fence)[ \t]*$",
    re.MULTILINE,
)
OPTION = re.compile(r"\A\s*:(?P<name>[\w-]+):[ \t]*(?P<value>.*)\n?")
BOXES = {"admonition", "attention", "caution", "danger", "dropdown", "hint", "important", "note", "tip", "warning"}
LEFT = re.compile(
    r"\{[\w:.-]+\}`|^[ >]*:{3,}|^[ >]*(`{3,}|~{3,})\{|^\([\w:.-]+\)=|\$\$[ \t]*\(|\]\{[.#]|\{\{|^\+\+\+|\]\(#"
)


class PlainError(ValueError):
    """Something in a chapter has no plain form."""


@dataclass(frozen=True)
class Place:
    """What a reference can point at: its text, and where it is on the site."""

    text: str
    address: str


def cells_of(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook, or of a text page as if it were one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return json.loads(text)["cells"]
    return [{"cell_type": "markdown", "source": [text]}]


def slug(title: str) -> str:
    """A heading as the part of an address after #, in links within the book."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def figures_in(cell: dict[str, Any]) -> list[str]:
    """The names of the figures that a cell shows."""
    pages = ["".join(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", [])]
    return [found.group(1) for page in pages if (found := FIGURE.match(page))]


@dataclass
class Book:
    """The chapters and pages under one root, and everything in them that can be referred to."""

    root: Path
    places: dict[str, Place] = field(default_factory=dict)  # by label, and by file#heading

    def __post_init__(self) -> None:
        self.repository = repository_url(self.root)
        config = yaml.safe_load((self.root / "_config.yml").read_text(encoding="utf-8"))
        self.branch, self.colab = config["repository"]["branch"], config["launch_buttons"]["colab_url"]
        self.site = site_url(self.repository)
        for page in sorted({*(self.root / "book").glob("*.ipynb"), *(self.root / "book").glob("*.md")}):
            self.index(page)

    @cached_property
    def bibliography(self) -> dict[str, Entry]:
        return parse_file(str(self.root / "book" / "references.bib")).entries

    @cached_property
    def terms(self) -> dict[str, str]:
        """The anchors of the glossary's words, by the word in lower case."""
        text = (self.root / "book" / "glossary.md").read_text(encoding="utf-8").partition("{glossary}")[2]
        words = re.findall(r"^(?!:::)(\S.*)$", text, re.MULTILINE)
        return {word.lower(): "term-" + re.sub(r"[^\w]+", "-", word).strip("-") for word in words}

    @property
    def chapters(self) -> list[Path]:
        return sorted((self.root / "book").glob("[0-9][0-9]_*.ipynb"))

    def index(self, page: Path) -> None:
        """Remember every label, heading, equation and figure of a page, with the number the site gives it."""
        address = f"{self.site}/{page.stem}.html"
        chapter = page.name[:2].lstrip("0")
        equations = figures = 0
        for cell in cells_of(page):
            for name in figures_in(cell):
                figures += 1
                self.places[name] = Place(f"Figure {chapter}.{figures}", f"{address}#{name}")
            if cell["cell_type"] != "markdown":
                continue
            source = "".join(cell["source"])
            for found in TOKEN.finditer(source):
                if name := found["equation"]:
                    equations += 1
                    self.places[name] = Place(f"({chapter}.{equations})", f"{address}#equation-{make_id(name)}")
            for found in re.finditer(r"(?:^\(([\w:.-]+)\)=[ \t]*\n+)?^(#+) (.+)$", source, re.MULTILINE):
                label, level, title = found.groups()
                place = Place(title.strip(), f"{address}#{make_id(label or title)}")
                self.places.setdefault(f"{page.name}#{slug(title)}", place)
                if label:
                    self.places[label] = place
                if len(level) == 1:
                    self.places[page.name] = Place(place.text, address)


def authors(entry: Entry) -> str:
    """The authors of a paper as the text names them."""
    people = entry.persons["author"]
    names = [" ".join(str(part) for part in (*one.rich_prelast_names, *one.rich_last_names)) for one in people]
    return " and ".join(names) if len(names) <= 2 else f"{names[0]} *et al.*"


class Writer:
    """Writes the twin of one chapter."""

    def __init__(self, book: Book, page: Path) -> None:
        self.book, self.page = book, page
        self.notebook = nbformat.read(page, as_version=4)
        self.glued = {}
        for cell in self.notebook.cells:
            for output in cell.get("outputs", []):
                if glued := output.get("metadata", {}).get("scrapbook"):
                    text = output["data"][f"{glued['mime_prefix']}text/plain"]
                    self.glued[glued["name"]] = str(ast.literal_eval(text)) if text[:1] in "'\"" else text
        self.roles: dict[str, Callable[[str, str], str]] = {
            "glue:text": lambda text, target: self.known(self.glued, target),
            "eq": self.reference,
            "numref": self.reference,
            "ref": self.reference,
            "cite": self.cite_in_brackets,
            "cite:p": self.cite_in_brackets,
            "cite:t": self.cite_in_text,
            "term": self.term,
            "colab": lambda text, target: f"[{text}]({colab_url(book.colab, book.repository, book.branch, target)})",
            "repository": lambda text, target: f"[{text}]({file_url(book.repository, book.branch, target)})",
        }

    def known(self, table: dict[str, Any], name: str) -> Any:
        """An entry of a table, or an error that names the chapter."""
        if name not in table:
            raise PlainError(f"{self.page.name} refers to {name!r}, which nothing defines")
        return table[name]

    def reference(self, text: str, target: str) -> str:
        place = self.known(self.book.places, target)
        shown = place.text if text == target else text.replace("%s", place.text.split()[-1])
        return f"[{shown}]({place.address})"

    def cite_in_brackets(self, text: str, target: str) -> str:
        keys = [key.strip() for key in target.split(",")]
        entries = [(key, self.known(self.book.bibliography, key)) for key in keys]
        cited = [f"[{authors(entry)}, {entry.fields['year']}]({self.cited(key)})" for key, entry in entries]
        return f"({'; '.join(cited)})"

    def cite_in_text(self, text: str, target: str) -> str:
        keys = [key.strip() for key in target.split(",")]
        entries = [(key, self.known(self.book.bibliography, key)) for key in keys]
        cited = [f"[{authors(entry)} ({entry.fields['year']})]({self.cited(key)})" for key, entry in entries]
        return " and ".join([", ".join(cited[:-1]), cited[-1]]) if len(cited) > 1 else cited[0]

    def cited(self, key: str) -> str:
        return f"{self.book.site}/bibliography.html#cite-{make_id(key)}"

    def term(self, text: str, target: str) -> str:
        return f"[{text}]({self.book.site}/glossary.html#{self.known(self.book.terms, target.lower())})"

    def link(self, text: str, target: str) -> str:
        if re.match(r"[a-z]+:", target):
            return f"[{text}]({target})"
        file, _, heading = target.partition("#")
        page = Path(file).with_suffix(".html") if Path(file).suffix in (".ipynb", ".md") else None
        if page and not heading:
            if not (self.book.root / "book" / file).is_file():
                raise PlainError(f"{self.page.name} links to {file}, which does not exist")
            return f"[{text or self.known(self.book.places, file).text}]({self.book.site}/{page.as_posix()})"
        names = [f"{file or self.page.name}#{heading}", heading, target]
        place = self.known(self.book.places, next((name for name in names if name in self.book.places), target))
        return f"[{text or place.text}]({place.address})"

    def token(self, found: re.Match[str]) -> str:
        """The plain form of one piece of MyST; code and maths stay as they are."""
        if found["role"]:
            if found["kind"] not in self.roles:
                raise PlainError(f"{self.page.name}: the role {{{found['kind']}}} has no plain form")
            titled = re.fullmatch(r"(.+?)\s*<(.+)>", found["content"], re.DOTALL)
            text, target = titled.groups() if titled else (found["content"], found["content"])
            return self.roles[found["kind"]](text, target)
        if found["equation"]:
            number = self.book.places[found["equation"]].text.strip("()")
            return f"$${found['tex'].rstrip()} \\tag{{{number}}}\n$$"
        if found["link"]:
            return self.link(found["text"], found["target"])
        return "" if found["label"] else found.group()

    def plain(self, text: str) -> str:
        """Text without MyST."""
        done, out = 0, []
        for box in BOX.finditer(text):
            out += [TOKEN.sub(self.token, text[done : box.start()]), self.box(box)]
            done = box.end()
        return "".join([*out, TOKEN.sub(self.token, text[done:])])

    def box(self, box: re.Match[str]) -> str:
        """A note as a block quote; one that opens on a click as the HTML for that."""
        if box["kind"] not in BOXES:
            raise PlainError(f"{self.page.name}: the box {{{box['kind']}}} has no plain form")
        body, options = box["body"], {}
        while option := OPTION.match(body):
            options[option["name"]] = option["value"].strip()
            body = body[option.end() :]
        title = TOKEN.sub(self.token, box["title"]) or box["kind"].capitalize()
        body = self.plain(body).strip()
        if box["kind"] == "dropdown" or "dropdown" in options.get("class", ""):
            return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
        return "\n".join(f"> {line}".rstrip() for line in (f"**{title}**", "", *body.splitlines()))

    def twin(self) -> NotebookNode:
        """The whole notebook."""
        made = nbformat.from_dict(self.notebook)
        made.cells = []
        chapter = f"{self.book.site}/{self.page.stem}.html"
        for cell in self.notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = self.plain(cell.source)
                if left := LEFT.search(without_code(cell.source)):
                    raise PlainError(f"{self.page.name}: {cell.source[left.start() :][:60]!r} has no plain form")
                cell.source = re.sub(
                    r"\A(# .+)$", rf"\1\n\n*The same chapter [on the course's site]({chapter}).*",
                    cell.source, flags=re.MULTILINE,
                )  # fmt: skip
            made.cells.append(cell)
            if {"hide-input", "hide-cell"} & set(cell.metadata.get("tags", [])):
                cell.metadata["jupyter"] = {"source_hidden": True}  # folded on the page, folded here
            numbers = [self.book.places[name].text for name in figures_in(cell)]
            if numbers:
                label = nbformat.v4.new_markdown_cell(f"*{', '.join(numbers)}*", id=f"{cell.id[:50]}-number")
                made.cells.append(label)
        return made


def without_code(text: str) -> str:
    """Markdown with its code and formulas blanked out."""
    blank = lambda found: found.group() if found["link"] or found["role"] else " " * len(found.group())  # noqa: E731
    return TOKEN.sub(blank, text)


def twin_text(book: Book, page: Path) -> str:
    """The file of a chapter's twin."""
    return nbformat.writes(Writer(book, page).twin()) + "\n"


def twin_path(page: Path) -> Path:
    """Where the twin of a chapter is."""
    return page.parent / "plain" / page.name


def with_install_cell(path: Path, repository: str) -> str:
    """The file of a notebook with its first code cell as the repository's address demands."""
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    wanted = install_source(repository, "" if "install" in cell.metadata.get("tags", []) else "[book]")
    if cell.source == wanted:
        return text
    cell.source = wanted
    return nbformat.writes(notebook) + "\n"


def derived(root: Path) -> dict[Path, str]:
    """Every file that follows from chapters and the one address, as it should be; exercises are made by the release."""
    repository = repository_url(root)
    notebooks = [root / folder for folder in ("book", "solutions", "tests/book/small_book")]
    files = {
        path: with_install_cell(path, repository) for folder in notebooks for path in sorted(folder.glob("*.ipynb"))
    }
    citation = root / "CITATION.cff"
    if citation.is_file():
        text = citation.read_text(encoding="utf-8")
        files[citation] = re.sub(r"(?m)^repository-code: .*$", f"repository-code: {repository}", text)
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something is out of step")
    parser.add_argument("--root", type=Path, default=ROOT, help="the root of the course (default: this clone)")
    arguments = parser.parse_args()
    stale = []

    def settle(path: Path, text: str) -> None:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return
        stale.append(path.relative_to(arguments.root))
        if not arguments.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")

    try:
        for path, text in derived(arguments.root).items():
            settle(path, text)
        book = Book(arguments.root)
        for page in book.chapters:
            settle(twin_path(page), twin_text(book, page))
    except PlainError as error:
        print(error, file=sys.stderr)
        return 1
    pages = {page.name for page in book.chapters}
    for stray in (arguments.root / "book" / "plain").glob("*.ipynb"):
        if stray.name not in pages:
            stale.append(stray.relative_to(arguments.root))
            if not arguments.check:
                stray.unlink()
    for path in stale:
        print(f"{path}: out of step, run `make plain`" if arguments.check else path)
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
