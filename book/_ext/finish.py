"""The last hand on every page: leave out what the theme loads and nobody uses, and mend what its templates forget.

- Icons come from the theme's font, not from its script of 1.5 MB that draws the same ones.
- Only the search page searches, so only it loads the index; only a page with formulas loads MathJax.
- The sidebar, with the name of the book above its links, is a landmark; no two elements of a page share an id.
- No line begins with the comma after a formula or with the sign of a percentage, and an equation's number in brackets
  has one pair of them.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

ICON_SCRIPT = re.compile(r"<script\b[^>]*fontawesome\.js[^>]*></script>\n?")
SEARCH_SCRIPTS = re.compile(r"<script\b[^>]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>\n?")
MATHJAX = re.compile(r"<script\b[^>]*>window\.MathJax = .*?</script>\n?|<script\b[^>]*mathjax/[^>]*></script>\n?")
HAS_MATHS = re.compile(r'class="(?:[^"]* )?math[ "]')
SIDEBAR = re.compile(r'<div\b(?=[^>]*\bid="pst-primary-sidebar")(?![^>]*\brole=)')
CITATION_ID = re.compile(r'(<span class="bibtex-citation")( id="id\d+")')
FORMULA_END = re.compile(r'(<span class="math notranslate nohighlight">\\\([^<]*\\\)</span>)([,.;:!?)\]]+)')
TIED = re.compile(r" (?=%)| (?=±)|(?<=±) | (?=× 10)|(?<=×) (?=10)")
PASTED = re.compile(r'<span class="pasted-text">[^<]*</span>(?: %)?')
DOUBLE_BRACKETS = re.compile(r'\((<a class="reference internal" href="[^"]*#equation-[^"]*">)\(([\d.]+)\)</a>\)')
UNUSED = ("scripts/fontawesome.js*", "scripts/*.map", "styles/*.map", "vendor/fontawesome/webfonts/*.ttf")


def finished(html: str, is_search: bool = False) -> str:
    """One page as readers get it."""
    html = ICON_SCRIPT.sub("", html)
    if not is_search:
        html = SEARCH_SCRIPTS.sub("", html)
    if not HAS_MATHS.search(html):
        html = MATHJAX.sub("", html)
    html = FORMULA_END.sub(r'<span class="unbroken">\1\2</span>', html)
    html = PASTED.sub(lambda found: TIED.sub("\u00a0", found.group()), html)
    html = DOUBLE_BRACKETS.sub(r"(\1\2</a>)", html)
    html = SIDEBAR.sub('<div role="complementary" aria-label="The course"', html)
    return CITATION_ID.sub(lambda found: found[1] if html.count(found[2]) > 1 else found.group(), html)


def finish_site(app: Sphinx, error: Exception | None) -> None:
    """Finish every page, and remove the files that none of them asks for."""
    if error is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for path in out.rglob("*.html"):
        if "_static" not in path.relative_to(out).parts:
            html = path.read_text(encoding="utf-8")
            path.write_text(finished(html, is_search=path.name == "search.html"), encoding="utf-8")
    for pattern in UNUSED:
        for path in (out / "_static").glob(pattern):
            path.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", finish_site, priority=400)  # before the gates look at the pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
