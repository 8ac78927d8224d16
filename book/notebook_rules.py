"""The rules every chapter keeps, checked on the file as it is committed: run `python book/notebook_rules.py`."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from lecturelib.book.addresses import install_source, repository_url

BOOK = Path(__file__).resolve().parent
MAX_BYTES = 1_000_000
CHECKED_TAG = "nbval-check-output"  # the cells whose stored output nbval compares

FOLDED_TAGS = {"hide-input", "hide-cell"}  # one click away on the page; the label says what the click shows
REMOVED_TAGS = {"remove-input", "remove-cell", "remove-output"}
WHOLE_MODEL_TAG = "whole-model"  # a visible cell that may be long: a model written out from top to bottom
MAX_VISIBLE_LINES = 300
MAX_CELL_LINES = 20
CAPTIONED = '<figure class="course-figure"'

LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]*)\)")
CHAPTER = re.compile(r"\bchapters?\s+(?P<number>\d+)", re.IGNORECASE)
LECTURE = re.compile(
    r"\blectures?\s+[A-Z]\b|\b[A-Z]'s\s+(?:slides?|decks?)\b|\bthe\s+(?:slides?|decks?)\b", re.IGNORECASE
)
LECTURES_BOX = re.compile(r":::+\{admonition\} If you know one of the lectures\n:class: dropdown\n.*?\n:::+", re.DOTALL)

MACHINE_PATH = re.compile(r"[\"'](/(?:tmp|home|root|work|mnt|opt|srv|Users)/[^\"']*)[\"']")
MATHS = re.compile(r"\$\$.*?\$\$|\$[^$]+\$", re.DOTALL)
_MARKS = r"(?:[_^](?:\w|\{[^}]*\}))*"  # the indices of a symbol
NOTATION = {  # what book/notation.md rules out, wherever a pattern can see it
    r"W_\{?[qkvoQKVO]\b": "the maps of attention are W^Q, W^K, W^V and W^O",
    rf"\b[WU]{_MARKS}\s*(?:\\[,;!]\s*)?[hkqsxz](?![A-Za-z])": "vectors are rows: write x W, not W x",
    r"[qk]_?\w?\^\\top\s*(?:\\[,;!]\s*)?[qk](?![A-Za-z])": r"vectors are rows: write q\, k^\top",
}


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def install_problems(cells: list[NotebookNode]) -> Iterator[str]:
    """The first cell makes the notebook run anywhere, and says nothing where it already does."""
    if not cells or cells[0].cell_type != "code":
        yield "the first cell must be the code cell that installs lecturelib when it is missing"
        return
    if cells[0].source != install_source(repository_url(BOOK.parent), "[book]"):
        yield "the first cell must install lecturelib when it is missing, in the words that `make plain` writes"
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


def machine_problems(cells: list[NotebookNode]) -> Iterator[str]:
    """A chapter reads what ships with the course, not what happens to lie on the machine it was written on."""
    for number, cell in enumerate(cells, 1):
        if cell.cell_type != "code":
            continue
        for path in MACHINE_PATH.findall(cell.source):
            yield f"cell {number} names a path of one machine, {path}"
        for call in (node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)):
            if ast.unparse(call.func).endswith("shipped_run") and len(call.args) + len(call.keywords) != 1:
                yield f"cell {number}: shipped_run takes the name of a run that ships, and nothing else, in a chapter"


def is_visible(cell: NotebookNode) -> bool:
    """Whether the page shows the code of a cell without a click."""
    return cell.cell_type == "code" and not (FOLDED_TAGS | REMOVED_TAGS - {"remove-output"}) & set(tags(cell))


def drawing_names(cells: list[NotebookNode]) -> set[str]:
    """What the chapter draws and glues with: all it imports from lecturelib.figures, and from lecturelib.book."""
    imports = [
        node
        for cell in cells[1:]
        if cell.cell_type == "code"
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.ImportFrom)
    ]
    figures = {alias.asname or alias.name for node in imports if is_figures(node.module) for alias in node.names}
    return figures | {"glue", "captioned"}


def is_figures(module: str | None) -> bool:
    return (module or "").startswith("lecturelib.figures")


def only_asserts(statements: list[ast.stmt]) -> bool:
    """Whether statements check something and do nothing else."""
    for statement in statements:
        match statement:
            case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Pass():
                continue
            case ast.For(body=body, orelse=rest) | ast.If(body=body, orelse=rest) if only_asserts([*body, *rest]):
                continue
            case ast.With(body=body) if only_asserts(body):
                continue
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))) if "assert" in name:
                continue
            case _:
                return False
    return True


def folding_problems(cells: list[NotebookNode]) -> Iterator[str]:
    """Visible code is the idea; what measures, plots, checks and glues is one labelled click away."""
    visible = [(number, cell) for number, cell in enumerate(cells, 1) if is_visible(cell)]
    lines = sum(len(cell.source.splitlines()) for _, cell in visible)
    if lines > MAX_VISIBLE_LINES:
        yield f"{lines} visible lines of code; at most {MAX_VISIBLE_LINES}: fold what measures, plots and checks"
    drawing = drawing_names(cells)
    for number, cell in visible:
        length = len(cell.source.splitlines())
        if length > MAX_CELL_LINES and WHOLE_MODEL_TAG not in tags(cell):
            yield f"cell {number} shows {length} lines; at most {MAX_CELL_LINES}, or tag it {WHOLE_MODEL_TAG}"
        tree = ast.parse(cell.source)
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        if drawn := sorted(called & drawing):
            yield f"cell {number} is visible and calls {', '.join(drawn)}: draw and glue in a folded cell"
        if only_asserts(tree.body):
            yield f"cell {number} is visible and only asserts: fold it"
    for number, cell in enumerate(cells, 1):
        if FOLDED_TAGS & set(tags(cell)) and not cell.metadata.get("mystnb", {}).get("code_prompt_show"):
            yield f"cell {number} is folded without a label: set mystnb.code_prompt_show in its metadata"
        if number > 2 and REMOVED_TAGS & set(tags(cell)):
            yield f"cell {number} is removed from the page; fold it, so that it is one click away"


def set_up_problems(cells: list[NotebookNode]) -> Iterator[str]:
    """One call of `sizes` decides how much is computed; nothing else pins threads or devices."""
    code = "\n".join(cell.source for cell in cells[1:] if cell.cell_type == "code")
    if len(re.findall(r"\bsizes\(\s*scale\b", code)) != 1:
        yield "a chapter calls sizes(scale, smoke=…, default=…, full=…) once"
    for pinned in ("set_num_threads", 'device="cpu"', "device='cpu'"):
        if pinned in code:
            yield f"{pinned} holds at every scale: use size.device, and leave threads to sizes"
    for asked in re.findall(r"""scale [!=]= ["'](?:smoke|full)["']""", code):
        yield f"{asked} forks the code path: choose with sizes, and ask size.is_trained of claims about trained models"


def figure_problems(cells: list[NotebookNode]) -> Iterator[str]:
    """Every picture on the page has a caption, and so a number."""
    for number, cell in enumerate(cells, 1):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            page = data.get("text/html", "")
            has_picture = any(sign in page for sign in ("<svg", "<img", "lecturelib-")) or any(
                "image/" in key for key in data
            )
            if has_picture and not page.startswith(CAPTIONED):
                yield f"cell {number} shows a picture without a caption: captioned(…, caption=…, name=…)"


def prose_problems(text: str, name: str, is_chapter: bool = True) -> Iterator[str]:
    """Chapters are linked wherever they are mentioned; lectures are mentioned in one box only."""
    for link in LINK.finditer(text):
        for mention in CHAPTER.finditer(link["text"]):
            number = int(mention["number"])
            known = next(iter(BOOK.glob(f"{number:02}_*.ipynb")), Path("lecture_map.md")).name
            if link["target"].split("#")[0] != known:
                yield f"{name}: [{link['text']}] leads to {link['target']}, not to {known}"
    plain = re.sub(r"<a\b.*?</a>", "", LINK.sub("", text), flags=re.DOTALL)
    for mention in CHAPTER.finditer(plain):
        yield f"{name}: “{mention.group()}” is not a link: [chapter 8](08_attention_layer.ipynb)"
    for pattern, rule in NOTATION.items():
        for maths in MATHS.findall(text):
            if found := re.search(pattern, maths):
                yield f"{name}: {found.group()!r} in an equation: {rule}"
    if is_chapter:
        for mention in LECTURE.finditer(LECTURES_BOX.sub("", plain)):
            yield f"{name}: “{mention.group()}” belongs in the box “If you know one of the lectures”"


def page_problems(path: Path, cells: list[NotebookNode]) -> Iterator[str]:
    """The form of a chapter's page."""
    yield from folding_problems(cells)
    yield from set_up_problems(cells)
    yield from figure_problems(cells)
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "markdown":
            yield from prose_problems(cell.source, f"cell {number}")
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    boxes = list(LECTURES_BOX.finditer(text))
    if len(boxes) > 1 or any("\n## Summary" in text[box.end() :] for box in boxes):
        yield "one box “If you know one of the lectures”, after the summary"


def problems(path: Path) -> list[str]:
    """Every rule that one notebook breaks."""
    cells = nbformat.read(path, as_version=4).cells
    found = [*install_problems(cells), *parameter_problems(cells), *output_problems(cells), *machine_problems(cells)]
    found += page_problems(path, cells)
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
