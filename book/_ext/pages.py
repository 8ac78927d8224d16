"""How a page presents itself: the title first, and in its head a title, a description, an icon, a picture to share."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from lecturelib.book.addresses import site_url

DESCRIPTION_LENGTH = 200
GENERATED = {  # pages that Sphinx writes without a source of ours
    "search": "Search every chapter of the course for a word, a symbol or a system.",
}


def shorten(text: str, length: int = DESCRIPTION_LENGTH) -> str:
    """Cut text at a sentence if one ends in time, otherwise at a word."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    sentences = re.findall(r".+?[.!?](?=\s|$)", text[:length])
    if sentences:
        return "".join(sentences).strip()
    return text[: length - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def first_paragraph(doctree: nodes.document) -> str:
    """The first paragraph of running text, outside figures, tables and cells."""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section | nodes.document) and "launch" not in paragraph["classes"]:
            return paragraph.astext()
    return ""


def given_description(app: Sphinx, pagename: str) -> str:
    """The description its author wrote: in the front matter of a text page, in the metadata of a notebook."""
    if pagename in GENERATED or pagename not in app.env.found_docs:
        return GENERATED.get(pagename, "")
    source = Path(app.env.doc2path(pagename))
    if source.suffix == ".ipynb":
        return json.loads(source.read_text(encoding="utf-8"))["metadata"].get("description", "")
    return app.env.metadata.get(pagename, {}).get("description", "")


def shared(app: Sphinx, pagename: str, description: str) -> list[str]:
    """What a page looks like where somebody shares its address; the picture must be named by its whole address."""
    site = site_url(app.config.html_theme_options["repository_url"].rstrip("/"))
    named = pagename in app.env.titles
    properties = {
        "og:type": "website",
        "og:site_name": app.config.project,
        "og:title": app.env.titles[pagename].astext() if named else app.config.project,
        "og:description": description,
        "og:url": f"{site}/{pagename}.html",
        "og:image": f"{site}/_static/social.png",
        "og:image:alt": "A map of attention weights beside the title of the course.",
    }
    tags = [f'<meta property="{name}" content="{escape(text, quote=True)}">' for name, text in properties.items()]
    return [*tags, '<meta name="twitter:card" content="summary_large_image">']


def describe(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Give the page its description and both icons, and the front page its plain title."""
    description = given_description(app, pagename) or (shorten(first_paragraph(doctree)) if doctree else "")
    tags = []
    if description:
        tags.append(f'<meta name="description" content="{escape(description, quote=True)}">')
    tags += shared(app, pagename, description or app.config.html_title)
    icon = context["pathto"]("_static/favicon.png", resource=True)
    tags.append(f'<link rel="alternate icon" type="image/png" href="{icon}">')
    tags.append(f'<link rel="apple-touch-icon" href="{icon}">')
    context["metatags"] = (context.get("metatags") or "") + "\n".join(tags)
    if pagename == app.config.root_doc:
        context["docstitle"] = ""
    if "body" in context:  # docutils still writes the role that ARIA deprecated; these are the items of a list
        body = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
        context["body"] = body.replace(' aria-label="Toggle hidden content"', "")  # its text says what is hidden


def put_title_first(app: Sphinx, doctree: nodes.document) -> None:
    """A notebook begins with the cells that set it up; its page begins with the title, and those cells follow it."""
    section = next((child for child in doctree.children if isinstance(child, nodes.section)), None)
    if section is None:
        return
    before = [child for child in doctree.children[: doctree.index(section)] if "cell" in child.get("classes", [])]
    for cell in before:
        doctree.remove(cell)
    section[1:1] = before


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-read", put_title_first)
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
