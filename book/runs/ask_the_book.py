"""Make the index that chapter 20 searches: `python book/runs/ask_the_book.py`.

Every section of every chapter becomes a vector by all-MiniLM-L6-v2, read by our own BERT: the heading, and the words
below it up to 200 tokens. Writes lecturelib/runs/ask_the_book/: a row for each section and their vectors. A minute.
"""

import argparse
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import torch
from torch import Tensor, nn

from lecturelib.data import minilm
from lecturelib.models import BERT, load
from lecturelib.tokens import WordPieceTokenizer
from lecturelib.training import save_run

BOOK = Path(__file__).resolve().parents[1]
OUT = BOOK.parent / "lecturelib" / "runs" / "ask_the_book"
LEFT_OUT = ("Summary", "Exercises", "Further reading")
MAX_TOKENS = 200


def plain(text: str) -> str:
    """A text without what only the page's markup needs: maths, roles, links and marks."""
    text = re.sub(r"\$\$.*?\$\$(?: \([\w-]+\))?|:::.*?:::|```.*?```", " ", text, flags=re.DOTALL)
    text = re.sub(r"\{[\w:]+\}`[^`]*`", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[*`$|#]|^\([\w-]+\)=$", " ", text, flags=re.MULTILINE).split())


def sections(notebook: Path) -> Iterator[dict[str, Any]]:
    """The sections of a chapter: its number and title, the section's heading, and its words."""
    cells = nbformat.read(notebook, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    title, *parts = re.split(r"^#{1,3} ", text, flags=re.MULTILINE)[1:]
    chapter = title.partition("\n")[0].strip()
    for part in (title, *parts):
        heading, _, words = part.partition("\n")
        if heading.strip() not in LEFT_OUT:
            yield {"file": notebook.stem, "chapter": chapter, "heading": heading.strip(), "text": plain(words)}


@torch.no_grad()
def encode(model: BERT, tokenizer: WordPieceTokenizer, text: str) -> Tensor:
    """The mean of the tokens' vectors, of length 1. Shapes: -> (D,)"""
    ids = tokenizer.encode(text)[: MAX_TOKENS - 1]
    return nn.functional.normalize(model(torch.tensor([ids])).hidden[0].mean(dim=0), dim=0)


class Index(nn.Module):
    """The vectors of all sections, as a run stores them."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=OUT, help="where the index goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = minilm()
    model, tokenizer = load(BERT, folder, new_head=True).eval(), WordPieceTokenizer.load(folder / "vocab.txt")
    rows = [row for notebook in sorted(BOOK.glob("[0-9]*.ipynb")) for row in sections(notebook)]
    vectors = torch.stack([encode(model, tokenizer, f"{row['heading']}. {row['text']}") for row in rows])
    facts = {
        "command": "python book/runs/ask_the_book.py",
        "data": f"{len(rows)} sections of the book",
        "model": "all-MiniLM-L6-v2",
        "seed": 0,
        "config": {"max_tokens": MAX_TOKENS, "d_model": vectors.shape[1]},
        "results": {"sections": len(rows)},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    save_run(arguments.folder, facts, [row | {"text": row["text"][:160]} for row in rows], Index(vectors))
    print(f"{len(rows)} sections")


if __name__ == "__main__":
    main()
