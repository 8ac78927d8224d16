"""Two promises every built page must keep, checked on the finished HTML; a breach is a warning, and so fails the build.

1. Every image, cell outputs included, has alt text, and a figure's alt text is a sentence.
2. Nothing is loaded from another host.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

LOADING_LINKS = {
    "apple-touch-icon",
    "dns-prefetch",
    "icon",
    "manifest",
    "modulepreload",
    "preconnect",
    "prefetch",
    "preload",
    "stylesheet",
}
LOADING_ATTRIBUTES = {"src", "srcset", "data", "poster"}
NAMESPACES = "www.w3.org"  # an XML namespace is a name that looks like an address; nothing is fetched
FOREIGN = re.compile(r"""(?:https?:|wss?:|(?<=["'`]))//(?P<host>[\w-]+(?:\.[\w-]+)+)""")
CSS_LOAD = re.compile(r"""(?:@import\s+(?:url\()?|url\()\s*["']?(?P<address>(?:https?:)?//[^"')\s]+)""")


def is_sentence(text: str) -> bool:
    """Whether text reads like a sentence: some words, and a full stop."""
    return len(text.split()) >= 4 and text.rstrip()[-1] in ".!?"


def image_problems(page: BeautifulSoup) -> Iterator[str]:
    """Images without alt text, and figures whose alt text is not a sentence."""
    for image in page.find_all(["img", "svg"]):
        assert isinstance(image, Tag)
        in_article = image.find_parent("article") is not None
        if image.name == "img":
            shown, alt = str(image.get("src", ""))[:100], str(image.get("alt", "")).strip()
            if alt == image.get("src"):
                alt = ""  # Sphinx fills in the file name where the author wrote nothing
        elif (
            in_article and image.find_parent("svg") is None and image.find_parent(attrs={"aria-hidden": "true"}) is None
        ):
            shown, alt = "inline svg", str(image.get("aria-label", "")).strip()
            if image.get("aria-hidden") == "true":
                continue
        else:
            continue
        if not alt:
            yield f"an image without alt text: {shown}"
        elif in_article and not is_sentence(alt):
            yield f"the alt text of a figure must be a sentence that states its finding, got {alt!r}: {shown}"


def load_problems(page: BeautifulSoup) -> Iterator[str]:
    """Everything the page would fetch from another host."""
    for tag in page.find_all(True):
        assert isinstance(tag, Tag)
        addresses = [str(tag[name]) for name in LOADING_ATTRIBUTES & tag.attrs.keys()]
        if tag.name == "link" and LOADING_LINKS & {rel.lower() for rel in tag.get_attribute_list("rel") if rel}:
            addresses.append(str(tag.get("href", "")))
        if tag.name in ("use", "image"):
            addresses += [str(tag.get("href", "")), str(tag.get("xlink:href", ""))]
        for address in addresses:
            if re.match(r"\s*(https?:|wss?:)?//", address):
                yield f"<{tag.name}> loads from another host: {address}"
        styles = [str(tag.get("style", ""))] + ([tag.get_text()] if tag.name == "style" else [])
        for style in styles:
            yield from (f"a style loads from another host: {match['address']}" for match in CSS_LOAD.finditer(style))
        if tag.name == "script" and "json" not in str(tag.get("type", "")):
            for match in FOREIGN.finditer(tag.get_text()):
                if match["host"] != NAMESPACES:
                    yield f"a script names another host: {match.group()}"


def page_problems(html: str) -> list[str]:
    """Every breach of the two promises in one page."""
    page = BeautifulSoup(html, "html.parser")
    return [*image_problems(page), *load_problems(page)]


def check_site(app: Sphinx, error: Exception | None) -> None:
    """Check every page and style sheet of a finished build."""
    if error is not None or app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*.html")):
        relative = path.relative_to(app.outdir)
        if "_static" in relative.parts or "_sources" in relative.parts:
            continue
        for problem in page_problems(path.read_text(encoding="utf-8")):
            logger.warning("%s: %s", relative, problem, type="gates")
    for path in sorted(Path(app.outdir, "_static").rglob("*.css")):
        for match in CSS_LOAD.finditer(path.read_text(encoding="utf-8")):
            logger.warning(
                "%s loads from another host: %s", path.relative_to(app.outdir), match["address"], type="gates"
            )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", check_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
