"""What a student sees: reports, pictures, packed checks, `lecturelib check`."""

import base64
import math
import zipfile
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lecturelib.cli import main
from lecturelib.grading.check import heatmap
from lecturelib.grading.check.checker import load_checks
from lecturelib.grading.check.inline import inline_html
from lecturelib.grading.check.packing import pack_rubric, packed_name, unpack
from lecturelib.grading.rubric.results import Picture
from lecturelib.grading.rubric.rubric import rubric_from_source
from lecturelib.grading.sandbox.worker import wire
from lecturelib.grading.sandbox.worker.packages import not_there
from lecturelib.grading.sandbox.worker.stand_in import NOT_THERE

ROOT = Path(__file__).parents[2]

RUBRIC = '''
"""A small set."""
import torch
from lecturelib.grading import Rubric, assert_close

rubric = Rubric("00_small", title="Small")
rubric.exercise("double", title="Double it", minutes=1, difficulty=1)
rubric.exercise("scores", title="Scores", minutes=2, difficulty=2, defines=("row_softmax",))

SECRET = "used by a hidden test only"

@rubric.reference
def double(x):
    return 2 * x

@rubric.reference
def row_softmax(x):
    return x.softmax(-1)

@rubric.mistake("double", "That is the *square*; `x + x` is not.")
def square(x):
    return x * x

# a remark about the hidden test
@rubric.test("double", points=1, visible=True, hint="Twice.")
def doubles(submission, rng):
    x = torch.randn(3, 4, generator=rng)
    assert_close(submission.double(x), double(x))

def only_for_hidden(x):
    return SECRET

@rubric.test("double", points=2, visible=False, hint="Still twice.")
def doubles_in_secret(submission, rng):
    only_for_hidden(3)
    assert_close(submission.double(2), 4)

@rubric.test("scores", points=1, visible=True, hint="Rows sum to 1.", needs=("double",))
def rows(submission, rng):
    x = torch.randn(3, 4, generator=rng)
    assert_close(submission.row_softmax(x), row_softmax(x))
'''
BLOB = pack_rubric(rubric_from_source(RUBRIC, "00_small"))
RIGHT = "import torch\ndef double(x): return x + x\ndef row_softmax(x): return torch.softmax(x, -1)\n"


def namespace(source: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    exec(source, made)
    return made


def test_packing_keeps_values_and_no_source() -> None:
    text = repr(unpack(BLOB))
    for secret in ("doubles_in_secret", "Still twice", "SECRET", "only_for_hidden", "a remark", "def ", "softmax(-1)"):
        assert secret not in text
    assert "That is the *square*" in text


def packed(test: str) -> str:
    head = RUBRIC[: RUBRIC.index("# a remark")]
    return pack_rubric(rubric_from_source(f"{head}\n{test}", "00_small"))


COMPUTED = """
@rubric.test("double", points=1, visible=True)
def computes(submission, rng):
    assert_close(submission.double(3.0) + 1, 7.0)
"""
UNCOMPARED = """
@rubric.test("double", points=1, visible=True)
def forgets(submission, rng):
    assert submission.double(3.0) == 6.0
"""
GIVEN = """
OFFSET = 3

@rubric.given
class Model:
    def __init__(self, rng):
        self.weight = torch.randn(4, generator=rng)

    def run(self, x):
        return x * self.weight + OFFSET

@rubric.test("double", points=1, visible=True)
def takes_a_model(submission, rng):
    model, x = Model(rng), torch.randn(4, generator=rng)
    assert_close(submission.double(model.run, x), 2 * model.run(x))
"""


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (COMPUTED, "computed from an answer"),
        (UNCOMPARED, "does not compare its answer"),
        (GIVEN.replace("@rubric.given\n", ""), "mark its class with @rubric.given"),
        (GIVEN.replace("+ OFFSET", "+ double(x)"), "uses double; a notebook carries its source"),
    ],
)
def test_packing_refuses_what_values_cannot_say(test: str, message: str) -> None:
    double = (
        "@rubric.reference\ndef double(*given):\n    return 2 * (given[0](given[1]) if len(given) > 1 else given[0])\n"
    )
    with pytest.raises(ValueError, match=message):
        packed(double + test)


def test_given_models_travel_with_their_weights() -> None:
    double = "@rubric.reference\ndef double(model, x):\n    return 2 * model(x)\n"
    blob = packed(double + GIVEN)
    assert load_checks(blob, namespace("def double(model, x): return model(x) + model(x)"))().passed
    assert not load_checks(blob, namespace("def double(model, x): return model(2 * x)"))().passed


@pytest.mark.parametrize("damaged", ["", "no base64!", BLOB[:-40], BLOB.replace(BLOB[40:44], "AAAA")])
def test_damaged_checks_say_so_and_do_not_raise(damaged: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = load_checks(damaged, {})("double")
    assert "could not be loaded" in repr(report)
    assert not report.passed
    assert "could not be loaded" in capsys.readouterr().out


def test_check_passes_a_right_answer() -> None:
    check = load_checks(BLOB, namespace(RIGHT))
    assert check().passed
    assert repr(check("double")) == "Double it: the check passes (1 of 1 point here, 2 more in grading).\n  ✓ doubles"
    assert check(namespace(RIGHT)["row_softmax"]).passed


def test_check_names_the_mistake_and_draws_it() -> None:
    report = load_checks(BLOB, namespace(RIGHT.replace("x + x", "x ** 2")))("double")
    assert "Hint: That is the *square*" in repr(report)
    assert "yours, 3×4:" in repr(report)
    page = report._repr_html_()
    assert "<em>square</em>" in page
    assert 'role="img"' in page
    assert "of the 12 values shown differ visibly, the first in row 0, column 0" in page


def test_check_says_what_is_asked_where_it_does_not_know_the_mistake() -> None:
    report = load_checks(BLOB, namespace(RIGHT.replace("x + x", "x + 7")))("double")
    assert "Hint" not in repr(report)
    assert "What is asked: Twice." in repr(report)
    assert "<strong>What is asked.</strong>" in report._repr_html_()


def test_check_says_which_earlier_function_a_check_waits_for() -> None:
    report = load_checks(BLOB, namespace(RIGHT.replace("x + x", "x").replace("(x, -1)", "(x, 0)")))("scores")
    assert "this builds on `double`, which does not pass yet: mend that first" in repr(report)
    assert "Hint" not in repr(report)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "not started. `double` is not defined. Run its cell"),
        ("def double(x): raise NotImplementedError", "`double` is not written yet. Replace its"),
        ("def double(x): return None", "the result is None: is a `return` missing?"),
        ("def double(): return 1", "double raised TypeError: double() takes 0 positional arguments"),
        ("def double(x): raise SystemExit", "double raised SystemExit"),
        ("def double(x): return double(x)", "double raised RecursionError"),
        ("double = 3", "'int' object is not callable"),
    ],
)
def test_check_answers_whatever_the_student_wrote(source: str, message: str) -> None:
    report = load_checks(BLOB, namespace(source))("double")
    assert message in repr(report)
    assert report._repr_html_()
    assert not report.passed


def test_check_of_an_unknown_exercise_lists_the_known() -> None:
    assert 'The exercises are "double", "scores".' in repr(load_checks(BLOB, {})("triple"))


def test_check_survives_an_interrupt() -> None:
    report = load_checks(BLOB, namespace("def double(x): raise KeyboardInterrupt"))("double")
    assert "Stopped before an answer came" in repr(report)


def test_report_escapes_what_students_write() -> None:
    report = load_checks(BLOB, namespace('def double(x): raise ValueError("<script>alert(1)</script>")'))("double")
    assert "<script>" not in report._repr_html_()


class Balance(HTMLParser):
    """Opens and closes must match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_is_well_formed_html_without_foreign_addresses() -> None:
    page = load_checks(BLOB, namespace(RIGHT.replace("x + x", "x / 0")))()._repr_html_()
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert page.replace("http://www.w3.org/2000/svg", "").count("http") == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1"), (0.333, "0.33"), (-12.5, "−12.50"), (math.nan, "NaN"), (-math.inf, "-∞"), (-1e9, "−1e9")],
)
def test_heatmap_numbers_are_short(value: float, text: str) -> None:
    assert heatmap.short(value) == text


def test_heatmap_of_other_shapes_says_both() -> None:
    picture = Picture(got=((1.0, 2.0),), want=((1.0,), (2.0,)), got_shape=(1, 2), want_shape=(2, 1))
    assert heatmap.alt_text(picture) == "Your result has shape (1, 2); the expected one has shape (2, 1)."
    assert "yours 1×2" in heatmap.svg(picture)


def test_inline_markup_is_set_after_escaping() -> None:
    assert inline_html("`a<b` is *so*, 2 * 3 * 4") == "<code>a&lt;b</code> is <em>so</em>, 2 * 3 * 4"


def write_notebook(path: Path, *sources: str) -> Path:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))
    return path


CHECKS = f'from lecturelib.grading import load_checks\ncheck = load_checks("""{BLOB}""", globals())'


def test_cli_check_runs_a_notebook_with_magics_prints_and_a_failing_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    magics = "%matplotlib inline\n!pip install nothing\nif True:\n    %time 3\nprint('noise')"
    path = write_notebook(tmp_path / "a.ipynb", magics, CHECKS, "1 / 0", RIGHT, "check('double')")
    assert main(["check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "code cell 3: ZeroDivisionError: division by zero" in out
    assert "Double it: the check passes" in out
    assert "noise" not in out


def test_cli_check_exits_with_1_when_something_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_notebook(tmp_path / "a.ipynb", CHECKS, RIGHT.replace("x + x", "x * x"))
    assert main(["check", str(path), "--exercise", "double"]) == 1
    assert "Hint: That is the *square*" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{bad", "does not appear to be JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1]", "not a notebook"),
        (b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (b'{"cells": [], "nbformat": 99, "nbformat_minor": 5, "metadata": {}}', "nbformat version 99"),
        (b"[" * 100_000, "not a notebook"),
        (b'{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "carries no checks"),
    ],
)
def test_cli_check_of_a_malformed_notebook_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    assert main(["check", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_cli_check_of_a_broken_cell_that_mentions_the_checks_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(write_notebook(tmp_path / "a.ipynb", "load_checks('x'"))]) == 2
    assert "carries no checks" in capsys.readouterr().err


def test_cli_check_of_a_missing_file_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nowhere.ipynb"]) == 2
    assert "no notebook at nowhere.ipynb" in capsys.readouterr().err


@pytest.mark.parametrize(
    "source",
    [
        "from lecturelib.layers import dot_product_attention as double",
        "import lecturelib.layers\ndef double(x): return lecturelib.layers.causal_mask(3)",
        "from lecturelib.layers import causal_mask\ndef part(x): return causal_mask(x)\ndef double(x): return part(x)",
        "def double(x):\n    from lecturelib.layers import causal_mask\n    return causal_mask(3)",
        "import functools, lecturelib.layers\ndouble = functools.partial(lecturelib.layers.causal_mask)",
        "from lecturelib.layers import RMSNorm\ndouble = RMSNorm(3)",
        "from lecturelib.layers import RMSNorm\nnorm = RMSNorm(3)\ndef double(x): return norm(x)",
        "from lecturelib.layers import causal_mask\ndef double(x, make=causal_mask): return make(3)",
        "import torch\nfrom lecturelib.layers import causal_mask as m\n@torch.no_grad()\ndef double(x): return m(3)",
        "from lecturelib.layers import causal_mask\nclass A:\n    @staticmethod\n    def f(x): return causal_mask(3)\n"
        "def double(x): return A.f(x)",
    ],
)
def test_check_says_of_lecturelibs_own_what_the_grader_says(source: str) -> None:
    assert NOT_THERE in repr(load_checks(BLOB, namespace(source))("double"))


def test_check_takes_an_attribute_for_no_name_of_lecturelibs() -> None:
    source = (
        "from lecturelib.training import train\ndef double(x):\n    torch.nn.Linear(1, 1).train()\n    return 2 * x"
    )
    assert load_checks(BLOB, namespace(f"import torch\n{source}"))("double").passed


def test_bundle_holds_exercises_and_nothing_else(tmp_path: Path) -> None:
    assert main(["release", "--root", str(ROOT), "--bundle", str(tmp_path / "b.zip"), "16_swin"]) == 0
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert archive.namelist() == ["exercises/README.txt", "exercises/16_swin.ipynb"]
        assert "BEGIN SOLUTION" not in archive.read("exercises/16_swin.ipynb").decode()


def test_check_says_of_a_package_what_the_grader_says() -> None:
    source = RIGHT.replace("return x + x", "return yaml.safe_load('[]') or x + x") + "\nimport yaml\n"
    assert not_there("yaml") in repr(load_checks(BLOB, namespace(source))("double"))
    assert load_checks(BLOB, namespace(RIGHT + "\nimport yaml\n"))(
        "double"
    ).passed  # what does not use it is not held up


WRITTEN = """
rubric.written("why", title="Why twice?", minutes=1, difficulty=1, items={"names the reason": 2, "gives a case": 1})
"""
READ = "“Why twice?” is answered in words: nothing checks it, and a person gives its 3 points."


def test_check_says_that_a_person_reads_what_is_answered_in_words():
    blob = pack_rubric(rubric_from_source(RUBRIC + WRITTEN, "00_small"))
    check = load_checks(blob, namespace(RIGHT))
    assert "names the reason" not in repr(unpack(blob))
    assert repr(check("why")) == READ
    assert repr(check()).endswith(f"Together: 2 of 2 points here, 2 more in grading.\n\n{READ}")
    assert READ in check()._repr_html_()
    assert check().passed
    assert READ not in repr(check("double"))


def test_strangers_checks_say_their_set_and_run_nothing():
    assert packed_name(BLOB) == "00_small"
    for name in ("00_small", "<script>", "x" * 100, 7):
        about = wire.encode({"name": name, "given": "raise SystemExit", "exercises": []})
        said = packed_name(base64.b64encode(zlib.compress(about)).decode())
        assert said == ("00_small" if name == "00_small" else "")
    bomb = base64.b64encode(zlib.compress(bytes(100 << 20))).decode()
    assert [packed_name(blob) for blob in ("", "no base64", "AAAA", BLOB[:200], bomb)] == [""] * 5
