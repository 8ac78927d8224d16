"""Scenes of one or two large things and their short captions, to draw from: "a red cross left of a blue square".

    scenes = draw_placed(64, seed=3)                        # things in quarters of the image
    images = render_placed(scenes)                          # (B, 3, 32, 32)
    captions = [place_caption(scene, seed=3) for scene in scenes]

`quarters` says what a scene holds quarter by quarter, which a classifier can learn to read off an image, and `follows`
whether what was read is what a caption asks for. Colours, shapes and the kinds held out are those of `scenes`.
"""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from lecturelib.data.sets.scenes import (
    COLOURS,
    HELD_OUT,
    SHAPES,
    SIDE,
    Kind,
    Scene,
    Thing,
    Which,
    holds,
    read_caption,
    render_scenes,
)

KINDS = tuple((colour, shape) for colour in COLOURS for shape in SHAPES)
PLACED_RELATIONS = {"left": ("left", "of"), "right": ("right", "of"), "above": ("above",), "below": ("below",)}
PLACED_WORDS = ("a", "left", "right", "of", "above", "below", *COLOURS, *SHAPES)
LONGEST_CAPTION = 8  # words
HALF = SIDE / 2
GROUND = 0.2  # grey, the same everywhere: noise would take most of a codebook
Quarters = tuple[Kind | None, ...]  # top left, top right, bottom left, bottom right


def draw_placed(count: int, *, things: int | None = None, which: Which = "train", seed: int = 0) -> list[Scene]:
    """Draw scenes of one or two things of different kinds; the same arguments give the same scenes.

    Args:
        things: how many in each scene; None draws one or two, two twice as often
        which: "train" has no kind of HELD_OUT; in "held_out" every scene has one thing of such a kind
    """
    if count < 0 or things not in (None, 1, 2):
        raise ValueError(f"need count ≥ 0 and 1 or 2 things, got count={count}, things={things}")
    if which not in ("train", "held_out"):
        raise ValueError(f'which must be "train" or "held_out", got {which!r}')
    draw = random.Random(f"placed {which} {things} {seed}")
    return [_scene(draw, things or draw.choice((1, 2, 2)), which) for _ in range(count)]


def _scene(draw: random.Random, things: int, which: Which) -> Scene:
    seen = [kind for kind in KINDS if kind not in HELD_OUT]
    kinds = draw.sample(seen, things)
    if which == "held_out":
        kinds[draw.randrange(things)] = draw.choice(HELD_OUT)
    places = draw.sample([(row, column) for row in range(2) for column in range(2)], things)
    return Scene(
        tuple(
            Thing(
                *kind,
                x=(column + 0.5) * HALF + draw.uniform(-1.5, 1.5),
                y=(row + 0.5) * HALF + draw.uniform(-1.5, 1.5),
                radius=draw.uniform(4.5, 5.5),
            )
            for kind, (row, column) in zip(kinds, places, strict=True)
        )
    )


def render_placed(scenes: Sequence[Scene]) -> Tensor:
    """Paint scenes of one or two things, with soft edges, on plain grey: (B, 3, SIDE, SIDE), from 0 to 1."""
    masks = render_scenes(scenes).masks[:, :2]  # (B, 2, S, S)
    colours = torch.zeros(len(scenes), 2, 3)
    for row, scene in enumerate(scenes):
        for column, thing in enumerate(scene.things):
            colours[row, column] = torch.tensor(COLOURS[thing.colour])
    free = 1 - masks.sum(dim=1, keepdim=True)  # (B, 1, S, S)
    return torch.einsum("bnhw,bnc->bchw", masks, colours) + GROUND * free


def place_caption(scene: Scene, *, seed: int = 0) -> tuple[str, ...]:
    """A right caption, drawn at random: either thing may come first, with a relation that holds."""
    draw = random.Random(f"placed caption {seed} {scene.things}")
    things = draw.sample(scene.things, len(scene.things))
    words = ("a", *things[0].kind)
    if len(things) == 1:
        return words
    true = [name for name in PLACED_RELATIONS if holds(name, things[:1], things[1:])]
    return (*words, *PLACED_RELATIONS[draw.choice(true)], "a", *things[1].kind)


def quarters(scene: Scene) -> Quarters:
    """The kind of thing in each quarter of the image, None where there is none; two in one quarter are an error."""
    found: list[Kind | None] = [None] * 4
    for thing in scene.things:
        place = 2 * int(thing.y >= HALF) + int(thing.x >= HALF)
        if found[place] is not None:
            raise ValueError(f"quarter {place} holds two things, {found[place]} and {thing.kind}")
        found[place] = thing.kind
    return tuple(found)


def follows(held: Quarters, words: Sequence[str]) -> bool:
    """Whether quarters hold what a caption asks for: its things, no others, and in its relation."""
    claim = read_caption(words)
    if claim is None:
        raise ValueError(f"not a caption: {' '.join(words)}")
    where = {kind: place for place, kind in enumerate(held) if kind is not None}
    if len(where) != sum(kind is not None for kind in held) or set(where) != set(claim.kinds):
        return False
    if len(claim.kinds) == 1:
        return True
    (first_row, first_column), (row, column) = (divmod(where[kind], 2) for kind in claim.kinds)
    return {
        "left": first_column < column,
        "right": first_column > column,
        "above": first_row < row,
        "below": first_row > row,
        None: True,
    }[claim.relations[0]]
