"""Drawings: they agree with the models that they show, and nothing in them collides or is cut off."""

import copy
import itertools
import re
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

from lecturelib.figures import diagrams
from lecturelib.figures.diagrams import (
    Diagram,
    chain_rule_diagram,
    gru_diagram,
    lstm_diagram,
    rnn_diagram,
)
from lecturelib.figures.diagrams.attention import flow
from lecturelib.figures.diagrams.canvas import Rect
from lecturelib.figures.diagrams.parts import Box, Column
from lecturelib.figures.diagrams.shapes import Shapes, watched
from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.cells import GRU, LSTM
from lecturelib.layers.recurrent import Recurrent

from .diagram_examples import EXAMPLES

PHONE = 340  # pixels that a column has on a phone of 390
SMALLEST = 11  # pixels of text there


@pytest.fixture(scope="module", params=EXAMPLES)
def diagram(request):
    return EXAMPLES[request.param]()


def views(diagram):
    return [diagram.wide, diagram.narrow]


def overlap(a: Rect, b: Rect, slack: float = 0.5) -> bool:
    return a.x < b.x + b.w - slack and b.x < a.x + a.w - slack and a.y < b.y + b.h - slack and b.y < a.y + a.h - slack


def test_every_drawing_has_an_example():
    drawings = {name for name in diagrams.__all__ if name.endswith("_diagram")}
    assert {re.split("[ ,]", name)[0] for name in EXAMPLES} == drawings


def test_every_parameter_is_in_one_box_and_every_named_module_exists(diagram):
    assert diagram.problems() == []


def test_shapes_are_what_the_model_gives(diagram):
    """Every shape on a wire was asked of a measurement, and its letters stand for the sizes that were measured."""
    claimed = {text for shapes in diagram.shapes for _, text in shapes.claims}
    for view in views(diagram):
        written = {words.text for words in view.canvas.words if words.style == "shape"}
        assert written <= claimed
    for shapes in diagram.shapes:
        for path, text in shapes.claims:
            pattern = re.escape(path).replace(r"\*", r"\d+")
            found = {s for name, given in shapes.outputs.items() if re.fullmatch(pattern, name) for s in given}
            sizes = tuple(shapes.letters.get(part) or int(part) for part in text.strip("()").split(", "))
            assert not found or found == {sizes}


@pytest.mark.parametrize("name", [name for name in EXAMPLES if " of " not in name])
def test_shapes_do_not_depend_on_the_batch_or_length_of_the_run(name, monkeypatch):
    """A letter that stood for a size by chance would change, or become a number."""
    before = EXAMPLES[name]()._repr_html_()
    monkeypatch.setattr("lecturelib.figures.diagrams.shapes.SMALLEST", 4)
    assert EXAMPLES[name]()._repr_html_() == before


def test_no_two_boxes_overlap(diagram):
    for view in views(diagram):
        for a, b in itertools.combinations(view.canvas.boxes, 2):
            assert not overlap(a.rect, b.rect), (a, b)


def test_words_fit_their_box_and_touch_nothing_else(diagram):
    for view in views(diagram):
        words = view.canvas.words
        for line in words:
            if line.inside is not None:
                assert line.rect.x >= line.inside.x + 1, line
                assert line.rect.w <= line.inside.w - 2, line
                assert line.rect.y >= line.inside.y, line
                assert line.rect.y + line.rect.h <= line.inside.y + line.inside.h + 0.5, line
            else:
                assert not [box for box in view.canvas.boxes if overlap(line.rect, box.rect)], line
        for a, b in itertools.combinations(words, 2):
            assert not overlap(a.rect, b.rect), (a, b)


def test_wires_run_through_no_box_and_through_no_words(diagram):
    for view in views(diagram):
        for wire in view.canvas.wires:
            for (x0, y0), (x1, y1) in itertools.pairwise(wire):
                for step in range(41):
                    x, y = x0 + (x1 - x0) * step / 40, y0 + (y1 - y0) * step / 40
                    point = Rect(x - 0.5, y - 0.5, 1, 1)
                    for box in view.canvas.boxes:
                        assert not overlap(point, box.rect, slack=1.2), (wire, box)
                    for words in view.canvas.words:
                        assert not overlap(point, words.rect), (wire, words)


def test_everything_lies_within_the_picture(diagram):
    for view in views(diagram):
        rects = [box.rect for box in view.canvas.boxes] + [words.rect for words in view.canvas.words]
        rects += [Rect(x, y, 0, 0) for wire in view.canvas.wires for x, y in wire] + view.canvas.extents
        for rect in rects:
            assert rect.x >= 0, rect
            assert rect.y >= 0, rect
            assert rect.x + rect.w <= view.width, rect
            assert rect.y + rect.h <= view.height, rect


def test_text_is_readable_on_a_phone_and_on_a_page(diagram):
    for view, width in ((diagram.narrow, PHONE), (diagram.wide, 640)):
        smallest = min(words.size for words in view.canvas.words)
        assert smallest * min(1, width / view.width) >= SMALLEST, view.width


def test_diagram_carries_its_alt_text_and_asks_nobody_for_anything(diagram):
    page = diagram._repr_html_()
    layouts = 1 if diagram.wide.canvas.svg == diagram.narrow.canvas.svg else 2  # the same drawing is stored once
    assert page.count('role="img" aria-label="') == layouts
    assert diagram.alt in repr(diagram)
    assert "currentColor" in page
    for drawing in re.findall("<svg.*?</svg>", page):
        ElementTree.fromstring(drawing)  # well-formed: a browser would guess, and hide what it cannot
    assert not re.search(r"https?:|#fff|#000|<script| id=", page)


def test_diagram_is_the_same_bytes_every_time():
    for make in (make for name, make in EXAMPLES.items() if " of " not in name):
        torch.manual_seed(1)
        first = make()._repr_html_()
        torch.manual_seed(2)
        assert make()._repr_html_() == first


MEASURE = """() => [...document.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width).map(svg => {
  const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
  const words = [...svg.querySelectorAll('text, tspan')];
  return {
    right: box.right,
    ink: getComputedStyle(words[0]).fill,
    smallest: Math.min(...words.map(word => parseFloat(getComputedStyle(word).fontSize) * scale)),
    outside: words.filter(word => word.getBoundingClientRect().right > box.right + 1).length,
  };
})"""


@pytest.mark.parametrize(("width", "ink"), [(390, "rgb(206, 214, 221)"), (1000, "rgb(33, 37, 41)")])
def test_a_browser_shows_one_layout_in_the_pages_ink_with_readable_words(browser, width, ink):
    drawings = [make()._repr_html_() for name, make in EXAMPLES.items() if " of " not in name]
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_content(f'<!doctype html><body style="margin:0 20px;color:{ink}">{"".join(drawings)}</body>')
    seen = page.evaluate(MEASURE)
    page.close()
    assert len(seen) == len(drawings)
    for drawing in seen:
        assert drawing["right"] <= width - 20
        assert drawing["ink"] == ink
        assert drawing["smallest"] >= SMALLEST
        assert drawing["outside"] == 0


@pytest.mark.parametrize("cell", [LSTM(3, 5), GRU(3, 5)])
def test_rows_of_a_cell_belong_to_the_gate_they_are_drawn_in(cell):
    """Whoever changes the rows that a box stands for changes that gate and no other."""
    diagram = lstm_diagram(cell) if isinstance(cell, LSTM) else gru_diagram(cell)
    x, state = torch.randn(2, 3), tuple(torch.randn(2, 5) for _ in range(cell.num_states))
    letters = {"f": "forget", "i": "input", "g": "candidate", "o": "output", "z": "update", "r": "reset"}
    letters |= {"n": "candidate", "": "candidate"}  # the last is the map inside a GRU's candidate
    before = cell.gates(cell.project(x), state)
    for box in diagram.wide.canvas.boxes:
        for path in box.of:
            name, part, parts = re.fullmatch(r"(\w+)\[(\d)/(\d)\]", path).groups()
            changed = copy.deepcopy(cell)
            changed.get_parameter(name).data.chunk(int(parts))[int(part)].add_(1.0)
            after = changed.gates(changed.project(x), state)
            touched = {gate for gate in before if not torch.equal(before[gate], after[gate])}
            assert letters[box.text] in touched, path
            assert touched <= {letters[box.text], "candidate" if box.text == "r" else ""}, path


def test_attention_as_it_is_drawn_is_what_the_layer_gives():
    layer = MultiHeadAttention(12, 3, kv_dim=10)
    query, key = torch.randn(2, 5, 12), torch.randn(2, 7, 10)
    torch.testing.assert_close(flow(layer, query, key).out, layer(query, key))


def test_a_drawing_of_another_model_is_refused():
    with pytest.raises(ValueError, match="the layer has 2"):
        rnn_diagram(Recurrent(LSTM, 3, 5, bidirectional=True))
    with pytest.raises(ValueError, match="gate must be one of"):
        lstm_diagram(gate="reset")
    with pytest.raises(ValueError, match="do not fit side by side"):
        chain_rule_diagram(("an", "extraordinarily", "long", "sentence", "indeed"))


def two_layers():
    return nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 7))


@pytest.mark.parametrize(
    ("boxes", "problem"),
    [
        ([("0",)], "1.weight is in boxes {}"),
        ([("0",), ("1",), ("1.bias",)], "1.bias is in boxes {'1': 2}"),
        ([("0",), ("1",), ("2",)], "'2', which the model does not have"),
        ([("0",), ("1.weight", "1.bias[0/2]")], "1.bias is in boxes {'0/2': 1}"),
        ([("*",)], None),
        ([("0",), ("1.weight[0/2]", "1.bias"), ("1.weight[1/2]",)], None),
    ],
)
def test_a_drawing_that_disagrees_with_its_model_is_noticed(boxes, problem):
    parts = [Box(f"part {number}", of=of) for number, of in enumerate(boxes)]
    found = Diagram(
        "Two linear layers, one after the other.", lambda narrow: Column(parts), {"": two_layers()}
    ).problems()
    assert any(problem in text for text in found) if problem else found == []


def test_a_shape_that_differs_between_modules_is_refused():
    model = two_layers()
    with watched(model) as outputs:
        model(torch.zeros(2, 3))
    shapes = Shapes({"B": 2, "D": 5}, outputs)
    assert shapes["0"] == "(B, D)"
    assert shapes["1"] == "(B, 7)"
    with pytest.raises(ValueError, match="expected one shape"):
        shapes["*"]
    with pytest.raises(ValueError, match="gave nothing"):
        shapes["3"]


def test_measuring_leaves_the_model_as_it_was():
    model = two_layers().train()
    with watched(model):
        assert not model.training
    assert model.training
    assert not model[0]._forward_hooks
