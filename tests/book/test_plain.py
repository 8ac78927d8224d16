"""The plain twins: nothing of MyST left, the chapter's own code and outputs, links that lead to the site."""

import re
import shutil
import subprocess
import sys

import nbformat
import pytest

CONFIG = """\
repository:
  url: https://github.com/someone/their-course
  branch: trunk
launch_buttons:
  colab_url: https://colab.example
"""
SITE = "https://someone.github.io/their-course"
BIB = """\
@article{one2001a, author = {One, Ann}, title = {A}, year = {2001}}
@article{two2002b, author = {van Two, Bo and Lu{\\v{c}}i{\\'c}, Cy}, title = {B}, year = {2002b}}
@article{six2006c, author = {Six, Di and Xi, Ed and Xo, Fa}, title = {C}, year = {2006}}
"""
GLOSSARY = "# Glossary\n\n:::{glossary}\n\nKV cache\nkey-value cache\n  Kept keys.\n\n:::\n"
MYST = re.compile(  # what only MyST understands, outside code
    r"\{[\w:.-]+\}`|^\s*>?\s*:{3,}|^\s*`{3,}\{|^\([\w-]+\)=\s*$|\$\$\s*\([\w-]+\)|\]\((?![a-z]+:)|\[\]\(|\{\{",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def plain(root, load_script):
    return load_script(root / "book" / "plain.py")


@pytest.fixture(scope="module")
def chapters(root):
    return sorted((root / "book").glob("[0-9][0-9]_*.ipynb"))


def without_code(text):
    return re.sub(r"^(`{3,}).*?^\1|(?<!\})(`+)[^`]+\2", "", text, flags=re.MULTILINE | re.DOTALL)


def test_twins_are_in_step_with_their_chapters(root):
    command = [sys.executable, "book/plain.py", "--check"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_myst_is_left(root, chapters):
    assert chapters
    for chapter in chapters:
        for cell in nbformat.read(root / "book" / "plain" / chapter.name, as_version=4).cells:
            if cell.cell_type == "markdown":
                assert MYST.findall(without_code(cell.source)) == [], (chapter.name, cell.source)


def test_code_and_stored_outputs_are_the_chapters_own(root, chapters):
    for chapter in chapters:
        own, twin = (
            [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
            for path in (chapter, root / "book" / "plain" / chapter.name)
        )
        for key in ("id", "source", "outputs", "execution_count"):
            assert [cell[key] for cell in own] == [cell[key] for cell in twin], chapter.name


def course(folder, text, figure=True):
    """A course of two chapters, the second with this text."""
    book = folder / "book"
    book.mkdir()
    (folder / "_config.yml").write_text(CONFIG)
    (book / "references.bib").write_text(BIB)
    (book / "glossary.md").write_text(GLOSSARY)
    glued = nbformat.v4.new_output(
        "display_data",
        {"x/text/plain": "'3.14 %'"},
        metadata={"scrapbook": {"name": "share", "mime_prefix": "x/"}},
    )
    drawn = nbformat.v4.new_output(
        "display_data", {"text/html": '<figure class="course-figure" data-name="fa-fig-b">…</figure>'}
    )
    equations = "$$\na\n$$ (fa-eq-a)\n\n$$\nb\n$$\n\n$$\nc\n$$ (fa-eq-c)"
    first = [
        nbformat.v4.new_markdown_cell(f"(first)=\n# First\n\n## Two words (2)\n\n(deep)=\n### Deep\n\n{equations}")
    ]
    second = [
        nbformat.v4.new_code_cell("draw()", id="fig", outputs=[glued, drawn] if figure else []),
        nbformat.v4.new_markdown_cell(text),
    ]
    for name, cells in (("01_first", first), ("12_second", second)):
        nbformat.write(nbformat.v4.new_notebook(cells=cells), book / f"{name}.ipynb")
    return folder


def made(plain, folder):
    book = plain.Book(folder)
    return nbformat.reads(plain.twin_text(book, folder / "book" / "12_second.ipynb"), as_version=4).cells


@pytest.mark.parametrize(
    ("myst", "expected"),
    [
        ("It is {glue:text}`share`.", "It is 3.14 %."),
        ("By {eq}`fa-eq-c`.", f"By [(1.2)]({SITE}/01_first.html#equation-fa-eq-c)."),
        ("See {numref}`fa-fig-b`.", f"See [Figure 12.1]({SITE}/12_second.html#fa-fig-b)."),
        ("See {numref}`picture %s <fa-fig-b>`.", f"See [picture 12.1]({SITE}/12_second.html#fa-fig-b)."),
        ("See {ref}`deep`.", f"See [Deep]({SITE}/01_first.html#deep)."),
        ("See {ref}`there <deep>`.", f"See [there]({SITE}/01_first.html#deep)."),
        ("See [](#deep).", f"See [Deep]({SITE}/01_first.html#deep)."),
        ("See [it](deep).", f"See [it]({SITE}/01_first.html#deep)."),
        ("See [it](01_first.ipynb).", f"See [it]({SITE}/01_first.html)."),
        ("See [](01_first.ipynb).", f"See [First]({SITE}/01_first.html)."),
        ("See [w](01_first.ipynb#two-words-2).", f"See [w]({SITE}/01_first.html#two-words-2)."),
        ("See [g](glossary.md).", f"See [g]({SITE}/glossary.html)."),
        ("See [x](https://example.org/a).", "See [x](https://example.org/a)."),
        ("{cite}`one2001a` said.", f"([One, 2001]({SITE}/bibliography.html#cite-one2001a)) said."),
        (
            "{cite:p}`one2001a,six2006c`",
            f"([One, 2001]({SITE}/bibliography.html#cite-one2001a); "
            f"[Six *et al.*, 2006]({SITE}/bibliography.html#cite-six2006c))",
        ),
        ("{cite:t}`two2002b`", f"[van Two and Lučić (2002b)]({SITE}/bibliography.html#cite-two2002b)"),
        ("{term}`KV cache`", f"[KV cache]({SITE}/glossary.html#term-KV-cache)"),
        ("{term}`the cache <key-value cache>`", f"[the cache]({SITE}/glossary.html#term-key-value-cache)"),
        ("{colab}`Set <e/x.ipynb>`", "[Set](https://colab.example/github/someone/their-course/blob/trunk/e/x.ipynb)"),
        ("{repository}`R <a.md>`", "[R](https://github.com/someone/their-course/blob/trunk/a.md)"),
        ("(here)=\n## Here", "## Here"),
        ("$$\nx = y .\n$$ (fb-eq)", "$$\nx = y . \\tag{12.1}\n$$"),
        ("$$\nx\n$$", "$$\nx\n$$"),
        ("Write `{eq}` or ``{ref}`x` ``.", "Write `{eq}` or ``{ref}`x` ``."),
        ("```\n{eq}`x`\n(a)=\n```", "```\n{eq}`x`\n(a)=\n```"),
        ("$[a](b)$", "$[a](b)$"),
        (":::{note}\nIt is {glue:text}`share`.\n\nSo.\n:::", "> **Note**\n>\n> It is 3.14 %.\n>\n> So."),
        (":::{admonition} Mind *this*\n:class: warning\nOh.\n:::\n\nOn.", "> **Mind *this***\n>\n> Oh.\n\nOn."),
        (
            ":::{admonition} More\n:class: dropdown\n$$\nx\n$$ (fb-eq)\n:::",
            "<details><summary>More</summary>\n\n$$\nx \\tag{12.1}\n$$\n\n</details>",
        ),
        ("::::{note}\n:::{tip}\nIn.\n:::\n::::", "> **Note**\n>\n> > **Tip**\n> >\n> > In."),
    ],
)
def test_each_piece_of_myst_has_a_plain_form(myst, expected, plain, tmp_path):
    assert made(plain, course(tmp_path, myst))[-1].source == expected


@pytest.mark.parametrize(
    ("myst", "reason"),
    [
        ("{eq}`nowhere`", "12_second.ipynb refers to 'nowhere', which nothing defines"),
        ("{glue:text}`nothing`", "'nothing', which nothing defines"),
        ("[x](gone.ipynb)", "gone.ipynb, which does not exist"),
        ("{abbr}`x`", "the role {abbr} has no plain form"),
        (":::{figure} x.svg\n:::", "the box {figure} has no plain form"),
        ("Some [text]{.planned}.", "has no plain form"),
    ],
)
def test_what_has_no_plain_form_is_named(myst, reason, plain, tmp_path):
    with pytest.raises(plain.PlainError, match=re.escape(reason)):
        made(plain, course(tmp_path, myst))


def test_title_links_to_the_site_and_figures_have_their_numbers(plain, tmp_path):
    cells = made(plain, course(tmp_path, "# Second\n\nText."))
    assert [cell.source for cell in cells[1:]] == [
        "*Figure 12.1*",
        f"# Second\n\n*The same chapter [on the course's site]({SITE}/12_second.html).*\n\nText.",
    ]


def test_another_address_changes_every_link_and_install_cell(root, plain, tmp_path):
    """A fork changes one line of _config.yml and runs `make release`; nothing that it makes still names us."""
    for part in ("book/*.ipynb", "book/*.md", "book/*.bib", "solutions/0[18]*.ipynb", "CITATION.cff", "_config.yml"):
        for path in root.glob(part):
            target = tmp_path / path.relative_to(root)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
    config = (root / "_config.yml").read_text(encoding="utf-8")
    ours = re.search(r"url: https://github.com/(\S+)", config)[1]
    assert config.count(ours) == 1, "the address stands in one line"
    (tmp_path / "_config.yml").write_text(config.replace(ours, "someone/their-course"), encoding="utf-8")
    subprocess.run([sys.executable, root / "book" / "plain.py", "--root", tmp_path], check=True, capture_output=True)
    owner, name = ours.split("/")
    still = [
        path.relative_to(tmp_path)
        for path in tmp_path.rglob("*.*")
        if path.is_file() and re.search(rf"{owner}/{name}|{owner}\.github\.io", path.read_text(encoding="utf-8"))
    ]
    assert still == []
    for folder in ("book", "book/plain", "solutions"):
        cells = nbformat.read(tmp_path / folder / "08_attention_layer.ipynb", as_version=4).cells
        assert "git+https://github.com/someone/their-course" in next(c for c in cells if c.cell_type == "code").source
    again = [sys.executable, root / "book" / "plain.py", "--check", "--root", tmp_path]
    assert subprocess.run(again, capture_output=True).returncode == 0
