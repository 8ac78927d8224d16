"""The visible part of a rubric as a few lines of text that a notebook can carry.

A released exercise holds its own checks, so `check` needs only the notebook and an installed lecturelib, and an
instructor's own sets need no repackaging. Hidden tests, and whatever only they use, are left out before packing.
"""

import ast
import base64
import binascii
import textwrap
import zlib

from lecturelib.grading.rubric.rubric import Rubric

MAX_SOURCE = 1 << 20  # bytes of rubric source; far above any real one


def visible_source(source: str) -> str:
    """The rubric's source without hidden tests, without what only they use, and without comments between things."""
    statements = [node for node in ast.parse(source).body if not _is_hidden_test(node)]
    while True:
        used = _names_used(statements)
        kept = [node for node in statements if _is_needed(node, used)]
        if len(kept) == len(statements):
            break
        statements = kept
    lines = source.splitlines()
    return "\n".join("\n".join(lines[_first_line(node) - 1 : node.end_lineno]) for node in kept) + "\n"


def _is_hidden_test(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func) == "rubric.written"  # what a reader looks for is not to be read either
    for decorator in getattr(node, "decorator_list", []):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "rubric.test":
            visible = next((k.value for k in decorator.keywords if k.arg == "visible"), None)
            if not isinstance(visible, ast.Constant) or not isinstance(visible.value, bool):
                name = getattr(node, "name", "?")
                raise ValueError(f"test {name} (line {node.lineno}) must say visible=True or visible=False, literally")
            return not visible.value
    return False


def _names_used(statements: list[ast.stmt]) -> set[str]:
    """Names each statement reads, other than its own: a helper that calls itself is not needed by that."""
    used: set[str] = set()
    for node in statements:
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        used |= names - _defined(node)
    return used


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return set()


def _is_needed(node: ast.stmt, used: set[str]) -> bool:
    registered = any(ast.unparse(d).startswith("rubric.") for d in getattr(node, "decorator_list", []))
    defined = _defined(node)
    return registered or not defined or "rubric" in defined or bool(defined & used)


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def pack(source: str) -> str:
    """Text to put between triple quotes: zlib, then base64 in lines of 100."""
    packed = base64.b64encode(zlib.compress(source.encode(), 9)).decode()
    return "\n".join(textwrap.wrap(packed, 100))


def unpack(blob: str) -> str:
    """The inverse of `pack`; ValueError in the reader's words if the text is damaged."""
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode("".join(blob.split()), validate=True), MAX_SOURCE)
        if not inflater.eof:
            raise ValueError("cut short or too large")
        return data.decode()
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(
            f"the packed checks of this notebook are damaged ({error}); download the notebook again"
        ) from error


def unpack_rubric(blob: str) -> Rubric:
    """The visible rubric that `pack(visible_source(...))` holds. Its code is run: the notebook is the reader's own."""
    namespace: dict[str, object] = {"__name__": "checks"}
    exec(compile(unpack(blob), "<checks>", "exec"), namespace)
    rubric = namespace.get("rubric")
    if not isinstance(rubric, Rubric):
        raise ValueError("the packed checks of this notebook define no rubric; download the notebook again")
    return rubric
