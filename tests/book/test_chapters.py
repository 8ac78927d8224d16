"""What every chapter has in common, held on the files as they are committed."""

import re
import subprocess
from pathlib import Path
from types import ModuleType

import nbformat
import pybtex.database
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


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_notebook_says_what_to_do_where_it_cannot_be_installed(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install = next(cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("subprocess.run", lambda command: subprocess.CompletedProcess(command, returncode=1))
    with pytest.raises(RuntimeError, match=r"Check the network and try again, or clone the course"):
        exec(install, {})


@pytest.mark.parametrize("page", sorted(BOOK.glob("*.md")), ids=lambda path: path.stem)
def test_page_links_the_chapters_it_mentions(page: Path, notebook_rules: ModuleType) -> None:
    assert list(notebook_rules.prose_problems(page.read_text(encoding="utf-8"), page.name, is_chapter=False)) == []


def test_no_two_citations_look_alike() -> None:
    labels: dict[tuple[str, ...], list[str]] = {}
    for key, entry in pybtex.database.parse_file(BOOK / "references.bib").entries.items():
        authors = ["".join(person.last_names) for person in entry.persons.get("author", [])]
        shown = authors if len(authors) < 3 else [authors[0], "et al."]
        labels.setdefault((*shown, entry.fields["year"]), []).append(key)
    alike = [keys for keys in labels.values() if len(keys) > 1]
    assert alike == [], "tell them apart by a letter after the year: 2021a, 2021b"


def test_every_chapter_is_in_the_table_of_contents() -> None:
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    listed = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    numbered = [name for name in listed if name[:2].isdigit()]
    assert numbered == [path.stem for path in CHAPTERS]
