"""Wrong and right answers that a set is held to, in one readable file.

`tests/exercises/answers/NN_name.py` is a row of sections. A section is what a student might have written for one
exercise, in place of the solution's own; everything before the first section (imports) belongs to all of them.

    # wrong attention: forgets the scale
    # hint: divide them by √d
    def attention(query, key, value):
        ...

    # right attention: by einsum
    def attention(query, key, value):
        ...

A wrong answer must lose points in its exercise and in no other, and one of its failures must show a hint, or a
message, that contains the text after `# hint:`. A right answer must score full.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lecturelib.grading.release.notebooks import load_notebook

_HEADER = re.compile(r"^# (right|wrong) (\w+): (.+)$")
_HINT = re.compile(r"^# hint: (.+)$")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One section: what to run after the solution's definitions, and what must come of it."""

    kind: Literal["right", "wrong"]
    exercise: str
    title: str
    hint: str
    source: str


def load_answers(path: Path) -> list[Answer]:
    """All sections of an answers file; ValueError if a wrong one says no hint, or a right one does."""
    preamble: list[str] = []
    sections: list[tuple[re.Match[str], list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        header = _HEADER.match(line)
        if header:
            sections.append((header, []))
        elif sections:
            sections[-1][1].append(line)
        else:
            preamble.append(line)
    answers = []
    for header, lines in sections:
        hint = _HINT.match(lines[0]) if lines else None
        kind: Literal["right", "wrong"] = "wrong" if header[1] == "wrong" else "right"
        if (kind == "wrong") != (hint is not None):
            raise ValueError(
                f"{path.name}: a wrong answer needs a `# hint:` line and a right one has none: {header[0]}"
            )
        answers.append(
            Answer(
                kind=kind,
                exercise=header[2],
                title=header[3],
                hint=hint[1] if hint else "",
                source="\n".join([*preamble, *lines]),
            )
        )
    return answers


def definitions(notebook: Path) -> str:
    """The imports, functions and classes of a notebook, without its examples and drawings."""
    source = "\n".join(cell.source for cell in load_notebook(notebook).cells if cell.cell_type == "code")
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    return "\n".join(ast.unparse(node) for node in ast.parse(source).body if isinstance(node, kinds))


def namespace_of(*sources: str) -> dict[str, Any]:
    """Run sources one after the other, as cells; the resulting namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for source in sources:
        exec(compile(source, "<answer>", "exec"), namespace)
    return namespace
