"""The gates bite: a small book passes all of them, and turns red when it is broken, one way at a time.

Every gate here is the project's own: the commands of `make test`, book/execute.py and book/notebook_rules.py.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from papermill.exceptions import PapermillExecutionError

Gate = Callable[[], subprocess.CompletedProcess[str]]
CHAPTER = "01_small.ipynb"
LECTURES_BOX = ":::{admonition} If you know one of the lectures\n:class: dropdown\nLecture U says so.\n:::"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def small(tmp_path: Path, root: Path) -> Path:
    """A copy of the small book, in a folder laid out like the repository, with the project's own configuration."""
    for part in ("_ext", "_static"):
        shutil.copytree(root / "book" / part, tmp_path / "book" / part)
    shutil.copytree(root / "tests" / "book" / "small_book", tmp_path / "book", dirs_exist_ok=True)
    for name in ("_config.yml", "pyproject.toml", "book/plain.py"):
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def build(small: Path, suite_command: Callable[[str], list[str]], run_command: Callable[..., Gate]) -> Gate:
    """Build the small book with the command that builds the site."""
    return lambda: run_command(suite_command("site"), small)


@pytest.fixture
def nbval(small: Path, suite_command: Callable[[str], list[str]], run_command: Callable[..., Gate]) -> Gate:
    """Re-run the small book's chapter with the command that re-runs the chapters."""
    command = [part for part in suite_command("nbval") if not part.endswith(".ipynb")]
    return lambda: run_command([*command, "-n", "0", f"book/{CHAPTER}"], small)  # one file needs no second process


def rewrite(page: Path, old: str, new: str) -> None:
    """Replace text in a file, and make sure that it was there."""
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new), encoding="utf-8")


def edit_chapter(small: Path, number: int, **changes: object) -> None:
    """Change fields of one cell (counted from one) of the chapter."""
    path = small / "book" / CHAPTER
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[number - 1].update(changes)
    nbformat.write(notebook, path)


def add_output(small: Path, data: dict[str, str]) -> None:
    """Store one more output under the chapter's last cell."""
    path = small / "book" / CHAPTER
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].outputs.append(nbformat.v4.new_output("display_data", data=data))
    nbformat.write(notebook, path)


def assert_red(gate: Gate, *reasons: str) -> str:
    """The gate fails, and says why; return all it said."""
    result = gate()
    said = result.stdout + result.stderr
    assert result.returncode != 0, said
    for reason in reasons:
        assert reason in said
    return said


def test_small_book_builds_and_numbers_come_from_the_name_of_the_chapter(small: Path, build: Gate) -> None:
    edit_chapter(small, 3, source="# A small chapter\n\n$$\na = b\n$$ (sm-eq)\n\nBy {eq}`sm-eq`.")
    (small / "book" / CHAPTER).rename(small / "book" / "07_small.ipynb")
    for page in ("_toc.yml", "intro.md"):
        rewrite(small / "book" / page, "01_small", "07_small")
    result = build()
    assert result.returncode == 0, result.stdout + result.stderr
    page = BeautifulSoup((small / "_build" / "html" / "07_small.html").read_text(encoding="utf-8"), "html.parser")
    assert page.title is not None
    assert page.title.get_text().startswith("7. A small chapter")
    for place in ("article h1", ".bd-sidebar-primary li.current"):
        assert page.select(place)[0].get_text().strip().startswith("7. A small chapter")
    assert "7.1" not in page.select("article h2")[0].get_text()
    caption = page.select("figure#sm-fig-weights figcaption")[0].get_text().strip()
    assert caption.startswith("Figure 7.1 The largest of three scores")
    assert page.select("article a[href='#sm-fig-weights']:not(.headerlink)")[0].get_text() == "Figure 7.1"
    assert page.select("article a[href='#equation-sm-eq']:not(.headerlink)")[0].get_text() == "(7.1)"
    assert page.select(".eqno")[0].get_text().startswith("(7.1)")
    assert page.select("article details summary")[0].get_text().split("\n")[1] == "Code of the figure"


def test_another_address_changes_every_link_of_the_site(small: Path, root: Path, build: Gate) -> None:
    ours = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"].split("/", 3)[3]
    rewrite(small / "_config.yml", ours, "someone/their-course")
    subprocess.run([sys.executable, "book/plain.py"], cwd=small, check=True, capture_output=True)
    assert build().returncode == 0
    pages = [*(small / "_build" / "html").glob("*.html"), *(small / "_build" / "html" / "plain").glob("*.ipynb")]
    text = {page.name: page.read_text(encoding="utf-8") for page in pages}
    owner = ours.split("/")[0]
    assert [name for name, page in text.items() if f"/{owner}/" in page or f"{owner}.github.io" in page] == []
    assert "colab.research.google.com/github/someone/their-course/blob/" in text["01_small.html"]
    assert "https://someone.github.io/their-course/_static/social.png" in text["01_small.html"]
    assert "git+https://github.com/someone/their-course" in text["01_small.ipynb"]


def test_untouched_book_reruns_to_its_stored_outputs(nbval: Gate) -> None:
    result = nbval()
    assert result.returncode == 0, result.stdout + result.stderr


def test_untouched_book_keeps_the_rules_and_runs_small(
    small: Path, notebook_rules: ModuleType, execute: ModuleType, tmp_path: Path
) -> None:
    assert notebook_rules.problems(small / "book" / CHAPTER) == []
    execute.run(small / "book" / CHAPTER, tmp_path / "out.ipynb", {"scale": "smoke"})


def test_raising_cell_is_red(small: Path, nbval: Gate, execute: ModuleType, tmp_path: Path) -> None:
    edit_chapter(small, 5, source="raise ValueError('broken on purpose')")
    assert_red(nbval, "broken on purpose")
    with pytest.raises(PapermillExecutionError, match="broken on purpose"):
        execute.run(small / "book" / CHAPTER, tmp_path / "out.ipynb", {"scale": "smoke"})


def test_raising_cell_leaves_the_stored_chapter_alone(small: Path, execute: ModuleType) -> None:
    edit_chapter(small, 5, source="raise ValueError('broken on purpose')")
    before = (small / "book" / CHAPTER).read_bytes()
    with pytest.raises(PapermillExecutionError):
        execute.refresh(small / "book" / CHAPTER)
    assert (small / "book" / CHAPTER).read_bytes() == before
    assert sorted(path.name for path in (small / "book").glob("01_small*")) == [CHAPTER]


def test_refreshed_chapter_is_the_same_bytes(small: Path, execute: ModuleType) -> None:
    before = (small / "book" / CHAPTER).read_bytes()
    execute.refresh(small / "book" / CHAPTER)
    assert (small / "book" / CHAPTER).read_bytes() == before


def test_changed_stored_output_is_red(small: Path, nbval: Gate) -> None:
    rewrite(small / "book" / CHAPTER, "0.665", "0.666")
    assert_red(nbval, "mismatch")


def test_broken_references_are_red(small: Path, build: Gate) -> None:
    links = [
        "[a](gone-page.md)",
        "[b](01_small.ipynb#gone-anchor)",
        "{ref}`gone-label`",
        "{eq}`gone-equation`",
        "{doc}`gone-document`",
        "{numref}`gone-figure`",
        "{colab}`c <exercises/gone-notebook.ipynb>`",
    ]
    rewrite(small / "book" / "intro.md", "It has one chapter", f"See {', '.join(links)}. It has one chapter")
    rewrite(small / "book" / "intro.md", "{cite:t}`vaswani2017attention`", "{cite:t}`nobody1900nothing`")
    assert_red(build, *(re.findall(r"gone-\w+", " ".join(links))), "nobody1900nothing")


def test_images_without_alt_text_are_red(small: Path, build: Gate) -> None:
    rewrite(small / "book" / "intro.md", "![Three squares grow darker from left to right.]", "![]")
    outputs = [
        {"image/png": PIXEL},
        {"image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="4"/></svg>'},
        {"text/html": '<img src="never.svg">'},
        {"text/html": '<img src="empty.svg" alt="">'},
        {"text/html": '<img src="label.svg" alt="squares">'},
        {"text/html": '<svg role="img" width="9" height="9"><circle r="4"/></svg>'},
    ]
    for data in outputs:
        add_output(small, data)
    said = assert_red(build, "intro.html: an image without alt text")
    assert said.count("01_small.html: an image without alt text") == 5
    assert said.count("01_small.html: the alt text of a figure must be a sentence") == 1
    for name in (".png", ".svg", "never.svg", "empty.svg", "label.svg", "inline svg"):
        assert re.search(rf"01_small.html: .* alt text.*{re.escape(name)}", said)


def test_foreign_hosts_are_red(small: Path, build: Gate) -> None:
    fragments = [
        '<script src="https://cdn1.example.org/plot.js"></script>',
        '<script src="//cdn2.example.org/plot.js"></script>',
        '<script type="module">import "https://cdn3.example.org/plot.js";</script>',
        '<link rel="stylesheet" href="https://cdn4.example.org/plot.css">',
        '<img src="https://cdn5.example.org/plot.png" alt="A plot that lives elsewhere.">',
        '<style>@import url("https://cdn6.example.org/plot.css");</style>',
        '<div style="background: url(https://cdn7.example.org/plot.png)"></div>',
        '<iframe src="https://cdn8.example.org/" title="elsewhere"></iframe>',
    ]
    for fragment in fragments:
        add_output(small, {"text/html": fragment})
    with (small / "book" / "intro.md").open("a", encoding="utf-8") as page:
        page.write('\n<script src="https://cdn9.example.org/plot.js"></script>\n')
    said = assert_red(build)
    for number in range(1, 9):
        assert re.search(rf"01_small.html: .*cdn{number}\.example\.org", said)
    assert re.search(r"intro.html: .*cdn9\.example\.org", said)


def test_notebook_without_outputs_is_red(small: Path, notebook_rules: ModuleType) -> None:
    path = small / "book" / CHAPTER
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, path)
    assert any("no stored outputs" in problem for problem in notebook_rules.problems(path))


@pytest.mark.parametrize(
    ("number", "changes", "problem"),
    [
        (1, {"source": "import math"}, "must install lecturelib"),
        (1, {"outputs": [nbformat.v4.new_output("stream", text="hello")]}, "must be silent"),
        (2, {"metadata": {}}, "second cell must be tagged"),
        (2, {"source": "import math\nscale = 'default'"}, "assignments only"),
        (2, {"source": "scale = 'default'\nsteps = 10 * 10"}, "literals only"),
        (2, {"source": "steps = 10"}, "must define scale"),
        (5, {"source": "folder = '/tmp/runs'"}, "a path of one machine, /tmp/runs"),
        (5, {"source": "run = shipped_run('cora', folder)"}, "the name of a run that ships"),
        (5, {"execution_count": 9}, "execution counts"),
        (6, {"metadata": {}}, "nbval would compare nothing"),
        (6, {"outputs": []}, "no stored output to compare"),
        (6, {"outputs": [nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]}, "stored error"),
        (6, {"outputs": [nbformat.v4.new_output("stream", text="<Generator at 0x7f>")]}, "address of an object"),
        (3, {"source": "# A small chapter\n" + "x" * 1_000_000}, "bytes"),
        (5, {"source": "x = 1\n" * 21}, "cell 5 shows 21 lines"),
        (5, {"source": "x = 1\n" * 300, "metadata": {"tags": ["whole-model"]}}, "visible lines of code"),
        (5, {"metadata": {"tags": ["remove-cell"]}}, "one click away"),
        (5, {"source": "size = None"}, "calls sizes"),
        (5, {"source": "import torch\n\ntorch.set_num_threads(1)"}, "leave threads to sizes"),
        (5, {"source": 'steps = 3 if scale == "smoke" else 9'}, "forks the code path"),
        (6, {"source": "for weight in weights:\n    assert weight"}, "cell 6 is visible and only asserts"),
        (7, {"source": "As chapter 5 says."}, "“chapter 5” is not a link"),
        (7, {"source": "As [chapter 8](05_attention_rnn.ipynb) says."}, "not to 08_attention_layer.ipynb"),
        (7, {"source": "As Lecture U says."}, "“Lecture U” belongs in the box"),
        (7, {"source": "It is $U h_{t-1}$."}, "write x W, not W x"),
        (7, {"source": "$$\nq_i^\\top k_j\n$$"}, "vectors are rows"),
        (7, {"source": "By $W_q$."}, "the maps of attention are W^Q"),
        (7, {"source": LECTURES_BOX + "\n\n## Summary"}, "after the summary"),
        (8, {"metadata": {}}, "visible and calls captioned, glue"),
        (8, {"metadata": {"tags": ["hide-input"]}}, "folded without a label"),
        (8, {"outputs": [nbformat.v4.new_output("display_data", {"text/html": "<svg></svg>"})]}, "without a caption"),
    ],
)
def test_broken_rule_is_red(
    number: int, changes: dict[str, object], problem: str, small: Path, notebook_rules: ModuleType
) -> None:
    edit_chapter(small, number, **changes)
    assert any(problem in found for found in notebook_rules.problems(small / "book" / CHAPTER))


def test_unknown_parameter_is_red(small: Path, execute: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(
        execute.UnknownParameterError, match=r"no parameter sclae; its `parameters` cell defines: scale"
    ):
        execute.run(small / "book" / CHAPTER, tmp_path / "out.ipynb", {"sclae": "smoke"})


@pytest.fixture
def drift(tmp_path: Path, root: Path, run_command: Callable[..., Gate]) -> tuple[Path, Gate]:
    """A copy of one exercise set, and the command that compares exercises with solutions."""
    for part in ("solutions/{}.ipynb", "exercises/{}.ipynb", "tests/exercises/graders/{}.py"):
        copy = tmp_path / part.format("08_attention_layer")
        copy.parent.mkdir(parents=True)
        shutil.copy(root / part.format("08_attention_layer"), copy)
    shutil.copy(root / "_config.yml", tmp_path / "_config.yml")
    command = [sys.executable, "-m", "lecturelib.cli", "release", "--check"]
    return tmp_path, lambda: run_command(command, tmp_path)


def test_untouched_exercises_are_in_step(drift: tuple[Path, Gate]) -> None:
    result = drift[1]()
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("room", ["solutions", "exercises"])
def test_exercise_out_of_step_with_its_solution_is_red(room: str, drift: tuple[Path, Gate]) -> None:
    folder, gate = drift
    path = folder / room / "08_attention_layer.ipynb"
    rewrite(path, "Exercise 1: scaled dot-product attention", "Exercise 1: another heading")
    assert_red(gate, "08_attention_layer", "lecturelib release")
