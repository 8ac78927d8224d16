"""Exercises come from solutions: `solutions/NN_name.ipynb` in, `exercises/NN_name.ipynb` out.

What a solution notebook marks, and what a release makes of it:

- Lines between `### BEGIN SOLUTION` and `### END SOLUTION` become one `raise NotImplementedError`, indented like the
  first marker. The markers do not appear in the exercise.
- A cell tagged `solution` is left out altogether. The text of a markdown cell tagged `answer:NAME`, the model answer to
  the written exercise NAME, becomes an invitation to write one.
- A markdown cell tagged `exercise:NAME` opens exercise NAME of the rubric. Points, time and difficulty are added under
  its heading, and `check("NAME")` after the last cell before the next heading of an exercise.
- A code cell tagged `source:MODULE` holds the source of that module, for what a notebook needs where it is graded.
- The first code cell, tagged `install`, is written anew from the repository's address in `_config.yml`. After the cell
  tagged `parameters` comes one collapsed cell with the packed visible checks.
- A markdown cell tagged `end-of-exercises` closes the last exercise and is followed by `check()`, for all of them. The
  code after it is tagged as ungraded: if it fails in the grader, that is no news for the student.

The output is the same every time: cell ids come from the solution or from the exercise's name, outputs are dropped.
"""

import ast
import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from lecturelib.grading.check.packing import pack_rubric, same_checks
from lecturelib.grading.notebook import INVITATION, UNGRADED_TAG, read_bytes
from lecturelib.grading.rubric.rubric import Rubric, load_rubric
from lecturelib.grading.sandbox.worker.packages import MAY_IMPORT

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
CHECKS_TAG = "lecturelib-checks"
_PACKED = re.compile(r'load_checks\(\s*"""(.*?)"""', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Where the three files of a set are, under the root of a course; rubrics may be in a private folder instead."""

    root: Path
    name: str
    rubrics: Path | None = None

    @property
    def solution(self) -> Path:
        return self.root / "solutions" / f"{self.name}.ipynb"

    @property
    def exercise(self) -> Path:
        return self.root / "exercises" / f"{self.name}.ipynb"

    @property
    def rubric(self) -> Path:
        return (self.rubrics or self.root / "tests" / "exercises" / "graders") / f"{self.name}.py"


def sets_in(root: Path, names: list[str] | None = None, rubrics: Path | None = None) -> list[Paths]:
    """Every set that has a solution, or the named ones."""
    found = [Paths(root=root, name=path.stem, rubrics=rubrics) for path in sorted((root / "solutions").glob("*.ipynb"))]
    if not found:
        raise FileNotFoundError(f"no solutions/*.ipynb under {root}; run this in the root of the course, or use --root")
    if not names:
        return found
    unknown = sorted(set(names) - {paths.name for paths in found})
    if unknown:
        known = ", ".join(paths.name for paths in found)
        raise ValueError(f"no solutions/{unknown[0]}.ipynb; there are {known}")
    return [paths for paths in found if paths.name in names]


def release(paths: Paths) -> str:
    """The exercise notebook of a set, as the text of its file."""
    from lecturelib.book.addresses import (
        install_source,
        repository_url,
    )  # a check reads notebooks too, and needs no book

    notebook = load_notebook(paths.solution)
    if not paths.rubric.is_file():
        raise FileNotFoundError(f"solutions/{paths.name}.ipynb has no rubric: write {paths.rubric}")
    rubric = load_rubric(paths.rubric)
    cells: list[Any] = []
    current: str | None = None
    is_over = False
    opened: list[str] = []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "solution" in tags:
            continue
        name = next((tag.partition(":")[2] for tag in tags if tag.startswith("exercise:")), None)
        if name is not None or "end-of-exercises" in tags:
            cells += _check_cells(current)
            current = name
        if name is not None:
            opened.append(name)
            cells.append(_cell(cell, _with_badge(cell.source, rubric, name)))
            if rubric.exercises[name].items:
                current = None  # a reader grades it, nothing checks it
        elif answered := next((tag.partition(":")[2] for tag in tags if tag.startswith("answer:")), None):
            cells.append(_cell(cell, f"<!-- answer:{answered} -->\n{INVITATION}"))
        elif "install" in tags:
            cells.append(_cell(cell, install_source(repository_url(paths.root))))
        elif module := next((tag.partition(":")[2] for tag in tags if tag.startswith("source:")), None):
            cells.append(_cell(cell, inspect.getsource(importlib.import_module(module)).rstrip()))
        else:
            made = _cell(cell, strip_solutions(cell.source) if cell.cell_type == "code" else cell.source)
            if is_over and cell.cell_type == "code":
                made.metadata["tags"] = [UNGRADED_TAG]
            cells.append(made)
        if "parameters" in tags:
            cells += [_imports_cell(), _checks_cell(rubric)]
        if "end-of-exercises" in tags:
            is_over = True
            cells.append(nbformat.v4.new_code_cell(source="check()", id="check-all"))
    cells += _check_cells(current)
    _require_complete(paths.name, rubric, opened, cells)
    metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    made = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    made.nbformat_minor = 5
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def renew(paths: Paths) -> str:
    """A fresh release that keeps each stored cell it agrees with: two machines round checks differently."""
    text = release(paths)
    try:
        stored = {cell.id: cell for cell in load_notebook(paths.exercise).cells}
    except (FileNotFoundError, ValueError):  # none yet, or a damaged one, which the fresh one replaces
        return text
    made = nbformat.reads(text, as_version=4)
    made.cells = [
        stored[cell.id] if cell.id in stored and _agree(cell, stored[cell.id]) else cell for cell in made.cells
    ]
    return nbformat.writes(made) + "\n"


def strip_solutions(source: str) -> str:
    """The source with each marked block replaced by one kind `raise NotImplementedError`."""
    out: list[str] = []
    inside = False
    for number, line in enumerate(source.splitlines(), start=1):
        text = line.strip()
        if text == BEGIN:
            if inside:
                raise ValueError(f"line {number}: {BEGIN} inside another")
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            name = _enclosing(out, indent)
            out.append(f'{indent}raise NotImplementedError("{name} is yours to write: put your code here")')
        elif text == END:
            if not inside:
                raise ValueError(f"line {number}: {END} without {BEGIN}")
            inside = False
        elif not inside:
            out.append(line)
    if inside:
        raise ValueError(f"{BEGIN} without {END}")
    return "\n".join(out)


def _enclosing(lines: list[str], indent: str) -> str:
    """The function, or Class.method, that a block of this indentation is in."""
    names: list[str] = []
    for line in reversed(lines):
        match = re.match(r"(\s*)(?:def|class)\s+(\w+)", line)
        if match and len(match.group(1)) < len(indent):
            indent = match.group(1)
            names.insert(0, match.group(2))
    return ".".join(names) or "this cell"


def _with_badge(source: str, rubric: Rubric, name: str) -> str:
    """The heading, then points, time and difficulty, then the rest."""
    if name not in rubric.exercises:
        known = ", ".join(rubric.exercises)
        raise ValueError(f"the solution opens exercise {name!r}, which its rubric does not have; it has {known}")
    exercise, points = rubric.exercises[name], rubric.points_of(name)
    heading, _, rest = source.partition("\n")
    dots = "●" * exercise.difficulty + "○" * (5 - exercise.difficulty)
    plural = "" if points == 1 else "s"
    badge = (
        f"**{points:g} point{plural} · about {exercise.minutes} minutes · difficulty {dots} {exercise.difficulty}/5**"
    )
    return f"{heading}\n\n{badge}\n\n{rest.lstrip()}".rstrip()


def _cell(cell: Any, source: str) -> Any:
    tags = [
        tag for tag in cell.metadata.get("tags", []) if tag in ("parameters", "install") or tag.startswith("answer:")
    ]
    metadata = {"tags": tags} if tags else {}
    make = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
    return make(source=source, id=cell.id, metadata=metadata)


def _checks_cell(rubric: Rubric) -> Any:
    text = (
        "# @title Checks for this notebook: run this cell, there is nothing to read in it\n"
        "from lecturelib.grading import load_checks\n\n"
        f'check = load_checks(\n    """\n{pack_rubric(rubric)}\n""",\n    globals(),\n)'
    )
    metadata = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": ["hide-input", CHECKS_TAG]}
    return nbformat.v4.new_code_cell(source=text, id=CHECKS_TAG, metadata=metadata)


def _imports_cell() -> Any:
    allowed = ", ".join(f"`{name}`" for name in MAY_IMPORT)
    text = (
        f"Your answers may import {allowed} and Python's standard library. No other package is available when this "
        "notebook is graded. `lecturelib` is here only for figures and checks: write what an exercise asks for "
        "yourself."
    )
    return nbformat.v4.new_markdown_cell(source=text, id="may-import")


def _check_cells(exercise: str | None) -> list[Any]:
    if exercise is None:
        return []
    return [nbformat.v4.new_code_cell(source=f'check("{exercise}")', id=f"check-{exercise.replace('_', '-')}")]


def _require_complete(name: str, rubric: Rubric, opened: list[str], cells: list[Any]) -> None:
    if opened != list(rubric.exercises):
        raise ValueError(
            f"solutions/{name}.ipynb opens exercises {', '.join(opened) or 'none'}; "
            f"its rubric has {', '.join(rubric.exercises)}, in this order"
        )
    ids = [cell.id for cell in cells]
    if CHECKS_TAG not in ids:
        raise ValueError(f"solutions/{name}.ipynb has no cell tagged `parameters`, after which the checks would come")
    tags = {tag for cell in cells for tag in cell.metadata.get("tags", [])}
    unanswered = [e.name for e in rubric.exercises.values() if e.items and f"answer:{e.name}" not in tags]
    if unanswered:
        raise ValueError(f"solutions/{name}.ipynb has no markdown cell tagged `answer:{unanswered[0]}`")
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "code" and cell.id != CHECKS_TAG)
    stubs = {n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    missing = [d for exercise in rubric.exercises.values() for d in exercise.defines if d not in stubs]
    if missing:
        raise ValueError(f"solutions/{name}.ipynb does not define {', '.join(missing)}, which its rubric grades")


def drift(paths: Paths) -> list[str]:
    """What an exercise notebook has that a fresh release has not, or the other way; empty when they agree."""
    shown = f"exercises/{paths.name}.ipynb"
    if not paths.exercise.is_file():
        return [f"{shown}: missing"]
    fresh, stored = nbformat.reads(release(paths), as_version=4), load_notebook(paths.exercise)
    ours, theirs = ({cell.id: cell for cell in book.cells} for book in (fresh, stored))
    found = [f"{shown}: cell {name} is missing" for name in ours if name not in theirs]
    found += [f"{shown}: cell {name} is not in the solution" for name in theirs if name not in ours]
    found += [
        f"{shown}: cell {name} differs" for name in ours if name in theirs and not _agree(ours[name], theirs[name])
    ]
    if not found and list(ours) != list(theirs):
        found.append(f"{shown}: the cells are in another order")
    return found


def strays(root: Path) -> list[str]:
    """Exercises that no solution makes."""
    names = {path.name for path in (root / "solutions").glob("*.ipynb")}
    extra = sorted(path.name for path in (root / "exercises").glob("*.ipynb") if path.name not in names)
    return [f"exercises/{name}: no solution makes it" for name in extra]


def _agree(one: Any, other: Any) -> bool:
    """Whether two cells are the same, up to what differs between machines: rounding and compressors."""
    ours, theirs = (
        (cell.cell_type, _PACKED.sub("", cell.source), dict(cell.metadata), len(cell.get("outputs", [])))
        for cell in (one, other)
    )
    packed = [_PACKED.findall(cell.source) for cell in (one, other)]
    return ours == theirs and len(packed[0]) == len(packed[1]) and all(map(same_checks, *packed))


def load_notebook(path: Path) -> Any:
    """A notebook, or a ValueError of one line that says what is wrong with the file."""
    if not path.is_file():
        raise FileNotFoundError(f"no notebook at {path}")
    try:
        notebook = nbformat.reads(read_bytes(path.resolve()).decode(), as_version=4)
        nbformat.validate(notebook)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a notebook: it is not UTF-8 text") from None
    except RecursionError:
        raise ValueError(f"{path} is not a notebook: it is nested too deeply") from None
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, KeyError, AttributeError, TypeError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise ValueError(f"{path} is not a notebook that can be read: {reason}") from None
    return notebook
