"""The rubric that the page on grading shows is whole: it loads, right answers pass, wrong ones get their hint."""

import re
from pathlib import Path

import pytest
import torch

import lecturelib
from lecturelib.grading.rubric.rubric import Rubric, rubric_from_source
from lecturelib.grading.rubric.runner import run
from lecturelib.grading.rubric.submission import LocalSubmission

PAGE = Path(lecturelib.__file__).parent.parent / "book" / "how_grading_works.md"


@pytest.fixture
def rubric() -> Rubric:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return rubric_from_source(source, "my_set")


def test_reference_earns_every_point(rubric):
    results = run(rubric, rubric.solution, seed=3)
    assert [(test.name, test.outcome, test.message) for test in results if not test.passed] == []
    assert rubric.points == 6


def test_written_question_of_the_page_is_one(rubric):
    (source,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(source, {"rubric": rubric})
    assert rubric.points_of("why") == 3
    assert rubric.points == 9


def test_wrong_answers_fail_with_a_reason(rubric):
    class Gate(torch.nn.Linear):
        def __init__(self, d_model):
            super().__init__(d_model, d_model)

    def batches(items, size):
        return [items[i : i + size] for i in range(0, len(items) - size + 1, size)] if size else []

    late, lenient, gate = run(rubric, LocalSubmission({"batches": batches, "Gate": Gate}), seed=3)
    assert (late.mistake, late.hint) == ("drops_the_last", "The last, shorter batch is missing.")
    assert lenient.message == "should raise ValueError here, and did not"
    assert gate.outcome == "error"
    assert "proj.weight" in gate.message
