"""Reads a stranger's notebook: regular files of bounded size, parsed as JSON, kept as text. Nothing is executed here.

What a notebook can be forgiven is forgiven, with a note: a byte order mark, an old or a newer format, magics, shell
lines. What cannot be read is a `NotebookError` whose message can be shown to the student.
"""

import ast
import json
import os
import re
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

MOST_BYTES = 16 << 20
MOST_CODE = 1 << 20
MOST_CELLS = 2_000
MOST_NOTES = 50
_BODY_RUNS = {"time", "capture", "timeit", "prun"}  # cell magics whose body is Python to run
_LOOKS_MAGIC = re.compile(r"^[ \t]*[%!?]|\?[ \t]*$|=[ \t]*[!%]", re.MULTILINE)
_NAMES = re.compile(r"[A-Za-z_][\w, ]*")  # what a magic's result is assigned to
_ASKED = re.compile(r"[\w.]+")  # what help is asked for
_LONGEST_MAGIC = 1_000
_LONGEST_PARSED = 50_000  # Python's parser can be made to take seconds over a very long cell
MOST_ANSWER = 20_000
# Follow no link, wait for no pipe, and change no line end, as far as the system knows these
_AS_IT_IS = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_ANSWER = re.compile(r"\A\s*<!-- *answer:(\w{1,80}) *-->")  # in the text too: not every editor keeps tags
INVITATION = "*Write your answer here, in this cell.*"  # in place of an answer that is not there yet
UNGRADED_TAG = "ungraded"  # on cells of the course's own that are for pleasure
_CHECKS = "load_checks"  # the packed tests of a released notebook; the grader has its own


class NotebookError(ValueError):
    """The file is not a notebook that can be graded."""


@dataclass(frozen=True, kw_only=True)
class Notebook:
    """The code of a notebook, as (cell number, source) counted from 1 as Jupyter shows them, and what was noticed.

    `answers` are the written ones, as (exercise, text). What fails in a cell of `ungraded` is not worth a note.
    `checks` are the packed checks that it carries, if any: a stranger's text, which may say of which set it is.
    """

    cells: tuple[tuple[int, str], ...]
    notes: tuple[str, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    ungraded: frozenset[int] = frozenset()
    checks: str = ""


def read_notebook(path: str | os.PathLike[str]) -> Notebook:
    """Read a notebook file; `NotebookError` says what is wrong with it."""
    return parse_notebook(read_bytes(path))


def read_bytes(path: str | os.PathLike[str], limit: int = MOST_BYTES) -> bytes:
    """The content of a regular file: a symbolic link could point at a secret, a pipe could never end."""
    try:
        if os.path.islink(path):  # where the system knows no O_NOFOLLOW; where it does, nothing can come in between
            raise OSError("a link")
        descriptor = os.open(path, os.O_RDONLY | _AS_IT_IS)
    except OSError as error:
        if os.path.islink(path):
            raise NotebookError("the file is a symbolic link, which is not followed") from None
        raise NotebookError(f"the file cannot be opened: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotebookError("the file is not a regular file")
    with open(descriptor, "rb") as stream:
        return read_bounded(stream, status.st_size, limit)


def read_bounded(stream: IO[bytes], size: int, limit: int = MOST_BYTES) -> bytes:
    """All of a stream that says it has `size` bytes; what it says is believed only when it says too many."""
    content = stream.read(limit + 1) if size <= limit else b""
    if max(size, len(content)) > limit:
        megabytes = max(size, len(content)) >> 20
        raise NotebookError(
            f"the file has {megabytes} MB, more than the {limit >> 20} MB allowed; clear its outputs and save it"
        )
    return content


def parse_notebook(content: bytes) -> Notebook:
    """The notebook in these bytes."""
    notes: list[str] = []
    text = _text(content, notes)
    if not text.strip():
        raise NotebookError("the file is empty: was it saved, and uploaded whole?")
    try:
        tree = json.loads(text)
    except RecursionError:
        raise NotebookError("the file is nested too deeply to be a notebook") from None
    except ValueError as error:
        raise NotebookError(f"the file is not JSON, so it is not a notebook: {str(error)[:200]}") from None
    if not isinstance(tree, dict):
        raise NotebookError(f"the file holds a JSON {type(tree).__name__}, not a notebook")
    listed = _cells(tree, notes)
    sources = [
        (number, source)
        for number, kind, source, tags in _sources(listed)
        if kind == "code" and not _answered(source, tags)  # an answer whose cell was made one of code by a slip
    ]
    if sum(len(source) for _, source in sources) > MOST_CODE:
        raise NotebookError(f"the notebook has more than {MOST_CODE >> 20} MB of code")
    cells = []
    for number, source in sources:
        runnable = _runnable(number, source, notes)
        if runnable.strip():
            cells.append((number, runnable))
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES:] = [f"and {len(notes) - MOST_NOTES} more like these"]
    ungraded = frozenset(number for number, _, _, tags in _sources(listed) if UNGRADED_TAG in tags)
    return Notebook(
        cells=tuple(cells),
        notes=tuple(notes),
        answers=_answers(listed),
        ungraded=ungraded,
        checks=_checks(sources),
    )


def _answers(cells: list[Any]) -> tuple[tuple[str, str], ...]:
    """What was written into the cells tagged `answer:NAME`, of whatever kind; of several for one exercise, all."""
    found: dict[str, list[str]] = {}
    for _, _, source, tags in _sources(cells):
        if name := _answered(source, tags):
            marked = _ANSWER.match(source)
            text = (source[marked.end() :] if marked else source).strip().removeprefix(INVITATION).strip()
            found.setdefault(name, []).extend([text] if text else [])
    return tuple((name, "\n\n".join(texts)[:MOST_ANSWER]) for name, texts in found.items())


def _answered(source: str, tags: list[str]) -> str | None:
    """The written exercise that a cell answers."""
    marked = _ANSWER.match(source)
    return marked[1] if marked else next((tag[7:] for tag in tags if tag.startswith("answer:")), None)


def _text(content: bytes, notes: list[str]) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
        notes.append("the file is in UTF-16; notebooks are UTF-8")
    else:
        encoding = "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise NotebookError(f"the file is not text in UTF-8 (byte {error.start} is not)") from None


def _cells(tree: dict[str, Any], notes: list[str]) -> list[Any]:
    """The list of cells, wherever this version of the format keeps it."""
    version, cells = tree.get("nbformat"), None
    if type(version) is not int:
        raise NotebookError(f"the file does not say which notebook format it has (nbformat is {str(version)[:20]!r})")
    if version in (2, 3):
        notes.append(f"the notebook is in the old format {version}; it was read all the same")
        sheets = tree.get("worksheets")
        if not isinstance(sheets, list) or not all(
            isinstance(s, dict) and isinstance(s.get("cells"), list) for s in sheets
        ):
            raise NotebookError(f"a notebook of format {version} has worksheets with cells; this one has not")
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
    elif version >= 4:
        if version > 4:
            notes.append(f"the notebook is in format {version}, newer than we know; it was read as format 4")
        cells = tree.get("cells")
    else:
        raise NotebookError(f"notebook format {version} is not one we can read; save it again with a current Jupyter")
    if not isinstance(cells, list):
        raise NotebookError(f"a notebook of format {version} has a list of cells; this one has not")
    if len(cells) > MOST_CELLS:
        raise NotebookError(f"the notebook has {len(cells)} cells, more than {MOST_CELLS}")
    return cells


def _sources(cells: list[Any]) -> Iterator[tuple[int, str, str, list[str]]]:
    """Each cell's number, kind, text and tags."""
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict):
            raise NotebookError(f"cell {number} is not a cell")
        kind = cell.get("cell_type")
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            if kind == "code":
                raise NotebookError(f"the source of cell {number} is not text")
            continue
        metadata = cell.get("metadata")
        tags = metadata.get("tags") if isinstance(metadata, dict) else None
        texts = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
        # half a surrogate pair fits in no file
        yield number, str(kind), source.encode("utf-8", "replace").decode(), texts


def _checks(sources: list[tuple[int, str]]) -> str:
    """The first text between triple quotes that is given to `load_checks`, as a release writes it."""
    for _, source in sources:
        _, called, rest = source.partition(f"{_CHECKS}(")
        _, opened, packed = rest.partition('"""')
        text, closed, _ = packed.partition('"""')
        if called and opened and closed:
            return text
    return ""


def _runnable(number: int, source: str, notes: list[str]) -> str:
    """The cell as Python alone: without magics, shell lines and the packed tests. A very long one is left as it is."""
    if len(source) > _LONGEST_PARSED:
        return source
    if _LOOKS_MAGIC.search(source) and _parsed(source) is None:
        source = without_magics(number, source, notes)
    if _CHECKS in source and (tree := _parsed(source)) is not None:
        return _without_checks(tree)
    return source


def _without_checks(tree: ast.Module) -> str:
    """`load_checks(PACKED, ...)` becomes `load_checks()`, which does nothing there, and `PACKED = ...` is dropped."""
    packed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _CHECKS in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
            packed |= {argument.id for argument in node.args if isinstance(argument, ast.Name)}
            node.args, node.keywords = [], []
    kept = [
        statement
        for statement in tree.body
        if not (
            isinstance(statement, ast.Assign)
            and all(isinstance(target, ast.Name) and target.id in packed for target in statement.targets)
        )
    ]
    try:
        return ast.unparse(ast.Module(body=kept, type_ignores=[]))
    except RecursionError:
        raise NotebookError("a cell is nested too deeply to be read") from None
    except ValueError as error:  # an integer of very many digits
        raise NotebookError(f"a cell cannot be read: {error}") from None


def _parsed(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the student's source: the kernel has shown them
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def without_magics(number: int, source: str, notes: list[str]) -> str:
    """Lines that only Jupyter understands become `pass`, so that line numbers stay; each is noted."""
    lines = source.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        name = lines[first][2:].split(maxsplit=1)[0] if lines[first][2:].strip() else ""
        if name not in _BODY_RUNS:
            notes.append(f"cell {number} is a %%{name} cell and was skipped")
            return ""
        notes.append(f"cell {number}: %%{name} was skipped, its code was run")
        lines[first] = "pass"
    if _parsed("\n".join(lines)) is not None:
        return "\n".join(lines)
    made: list[str] = []
    goes_on = False  # a shell line that ends in a backslash goes on in the next
    for line in lines:
        made.append("" if goes_on else _without_magic(number, line, notes))
        goes_on = line.rstrip().endswith("\\") and (goes_on or line.lstrip().startswith(("!", "%")))
    return "\n".join(made)


def _without_magic(number: int, line: str, notes: list[str]) -> str:
    """One line. Its parts are found without searching back and forth: a line can be made to be slow to search."""
    if len(line) > _LONGEST_MAGIC:
        return line
    indent, rest = line[: len(line) - len(line.lstrip())], line.strip()
    names, equals, value = rest.partition("=")
    if not equals or not _NAMES.fullmatch(names):
        names, value = "", rest
    value = value.lstrip()
    word, _, timed = value.partition(" ")
    if word == "%time" and timed.strip():
        return indent + rest[: len(rest) - len(value)] + timed.lstrip()
    if rest.startswith(("!", "%")) or ("?" in rest and _ASKED.fullmatch(rest.strip("?"))):
        notes.append(f"cell {number}: `{rest[:60]}` was skipped")
        return indent + "pass"
    if names and value.startswith(("!", "%")):
        names = names.rstrip()
        notes.append(f"cell {number}: `{rest[:60]}` was skipped; {names} is empty")
        return f"{indent}{names} = []" if "," not in names else indent + "pass"
    return line
