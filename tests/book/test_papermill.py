"""Every chapter and every solution runs from top to bottom at scale="smoke", in seconds."""

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted([*(ROOT / "book").glob("*.ipynb"), *(ROOT / "solutions").glob("*.ipynb")])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_notebook_runs_at_smoke_scale(notebook: Path, execute: ModuleType, tmp_path: Path) -> None:
    execute.run(notebook, tmp_path / notebook.name, {"scale": "smoke"})
