"""Run notebooks with papermill: chapters in place, to renew their stored outputs, or anything at another scale.

python book/execute.py                                  every chapter, in place, at its default parameters
python book/execute.py book/08_attention_layer.ipynb    one chapter, in place
python book/execute.py --scale full --out _build/full   every chapter and solution at another scale, written elsewhere
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import papermill
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError

from lecturelib.machine.bf16 import settle_bf16

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 600  # seconds for a kernel to start or to hand over its output: a busy machine is slow, not broken
VOLATILE = ("execution", "papermill", "ExecuteTime")  # time stamps, different on every run
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class UnknownParameterError(ValueError):
    """A parameter was given that the notebook's `parameters` cell does not define."""


def chapters(root: Path = ROOT) -> list[Path]:
    """The notebooks of the book, in order."""
    return sorted((root / "book").glob("*.ipynb"))


def solutions(root: Path = ROOT) -> list[Path]:
    """The solved exercise notebooks, in order."""
    return sorted((root / "solutions").glob("*.ipynb"))


def check_parameters(notebook: Path, parameters: dict[str, object]) -> None:
    """Refuse what papermill would only warn about."""
    known = papermill.inspect_notebook(str(notebook))
    if unknown := sorted(parameters.keys() - known.keys()):
        raise UnknownParameterError(
            f"{notebook.name} has no parameter {', '.join(unknown)}; its `parameters` cell defines: "
            f"{', '.join(sorted(known)) or 'nothing'}"
        )


def run(notebook: Path, target: Path, parameters: dict[str, object] | None = None) -> NotebookNode:
    """Run a notebook from its own folder and write the result to target; a raising cell raises here."""
    parameters = parameters or {}
    check_parameters(notebook, parameters)
    target.parent.mkdir(parents=True, exist_ok=True)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))  # the kernel sees this clone's lecturelib
    return papermill.execute_notebook(
        str(notebook),
        str(target),
        parameters,
        kernel_name="python3",
        cwd=str(notebook.parent),
        progress_bar=False,
        start_timeout=PATIENCE,
        iopub_timeout=PATIENCE,
    )


def settle(notebook: NotebookNode) -> NotebookNode:
    """Remove what differs from run to run and means nothing: time stamps, and views of widgets without a kernel."""
    for holder in (notebook, *notebook.cells):
        for key in VOLATILE:
            holder.metadata.pop(key, None)
    notebook.metadata.pop("widgets", None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        if cell.get("metadata", {}).get("tags") == []:
            del cell.metadata["tags"]  # papermill adds an empty list where there was none
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET_VIEW not in output.get("data", {})]
    return notebook


def refresh(notebook: Path) -> None:
    """Run a notebook at its default parameters and store the outputs in place; a failed run leaves it as it was."""
    with tempfile.TemporaryDirectory() as folder:
        result = settle(run(notebook, Path(folder) / notebook.name))
    scratch = notebook.with_suffix(".writing")
    nbformat.write(result, scratch)
    scratch.replace(notebook)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every chapter, and with --out every solution")
    parser.add_argument("--scale", help='the value of the parameter "scale", such as smoke or full; needs --out')
    parser.add_argument("--out", type=Path, help="write the results to this folder and leave the notebooks alone")
    arguments = parser.parse_args()
    if arguments.scale and not arguments.out:
        parser.error("--scale needs --out: stored outputs are always those of the default scale")
    settle_bf16()
    todo = arguments.notebooks or (chapters() + solutions() if arguments.out else chapters())
    failed = 0
    for notebook in todo:
        start = time.perf_counter()
        print(f"{notebook} ... ", end="", flush=True)
        try:
            if arguments.out:
                parameters = {"scale": arguments.scale} if arguments.scale else {}
                run(notebook, arguments.out / notebook.parent.name / notebook.name, parameters)
            else:
                refresh(notebook)
        except (PapermillExecutionError, UnknownParameterError) as error:
            failed += 1
            print(f"FAILED\n{error}")
        else:
            print(f"{time.perf_counter() - start:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
