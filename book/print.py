"""Print the built site as one PDF: a title page, contents with links, every page of the book, bookmarks.

The pages are put one after the other into one document, their anchors renamed so that each is still unique, and links
between pages become links within the document. Explorers appear as they first stand on the page, folded code is left
out, and pages of the package's reference stay on the site.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path

import yaml
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DictionaryObject, NameObject, TextStringObject

BOOK = Path(__file__).resolve().parent
DROPPED = (
    "a.headerlink, p.launch, div.cell.tag_remove-input > .cell_input, details.hide, button, .prev-next-footer, "
    "section#the-chapters, .paths"  # the cards and buttons of the front page: the contents lead there
)
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
FOOTER = '<div style="font-size:8px;width:100%;text-align:center"><span class="pageNumber"></span></div>'
HIDE_CONTROLS = """() => document.querySelectorAll(".lecturelib-explorer").forEach((host) =>
    host.shadowRoot?.querySelectorAll(".choices, .player, .slider, .try, button:not([role])").forEach((control) => {
        control.style.display = "none"; }))"""
# A tall drawing would begin a new page and leave the last one empty: as small as its words can be read, if that helps.
FIT_FIGURES = """() => document.querySelectorAll("figure.course-figure svg").forEach((svg) => {
    const millimetre = 96 / 25.4, height = svg.getBoundingClientRect().height;
    if (height > 110 * millimetre) svg.style.maxHeight = Math.max(110 * millimetre, 0.68 * height) + "px"; })"""
# What scrolls on a screen is printed whole, and what is then higher than a page would be cut in two: it shrinks.
FIT_EXPLORERS = """() => document.querySelectorAll(".lecturelib-explorer").forEach((host) => {
    host.shadowRoot?.querySelectorAll(".card *").forEach((part) => {
        if (["auto", "scroll"].includes(getComputedStyle(part).overflowY))
            Object.assign(part.style, { overflow: "visible", maxHeight: "none" }); });
    const most = 225 * 96 / 25.4, height = host.getBoundingClientRect().height;
    if (height > most) host.style.zoom = most / height; })"""
STYLE = """
body { margin: 0; background: #fff; color: #1d2731; font-size: 10pt; }
div.bd-article.bd-article { padding: 0; line-height: 1.45; }
.bd-article p, .bd-article ul, .bd-article ol { margin-bottom: 2.4mm; }
.bd-article h2 { margin-top: 7mm; }
.bd-article div.cell { margin-bottom: 2.4mm; }
.bd-article figure.course-figure figcaption p { font-size: 9pt; }
.bd-article div.highlight pre { font-size: 7.5pt; line-height: 1.35; padding: 1.5mm 2mm; }
.page, .contents { break-before: page; }
.title-page { display: flex; flex-direction: column; justify-content: center; height: 240mm; }
.title-page h1 { font-size: 34pt; line-height: 1.1; margin: 0 0 6mm; }
.title-page p { font-size: 13pt; max-width: 120mm; }
.contents ul { list-style: none; padding-left: 0; }
.contents .part { font-weight: 650; margin-top: 4mm; }
pre { white-space: pre-wrap; }
figure, .cell_output, img, svg { break-inside: avoid; max-width: 100%; }
.bd-article .pst-scrollable-table-container { overflow: visible; } /* what scrolls cannot go on on the next page */
tr { break-inside: avoid; }
figure.course-figure svg { max-height: 205mm; }
h1, h2, h3, h4 { break-after: avoid; }
"""


def listed_pages(contents: dict) -> list[tuple[str, list[str]]]:
    """The parts of the table of contents, each with its pages; the reference of the package is left out."""
    parts = [("", [contents["root"]])]
    for part in contents["parts"]:
        files = [chapter["file"] for chapter in part["chapters"]]
        parts.append((part["caption"], [file for file in files if not file.startswith("reference/")]))
    return [(caption, files) for caption, files in parts if files]


def anchor(page: str, name: str = "") -> str:
    """The name of an anchor of one page in the document that holds them all."""
    return re.sub(r"[^\w-]", "-", f"{page}--{name}" if name else f"{page}--top")


def article(site: Path, page: str, known: Iterable[str]) -> Tag:
    """The text of one page, with anchors and links renamed for the document that holds them all."""
    soup = BeautifulSoup((site / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    body = soup.find("article")
    if not isinstance(body, Tag):
        raise ValueError(f"{page}.html has no article: build the site again with `make site`")
    for tag in body.select(DROPPED):
        tag.decompose()
    for tag in body.find_all(id=True):
        if tag.find_parent("svg") is None:  # names within a drawing are unique already, and its parts refer to them
            tag["id"] = anchor(page, str(tag["id"]))
    for link in body.find_all("a", href=True):
        file, _, name = str(link["href"]).partition("#")
        target = file.removesuffix(".html") if file else page
        if target in known:
            link["href"] = "#" + anchor(target, name)
        elif "://" not in file and not file.startswith("mailto:"):
            link.unwrap()  # a page that is not printed
    body.name, body["id"], body["class"] = "div", anchor(page), "page bd-article"
    return body


def whole_document(site: Path, parts: list[tuple[str, list[str]]], title: str) -> str:
    """The HTML of the whole book."""
    known = [page for _, pages in parts for page in pages]
    bodies = {page: article(site, page, known) for page in known}
    rows = []
    for caption, pages in parts:
        rows += [f'<li class="part">{escape(caption)}</li>'] if caption else []
        for page in pages:
            heading = bodies[page].find("h1")
            rows.append(f'<li><a href="#{anchor(page)}">{escape(heading.get_text() if heading else page)}</a></li>')
    head = BeautifulSoup((site / f"{known[-1]}.html").read_text(encoding="utf-8"), "html.parser")
    styles = "".join(str(link) for link in head.find_all("link", rel="stylesheet"))
    mathjax = "".join(str(s) for s in first_with_maths(site, known) if "MathJax" in str(s) or "mathjax" in str(s))
    return (
        f'<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"{styles}<style>{STYLE}</style>{mathjax}</head><body>"
        f'<div class="title-page"><h1>{escape(title)}</h1><p>An executable course: the printed edition. '
        "Explorers, folded code and exercises are on the site and in the notebooks.</p></div>"
        f'<div class="contents"><h1>Contents</h1><ul>{"".join(rows)}</ul></div>'
        f"{''.join(str(body) for body in bodies.values())}</body></html>"
    )


def first_with_maths(site: Path, pages: list[str]) -> list[Tag]:
    """The scripts of the first page that has formulas."""
    for page in pages:
        soup = BeautifulSoup((site / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
        if soup.find("script", src=re.compile("mathjax")):
            return soup.find_all("script")
    return []


def print_pdf(site: Path, out: Path, parts: list[tuple[str, list[str]]], title: str) -> None:
    """Write the PDF; an unfinished one never takes the place of an earlier one."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("No Chromium found. Debian: apt-get install chromium")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=site, suffix=".html", encoding="utf-8") as document:
        document.write(whole_document(site, parts, title))
        document.flush()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
            paper = {"width": 658, "height": 987}  # A4 without its margins, so that what is drawn to fit fits there
            page = browser.new_page(color_scheme="light", reduced_motion="reduce", viewport=paper)
            page.set_default_timeout(600_000)
            page.goto(Path(document.name).as_uri())
            page.evaluate("window.MathJax ? MathJax.startup.promise.then(() => true) : true")
            headings = page.eval_on_selector_all(
                "h1, h2, h3, h4, h5, h6", "all => all.filter(h => h.offsetParent).map(h => h.innerText.trim())"
            )
            page.evaluate(HIDE_CONTROLS)
            page.emulate_media(media="print")
            page.evaluate(FIT_FIGURES)
            page.evaluate(FIT_EXPLORERS)
            unfinished = out.with_suffix(".part")
            page.pdf(
                path=unfinished,
                format="A4",
                outline=True,
                tagged=True,
                print_background=True,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOTER,
                margin={"top": "18mm", "bottom": "18mm", "left": "18mm", "right": "18mm"},
            )
            browser.close()
    name_bookmarks(unfinished, headings)
    unfinished.replace(out)


def name_bookmarks(path: Path, headings: list[str]) -> None:
    """Give each bookmark its heading's text: Chromium repeats words of a heading that begins a page."""
    writer = PdfWriter(clone_from=PdfReader(path))
    outline = writer.root_object.get("/Outlines")
    entries: list[DictionaryObject] = []

    def walk(node: DictionaryObject) -> None:
        child = node.get("/First")
        while child is not None:
            entry = child.get_object()
            entries.append(entry)
            walk(entry)
            child = entry.get("/Next")

    if outline is not None:
        walk(outline.get_object())
    if len(entries) != len(headings):
        raise RuntimeError(f"{len(headings)} headings were printed and {len(entries)} bookmarks came out")
    for entry, heading in zip(entries, headings, strict=True):
        entry[NameObject("/Title")] = TextStringObject(heading)
    writer.write(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", metavar="PAGE", help="print these pages alone, such as 08_attention_layer")
    arguments = parser.parse_args()
    if not (arguments.site / "index.html").is_file():
        print(f"No site at {arguments.site}: build it with `make site`.", file=sys.stderr)
        return 1
    contents = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    title = yaml.safe_load((BOOK.parent / "_config.yml").read_text(encoding="utf-8"))["title"]
    parts = listed_pages(contents)
    if arguments.only:
        listed = {page for _, pages in parts for page in pages}
        if unknown := set(arguments.only) - listed:
            parser.error(f"no page named {', '.join(sorted(unknown))}; there are: {', '.join(sorted(listed))}")
        parts = [(caption, [p for p in pages if p in arguments.only]) for caption, pages in parts]
        parts = [(caption, pages) for caption, pages in parts if pages]
    print_pdf(arguments.site, arguments.out, parts, title)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
