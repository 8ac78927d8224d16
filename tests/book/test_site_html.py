"""Every page of the built site as it lies there: it introduces itself, no link is dead, and the twins agree with it."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import yaml
from bs4 import BeautifulSoup

from lecturelib.book.addresses import site_url

BOOK = Path(__file__).resolve().parents[2] / "book"
CONFIG = yaml.safe_load((BOOK.parent / "_config.yml").read_text(encoding="utf-8"))
SITE = site_url(CONFIG["repository"]["url"])
Souper = Callable[[str], BeautifulSoup]


def test_page_introduces_itself(any_page: str, site: Path, soup: Souper) -> None:
    page = soup(any_page)
    assert page.title is not None
    assert page.title.get_text(strip=True)
    description = page.find("meta", attrs={"name": "description"})
    assert description is not None
    assert 40 <= len(str(description["content"])) <= 200
    icons = [str(link["href"]) for link in page.select("link[rel~=icon]")]
    assert {Path(icon).suffix for icon in icons} == {".svg", ".png"}
    assert all(((site / any_page).parent / icon).is_file() for icon in icons)
    shown = {str(meta["property"]): str(meta["content"]) for meta in page.select("meta[property^='og:']")}
    assert shown["og:description"] == description["content"]
    assert shown["og:url"] == f"{SITE}/{any_page}.html"
    assert (site / shown["og:image"].removeprefix(f"{SITE}/")).is_file()
    assert page.html is not None
    assert page.html["lang"] == "en"
    assert len(page.select("article h1")) == (any_page != "search")


def test_titles_and_descriptions_differ(soup: Souper, all_pages: list[str]) -> None:
    for what in ("title", "meta[name=description]"):
        values = [str(soup(name).select_one(what)) for name in all_pages]
        assert len(set(values)) == len(values)


def test_page_has_alt_text_that_is_a_sentence(any_page: str, soup: Souper) -> None:
    page = soup(any_page)
    assert [str(image)[:100] for image in page.select("img") if not str(image.get("alt", "")).strip()] == []
    figures = [str(image.get("alt", "")) for image in page.select("article img")]
    figures += [str(image.get("aria-label", "")) for image in page.select("article svg[role=img]")]
    assert [alt for alt in figures if len(alt.split()) < 4 or alt.rstrip()[-1:] not in {".", "!", "?"}] == []


@cache
def anchors(page: Path) -> set[str]:
    """Every id on a page."""
    return set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8")))


def test_page_has_no_dead_local_link(any_page: str, site: Path, soup: Souper) -> None:
    dead = []
    for link in soup(any_page).select("a[href]"):
        address = urlsplit(str(link["href"]))
        if address.scheme or address.netloc:
            continue
        here = site / f"{any_page}.html"
        target = (here.parent / unquote(address.path)).resolve() if address.path else here
        aimed = unquote(address.fragment) if target.suffix == ".html" else ""
        if not target.is_file() or (aimed and aimed not in anchors(target)):
            dead.append(link["href"])
    assert dead == []


def test_chapter_launches_from_the_one_address(chapter_page: str, soup: Souper, site: Path) -> None:
    repository = CONFIG["repository"]["url"].removeprefix("https://github.com/")
    colab = f"{CONFIG['launch_buttons']['colab_url']}/github/{repository}/blob/{CONFIG['repository']['branch']}"
    row = [str(link["href"]) for link in soup(chapter_page).select("p.launch a")]
    assert row[0] == f"{colab}/book/plain/{chapter_page}.ipynb"
    assert (site / row[1]).read_bytes() == (BOOK / "plain" / f"{chapter_page}.ipynb").read_bytes()
    buttons = [str(link["href"]) for link in soup(chapter_page).select(".header-article-items a[href*='.ipynb']")]
    assert buttons == row[:2]


def twin_links(chapter: str) -> list[tuple[str, str]]:
    """Text and address of every link in the prose of a chapter's twin."""
    cells = nbformat.read(BOOK / "plain" / f"{chapter}.ipynb", as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return re.findall(r"\[([^\]]*)\]\(([^)\s]*)\)", prose)


def test_links_of_the_twin_lead_to_places_of_the_site(chapter_page: str, site: Path) -> None:
    inside = [address.removeprefix(f"{SITE}/") for _, address in twin_links(chapter_page) if address.startswith(SITE)]
    assert inside
    dead = []
    for address in inside:
        file, _, place = address.partition("#")
        if not (site / file).is_file() or (place and place not in anchors(site / file)):
            dead.append(address)
    assert dead == []


def test_numbers_and_citations_of_the_twin_are_those_of_the_page(chapter_page: str, soup: Souper) -> None:
    for text, address in twin_links(chapter_page):
        file, _, place = address.removeprefix(f"{SITE}/").partition(".html#")
        if place.startswith("equation-") or text.startswith("Figure "):
            there = soup(file).find(id=place)
            number = there.select_one(".eqno, .caption-number")
            assert number is not None
            assert number.get_text().strip(" \n#¶") == text
    cited = [words(text) for text, address in twin_links(chapter_page) if "#cite-" in address]
    there = [words(span.get_text()) for span in soup(chapter_page).select("article .bibtex-citation")]
    assert len(cited) == len(soup(chapter_page).select("article .bibtex-citation a"))
    assert [one for one in cited if not any(one in span for span in there)] == []


def words(citation: str) -> str:
    """A citation without brackets, commas and emphasis."""
    return " ".join(re.sub(r"[()\[\],*]", " ", citation).split())
