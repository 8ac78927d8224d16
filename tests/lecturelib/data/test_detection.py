import pytest
import torch

from lecturelib.data import detection_batch, draw_spread, thing_box
from lecturelib.data.sets.scenes import MOST_THINGS, SHAPES, SIDE, Scene, render_scenes


def test_boxes_are_as_tight_as_the_pixels_say():
    """Every box holds all pixels of its thing, and none of its sides is a whole pixel too far out."""
    scenes = draw_spread(40, seed=2)
    batch, masks = detection_batch(scenes), render_scenes(scenes).masks
    assert {thing.shape for scene in scenes for thing in scene.things} == set(SHAPES)
    for row, scene in enumerate(scenes):
        for place, thing in enumerate(scene.things):
            ys, xs = (masks[row, place] > 0).nonzero().unbind(1)
            x, y, width, height = (SIDE * value for value in thing_box(thing))
            for low, high, seen in ((x - width / 2, x + width / 2, xs), (y - height / 2, y + height / 2, ys)):
                assert low - 1 < seen.min() < low + 1.01
                assert high - 1.01 < seen.max() + 1 < high + 1
            assert batch.boxes[row, place].tolist() == pytest.approx(thing_box(thing))
            assert SHAPES[batch.classes[row, place]] == thing.shape


def test_things_stay_in_the_image_and_apart():
    for scene in draw_spread(60, seed=1):
        for place, one in enumerate(scene.things):
            assert one.radius <= min(one.x, one.y, SIDE - one.x, SIDE - one.y)
            for other in scene.things[:place]:
                assert max(abs(one.x - other.x), abs(one.y - other.y)) > one.radius + other.radius


def test_draws_repeat_and_have_as_many_things_as_asked():
    assert draw_spread(5, seed=3) == draw_spread(5, seed=3)
    assert draw_spread(5, seed=3) != draw_spread(5, seed=4)
    assert {len(scene.things) for scene in draw_spread(100, seed=0)} == set(range(1, MOST_THINGS + 1))
    assert {len(scene.things) for scene in draw_spread(9, things=4)} == {4}
    with pytest.raises(ValueError, match="1 to 5 things, got count=2, things=6"):
        draw_spread(2, things=6)


def test_batches_pad_and_know_what_is_real():
    scenes = [Scene(scene.things[:n]) for scene, n in zip(draw_spread(3, things=4), (1, 4, 2), strict=True)]
    batch = detection_batch(scenes)
    assert batch.counts.tolist() == [1, 4, 2]
    assert batch.real.sum(dim=1).tolist() == [1, 4, 2]
    assert not batch.boxes[~batch.real].any()
    assert torch.equal(batch.images, render_scenes(scenes).images)
    assert detection_batch([]).boxes.shape == (0, 1, 4)
