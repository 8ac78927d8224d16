"""Exercises made from solutions: stubs, badges, checks, and drift."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

from lecturelib.cli import main
from lecturelib.grading.check.packing import unpack
from lecturelib.grading.notebook import parse_notebook
from lecturelib.grading.release.notebooks import Paths, drift, release, renew, strip_solutions

RUBRIC = """
from lecturelib.grading import Rubric, assert_close
rubric = Rubric("00_small", title="Small")
rubric.exercise("double", title="Double it", minutes=7, difficulty=2)

@rubric.reference
def double(x):
    return 2 * x

@rubric.test("double", points=1, visible=True, hint="Twice.")
def doubles(submission, rng):
    assert_close(submission.double(3), 6)

@rubric.test("double", points=2, visible=False, hint="Still twice.")
def doubles_in_secret(submission, rng):
    assert_close(submission.double(4), 8)
"""
ANSWER = "def double(x):\n    '''Twice x.'''\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"


def course(root: Path) -> Paths:
    v4 = nbformat.v4
    cells = [
        v4.new_markdown_cell("# Small", id="title"),
        v4.new_code_cell("import lecturelib", id="install", metadata={"tags": ["install"]}),
        v4.new_code_cell('scale = "default"', id="parameters", metadata={"tags": ["parameters"]}),
        v4.new_markdown_cell("## Double\n\nWrite it.", id="double-spec", metadata={"tags": ["exercise:double"]}),
        v4.new_code_cell(ANSWER, id="double-answer"),
        v4.new_code_cell("assert double(2) == 4", id="double-example"),
        v4.new_code_cell("print('how I found it')", id="aside", metadata={"tags": ["solution"]}),
        v4.new_markdown_cell("Done.", id="end", metadata={"tags": ["end-of-exercises"]}),
    ]
    for folder in ("solutions", "exercises", "tests/exercises/graders"):
        (root / folder).mkdir(parents=True)
    (root / "_config.yml").write_text(
        "title: T\nrepository:\n  # one place\n  url: https://example.org/me/mine  # here\n"
    )
    (root / "tests/exercises/graders/00_small.py").write_text(RUBRIC)
    (root / "solutions/00_small.ipynb").write_text(nbformat.writes(v4.new_notebook(cells=cells)))
    return Paths(root=root, name="00_small")


def cells_of(text: str) -> dict[str, Any]:
    return {cell.id: cell for cell in nbformat.reads(text, as_version=4).cells}


def test_written_exercise_keeps_its_model_answer_and_its_items(tmp_path: Path) -> None:
    paths = course(tmp_path)
    written = 'rubric.written("why", title="Why?", minutes=3, difficulty=1, items={"says it doubles": 2})\n'
    paths.rubric.write_text(RUBRIC + written)
    notebook = nbformat.read(paths.solution, as_version=4)
    spec = nbformat.v4.new_markdown_cell("## Why?", id="why-spec", metadata={"tags": ["exercise:why"]})
    answer = nbformat.v4.new_markdown_cell("Because two.", id="why-answer", metadata={"tags": ["answer:why"]})
    notebook.cells[-1:-1] = [spec]
    nbformat.write(notebook, paths.solution)
    with pytest.raises(ValueError, match="no markdown cell tagged `answer:why`"):
        release(paths)
    notebook.cells[-1:-1] = [answer]
    nbformat.write(notebook, paths.solution)
    text = release(paths)
    cells = cells_of(text)
    assert list(cells)[-4:] == ["why-spec", "why-answer", "end", "check-all"]
    assert "**2 points" in cells["why-spec"].source
    assert "Because" not in text
    assert "says it doubles" not in unpack(cells["lecturelib-checks"].source.split('"""')[1])
    assert parse_notebook(text.encode()).answers == (("why", ""),)
    below = text.replace("here, in this cell.*", "here, in this cell.*\\n\\nTwice.")
    assert parse_notebook(below.encode()).answers == (("why", "Twice."),)
    handed_in = text.replace("*Write your answer here, in this cell.*", "Twice is *more*.")
    assert parse_notebook(handed_in.encode()).answers == (("why", "Twice is *more*."),)
    slipped = nbformat.reads(handed_in, as_version=4)
    (cell,) = [cell for cell in slipped.cells if cell.id == "why-answer"]
    cell.update(cell_type="code", source="Twice, of course", outputs=[], execution_count=None)
    parsed = parse_notebook(nbformat.writes(slipped).encode())  # a cell that was made one of code is still the answer
    assert parsed.answers == (("why", "Twice, of course"),)
    assert "Twice, of course" not in [source for _, source in parsed.cells]
    untagged = handed_in.replace('"answer:why"', '"x"')
    assert parse_notebook(untagged.encode()).answers == (("why", "Twice is *more*."),)


def test_release_writes_stubs_badges_and_checks(tmp_path: Path) -> None:
    cells = cells_of(release(course(tmp_path)))
    assert list(cells) == [
        *(
            "title",
            "install",
            "parameters",
            "may-import",
            "lecturelib-checks",
            "double-spec",
            "double-answer",
            "double-example",
        ),
        *("check-double", "end", "check-all"),
    ]
    assert "return 2 * x" not in cells["double-answer"].source
    assert 'raise NotImplementedError("double is yours to write' in cells["double-answer"].source
    assert cells["double-spec"].source.split("\n\n") == [
        "## Double",
        "**3 points · about 7 minutes · difficulty ●●○○○ 2/5**",
        "Write it.",
    ]
    assert "git+https://example.org/me/mine" in cells["install"].source
    assert cells["check-double"].source == 'check("double")'
    assert cells["lecturelib-checks"].metadata.jupyter.source_hidden


def test_release_is_the_same_every_time(tmp_path: Path) -> None:
    paths = course(tmp_path)
    assert release(paths) == release(paths)


def test_renewed_checks_stay_as_stored_where_another_machine_only_rounded(tmp_path: Path) -> None:
    paths = course(tmp_path)

    def with_test(call: str) -> None:
        paths.rubric.write_text(RUBRIC.replace("double(3), 6", call))

    with_test("double(3.0000001), 6.0000002")
    paths.exercise.write_text(renew(paths))
    stored = paths.exercise.read_text()
    with_test("double(3.0), 6.0")
    assert release(paths) != stored
    assert renew(paths) == stored
    with_test("double(5.0), 10.0")
    assert renew(paths) == release(paths)


def test_renewing_replaces_a_damaged_notebook(tmp_path: Path) -> None:
    paths = course(tmp_path)
    paths.exercise.write_text("half a note")
    assert renew(paths) == release(paths)


def test_released_notebook_scores_nothing_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = course(tmp_path)
    assert main(["release", "--root", str(tmp_path)]) == 0
    assert main(["release", "--check", "--root", str(tmp_path)]) == 0
    assert main(["check", str(paths.exercise)]) == 1
    assert "Double it: not started. `double` is not written yet." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Write it.", "Write it now.", "cell double-spec differs"),
        ("about 7 minutes", "about 8 minutes", "cell double-spec differs"),
        ('"check-double"', '"check-other"', "cell check-double is missing"),
        ("NotImplementedError", "ValueError", "cell double-answer differs"),
        ("example.org", "example.com", "cell install differs"),
    ],
)
def test_release_check_names_what_drifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    paths = course(tmp_path)
    paths.exercise.write_text(release(paths).replace(old, new))
    assert main(["release", "--check", "--root", str(tmp_path)]) == 1
    assert f"exercises/00_small.ipynb: {message}" in capsys.readouterr().err


def test_release_check_sees_a_changed_test(tmp_path: Path) -> None:
    paths = course(tmp_path)
    paths.exercise.write_text(release(paths))
    assert drift(paths) == []
    paths.rubric.write_text(RUBRIC.replace("double(3), 6", "double(5), 10"))
    assert drift(paths) == ["exercises/00_small.ipynb: cell lecturelib-checks differs"]


def test_release_check_sees_a_changed_solution_only_where_it_shows(tmp_path: Path) -> None:
    paths = course(tmp_path)
    paths.exercise.write_text(release(paths))
    text = paths.solution.read_text()
    paths.solution.write_text(text.replace("return 2 * x", "return x + x"))
    assert drift(paths) == []
    paths.solution.write_text(text.replace("Twice x", "Two times x"))
    assert drift(paths) == ["exercises/00_small.ipynb: cell double-answer differs"]


def test_release_check_sees_missing_and_stray_exercises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = course(tmp_path)
    (tmp_path / "exercises" / "99_stray.ipynb").write_text(release(paths))
    assert main(["release", "--check", "--root", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "exercises/00_small.ipynb: missing" in error
    assert "exercises/99_stray.ipynb: no solution makes it" in error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("exercise:double", "exercise:triple"), "opens exercise 'triple', which its rubric does not have"),
        (('"parameters"', '"params"'), "no cell tagged `parameters`"),
        (("def double", "def twice"), "does not define double"),
        (("### END SOLUTION", "### the end"), "### BEGIN SOLUTION without ### END SOLUTION"),
        (('"exercise:double"', '"other"'), "opens exercises none"),
    ],
)
def test_release_refuses_an_incomplete_solution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], message: str
) -> None:
    paths = course(tmp_path)
    paths.solution.write_text(paths.solution.read_text().replace(*change))
    assert main(["release", "--root", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_release_without_rubric_config_or_solutions_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["release", "--root", str(tmp_path)]) == 2
    assert "no solutions/*.ipynb under" in capsys.readouterr().err
    paths = course(tmp_path)
    assert main(["release", "07_other", "--root", str(tmp_path)]) == 2
    assert "no solutions/07_other.ipynb; there are 00_small" in capsys.readouterr().err
    paths.rubric.unlink()
    assert main(["release", "--root", str(tmp_path)]) == 2
    assert "has no rubric" in capsys.readouterr().err


def test_stub_names_the_method_it_stands_in(tmp_path: Path) -> None:
    body = "        x = 1\n        ### BEGIN SOLUTION\n        return x\n        ### END SOLUTION"
    source = f"class A:\n    def b(self):\n{body}"
    stub = strip_solutions(source)
    assert stub.endswith(
        '        x = 1\n        raise NotImplementedError("A.b is yours to write: put your code here")'
    )
    with pytest.raises(ValueError, match="line 1: ### END SOLUTION without"):
        strip_solutions("### END SOLUTION")
