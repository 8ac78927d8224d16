"""Search finds the section that introduces a word.

The glossary says, for each word, which section introduces it: "See [](#sw-windows)". Those sections are entered in the
index under that word, so that a search for it finds them first, whatever their headings say.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

ENTRY = re.compile(r"^(?P<words>(?:\S.*\n)+)(?P<body>(?:[ \t]+.*\n?)+)", re.MULTILINE)
LINK = re.compile(r"\[\]\(#([\w:.-]+)\)")


def introduced(glossary: str) -> dict[str, str]:
    """For each word of a glossary the label of the section that introduces it."""
    found = {}
    for entry in ENTRY.finditer(glossary.partition("{glossary}")[2]):
        if link := LINK.search(entry["body"]):
            found |= {word: link.group(1) for word in entry["words"].splitlines()}
    return found


def enter_words(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Enter each word in the index of the page that introduces it."""
    glossary = Path(app.srcdir) / "glossary.md"
    if app.builder.format != "html" or not glossary.is_file():
        return
    entries = []
    for word, label in introduced(glossary.read_text(encoding="utf-8")).items():
        page, _, title = app.env.domaindata["std"]["labels"].get(label, ("", "", ""))
        if page == docname:  # a label that does not exist is reported where it is used
            sections = app.env.tocs[docname].findall(nodes.reference)
            anchor = next((one["anchorname"].lstrip("#") for one in sections if one.astext() == title), label)
            entries.append(("single", word, anchor, "main", None))
    if entries:
        doctree += addnodes.index(entries=entries)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.config.html_search_scorer = str(Path(app.srcdir) / "_ext" / "scorer.js")
    app.connect("doctree-resolved", enter_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
