"""The rules every chapter keeps, checked on the file as it is committed: run `python book/notebook_rules.py`."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

BOOK = Path(__file__).resolve().parent
MAX_BYTES = 1_000_000
CHECKED_TAG = "nbval-check-output"  # the cells whose stored output nbval compares


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def install_problems(cells: list[NotebookNode]) -> Iterator[str]:
    """The first cell makes the notebook run anywhere, and says nothing where it already does."""
    if not cells or cells[0].cell_type != "code":
        yield "the first cell must be the code cell that installs lecturelib when it is missing"
        return
    if "lecturelib" not in cells[0].source or "install" not in cells[0].source:
        yield "the first cell must install lecturelib when it is missing"
    if cells[0].outputs:
        yield "the first cell must be silent where lecturelib is installed, but it has stored output"


def parameter_problems(cells: list[NotebookNode]) -> Iterator[str]:
    """The second cell, and no other, is tagged `parameters`, and assigns literals only."""
    tagged = [number for number, cell in enumerate(cells) if "parameters" in tags(cell)]
    if tagged != [1]:
        yield f"exactly the second cell must be tagged `parameters`; tagged are {[n + 1 for n in tagged] or 'none'}"
        return
    names = set()
    for statement in ast.parse(cells[1].source).body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                names.add(name)
            case _:
                yield f"the `parameters` cell must hold assignments only, got: {ast.unparse(statement)}"
                continue
        try:
            ast.literal_eval(value)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            yield f"the `parameters` cell must hold literals only, got: {ast.unparse(statement)}"
    if "scale" not in names:
        yield "the `parameters` cell must define scale"


def shown(output: NotebookNode) -> str:
    """The text of an output, printed or displayed."""
    return output.get("text") or output.get("data", {}).get("text/plain", "")


def output_problems(cells: list[NotebookNode]) -> Iterator[str]:
    """Outputs are stored, from one run from top to bottom, without an error, and some of them are compared."""
    code = [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]
    counts = [cell.execution_count for cell in code]
    if not any(cell.outputs for cell in code):
        yield "no stored outputs: run `make notebooks`"
    elif counts != list(range(1, len(code) + 1)):
        yield f"execution counts must run from 1 in order, as one run gives them, got {counts}"
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "code" and any(output.output_type == "error" for output in cell.outputs):
            yield f"cell {number} has a stored error"
        if cell.cell_type == "code" and any(" at 0x" in shown(output) for output in cell.outputs):
            yield f"cell {number} shows the address of an object, which says nothing: end it with what should be seen"
        if CHECKED_TAG in tags(cell) and not cell.outputs:
            yield f"cell {number} is tagged {CHECKED_TAG} and has no stored output to compare"
    if not any(CHECKED_TAG in tags(cell) for cell in cells):
        yield f"no cell is tagged {CHECKED_TAG}, so nbval would compare nothing"


def problems(path: Path) -> list[str]:
    """Every rule that one notebook breaks."""
    cells = nbformat.read(path, as_version=4).cells
    found = [*install_problems(cells), *parameter_problems(cells), *output_problems(cells)]
    if (size := path.stat().st_size) >= MAX_BYTES:
        found.append(f"{size:,} bytes; a chapter stays under {MAX_BYTES:,}")
    return found


def main() -> int:
    paths = [Path(name) for name in sys.argv[1:]] or sorted(BOOK.glob("*.ipynb"))
    found = [f"{path.name}: {problem}" for path in paths for problem in problems(path)]
    print("\n".join(found) or f"{len(paths)} notebooks keep the rules")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
