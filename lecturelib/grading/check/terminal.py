"""Run a student's own notebook in this process and check it: what `lecturelib check` does at a terminal.

Nothing here is confined: it is for one's own notebook. An instructor grades with `lecturelib grade`.
"""

import ast
import contextlib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lecturelib.grading.check.checker import Checker, Report
from lecturelib.grading.check.packing import unpack_rubric
from lecturelib.grading.notebook import without_magics
from lecturelib.grading.release.notebooks import load_notebook
from lecturelib.grading.sandbox.worker.calls import describe


@dataclass(frozen=True, kw_only=True)
class NotebookCheck:
    """The report, and a line for each cell that did not run to its end."""

    report: Report
    failed_cells: tuple[str, ...]


def check_notebook(path: Path, exercise: str | None = None) -> NotebookCheck:
    """Run the code cells in order, each whatever became of the one before, then the notebook's own checks."""
    notebook = load_notebook(path)
    sources = _sources(notebook)
    try:
        rubric = unpack_rubric(packed_checks(notebook))
    except LookupError as error:
        raise ValueError(f"{path} {error}") from None
    namespace: dict[str, Any] = {"__name__": "__main__"}
    failed = []
    for number, source in enumerate(sources, start=1):
        problem = _run(source, namespace, number)
        if problem:
            failed.append(f"code cell {number}: {problem}")
    return NotebookCheck(report=Checker(rubric, namespace)(exercise), failed_cells=tuple(failed))


def _run(source: str, namespace: dict[str, Any], number: int) -> str:
    """Run one cell, its output and warnings kept from the terminal; what it raised, as a line."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(record=True):
            exec(compile(source, f"<cell {number}>", "exec"), namespace)
    except (Exception, SystemExit) as error:
        raised = describe(error)
        if raised.is_stub:
            return ""  # the report says it better
        return f"{raised.types[0]}: {raised.message}".partition("\n")[0]
    return ""


def _sources(notebook: Any) -> list[str]:
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [without_magics(number, source, notes=[]) for number, source in enumerate(code, start=1)]


def packed_checks(notebook: Any) -> str:
    """The packed checks of a notebook: the string given to `load_checks`; LookupError if there are none."""
    for source in _sources(notebook):
        if "load_checks" not in source:
            continue
        try:
            nodes = list(ast.walk(ast.parse(source)))
        except SyntaxError:  # maybe a cell of the student's that only mentions it
            continue
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "load_checks" and node.args:
                blob = node.args[0]
                if isinstance(blob, ast.Constant) and isinstance(blob.value, str):
                    return blob.value
    raise LookupError("carries no checks; is it an exercise notebook, with the cell that calls load_checks unchanged?")
