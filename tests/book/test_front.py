"""The front page: its counts are counted, its cards come from the chapters."""

import json

import pytest


@pytest.fixture(scope="module")
def front(root, load_script):
    return load_script(root / "book" / "_ext" / "front.py")


def notebook(tmp_path, name, cells):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return path


def code(source, *tags, html=None):
    outputs = [{"data": {"text/html": [html]}}] if html else []
    return {"cell_type": "code", "source": [source], "metadata": {"tags": list(tags)}, "outputs": outputs}


def text(source):
    return {"cell_type": "markdown", "source": [source], "metadata": {}}


def figure(name: str, drawn: str) -> str:
    return f'<figure class="course-figure" data-name="{name}">{drawn}</figure>'


def exercise(title):
    return text(f"## {title}\n\n**3 points · about 10 minutes · difficulty ●○○○○ 1/5**\n\nWrite it.")


def test_proof_counts_asserting_cells_tests_and_exercises(front, tmp_path):
    cells = [code("x = 1\nassert x == 1"), code("x = 1  # assert nothing"), code("torch.testing.assert_close(a, b)")]
    notebook(tmp_path, "book/01_a.ipynb", cells)
    notebook(tmp_path, "exercises/01_a.ipynb", [text("# Exercises"), exercise("Exercise 1: x"), exercise("My network")])
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text("def test_a(): ...\ndef helper(): ...\ndef test_b(): ...\n")
    assert [count for count, _ in front.counted_proof(tmp_path)] == [2, 2, 2, 0]


def test_card_has_number_title_line_minutes_exercises_and_a_figure(front, tmp_path):
    svg = '<svg class="for-page" role="img" aria-label="Loss falls."><path d="M0 0"/></svg>'
    cells = [text("# Windows & walls\n" + "word " * 900), code("plot()", "hide-input", html=figure("sw-fig-x", svg))]
    notebook(tmp_path, "book/16_swin.ipynb", cells)
    notebook(tmp_path, "exercises/16_swin.ipynb", [exercise("Exercise 1: x"), text("## All at once")])
    card = front.card(tmp_path / "book", "16_swin", "sw-fig-x", "Attention in windows")
    assert 'href="16_swin.html"' in card
    assert '<span class="number">16</span> Windows &amp; walls' in card
    assert "10 min · 1 exercises" not in card
    assert "10 min · 1 exercise" in card
    assert '<svg aria-hidden="true" preserveAspectRatio="xMidYMin slice"><path d="M0 0"/></svg>' in card
    assert "aria-label" not in card


def test_every_set_has_its_exercises_counted(front, root):
    sets = sorted((root / "exercises").glob("*.ipynb"))
    graded = {path.stem: path.read_text(encoding="utf-8").count('"check(\\"') for path in sets}
    counted = {path.stem: front.exercises_of(path) for path in sets}
    assert all(counted[name] >= max(1, graded[name]) for name in counted), counted  # written answers have no check


def test_thumbnail_is_the_named_figure_and_keeps_the_rules_of_a_diagram(front):
    rules = "<style>.lecturelib-diagram .wire{fill:none}</style>"
    other = figure("xx-fig-other", '<svg viewBox="0 0 10 30"><path d="M1 1"/></svg>')
    named = figure("xx-fig-named", '<svg viewBox="0 0 30 10"><path class="wire" d="M2 2"/></svg>' + rules)
    shown = front.thumbnail([code("draw()", html=other), code("draw()", html=named)], "xx-fig-named")
    assert "M2 2" in shown
    assert "M1 1" not in shown
    assert shown.startswith('<span class="lecturelib-diagram">')
    assert shown.endswith(rules)


def test_a_thumbnail_that_is_not_there_or_too_large_is_named(front):
    large = figure("xx-fig-large", f'<svg viewBox="0 0 9 9"><path d="{"M1 1" * 10_001}"/></svg>')
    with pytest.raises(ValueError, match="no figure xx-fig-missing"):
        front.thumbnail([code("draw()", html=large)], "xx-fig-missing")
    with pytest.raises(ValueError, match="xx-fig-large has 40,0"):
        front.thumbnail([code("draw()", html=large)], "xx-fig-large")


def test_folded_code_takes_no_reading_time(front):
    long = "x = 1\n" * 600
    assert front.minutes_of([code(long, "hide-input")]) == 0
    assert front.minutes_of([code(long)]) == 50


def test_next_leads_to_the_first_chapter(soup):
    assert soup("intro").select_one("a.right-next")["href"] == "01_sequences.html"
