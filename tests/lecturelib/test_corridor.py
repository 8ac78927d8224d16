"""The package is a corridor of rooms, and data walks it in one direction."""

import ast
from pathlib import Path

import lecturelib

PACKAGE = Path(lecturelib.__file__).parent
ROOMS = (
    "machine",
    "data",
    "tokens",
    "layers",
    "models",
    "fast",
    "training",
    "evaluation",
    "recipes",
    "figures",
    "book",
    "grading",
    "cli",
)
RECEIVES_MODELS = {"training", "evaluation", "figures", "book"}  # they are handed a model and never import one


def imported_rooms(source: str, room: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "import by full name, not relatively"
            names = [node.module or ""]
            if node.module == "lecturelib":
                names = [f"lecturelib.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("lecturelib.")}
    return found - {room}


def offences(source: str, room: str) -> set[str]:
    allowed = set(ROOMS[: ROOMS.index(room)])
    if room in RECEIVES_MODELS:
        allowed -= {"models"}
    return (imported_rooms(source, room) & set(ROOMS)) - allowed


def test_every_file_is_in_a_room():
    strays = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name not in ("__pycache__", "runs")}
    assert strays == set()
    assert rooms <= set(ROOMS)
    assert list((PACKAGE / "runs").rglob("*.py")) == []  # shipped runs are data, no room


def test_rooms_import_only_from_rooms_before_them():
    wrong = {
        str(path.relative_to(PACKAGE)): bad
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        if (bad := offences(path.read_text(encoding="utf-8"), room))
    }
    assert wrong == {}


def test_an_offence_is_noticed():
    assert offences("from lecturelib.models.gpt import GPT", "layers") == {"models"}
    assert offences("import lecturelib.models", "training") == {"models"}
    assert offences("from lecturelib import cli", "grading") == {"cli"}
    assert offences("from lecturelib.layers import masks", "models") == set()
