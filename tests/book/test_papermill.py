"""Every chapter and every solution runs from top to bottom at scale="full", with as little to compute as at "smoke".

That rehearses both scales at once: `sizes` gives a chapter the device, the threads and the models of "full", and the
few steps of "smoke"; nothing else in a chapter may ask for its scale below "default".
"""

import ast
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "book").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTURELIB_DRY_RUN", "1")


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_at_full_scale_cut_short(chapter: Path, execute: ModuleType, tmp_path: Path) -> None:
    execute.run(chapter, tmp_path / chapter.name, {"scale": "full"})


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.stem)
def test_solution_runs_at_full_scale_cut_short(solution: Path, execute: ModuleType, tmp_path: Path) -> None:
    cut, target = tmp_path / solution.name, tmp_path / "out.ipynb"
    notebook = nbformat.read(solution, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code" and "[scale]" in cell.source:
            cell.source = ast.unparse(CutFull().visit(ast.parse(cell.source)))
    nbformat.write(notebook, cut)
    execute.run(cut, target, {"scale": "full"})


class CutFull(ast.NodeTransformer):
    """In {"smoke": 30, "default": 300, "full": 3000}[scale], let "full" be what "smoke" is."""

    def visit_Dict(self, node: ast.Dict) -> ast.Dict:
        names = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        if "smoke" in names and "full" in names:
            node.values[names.index("full")] = node.values[names.index("smoke")]
        return node


def test_cutting_changes_full_alone() -> None:
    tree = CutFull().visit(ast.parse('{"smoke": (2, 16), "default": 5, "full": 700}["full"], {"other": 3}'))
    assert eval(ast.unparse(tree)) == ((2, 16), {"other": 3})
