"""What every chapter has in common, held on the files as they are committed."""

from pathlib import Path
from types import ModuleType

import pytest
import yaml

BOOK = Path(__file__).resolve().parents[2] / "book"
CHAPTERS = sorted(BOOK.glob("*.ipynb"))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_keeps_the_rules(chapter: Path, notebook_rules: ModuleType) -> None:
    assert notebook_rules.problems(chapter) == []


def test_every_chapter_is_in_the_table_of_contents() -> None:
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    listed = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    numbered = [name for name in listed if name[:2].isdigit()]
    assert numbered == [path.stem for path in CHAPTERS]
