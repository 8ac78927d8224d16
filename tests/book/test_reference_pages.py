"""The reference pages stay true: the lecture map, the notation and the bibliography."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
import yaml

import lecturelib

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
MAP = (BOOK / "lecture_map.md").read_text(encoding="utf-8")
SECTIONS = yaml.safe_load((Path(__file__).parent / "lecture_sections.yml").read_text(encoding="utf-8"))
PLANNED_AT_MOST = 0  # every chapter is written; never raise it

PLANNED = re.compile(r"(\d\d) (\w+) \(planned\)")
LINK = re.compile(r"\[[^\]]+\]\((?P<file>[\w.]+?)(?:#(?P<anchor>[\w-]+))?\)")


def lecture_rows(letter: str) -> list[tuple[str, str]]:
    """The rows of one lecture's part of the map: section, and where it is taught."""
    part = re.search(rf"^## {letter}: .*?(?=^## |\Z)", MAP, flags=re.MULTILINE | re.DOTALL)
    assert part is not None, f"the lecture map has no part for lecture {letter}"
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", part.group(), flags=re.MULTILINE)
    return [row for row in rows if row != ("section", "taught in")]


def planned_list() -> list[str]:
    """The planned chapters that the map lists at its end."""
    return [f"{number}_{name}" for number, name in re.findall(r"^- (\d\d) (\w+): .+$", MAP, flags=re.MULTILINE)]


def heading_slugs(path: Path) -> set[str]:
    """The anchors MyST gives the headings of a page."""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    else:
        text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#{1,4} (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("letter", SECTIONS["lectures"])
def test_lecture_map_has_every_section_in_order(letter: str) -> None:
    lecture = SECTIONS["lectures"][letter]
    assert f"## {letter}: {lecture['title']}\n" in MAP
    assert [section for section, _ in lecture_rows(letter)] == lecture["sections"]


@pytest.mark.parametrize("letter", SECTIONS["lectures"])
def test_lecture_map_leads_somewhere(letter: str) -> None:
    for section, taught in lecture_rows(letter):
        places = [part.strip() for part in re.split(r",\s+(?=\[|\d\d )", taught)]
        for place in places:
            link, plan = LINK.fullmatch(place), PLANNED.fullmatch(place)
            assert link or plan, f"{letter}, {section}: neither a link nor a planned chapter: {place}"
            if plan:
                assert "_".join(plan.groups()) in SECTIONS["planned"], f"{section}: {place} is not in the list of plans"
            if link:
                page = BOOK / link["file"]
                assert page.is_file(), f"{letter}, {section}: {page.name} does not exist"
                assert link["anchor"] in heading_slugs(page), f"{letter}, {section}: {place} has no such section"


def test_planned_chapters_only_shrink() -> None:
    written = {path.stem for path in BOOK.glob("*.ipynb")}
    assert planned_list() == SECTIONS["planned"]
    assert len(SECTIONS["planned"]) <= PLANNED_AT_MOST
    assert written.isdisjoint(SECTIONS["planned"]), (
        "written chapters leave the list of plans: link their sections instead"
    )


def test_notation_page_equals_the_docstring() -> None:
    legend = re.search(r"Shape legend.*?:\n\n(.*?)\n\n", lecturelib.__doc__ or "", flags=re.DOTALL)
    assert legend is not None
    letters_in_code = set(re.findall(r"(?<![\w/] )\b(B|Tq|Tk|T|D|Dh|H|V|N)\b(?=  | queries| keys)", legend.group(1)))
    page = (BOOK / "notation.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, flags=re.MULTILINE))
    assert letters_in_code == set(rows)
    said = " ".join(legend.group(1).split())
    for letter, meaning in (
        ("B", "batch"),
        ("T", "length"),
        ("H", "heads"),
        ("V", "vocabulary"),
        ("N", "patches or nodes"),
    ):
        assert re.search(rf"\b{letter} {meaning}", said)
        assert rows[letter] == meaning
    assert "D model width (d_model)" in said
    assert rows["D"] == "model width"
    assert "`d_model`" in page
    assert "Dh width of one head, D / H" in said
    assert rows["Dh"] == "width of one head, `D / H`"
    assert 'True means "may attend"' in (lecturelib.__doc__ or "")
    assert '**true means "may attend"**' in page


def bibliography_keys() -> list[str]:
    return re.findall(r"^@\w+\{(\w+),", (BOOK / "references.bib").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_bibliography_is_sorted_and_has_no_twins() -> None:
    keys = bibliography_keys()
    assert keys == sorted(set(keys))
    assert all(re.fullmatch(r"[a-z]+\d{4}[a-z0-9]+", key) for key in keys)


def test_bibliography_entries_say_who_where_and_when() -> None:
    entries = re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", (BOOK / "references.bib").read_text(encoding="utf-8"), re.M | re.S)
    assert [key for key, _ in entries] == bibliography_keys()
    for key, body in entries:
        fields = dict(re.findall(r"^  (\w+) += \{(.*)\},$", body, flags=re.MULTILINE))
        assert {"author", "title", "year"} <= fields.keys(), key
        assert {"journal", "booktitle", "publisher", "howpublished"} & fields.keys(), key
        year = fields["year"].rstrip("ab")  # a letter tells two of a year apart
        assert re.fullmatch(rf"[a-z]+{year}[a-z0-9]+", key), f"{key} is of {fields['year']}"
        preprint = fields.get("journal", "").removeprefix("arXiv:")
        if preprint != fields.get("journal", ""):
            assert fields["url"] == f"https://arxiv.org/abs/{preprint}", key


def test_bibliography_holds_every_paper_that_docstrings_name() -> None:
    missing = set()
    for path in sorted((ROOT / "lecturelib").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                cited = re.findall(r"\[([a-z]+\d{4}[a-z0-9]+)\]", ast.get_docstring(node) or "")
                missing |= {f"{path.relative_to(ROOT)}: {key}" for key in cited if key not in bibliography_keys()}
    assert missing == set()
