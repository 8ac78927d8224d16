"""Reading strangers' notebooks: what is forgiven, what is refused, and that refusals say why."""

import json
import os
import time

import pytest

from lecturelib.grading.notebook import MOST_BYTES, MOST_NOTES, NotebookError, parse_notebook, read_notebook


def notebook(*sources: str | list[str], **changes: object) -> bytes:
    cells = [{"cell_type": "code", "source": source} for source in sources]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells} | changes).encode()


def test_code_cells_are_read_with_their_numbers():
    content = json.dumps(
        {
            "nbformat": 4,
            "cells": [
                {"cell_type": "markdown", "source": "# Title"},
                {"cell_type": "code", "source": ["x = 1\n", "y = 2"]},
                {"cell_type": "code", "source": ""},
                {"cell_type": "raw", "source": "z"},
                {"cell_type": "code", "source": "z = 3"},
            ],
        }
    )
    read = parse_notebook(content.encode())
    assert read.cells == ((2, "x = 1\ny = 2"), (5, "z = 3"))
    assert read.notes == ()


def test_notes_of_a_notebook_are_few_however_many_lines_are_skipped():
    read = parse_notebook(notebook("!ls\n" * 10_000))
    assert len(read.notes) == MOST_NOTES + 1
    assert read.notes[-1] == "and 9950 more like these"


def test_old_and_newer_formats_are_read_with_a_note():
    old = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": ["a = 1"], "language": "python"}]}]}
    read = parse_notebook(json.dumps(old).encode())
    assert read.cells == ((1, "a = 1"),)
    assert "old format 3" in read.notes[0]
    assert "format 5" in parse_notebook(notebook("a = 1", nbformat=5)).notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf \r\n", "the file is empty"),
        (b"{", "not JSON"),
        (b"[]", "JSON list, not a notebook"),
        (b"{}", "does not say which notebook format"),
        (notebook("x", nbformat=1), "format 1 is not one we can read"),
        (notebook("x", nbformat="4"), "does not say which"),
        (notebook("x", nbformat=True), "does not say which"),
        (notebook("x", nbformat=3), "worksheets"),
        (notebook("x", cells={}), "list of cells"),
        (notebook("x", cells=[1]), "cell 1 is not a cell"),
        (notebook("x", cells=[{"cell_type": "code", "source": 5}]), "source of cell 1 is not text"),
        (notebook("x", cells=[{"cell_type": "code"}] * 2001), "2001 cells"),
        (notebook("x = 1\n" * 200_000), "more than 1 MB of code"),
        ("x = 'ä'".encode("latin-1"), "not text in UTF-8"),
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        (notebook("load_checks()\nx = 0x" + "f" * 10_000), "a cell cannot be read"),
        (b'{"nbformat": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_what_cannot_be_read_says_why(content, message):
    with pytest.raises(NotebookError, match=message):
        parse_notebook(content)


def test_encodings_with_a_byte_order_mark_are_read():
    text = notebook("x = 'ä'").decode()
    assert parse_notebook(b"\xef\xbb\xbf" + text.encode()).cells == ((1, "x = 'ä'"),)
    utf16 = parse_notebook(text.encode("utf-16"))
    assert utf16.cells == ((1, "x = 'ä'"),)
    assert "UTF-16" in utf16.notes[0]


def test_files_that_are_too_large_or_not_regular_are_refused_unread(tmp_path):
    large = tmp_path / "large.ipynb"
    with open(large, "wb") as stream:
        stream.truncate(100 << 20)
    with pytest.raises(NotebookError, match=f"100 MB, more than the {MOST_BYTES >> 20} MB"):
        read_notebook(large)
    pipe = tmp_path / "pipe.ipynb"
    os.mkfifo(pipe)
    with pytest.raises(NotebookError, match="not a regular file"):
        read_notebook(pipe)
    with pytest.raises(NotebookError, match="cannot be opened"):
        read_notebook(tmp_path / "absent.ipynb")
    with pytest.raises(NotebookError, match="not a regular file"):
        read_notebook(tmp_path)


@pytest.mark.parametrize(
    ("source", "want", "note"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1", "`%matplotlib inline` was skipped"),
        ("!pip install einops\nimport torch", "pass\nimport torch", "`!pip install einops` was skipped"),
        ("if True:\n    !ls\n    y = 2", "if True:\n    pass\n    y = 2", "`!ls` was skipped"),
        ("%%time\nx = 1", "pass\nx = 1", "its code was run"),
        ("%%capture out\n%load_ext autoreload\nx = 1", "pass\npass\nx = 1", "autoreload"),
        ("%time x = f(3)", "x = f(3)", None),
        ("x = %time f(3)", "x = f(3)", None),
        ("!pip install \\\n    einops \\\n    tqdm\nx = 1", "pass\n\n\nx = 1", "`!pip install \\` was skipped"),
        ("!echo \ud800\nx = '\ud800'", "pass\nx = '?'", "`!echo ?` was skipped"),
        ("files = !ls\nx = 1", "files = []\nx = 1", "files is empty"),
        ("torch.nn.Linear?\nx = 1", "pass\nx = 1", "Linear?"),
        ("x = (7\n% 4)", "x = (7\n% 4)", None),
        ('text = """\n%magic\n!shell\n"""', 'text = """\n%magic\n!shell\n"""', None),
    ],
)
def test_magics_are_skipped_with_a_note_and_python_is_left_alone(source, want, note):
    read = parse_notebook(notebook(source))
    assert read.cells == ((1, want),)
    assert (note is None and read.notes == ()) or note in " ".join(read.notes)


def test_cells_in_other_languages_are_skipped_with_a_note():
    read = parse_notebook(notebook("%%bash\nrm -rf x", "x = 1"))
    assert read.cells == ((2, "x = 1"),)
    assert read.notes == ("cell 1 is a %%bash cell and was skipped",)


def test_packed_tests_are_dropped_and_code_beside_them_is_kept():
    source = (
        "from lecturelib.grading import load_checks\n"
        "PACKED = 'eJzLSM3JyQcABiwCFQ=='\n"
        "check = load_checks(PACKED, globals())\n"
        "mine = 5"
    )
    ((_, kept),) = parse_notebook(notebook(source)).cells
    assert "eJz" not in kept
    assert "check = load_checks()" in kept
    assert "mine = 5" in kept
    ((_, kept),) = parse_notebook(notebook("check = load_checks('eJzLSM3JyQ', globals())")).cells
    assert kept == "check = load_checks()"


def test_cell_that_is_not_python_is_passed_on_for_its_error():
    assert parse_notebook(notebook("def broken(:")).cells == ((1, "def broken(:"),)


HARD_TO_SEARCH = {  # lines, each repeated to the longest cell that is searched
    "spaces before what never comes": "a" + " " * 990,
    "names": "a," * 490,
    "assignments": "a = " * 240,
    "questions": "? " * 490,
    "help on a long name": "a." * 490 + "b?!",
    "a time without a statement": "a = %time" + " " * 980,
    "magics": "%%" * 490,
    "lines that go on": "!ls \\",
    "keywords without an end": "f(" + "a=1," * 200,
}


@pytest.mark.parametrize("name", HARD_TO_SEARCH)
def test_cell_that_is_hard_to_search_takes_no_time(name):
    """Seconds of computing, which a busy machine does not add to. One of these took five, for a tenth of a notebook."""
    line = HARD_TO_SEARCH[name] + "\n"
    content = notebook("!x\n" + line * (49_000 // len(line)))
    start = time.process_time()
    parse_notebook(content)
    assert time.process_time() - start < 0.5
