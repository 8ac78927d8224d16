"""The benchmarks run rarely, and by hand: at least what they ask of the package must be there."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.py"))


def missing_names(source: str) -> list[str]:
    """What `source` takes from the package, by import or as an attribute of one of its modules, and is not there."""
    tree, modules, missing = ast.parse(source), dict[str, ModuleType](), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lecturelib":
            origin = importlib.import_module(node.module)
            for alias in node.names:
                try:
                    found = getattr(origin, alias.name, None) or importlib.import_module(f"{node.module}.{alias.name}")
                except ModuleNotFoundError:
                    missing.append(f"{node.module}.{alias.name}")
                else:
                    if isinstance(found, ModuleType):
                        modules[alias.asname or alias.name] = found
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if not hasattr(module, node.attr):
                missing.append(f"{module.__name__}.{node.attr}")
    return missing


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_asks_only_for_names_that_exist(path):
    assert not missing_names(path.read_text())


def test_a_name_that_moved_is_found():
    moved = "from lecturelib.models import gpt, Nothing\ngpt.GPT\ngpt.nowhere"
    assert missing_names(moved) == ["lecturelib.models.Nothing", "lecturelib.models.gpt.nowhere"]
