"""How much a reader must open to understand a model end to end, counted from what its file imports."""

import ast
from pathlib import Path

import pytest

import lecturelib

PACKAGE = Path(lecturelib.__file__).parent
READ = ("lecturelib.layers.", "lecturelib.models.")  # torch is known, and other rooms come later


def imported_files(path: Path) -> set[Path]:
    """The files of `layers` and `models` that a file imports from, by name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "import by full name, not relatively"
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.startswith(READ):
                inside = PACKAGE.joinpath(*name.split(".")[1:])
                found |= {file for file in (inside.with_suffix(".py"), inside / "__init__.py") if file.is_file()}
    return found


def to_read(start: str) -> dict[str, int]:
    """Every file that one must open, from a model's own on, and its lines."""
    found, waiting = set(), {PACKAGE / start}
    while waiting:
        path = waiting.pop()
        found.add(path)
        waiting |= imported_files(path) - found
    return {str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines()) for path in found}


@pytest.mark.parametrize(
    ("model", "most_files", "most_lines"),
    [("models/gpt.py", 6, 850), ("models/vit.py", None, 1000), ("models/swin.py", None, 1000)],
)
def test_a_model_can_be_read_in_an_evening(model, most_files, most_lines):
    files = to_read(model)
    assert sum(files.values()) <= most_lines, files
    assert most_files is None or len(files) <= most_files, files


def test_what_is_imported_indirectly_is_counted():
    files = to_read("models/gpt.py")
    assert {"models/gpt.py", "layers/block.py", "layers/cache.py", "layers/attention.py"} <= files.keys()
    assert "layers/swin.py" not in files
    assert "layers/windows.py" in to_read("models/swin.py")
