"""Scenes of one or two placed things, their captions, and whether what quarters hold is what a caption asks for."""

import pytest

from lecturelib.data.sets.placed_scenes import (
    GROUND,
    KINDS,
    LONGEST_CAPTION,
    PLACED_WORDS,
    draw_placed,
    follows,
    place_caption,
    quarters,
    render_placed,
)
from lecturelib.data.sets.scenes import COLOURS, HELD_OUT, SIDE, Scene, Thing, describes, render_scenes

RED, BLUE = ("red", "square"), ("blue", "cross")


def test_placed_scenes_hold_out_whole_compositions():
    seen, unseen = draw_placed(300, seed=1), draw_placed(300, which="held_out", seed=1)
    assert not any(thing.kind in HELD_OUT for scene in seen for thing in scene.things)
    assert all(sum(thing.kind in HELD_OUT for thing in scene.things) == 1 for scene in unseen)
    assert {thing.kind for scene in seen for thing in scene.things} == set(KINDS) - set(HELD_OUT)
    assert {thing.kind for scene in unseen for thing in scene.things} == set(KINDS)
    assert {len(scene.things) for scene in seen} == {1, 2}
    assert all(len({thing.kind for thing in scene.things}) == len(scene.things) for scene in seen)
    assert seen == draw_placed(300, seed=1) != draw_placed(300, seed=2)
    assert all(len(scene.things) == 2 for scene in draw_placed(9, things=2))


def test_every_placed_caption_describes_its_scene_and_what_its_quarters_hold():
    scenes = draw_placed(200, seed=3) + draw_placed(100, which="held_out", seed=3)
    captions = [place_caption(scene, seed=5) for scene in scenes]
    for words, scene in zip(captions, scenes, strict=True):
        assert describes(words, scene)
        assert follows(quarters(scene), words)
    assert {word for words in captions for word in words} == set(PLACED_WORDS)
    assert max(map(len, captions)) == LONGEST_CAPTION
    pairs = zip(captions, scenes[1:], strict=False)
    assert sum(follows(quarters(scene), words) for words, scene in pairs) < 15  # of 299; a neighbour may hold the same
    assert len({place_caption(scenes[-1], seed=seed) for seed in range(40)}) > 1 or len(scenes[-1].things) == 1


@pytest.mark.parametrize(
    ("held", "words", "is_right"),
    [
        ((RED, BLUE, None, None), "a red square left of a blue cross", True),
        ((RED, BLUE, None, None), "a blue cross right of a red square", True),
        ((RED, BLUE, None, None), "a red square right of a blue cross", False),
        ((RED, BLUE, None, None), "a red square above a blue cross", False),  # beside each other
        ((RED, None, None, BLUE), "a red square above a blue cross", True),
        ((RED, None, None, BLUE), "a red square left of a blue cross", True),
        ((None, BLUE, RED, None), "a red square below a blue cross", True),
        ((None, BLUE, RED, None), "a red square above a blue cross", False),
        ((None, RED, None, None), "a red square", True),
        ((None, RED, None, BLUE), "a red square", False),  # one thing too many
        ((RED, RED, None, None), "a red square", False),  # twice
        ((None, None, None, None), "a red square", False),
        ((RED, ("blue", "square"), None, None), "a red square left of a blue cross", False),
    ],
)
def test_follows_asks_for_the_things_and_their_relation(held, words, is_right):
    assert follows(held, words.split()) is is_right


def test_quarters_say_where_each_thing_lies():
    scene = Scene((Thing(*RED, x=24, y=7, radius=5), Thing(*BLUE, x=7, y=25, radius=5)))
    assert quarters(scene) == (None, RED, BLUE, None)
    with pytest.raises(ValueError, match="quarter 1 holds two things"):
        quarters(Scene((*scene.things, Thing(*BLUE, x=20, y=2, radius=2))))


def test_placed_things_are_painted_in_their_quarter_in_their_colour():
    for scene in draw_placed(30, things=1, seed=4):
        (thing,) = scene.things
        masks = render_scenes([scene]).masks[0, 0]
        place = 2 * int(thing.y >= SIDE / 2) + int(thing.x >= SIDE / 2)
        rows, columns = (slice(SIDE // 2 * k, SIDE // 2 * (k + 1)) for k in divmod(place, 2))
        assert masks[rows, columns].sum() == masks.sum() > 20
        image = render_placed([scene])[0]
        pixel = image[:, int(thing.y), int(thing.x)]
        assert abs(pixel - pixel.new_tensor(COLOURS[thing.colour])).max() < 0.01
        assert abs(image[:, masks == 0] - GROUND).max() < 1e-6
        soft = render_scenes([scene]).images[0]  # the same things on another ground
        assert abs(image - soft)[:, masks == 1].max() < 1e-6


def test_placed_scenes_of_two_things_are_painted_as_those_of_each():
    for scene in draw_placed(10, things=2, seed=4):
        first, second = (render_placed([Scene((thing,))])[0] for thing in scene.things)
        assert abs(render_placed([scene])[0] - (first + second - GROUND)).max() < 1e-6
    assert render_placed([]).shape == (0, 3, SIDE, SIDE)


def test_placed_scenes_explain_what_does_not_fit():
    with pytest.raises(ValueError, match="1 or 2 things, got count=3, things=4"):
        draw_placed(3, things=4)
    with pytest.raises(ValueError, match='which must be "train" or "held_out"'):
        draw_placed(3, which="all")
    with pytest.raises(ValueError, match="not a caption: a red dog"):
        follows((None,) * 4, ["a", "red", "dog"])
