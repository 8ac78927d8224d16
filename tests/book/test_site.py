"""Every page of the built site in a real browser: nothing foreign, nothing broken, readable by all, on any screen."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page

BOOK = Path(__file__).resolve().parents[2] / "book"
PATIENCE = 120_000  # milliseconds until a page that does not answer is broken, and not merely on a busy machine
AXE = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
THEME_OWNED = {  # axe rule -> why it is the theme's to mend
    "region": "the name of the book above the sidebar stands outside every landmark",
}

# Text outside code that still looks like TeX was never rendered.
RAW_MATHS = re.compile(r"\$[^$\n]{1,80}\$|\\\(|\\\[|\\begin\{")


def toc_pages() -> list[str]:
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [toc["root"], *chapters]


PAGES = toc_pages()
ALL_PAGES = [*PAGES, "search"]  # the search page has no source of ours, but readers see it


@dataclass
class Visit:
    """One look at one page, with everything the browser had to say about it."""

    page: Page
    foreign: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)


def wait_until_still(page: Page) -> None:
    """Wait until a page is loaded, its fonts are ready, its maths is typeset and none of its colours is fading."""
    page.wait_for_function("document.readyState === 'complete'")
    if page.locator("script[src*=mathjax]").count():
        page.wait_for_function("window.MathJax?.startup?.promise")
    page.evaluate("() => Promise.all([document.fonts.ready, window.MathJax?.startup?.promise])")
    page.wait_for_function("!document.getAnimations().some((a) => a instanceof CSSTransition)")


Visitor = Callable[..., Visit]
Souper = Callable[[str], BeautifulSoup]


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


@pytest.fixture(scope="module")
def soup(site: Path) -> Souper:
    """A page's HTML as built."""
    return lambda name: BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


@pytest.mark.parametrize("transport", ["http", "file"])
@pytest.mark.parametrize("name", ALL_PAGES)
def test_page_loads_clean_with_all_maths(name: str, transport: str, visit: Visitor, soup: Souper) -> None:
    seen = visit(f"{name}.html", transport)
    assert seen.foreign == []
    assert seen.failed == []
    assert seen.console == []
    assert seen.page.locator("mjx-merror").count() == 0
    assert seen.page.locator("article mjx-container").count() >= len(soup(name).select("article .math"))
    text = seen.page.evaluate(
        """() => {
            const article = (document.querySelector("article") ?? document.querySelector("main")).cloneNode(true);
            article.querySelectorAll("pre, code, script, style, mjx-container").forEach((element) => element.remove());
            return article.textContent;
        }"""
    )
    assert RAW_MATHS.findall(text) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ALL_PAGES)
def test_page_is_accessible(name: str, scheme: str, visit: Visitor) -> None:
    page = visit(f"{name}.html", scheme=scheme).page
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.evaluate(AXE)
    result = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    found = {
        violation["id"]: [node["html"][:200] for node in violation["nodes"][:3]]
        for violation in result["violations"]
        if violation["id"] not in THEME_OWNED
    }
    assert found == {}


@pytest.mark.parametrize("name", PAGES)
def test_equations_fit_a_laptop(name: str, visit: Visitor) -> None:
    page = visit(f"{name}.html", width=1280).page
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll("div.math")]
            .filter((equation) => {
                const box = equation.querySelector("mjx-container");
                return box.scrollWidth > box.clientWidth + 1;
            })
            .map((equation) => equation.id)"""
    )
    assert too_wide == [], "break these into lines; a reader should not have to scroll an equation sideways"


@pytest.mark.parametrize("name", PAGES)
def test_code_fits_a_laptop(name: str, visit: Visitor) -> None:
    page = visit(f"{name}.html", width=1366).page
    page.evaluate("document.querySelectorAll('article details').forEach((hidden) => { hidden.open = true; })")
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll("article pre")]
            .filter((code) => code.scrollWidth > code.clientWidth + 1)
            .map((code) => code.textContent.slice(0, 80))"""
    )
    assert too_wide == [], "a reader should not have to scroll code sideways"


@pytest.mark.parametrize("name", ALL_PAGES)
def test_page_fits_a_phone(name: str, visit: Visitor) -> None:
    seen = visit(f"{name}.html", scheme="dark", width=390)
    assert seen.console == []
    too_wide = seen.page.evaluate(
        """() => document.documentElement.scrollWidth <= 392 ? [] :
            [...document.querySelectorAll("article *")].filter((e) => e.getBoundingClientRect().right > 391)
            .slice(0, 5).map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 392, too_wide


@pytest.mark.parametrize("name", [name for name in PAGES if (BOOK / f"{name}.ipynb").exists()])
def test_text_in_figures_is_readable_on_a_phone(name: str, visit: Visitor) -> None:
    page = visit(f"{name}.html", width=390).page
    small = page.evaluate(
        """() => [...document.querySelectorAll("figure.course-figure svg")]
            .filter((svg) => svg.getClientRects().length)
            .flatMap((svg) => [...svg.querySelectorAll("text, tspan")].map((text) =>
                [text.textContent, parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a]))
            .filter(([text, size]) => size < 11)"""
    )
    assert small == []


@pytest.mark.parametrize("name", ALL_PAGES)
def test_page_introduces_itself(name: str, site: Path, soup: Souper) -> None:
    page = soup(name)
    assert page.title is not None
    assert page.title.get_text(strip=True)
    description = page.find("meta", attrs={"name": "description"})
    assert description is not None
    assert 40 <= len(str(description["content"])) <= 200
    icons = [str(link["href"]) for link in page.select("link[rel~=icon]")]
    assert {Path(icon).suffix for icon in icons} == {".svg", ".png"}
    assert all(((site / name).parent / icon).is_file() for icon in icons)
    assert page.html is not None
    assert page.html["lang"] == "en"
    assert len(page.select("article h1")) == (name != "search")


def test_titles_and_descriptions_differ(soup: Souper) -> None:
    for what in ("title", "meta[name=description]"):
        values = [str(soup(name).select_one(what)) for name in ALL_PAGES]
        assert len(set(values)) == len(values)


@pytest.mark.parametrize("name", ALL_PAGES)
def test_page_has_alt_text_that_is_a_sentence(name: str, soup: Souper) -> None:
    page = soup(name)
    assert [str(image)[:100] for image in page.select("img") if not str(image.get("alt", "")).strip()] == []
    figures = [str(image.get("alt", "")) for image in page.select("article img")]
    figures += [str(image.get("aria-label", "")) for image in page.select("article svg[role=img]")]
    assert [alt for alt in figures if len(alt.split()) < 4 or alt.rstrip()[-1:] not in {".", "!", "?"}] == []


@cache
def anchors(page: Path) -> set[str]:
    """Every id on a page."""
    return set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ALL_PAGES)
def test_page_has_no_dead_local_link(name: str, site: Path, soup: Souper) -> None:
    dead = []
    for link in soup(name).select("a[href]"):
        address = urlsplit(str(link["href"]))
        if address.scheme or address.netloc:
            continue
        here = site / f"{name}.html"
        target = (here.parent / unquote(address.path)).resolve() if address.path else here
        aimed = unquote(address.fragment) if target.suffix == ".html" else ""
        if not target.is_file() or (aimed and aimed not in anchors(target)):
            dead.append(link["href"])
    assert dead == []


@pytest.mark.parametrize("name", [name for name in PAGES if (BOOK / f"{name}.ipynb").exists()])
def test_chapter_launches_from_the_one_address(name: str, soup: Souper, site: Path) -> None:
    config = yaml.safe_load((BOOK.parent / "_config.yml").read_text(encoding="utf-8"))
    repository = config["repository"]["url"].removeprefix("https://github.com/")
    colab = f"{config['launch_buttons']['colab_url']}/github/{repository}/blob/{config['repository']['branch']}"
    row = [str(link["href"]) for link in soup(name).select("p.launch a")]
    assert row[0] == f"{colab}/book/plain/{name}.ipynb"
    assert (site / row[1]).read_bytes() == (BOOK / "plain" / f"{name}.ipynb").read_bytes()
    buttons = [str(link["href"]) for link in soup(name).select(".header-article a[href*='.ipynb']")]
    assert buttons == row[:2]


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
