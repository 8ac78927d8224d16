"""The printed edition: one PDF with contents, bookmarks and links that stay inside it."""

import subprocess
import sys

import pytest
from pypdf import PdfReader

PAGES = ("06_attention_pooling", "notation", "08_attention_layer", "how_grading_works")


@pytest.fixture(scope="module")
def printed(root, site, tmp_path_factory):
    out = tmp_path_factory.mktemp("pdf") / "book.pdf"
    command = [sys.executable, "book/print.py", str(site), str(out), "--only", *PAGES]
    subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return PdfReader(out)


@pytest.fixture(scope="module")
def printer(root, load_script):
    return load_script(root / "book" / "print.py")


def bookmarks(reader, entries=None):
    for entry in reader.outline if entries is None else entries:
        if isinstance(entry, list):
            yield from bookmarks(reader, entry)
        else:
            yield entry.title, reader.get_destination_page_number(entry)


def test_bookmarks_lead_to_the_headings_they_name(printed):
    ligatures = ("ff", "fi", "fl")  # one glyph each, which does not come back as letters
    found = [(title, page) for title, page in bookmarks(printed) if not any(pair in title for pair in ligatures)]
    assert len(found) > 20
    for title, page in found:
        words = "".join(printed.pages[page].extract_text().split())
        assert "".join(title.split()) in words, title


def test_contents_link_to_every_page(printed):
    links = [note.get_object() for note in printed.pages[1]["/Annots"]]
    assert len(links) == len(PAGES)
    assert all(link["/Dest"] in printed.named_destinations for link in links)


def test_no_link_leads_to_a_file_of_the_machine_that_printed_it(printed):
    notes = [note.get_object() for page in printed.pages for note in page.get("/Annots") or []]
    addresses = [str(note["/A"]["/URI"]) for note in notes if "/A" in note and "/URI" in note["/A"]]
    assert addresses
    assert all(address.startswith("https://") for address in addresses)


def test_formulas_and_explorers_are_printed(printed):
    text = "\n".join(page.extract_text() for page in printed.pages)
    assert "$$" not in text
    assert "\\frac" not in text


def test_an_explorer_that_scrolls_on_a_screen_is_whole_on_one_page(printed):
    pages = [page.extract_text() for page in printed.pages if "Did the coloured words decide?" in page.extract_text()]
    assert len(pages) == 1
    assert "Two held-out reviews." in pages[0], "its caption"


def test_drawings_keep_the_parts_that_they_refer_to(printer, site):
    body = printer.article(site, "13_scaling", ["13_scaling"])
    used = {str(mark["xlink:href"]).removeprefix("#") for mark in body.select("svg use")}
    assert used, "markers are drawn once and used many times"
    assert used <= {str(part["id"]) for part in body.select("svg [id]")}


def test_front_page_is_printed_without_its_cards(printer, site):
    body = printer.article(site, "intro", ["intro"])
    assert body.select(".lecturelib-explorer, .proof")
    assert body.select(".chapter-card, .paths") == []


def test_a_page_that_does_not_exist_is_named(root, site, tmp_path):
    command = [sys.executable, "book/print.py", str(site), str(tmp_path / "b.pdf"), "--only", "99_nothing"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert result.returncode == 2
    assert "no page named 99_nothing" in result.stderr
