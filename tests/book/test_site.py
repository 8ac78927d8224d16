"""Every page of the built site in a real browser: nothing foreign, nothing broken, readable by all, on any screen.

A page is visited three times, on a laptop, on a phone and from a folder, and asked all questions there are.
"""

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page

PATIENCE = 120_000  # milliseconds until a page that does not answer is broken, and not merely on a busy machine
AXE = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
LARGEST_VISIT = {"as it is": 3_500_000, "compressed": 1_500_000}  # bytes of a first visit to a page
PACKED = (".woff", ".woff2", ".png", ".jpg")  # compressing these again gains nothing

FOUND = {  # what readers look for, and the label of the section that must be among the first two hits
    "perplexity": "sq-perplexity",
    "vanishing gradient": "rn-vanishing",
    "LSTM": "gt-lstm",
    "beam search": "ed-search",
    "Bahdanau attention": "ar-bahdanau",
    "attention pooling": "ap-pooling",
    "hard attention": "cp-hard",
    "multi-head attention": "al-heads",
    "RoPE": "ps-rotary",
    "byte-pair encoding": "tf-pieces",
    "warm-up": "tr-warmup",
    "KV cache": "lm-cache",
    "logits": "lm-logits",
    "scaling law": "sc-law",
    "Performer": "ef-performer",
    "class token": "vt-class-token",
    "window attention": "sw-windows",
    "DETR": "il-detr",
    "message passing": "gr-messages",
    "return-to-go": "dc-returns",
    "induction head": "im-induction",
    "latency": "ch-cost",
}

# Text outside code that still looks like TeX was never rendered.
RAW_MATHS = re.compile(r"\$[^$\n]{1,80}\$|\\\(|\\\[|\\begin\{")


@dataclass
class Visit:
    """One look at one page, with everything the browser had to say about it."""

    page: Page
    foreign: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)  # paths within the site


def wait_until_still(page: Page) -> None:
    """Wait until a page is loaded, its fonts are ready, its maths is typeset and none of its colours is fading."""
    page.wait_for_function("document.readyState === 'complete'")
    if page.locator("script[src*=mathjax]").count():
        page.wait_for_function("window.MathJax?.startup?.promise")
    page.evaluate("() => Promise.all([document.fonts.ready, window.MathJax?.startup?.promise])")
    page.wait_for_function("!document.getAnimations().some((a) => a instanceof CSSTransition)")


Visitor = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser, addresses: dict[str, str]) -> Iterator[Visitor]:
    """Open a page and wait until it is still."""
    contexts = []

    def open_page(name: str, transport: str = "http", scheme: str = "light", width: int = 1280) -> Visit:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 844}, reduced_motion="reduce"
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        visit = Visit(context.new_page())
        home = addresses[transport]

        def note(url: str) -> None:
            if not url.startswith((home, "data:", "blob:")):
                visit.foreign.append(url)

        visit.page.on("request", lambda request: note(request.url))
        visit.page.on("requestfinished", lambda request: visit.loaded.append(unquote(urlsplit(request.url).path)))
        visit.page.on("requestfailed", lambda request: visit.failed.append(request.url))
        visit.page.on("response", lambda r: visit.failed.append(r.url) if r.status >= 400 else None)
        visit.page.on("pageerror", lambda error: visit.console.append(f"error: {error}"))
        visit.page.on("console", lambda m: visit.console.append(m.text) if m.type in ("error", "warning") else None)
        visit.page.goto(f"{home}/{name}")
        wait_until_still(visit.page)
        return visit

    yield open_page
    for context in contexts:
        context.close()


def assert_clean(seen: Visit) -> None:
    """The page fetched nothing foreign, missed nothing and complained about nothing."""
    assert seen.foreign == []
    assert seen.failed == []
    assert seen.console == []


def violations(page: Page) -> dict[str, list[str]]:
    """What axe finds, of any level."""
    page.evaluate(AXE)
    result = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return {found["id"]: [node["html"][:200] for node in found["nodes"][:3]] for found in result["violations"]}


def assert_maths_is_typeset(page: Page, source: BeautifulSoup) -> None:
    """Every formula is drawn, and MathJax is there for formulas only."""
    formulas = len(source.select("article .math"))
    assert page.locator("mjx-merror").count() == 0
    assert page.locator("article mjx-container").count() >= formulas
    assert page.locator("script[src*=mathjax]").count() == (formulas > 0)
    text = page.evaluate(
        """() => {
            const article = (document.querySelector("article") ?? document.querySelector("main")).cloneNode(true);
            article.querySelectorAll("pre, code, script, style, mjx-container").forEach((element) => element.remove());
            return article.textContent;
        }"""
    )
    assert RAW_MATHS.findall(text) == []


def assert_nothing_scrolls_sideways_on_a_laptop(page: Page) -> None:
    """Equations fit at 1280 pixels, code at 1366."""
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll("div.math")]
            .filter((equation) => {
                const box = equation.querySelector("mjx-container");
                return box.scrollWidth > box.clientWidth + 1;
            })
            .map((equation) => equation.id)"""
    )
    assert too_wide == [], "break these into lines; a reader should not have to scroll an equation sideways"
    page.set_viewport_size({"width": 1366, "height": 844})
    page.evaluate("document.querySelectorAll('article details').forEach((hidden) => { hidden.open = true; })")
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll("article .highlight pre")]
            .filter((code) => code.scrollWidth > code.clientWidth + 1)
            .map((code) => code.textContent.slice(0, 80))"""
    )
    assert too_wide == [], "a reader should not have to scroll code sideways"


def assert_light(seen: Visit, site: Path) -> None:
    """A first visit stays small, and no page but the search loads the index."""
    sizes = {"as it is": 0, "compressed": 0}
    for path in seen.loaded:
        content = (site / path.lstrip("/")).read_bytes()
        sizes["as it is"] += len(content)
        sizes["compressed"] += len(content if path.endswith(PACKED) else gzip.compress(content, 6))
    assert all(size <= LARGEST_VISIT[kind] for kind, size in sizes.items()), (sizes, sorted(seen.loaded))
    heavy = [path for path in seen.loaded if "fontawesome.js" in path or "searchindex" in path]
    assert heavy == [] or "search.html" in seen.page.url


def test_page_on_a_laptop(any_page: str, visit: Visitor, soup: Callable[[str], BeautifulSoup], site: Path) -> None:
    seen = visit(f"{any_page}.html")
    assert_clean(seen)
    assert_light(seen, site)
    assert_maths_is_typeset(seen.page, soup(any_page))
    for scheme in ("light", "dark"):
        seen.page.emulate_media(color_scheme=scheme)
        seen.page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
        wait_until_still(seen.page)
        assert violations(seen.page) == {}, scheme
    assert_nothing_scrolls_sideways_on_a_laptop(seen.page)


def test_page_on_paper_is_black_on_white_in_the_dark_too(visit: Visitor) -> None:
    page = visit("08_attention_layer.html", scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    wait_until_still(page)
    dark_papers = page.evaluate(
        """() => {
            const light = (colour) => {
                const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
                return a < 0.5 || r + g + b > 600;
            };
            return [document.body, ...document.querySelectorAll("article, article *")]
                .filter((element) => !element.closest("svg, button") && element.getClientRects().length)
                .filter((element) => !light(getComputedStyle(element).backgroundColor))
                .map((element) => element.outerHTML.slice(0, 100)).slice(0, 5);
        }"""
    )
    assert dark_papers == []
    for what in ("h1", "h2", "section > p", ".highlight pre", "figcaption p", ".admonition p"):
        ink = page.evaluate(f"getComputedStyle(document.querySelector('article {what}')).color")
        assert max(map(int, re.findall(r"\d+", ink)[:3])) <= 0x40, what


def test_page_on_a_phone(any_page: str, visit: Visitor) -> None:
    seen = visit(f"{any_page}.html", scheme="dark", width=390)
    assert_clean(seen)
    assert seen.page.evaluate("document.documentElement.dataset.theme") == "dark"
    too_wide = seen.page.evaluate(
        """() => document.documentElement.scrollWidth <= 390 ? [] :
            [...document.querySelectorAll("article *")].filter((e) => e.getBoundingClientRect().right > 391)
            .slice(0, 5).map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390, too_wide
    small = seen.page.evaluate(
        """() => [...document.querySelectorAll("figure.course-figure svg")]
            .filter((svg) => svg.getClientRects().length)
            .flatMap((svg) => [...svg.querySelectorAll("text, tspan")].map((text) =>
                [text.textContent, parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a]))
            .filter(([text, size]) => size < 11)"""
    )
    assert small == []


def test_page_from_a_folder(any_page: str, visit: Visitor, soup: Callable[[str], BeautifulSoup]) -> None:
    seen = visit(f"{any_page}.html", "file")
    assert_clean(seen)
    assert seen.page.locator("article mjx-container").count() >= len(soup(any_page).select("article .math"))


@pytest.mark.parametrize("transport", ["http", "file"])
def test_search_finds_a_phrase(transport: str, visit: Visitor) -> None:
    seen = visit("intro.html", transport)
    seen.page.keyboard.press("Control+k")
    seen.page.wait_for_function("document.activeElement?.matches('input[type=search]')")
    seen.page.keyboard.type("permutation matrix")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_url("**/search.html?q=*")
    seen.page.locator("#search-results li a[href^='notation.html']").first.wait_for()  # they come one after another
    assert seen.console == []
    assert seen.foreign == []


@pytest.mark.parametrize(("query", "label"), FOUND.items())
def test_search_finds_the_section_that_introduces_a_word(
    query: str, label: str, visit: Visitor, soup: Callable[[str], BeautifulSoup]
) -> None:
    page = visit(f"search.html?q={query}").page
    page.locator("#search-results li").nth(1).wait_for()
    hits = [str(link.get_attribute("href")) for link in page.locator("#search-results li > a").all()[:2]]
    aimed = [urlsplit(hit) for hit in hits if hit[:1].isdigit()]
    pages = [(soup(Path(hit.path).stem), unquote(hit.fragment)) for hit in aimed]
    sections = [page.find(id=fragment) if fragment else page.select_one("article section") for page, fragment in pages]
    assert any(s and (s["id"] == label or s.find(id=label, recursive=False)) for s in sections), hits


def test_search_is_tried_for_a_word_of_every_chapter(root: Path) -> None:
    chapters = sorted((root / "book").glob("[0-9][0-9]_*.ipynb"))
    tried = {path.stem for path in chapters for label in FOUND.values() if f"({label})=" in path.read_text("utf-8")}
    assert tried == {path.stem for path in chapters}


def test_front_page_shows_where_to_begin_and_an_explorer_at_once(visit: Visitor) -> None:
    page = visit("intro.html").page
    bottom = page.evaluate("document.querySelector('article .paths').getBoundingClientRect().bottom")
    top = page.evaluate("document.querySelector('article .lecturelib-explorer').getBoundingClientRect().top")
    assert 0 < bottom < top < 500


@pytest.mark.parametrize("transport", ["http", "file"])
def test_the_address_of_the_site_leads_to_the_front_page(
    transport: str, browser: Browser, addresses: dict[str, str]
) -> None:
    with browser.new_context() as context:  # no visit: the page leaves for another while it loads
        page = context.new_page()
        page.goto(f"{addresses[transport]}/index.html", wait_until="commit", timeout=PATIENCE)
        page.wait_for_url("**/intro.html", timeout=PATIENCE)
