"""The reference of the package: every public name on its room's page, docstrings said in Sphinx's words."""

import importlib
import sys
from pathlib import Path

import pytest
import yaml

import lecturelib
import lecturelib.layers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import reference  # noqa: E402

BOOK = ROOT / "book"
PACKAGE = Path(lecturelib.__file__).parent
PRIVATE = {"cli", "machine", "recipes", "runs"}  # commands, data, what they need: nothing for a chapter to import
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name not in PRIVATE)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_page_with_all_its_public_names(room):
    page = reference.room_page(room, BOOK)
    assert f"```{{room}} {room}\n```" in (BOOK / "reference" / f"{room}.md").read_text(encoding="utf-8")
    for name in importlib.import_module(f"lecturelib.{room}").__all__:
        assert f":: lecturelib.{room}.{name}\n" in page or f".{name}`" in page


def test_name_of_two_rooms_is_described_once():
    pages = {room: reference.room_page(room, BOOK) for room in ROOMS}
    described = [room for room, page in pages.items() if f":: lecturelib.{room}.AttentionPooling\n" in page]
    assert described == ["layers"]
    assert "{py:obj}`lecturelib.layers.AttentionPooling`" in pages["models"]


def test_every_page_is_in_the_table_of_contents_and_in_the_index():
    contents = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in contents["parts"] for chapter in part["chapters"]]
    (sections,) = (chapter["sections"] for chapter in chapters if chapter["file"] == "reference/index")
    assert {section["file"] for section in sections} == {f"reference/{room}" for room in ROOMS}
    index = (BOOK / "reference" / "index.md").read_text(encoding="utf-8")
    assert all(f"({room}.md)" in index for room in ROOMS)


def test_names_are_linked_to_the_chapters_that_import_them():
    page = reference.room_page("layers", BOOK)
    entry = page[page.index("autoclass:: lecturelib.layers.MultiHeadAttention") :]
    assert ":doc:`/08_attention_layer`" in entry[: entry.index("```")]


def test_docstrings_become_restructured_text():
    said = [
        "Paper: Shaw et al. 2018 [shaw2018self], Section 3.",
        "Differs: |x| as in [press2022train].",
        "",
        "Use it:",
        "",
    ]
    lines = reference.to_rst([*said, "    a | b"])
    assert lines[0] == "**Paper.** :cite:t:`shaw2018self`, Section 3."
    assert lines[1:3] == ["", r"**Differs.** \|x\| as in :cite:p:`press2022train`."]
    assert "Use it::" in lines


def test_argument_sections_stay_for_napoleon():
    lines = ["Args:", "", "    x: (B, T)"]
    assert reference.to_rst(lines) == lines
