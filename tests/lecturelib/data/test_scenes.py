"""Drawn scenes and their captions, and the wolves in the snow."""

import pytest
import torch

from lecturelib.data.sets.animals import ANIMAL_WORDS, USUAL, draw_animals, render_animals
from lecturelib.data.sets.scenes import (
    COLOURS,
    HELD_OUT,
    MOST_THINGS,
    SCENE_WORDS,
    SIDE,
    Scene,
    Thing,
    caption_scene,
    describes,
    draw_scenes,
    read_caption,
    render_scenes,
)

RED, BLUE, OTHER_BLUE = (
    Thing("red", "square", x=4, y=20, radius=3),
    Thing("blue", "circle", x=20, y=5, radius=3),
    Thing("blue", "circle", x=28, y=12, radius=3),
)
SCENE = Scene((RED, BLUE, OTHER_BLUE))


def test_scenes_hold_out_whole_compositions():
    seen, unseen = draw_scenes(300, seed=1), draw_scenes(300, which="held_out", seed=1)
    assert not any(thing.kind in HELD_OUT for scene in seen for thing in scene.things)
    assert all(any(thing.kind in HELD_OUT for thing in scene.things) for scene in unseen)
    words = {word for scene in seen for thing in scene.things for word in thing.kind}
    assert words >= {word for kind in HELD_OUT for word in kind}  # each word is known, only not together
    assert {len(scene.things) for scene in seen} == set(range(1, MOST_THINGS + 1))
    assert seen == draw_scenes(300, seed=1) != draw_scenes(300, seed=2)
    assert all(len(scene.things) == 4 for scene in draw_scenes(9, things=4))


def test_every_caption_describes_its_scene_and_no_other():
    scenes = draw_scenes(200, seed=3) + draw_scenes(50, which="held_out", seed=3)
    captions = [caption_scene(scene, seed=5).words for scene in scenes]
    assert all(describes(words, scene) for words, scene in zip(captions, scenes, strict=True))
    assert {word for words in captions for word in words} == set(SCENE_WORDS)
    wrong = sum(describes(words, scene) for words, scene in zip(captions, scenes[1:], strict=False))
    assert wrong <= 2  # two neighbours may hold the same things
    assert len({caption_scene(scenes[5], seed=seed).words for seed in range(60)}) > 10


@pytest.mark.parametrize(
    ("words", "is_right"),
    [
        ("a red square left of two blue circles", True),
        ("two blue circles above a red square", True),
        ("i see two blue circles and a red square", True),
        ("a red square right of two blue circles", False),
        ("a red square", False),
        ("a red square and a blue circle", False),
        ("a red square , two blue circles and a red square", False),
        ("a red circle and two blue circles", False),
        ("two red squares and two blue circles", False),
        ("a red square and two blue circle", False),
        ("red square", False),
        ("a red square and", False),
        ("", False),
    ],
)
def test_describes_asks_for_all_things_and_true_relations(words, is_right):
    assert describes(words.split(), SCENE) == is_right


def test_caption_says_which_words_name_what():
    words, names = caption_scene(SCENE, seed=1)
    claim = read_caption(words)
    for kind, place in zip(claim.kinds, claim.places, strict=True):
        assert names[place : place + 3] == (kind,) * 3
        assert words[place + 1] == kind[0]
    assert sum(name is None for name in names) == len(words) - 3 * len(claim.kinds)


def test_pictures_show_each_thing_where_it_is():
    images, masks = render_scenes([SCENE, Scene((BLUE,))], seed=2)
    assert images.shape == (2, 3, SIDE, SIDE)
    assert masks.shape == (2, MOST_THINGS, SIDE, SIDE)
    assert masks.sum(dim=1).max() <= 1  # nothing overlaps
    for index, thing in enumerate(SCENE.things):
        inside = masks[0, index] == 1
        colour = torch.tensor(COLOURS[thing.colour])
        torch.testing.assert_close(images[0][:, inside], colour[:, None].expand(3, int(inside.sum())))
        down, across = (masks[0, index].sum(dim=axis) for axis in (1, 0))
        places = torch.arange(SIDE) + 0.5
        assert abs(float((across * places).sum() / across.sum()) - thing.x) < 0.3
        assert abs(float((down * places).sum() / down.sum()) - thing.y) < 0.6
    assert not masks[1, 1:].any()
    assert torch.equal(images, render_scenes([SCENE, Scene((BLUE,))], seed=2).images)
    assert not torch.equal(images, render_scenes([SCENE, Scene((BLUE,))], seed=3).images)
    assert render_scenes([]).images.shape == (0, 3, SIDE, SIDE)


def test_scenes_explain_what_they_cannot_draw():
    with pytest.raises(ValueError, match="1 to 5 things, got count=3, things=7"):
        draw_scenes(3, things=7)
    with pytest.raises(ValueError, match='"train" or "held_out", got \'test\''):
        draw_scenes(3, which="test")
    with pytest.raises(ValueError, match=r"usual=1\.5"):
        draw_animals(3, usual=1.5)


@pytest.mark.parametrize("usual", [0.0, 0.9, 1.0])
def test_animals_stand_on_their_usual_ground_as_often_as_asked(usual):
    scenes = draw_animals(500, usual=usual, seed=4)
    share = sum(USUAL[scene.animal] == scene.ground for scene in scenes) / 500
    assert abs(share - usual) < 0.05
    assert 0.4 < sum(scene.animal == "wolf" for scene in scenes) / 500 < 0.6


def test_animals_are_painted_where_their_mask_is():
    scenes = draw_animals(40, seed=6)
    images, masks = render_animals(scenes, seed=6)
    for image, mask, scene in zip(images, masks, scenes, strict=True):
        inside, outside = image[:, mask == 1].mean(dim=1), image[:, mask == 0].mean(dim=1)
        assert (inside - outside).abs().max() > 0.1
        assert (outside.min() > 0.8) == (scene.ground == "snow")
        words = scene.caption(seed=7)
        assert set(words) <= set(ANIMAL_WORDS)
        assert words.index(scene.animal) < words.index(scene.ground)
    shapes = {name: masks[[s.animal == name for s in scenes]].sum(dim=(1, 2)) for name in USUAL}
    assert not torch.equal(shapes["wolf"][:1], shapes["dog"][:1])
