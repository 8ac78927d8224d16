"""Statements about scenes: right ones are true, wrong ones false in the one fact that is named; boxes hold things."""

from collections import Counter

import pytest
import torch

from lecturelib.data.sets.scene_statements import (
    BOXES,
    FACTS,
    KINDS,
    NOTHING,
    Statement,
    draw_scene_boxes,
    draw_statements,
    place_of_boxes,
    regions_of_grid,
)
from lecturelib.data.sets.scenes import HELD_OUT, SIDE, Scene, Thing


@pytest.mark.parametrize("which", ["train", "held_out"])
def test_right_statements_are_true_and_wrong_ones_false(which):
    pairs = draw_statements(60, which=which, seed=4)
    assert Counter(pair.fact for pair in pairs) == dict.fromkeys(FACTS, 15)
    for scene, right, wrong, _ in pairs:
        assert right.is_true(scene)
        assert not wrong.is_true(scene)
        if which == "train":
            assert not {right.kind, wrong.kind} & set(HELD_OUT)
        else:
            assert right.kind in HELD_OUT


@pytest.mark.parametrize("fact", FACTS)
def test_wrong_statements_differ_in_their_fact_alone(fact):
    for scene, right, wrong, said in draw_statements(40, fact=fact, seed=7):
        assert said == fact
        present = {name for thing in scene.things for name in thing.kind}
        changed = [name for name in Statement._fields if getattr(right, name) != getattr(wrong, name)]
        assert changed == [{"binding": "colour"}.get(fact, fact)]
        if fact != "number":
            new = getattr(wrong, changed[0])
            assert (new in present) is (fact == "binding")  # a colour that is there, but not on this shape


def test_neither_number_is_likelier_to_be_right():
    pairs = draw_statements(40, fact="number", seed=2)
    assert Counter(pair.right.number for pair in pairs) == {1: 20, 2: 20}


def test_statements_are_the_same_for_the_same_seed_and_others_for_another():
    assert draw_statements(10, seed=1) == draw_statements(10, seed=1)
    assert draw_statements(10, seed=1) != draw_statements(10, seed=2)
    with pytest.raises(ValueError, match=r"fact must be one of .* got 'size'"):
        draw_statements(1, fact="size")


def scene() -> Scene:
    things = (("red", "circle", 4, 4), ("red", "circle", 4, 20), ("blue", "cross", 28, 12))
    return Scene(tuple(Thing(colour, shape, x, y, 3.0) for colour, shape, x, y in things))


@pytest.mark.parametrize(
    ("statement", "words", "is_true"),
    [
        (Statement(2, "red", "circle"), "two red circles", True),
        (Statement(1, "red", "circle"), "a red circle", False),
        (Statement(1, "blue", "circle"), "a blue circle", False),
        (Statement(1, "blue", "cross"), "a blue cross", True),
        (Statement(3, "red", "cross"), "three red crosses", False),
    ],
)
def test_a_statement_is_read_as_it_is_said(statement, words, is_true):
    assert " ".join(statement.words()) == words
    assert statement.is_true(scene()) is is_true


def test_boxes_hold_their_things_and_the_others_hold_ground():
    scenes = [pair.scene for pair in draw_statements(12, seed=3)]
    boxes, classes = draw_scene_boxes(scenes, seed=1)
    assert boxes.shape == (12, BOXES, 4)
    for row, one in enumerate(scenes):
        found = Counter(classes[row].tolist())
        assert found.pop(NOTHING) == BOXES - len(one.things)
        assert found == Counter(KINDS.index(thing.kind) for thing in one.things)
        for thing in one.things:
            left, top, right, bottom = boxes[row].unbind(-1)
            holds = (left <= max(0, thing.x - thing.radius)) & (right >= min(SIDE, thing.x + thing.radius))
            holds &= (top <= max(0, thing.y - thing.radius)) & (bottom >= min(SIDE, thing.y + thing.radius))
            assert classes[row][holds].tolist() == [KINDS.index(thing.kind)]
    assert not torch.equal(draw_scene_boxes(scenes, seed=2).classes, classes)  # in another order


def test_regions_take_the_largest_value_inside_their_box_and_the_mean_of_all():
    grid = torch.zeros(1, 16, 3)  # 4 × 4 cells of 8 pixels
    grid[0, 5, 0], grid[0, 6, 1], grid[0, 15, 2] = 5.0, 6.0, -7.0
    boxes = torch.tensor([[[8.0, 8, 24, 16], [25, 25, 27, 27], [0, 0, 8, 8]]])
    regions = regions_of_grid(grid, boxes)
    assert regions.shape == (1, 4, 8)
    assert torch.equal(regions[0, :, :3], torch.tensor([[5 / 16, 6 / 16, -7 / 16], [5, 6, 0], [0, 0, -7], [0, 0, 0]]))
    assert torch.equal(regions[0, 0, 3:], torch.tensor([0.0, 0, 1, 1, 1]))
    assert torch.equal(regions[0, 1, 3:], torch.tensor([0.25, 0.25, 0.75, 0.5, 0.125]))
    assert torch.equal(place_of_boxes(boxes), regions[:, 1:, 3:])
    with pytest.raises(ValueError, match="15 is no square number"):
        regions_of_grid(grid[:, :15], boxes)
