"""Nested scenes: what is inside what, and what a click on it may mean."""

import torch

from lecturelib.data.sets.nested import LEVELS, SIDE, boxes, draw_boxes, draw_clicks, draw_nested

SCENES = draw_nested(60, seed=3)
ROWS = torch.arange(60)[:, None].expand(60, 5)


def test_scenes_are_the_same_again_and_differ_by_seed():
    again, other = draw_nested(60, seed=3), draw_nested(60, seed=4)
    assert torch.equal(again.images, SCENES.images)
    assert torch.equal(again.masks, SCENES.masks)
    assert not torch.equal(other.masks, SCENES.masks)
    assert SCENES.images.shape == (60, 3, SIDE, SIDE)
    assert 0 <= SCENES.images.min() < SCENES.images.max() <= 1


def test_levels_lie_within_each_other_and_things_apart():
    whole, part, sub = SCENES.masks.unbind(2)
    assert not (part & ~whole).any()
    assert not (sub & ~part).any()
    assert whole.sum(dim=1).max() == 1
    there = SCENES.masks.flatten(3).any(dim=3)  # (B, things, levels)
    assert set(there[..., 0].sum(dim=1).tolist()) == {1, 2, 3}
    assert set(there.sum(dim=2).flatten().tolist()) == {0, 1, 2, 3}
    assert SCENES.visible.flatten(3).sum(dim=3)[there].min() >= 8  # enough to click on
    assert torch.equal(SCENES.visible.any(dim=2), whole)


def test_every_visible_level_has_one_colour_of_its_own():
    inner = -torch.nn.functional.max_pool2d(-SCENES.visible.flatten(0, 2).float().unsqueeze(1), 3, 1, 1) > 0
    inner = inner.view_as(SCENES.visible)
    for scene, thing, level in inner.flatten(3).any(dim=3).nonzero().tolist():
        pixels = SCENES.images[scene][:, inner[scene, thing, level]]  # (3, pixels)
        assert pixels.std(dim=1, correction=0).max() < 1e-3
        if level and inner[scene, thing, level - 1].any():
            around = SCENES.images[scene][:, inner[scene, thing, level - 1]]
            assert (pixels[:, 0] - around[:, 0]).abs().max() > 0.1


def test_click_means_its_level_or_one_around_it_equally_often():
    scenes = draw_nested(500, seed=8)
    asked = draw_clicks(scenes, questions=9, clicks=1, seed=2)
    rows = torch.arange(500)[:, None].expand(500, 9)
    x, y = asked.points[:, :, 0].long().unbind(-1)
    assert scenes.visible[rows, asked.thing, asked.clicked, y, x].all()
    assert torch.equal(asked.targets, scenes.masks[rows, asked.thing, asked.meant])
    assert asked.targets[rows, torch.arange(9), y, x].all()
    assert (asked.kinds == torch.tensor([1, -1])).all()
    for clicked in range(len(LEVELS)):
        meant = asked.meant[asked.clicked == clicked]
        shares = torch.bincount(meant, minlength=3) / len(meant)
        want = torch.tensor([1 / (clicked + 1) if level <= clicked else 0.0 for level in range(3)])
        assert len(meant) > 500
        torch.testing.assert_close(shares, want, atol=0.08, rtol=0)


def test_later_clicks_say_truly_whether_they_belong():
    asked = draw_clicks(SCENES, questions=5, clicks=4, seed=5)
    assert asked.points.shape == (60, 5, 5, 2)
    x, y = asked.points[:, :, :4].long().unbind(-1)
    found = asked.targets[ROWS[..., None], torch.arange(5)[:, None], y, x]
    assert torch.equal(found.long(), asked.kinds[..., :4])
    assert set(asked.kinds[..., 1:4].flatten().tolist()) == {0, 1}
    assert (asked.kinds[..., 4] == -1).all()


def test_boxes_hold_their_masks_to_within_a_pixel():
    mask = torch.zeros(7, 9, dtype=torch.bool)
    mask[2:5, 3] = mask[4, 6] = True
    assert boxes(mask).tolist() == [[3, 2], [6, 4]]
    asked = draw_boxes(SCENES, questions=5, seed=5)
    assert (asked.kinds == torch.tensor([2, 3])).all()
    exact = boxes(asked.targets)
    assert (asked.points - exact).abs().max() == 1
    assert torch.equal(asked.targets, draw_clicks(SCENES, questions=5, seed=5).targets)
