"""What every chapter has in common, held on the files as they are committed."""

import re
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
import yaml

BOOK = Path(__file__).resolve().parents[2] / "book"
CHAPTERS = sorted(BOOK.glob("*.ipynb"))
NOTEBOOKS = [
    path for room in ("book", "exercises", "solutions") for path in sorted((BOOK.parent / room).glob("*.ipynb"))
]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_keeps_the_rules(chapter: Path, notebook_rules: ModuleType) -> None:
    assert notebook_rules.problems(chapter) == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_notebook_installs_from_the_one_address(notebook: Path) -> None:
    address = yaml.safe_load((BOOK.parent / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    install = next(cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code")
    assert "install" in install
    assert set(re.findall(r"https://[\w./-]+", install)) <= {address, f"{address}.git"}


def test_every_chapter_is_in_the_table_of_contents() -> None:
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    listed = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    numbered = [name for name in listed if name[:2].isdigit()]
    assert numbered == [path.stem for path in CHAPTERS]
