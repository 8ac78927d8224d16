"""Statements about scenes, right ones and wrong ones that differ in one fact, and the scenes as sets of boxes.

    pairs = draw_statements(64, seed=3)       # scenes, each with a right and a wrong statement
    boxes = draw_scene_boxes([pair.scene for pair in pairs], seed=3)

A statement names a group of things: "two red circles". Two of the four ways to be wrong name something that the scene
does not have at all. The other two name only what it has, put together wrongly: which words there are does not tell.
"""

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lecturelib.data.sets.scenes import (
    COLOURS,
    HELD_OUT,
    LATTICE,
    NUMBERS,
    PLURALS,
    SHAPES,
    SIDE,
    Kind,
    Scene,
    Which,
    draw_scenes,
)

Fact = Literal["colour", "shape", "number", "binding"]
FACTS: tuple[Fact, ...] = ("colour", "shape", "number", "binding")
KINDS: tuple[Kind, ...] = tuple((colour, shape) for colour in COLOURS for shape in SHAPES)
NOTHING = len(KINDS)  # the class of a region that shows the ground
BOXES = 6  # of each scene: one around each thing, the others on empty ground


class Statement(NamedTuple):
    """How many of what: (2, "red", "circle") is "two red circles"."""

    number: int
    colour: str
    shape: str

    @property
    def kind(self) -> Kind:
        return self.colour, self.shape

    def words(self) -> tuple[str, str, str]:
        """Number, colour and shape as a caption says them."""
        return NUMBERS[self.number - 1], self.colour, self.shape if self.number == 1 else PLURALS[self.shape]

    def is_true(self, scene: Scene) -> bool:
        """Whether the scene has as many of these, no more and no fewer."""
        return sum(thing.kind == self.kind for thing in scene.things) == self.number


class StatementPair(NamedTuple):
    """A scene, a statement that is true of it, one that is not, and which fact makes the difference."""

    scene: Scene
    right: Statement
    wrong: Statement
    fact: Fact


def draw_statements(
    count: int, *, fact: Fact | None = None, which: Which = "train", seed: int = 0
) -> list[StatementPair]:
    """Draw scenes with a right and a wrong statement; the same arguments give the same.

    Args:
        fact: what is wrong: "colour" and "shape" name one that the scene has nowhere; "number" says one for two, or two
            for one; "binding" names a colour and a shape that it has, but not on one thing. None takes all in turn
        which: in "train", neither scene nor statements have a kind of HELD_OUT; in "held_out" every scene has one, and
            the right statement names it
    """
    if fact is not None and fact not in FACTS:
        raise ValueError(f"fact must be one of {FACTS}, or None for all in turn, got {fact!r}")
    draw = random.Random(f"statements {fact} {which} {seed}")
    found: list[StatementPair] = []
    batch = 0
    while len(found) < count:
        for scene in draw_scenes(4 * count, which=which, seed=1_000_003 * seed + batch):
            turn, place = divmod(len(found), len(FACTS)) if fact is None else (len(found), FACTS.index(fact))
            pair = _pair(draw, scene, FACTS[place], which, number=1 + turn % 2)
            if pair is not None and len(found) < count:
                found.append(pair)
        batch += 1
    return found


def _pair(draw: random.Random, scene: Scene, fact: Fact, which: Which, number: int) -> StatementPair | None:
    """A right and a wrong statement, or None where this scene has none that differ so.

    Args:
        number: of the right statement where the wrong one has another: one and two equally often, so that neither is
            likelier to be wrong
    """
    right = draw.choice([Statement(len(members), *kind) for kind, members in scene.groups().items()])
    if len(scene.things) < 3 or (fact == "number" and right.number != number):
        return None
    wrong = _spoil(draw, scene, right, fact)
    if wrong is None or wrong.is_true(scene):
        return None
    if which == "train" and {right.kind, wrong.kind} & set(HELD_OUT):
        return None
    return StatementPair(scene, right, wrong, fact) if which == "train" or right.kind in HELD_OUT else None


def _spoil(draw: random.Random, scene: Scene, right: Statement, fact: Fact) -> Statement | None:
    """The statement with one fact changed, or None where that cannot be."""
    if fact == "number":
        return right._replace(number=3 - right.number)
    present = {name for thing in scene.things for name in thing.kind}
    names = SHAPES if fact == "shape" else tuple(COLOURS)
    others = [name for name in names if (name in present) == (fact == "binding")]
    if not others:
        return None
    other = draw.choice(others)
    return right._replace(shape=other) if fact == "shape" else right._replace(colour=other)


class SceneBoxes(NamedTuple):
    """Boxes (B, BOXES, 4) as left, top, right, bottom in pixels, and the class of what is in each (B, BOXES)."""

    boxes: Tensor
    classes: Tensor


def draw_scene_boxes(scenes: Sequence[Scene], *, seed: int = 0) -> SceneBoxes:
    """A box around each thing, as a detector would give it, and others on empty ground, in random order."""
    draw = random.Random(f"boxes {seed}")
    step = SIDE / LATTICE
    boxes, classes = [], []
    for scene in scenes:
        taken = {(int(thing.y // step), int(thing.x // step)) for thing in scene.things}
        free = [(row, column) for row in range(LATTICE) for column in range(LATTICE) if (row, column) not in taken]
        things = [(thing.x, thing.y, thing.radius, KINDS.index(thing.kind)) for thing in scene.things]
        ground = [
            ((column + 0.5) * step, (row + 0.5) * step, draw.uniform(2.7, 3.3), NOTHING)
            for row, column in draw.sample(free, BOXES - len(things))
        ]
        shown = draw.sample(things + ground, BOXES)
        edges = [[draw.uniform(0.2, 0.8) for _ in range(4)] for _ in shown]
        boxes.append(
            [
                [max(0.0, x - r - a), max(0.0, y - r - b), min(SIDE, x + r + c), min(SIDE, y + r + d)]
                for (x, y, r, _), (a, b, c, d) in zip(shown, edges, strict=True)
            ]
        )
        classes.append([kind for *_, kind in shown])
    return SceneBoxes(torch.tensor(boxes).view(-1, BOXES, 4), torch.tensor(classes).view(-1, BOXES))


def place_of_boxes(boxes: Tensor, side: int = SIDE) -> Tensor:
    """Where boxes lie, as ViLBERT says it: left, top, right and bottom by the side, and the share of the area.

    Paper: Lu et al. 2019 [lu2019vilbert], "Image Representations".
    Differs: nothing.

    Shapes: (..., 4) -> (..., 5)
    """
    shares = boxes / side
    left, top, right, bottom = shares.unbind(-1)
    return torch.cat([shares, ((right - left) * (bottom - top))[..., None]], dim=-1)


def regions_of_grid(grid: Tensor, boxes: Tensor, side: int = SIDE) -> Tensor:
    """The regions of images from a grid of vectors: the whole image first, then every box, each with its place.

    A box takes of each feature the largest value among the grid cells whose centre it holds; one that holds none takes
    the cell its own centre is in. The whole image has the mean of all.

    Paper: Girshick 2015 [girshick2015fast], Section 2.1 (RoI pooling); Lu et al. 2019 [lu2019vilbert].
    Differs: one value a box and feature, where RoI pooling keeps 7 × 7; ViLBERT's features are means.

    Args:
        grid: (B, N, D) of a square image, read row by row, as a `ConvEncoder` gives it
        boxes: (B, K, 4) left, top, right, bottom, in pixels

    Shapes: -> (B, 1 + K, D + 5)
    """
    cells = round(grid.shape[1] ** 0.5)
    if cells**2 != grid.shape[1]:
        raise ValueError(f"the grid must be square, read row by row; {grid.shape[1]} is no square number")
    centres = (torch.arange(cells, device=grid.device) + 0.5) * side / cells  # (cells,)
    left, top, right, bottom = boxes[..., None].unbind(-2)  # (B, K, 1) each
    across, down = (left <= centres) & (centres <= right), (top <= centres) & (centres <= bottom)  # (B, K, cells)
    nearest = (centres - (left + right) / 2).abs().argmin(-1), (centres - (top + bottom) / 2).abs().argmin(-1)
    across = across | torch.nn.functional.one_hot(nearest[0], cells).bool()
    down = down | torch.nn.functional.one_hot(nearest[1], cells).bool()
    inside = (down[..., :, None] & across[..., None, :]).flatten(2)  # (B, K, N)
    pooled = grid[:, None].masked_fill(~inside[..., None], -torch.inf).amax(dim=2)  # (B, K, D)
    whole = boxes.new_tensor([0, 0, side, side]).expand(len(boxes), 1, 4)
    features = torch.cat([grid.mean(dim=1, keepdim=True), pooled], dim=1)  # (B, 1 + K, D)
    return torch.cat([features, place_of_boxes(torch.cat([whole, boxes], dim=1), side).to(grid.dtype)], dim=-1)
