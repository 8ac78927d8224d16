"""`lecturelib similarity`: which submissions of a class have code in common that nobody gave them."""

import argparse
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "similarity",
        help="list submissions with code in common",
        description="Compare the code of every two submissions, names and numbers made the same and starter code left "
        "out, and write one page: the most similar first. Nothing is run.",
    )
    parser.add_argument("submissions", type=Path, help="a folder or a zip, as `lecturelib grade` takes it")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the page to write, such as similar.html"
    )
    parser.add_argument("--exercise", metavar="NAME", help="the exercise set, such as 08_attention_layer")
    parser.add_argument(
        "--starter",
        type=Path,
        nargs="+",
        metavar="NOTEBOOK",
        help="what everybody was given (default: exercises/NAME.ipynb)",
    )
    parser.add_argument(
        "--least", type=float, default=0.5, metavar="SHARE", help="of code in common, to be listed (default: 0.5)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from lecturelib.grading.batch.intake import take_in
    from lecturelib.grading.notebook import NotebookError, parse_notebook, read_notebook
    from lecturelib.grading.reports.similarity import similar_pairs, similarity_page

    if not 0 < arguments.least <= 1:
        raise ValueError(f"--least is a share, more than 0 and at most 1, got {arguments.least:g}")
    default = Path("exercises", f"{arguments.exercise}.ipynb")
    starters = arguments.starter or ([default] if arguments.exercise and default.is_file() else [])
    starter = [source for path in starters for _, source in read_notebook(path).cells]
    notebooks, unread = {}, []
    for found in take_in(arguments.submissions, arguments.exercise, out=arguments.out, attempts="last").found:
        try:
            notebooks[found.student] = [source for _, source in parse_notebook(found.load()).cells]
        except NotebookError:
            unread.append(found.student)
    pairs = similar_pairs(notebooks, starter, least=arguments.least)
    title = arguments.exercise or arguments.submissions.stem
    arguments.out.write_text(similarity_page(title, pairs, len(notebooks), unread), encoding="utf-8")
    without = "" if starters else "; no starter code was left out (--starter)"
    compared = "1 submission" if len(notebooks) == 1 else f"{len(notebooks)} submissions"
    similar = "1 pair is similar" if len(pairs) == 1 else f"{len(pairs)} pairs are similar"
    print(f"{compared} compared, {similar}{without}; see {arguments.out}")
    return 0
