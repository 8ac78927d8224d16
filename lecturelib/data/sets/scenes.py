"""Scenes of coloured shapes with captions: how many of what, and where they lie. All of it is drawn, none photographed.

    scenes = draw_scenes(64, seed=3)                  # things, in pairs of colour and shape that training may see
    pictures = render_scenes(scenes)                         # images (B, 3, 32, 32), and where each thing is
    captions = [caption_scene(scene, seed=3) for scene in scenes]

A scene has many right captions: they differ in order, opening, relations and words. `describes` says whether a caption
is one of them. `HELD_OUT` pairs never occur unless they are asked for, so that a test scene cannot have been copied.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

SIDE = 32  # pixels
LATTICE = 4  # things lie near the points of a 4 × 4 lattice, so they never touch
MOST_THINGS = 5
COLOURS = {
    "red": (0.90, 0.16, 0.16),
    "green": (0.15, 0.72, 0.25),
    "blue": (0.20, 0.35, 0.95),
    "yellow": (0.95, 0.85, 0.15),
    "purple": (0.66, 0.25, 0.80),
    "white": (0.97, 0.97, 0.97),
}
SHAPES = ("circle", "square", "triangle", "cross")
NUMBERS = ("a", "two", "three")
HELD_OUT = (("red", "circle"), ("green", "square"), ("blue", "triangle"), ("yellow", "cross"))
RELATIONS = {
    "left": (("left", "of"), ("to", "the", "left", "of")),
    "right": (("right", "of"), ("to", "the", "right", "of")),
    "above": (("above",), ("over",)),
    "below": (("below",), ("under",)),
}
OPENINGS = ((), ("i", "see"), ("here", "we", "have"))
PLURALS = {"circle": "circles", "square": "squares", "triangle": "triangles", "cross": "crosses"}
SCENE_WORDS = (
    *("a", "two", "three", ",", "and", "i", "see", "here", "we", "have"),
    *("to", "the", "left", "right", "of", "above", "over", "below", "under"),
    *COLOURS,
    *SHAPES,
    *PLURALS.values(),
)
Kind = tuple[str, str]  # colour, shape
Which = Literal["train", "held_out"]


@dataclass(frozen=True)
class Thing:
    """One coloured shape; x to the right and y down, in pixels, from the top left corner."""

    colour: str
    shape: str
    x: float
    y: float
    radius: float

    @property
    def kind(self) -> Kind:
        return self.colour, self.shape


@dataclass(frozen=True)
class Scene:
    """Some things on a grey ground."""

    things: tuple[Thing, ...]

    def groups(self) -> dict[Kind, list[int]]:
        """The things by colour and shape, as indices: a caption names a group at a time."""
        found: dict[Kind, list[int]] = {}
        for index, thing in enumerate(self.things):
            found.setdefault(thing.kind, []).append(index)
        return found


class Pictures(NamedTuple):
    """Scenes as pixels: images (B, 3, S, S) from 0 to 1; masks (B, MOST_THINGS, S, S), a thing's part of each pixel."""

    images: Tensor
    masks: Tensor


class Caption(NamedTuple):
    """Words, and for each the kind of thing it helps to name; None for "and", relations and openings."""

    words: tuple[str, ...]
    names: tuple[Kind | None, ...]


def draw_scenes(count: int, *, things: int | None = None, which: Which = "train", seed: int = 0) -> list[Scene]:
    """Draw scenes; the same arguments give the same scenes.

    Args:
        things: how many in each scene; None draws one to MOST_THINGS
        which: "train" has no kind of HELD_OUT; in "held_out" every scene has at least one thing of such a kind
    """
    if count < 0 or (things is not None and not 1 <= things <= MOST_THINGS):
        raise ValueError(f"need count ≥ 0 and 1 to {MOST_THINGS} things, got count={count}, things={things}")
    if which not in ("train", "held_out"):
        raise ValueError(f'which must be "train" or "held_out", got {which!r}')
    draw = random.Random(f"scenes {which} {things} {seed}")
    return [_scene(draw, things or draw.randint(1, MOST_THINGS), which) for _ in range(count)]


def _scene(draw: random.Random, things: int, which: Which) -> Scene:
    seen = [(colour, shape) for colour in COLOURS for shape in SHAPES if (colour, shape) not in HELD_OUT]
    kinds = [draw.choice(HELD_OUT if which == "held_out" else seen)]
    while len(kinds) < things:
        kind = draw.choice(kinds) if draw.random() < 0.3 else draw.choice(seen)
        if kinds.count(kind) < len(NUMBERS):
            kinds.append(kind)
    draw.shuffle(kinds)
    step = SIDE / LATTICE
    places = draw.sample([(row, column) for row in range(LATTICE) for column in range(LATTICE)], things)
    return Scene(
        tuple(
            Thing(
                *kind,
                x=(column + 0.5) * step + draw.uniform(-0.7, 0.7),
                y=(row + 0.5) * step + draw.uniform(-0.7, 0.7),
                radius=draw.uniform(2.7, 3.3),
            )
            for kind, (row, column) in zip(kinds, places, strict=True)
        )
    )


def render_scenes(scenes: Sequence[Scene], *, seed: int = 0) -> Pictures:
    """Paint scenes, with soft edges, on grey of varying lightness with a little noise; the seed is that of the grey."""
    masks = torch.zeros(len(scenes), MOST_THINGS, SIDE, SIDE)  # (B, N, S, S)
    colours = torch.zeros(len(scenes), MOST_THINGS, 3)  # (B, N, 3)
    placed = [(row, column, thing) for row, scene in enumerate(scenes) for column, thing in enumerate(scene.things)]
    for shape in SHAPES:
        chosen = [entry for entry in placed if entry[2].shape == shape]
        rows, columns = torch.tensor([entry[:2] for entry in chosen], dtype=torch.long).view(-1, 2).unbind(1)
        things = [thing for _, _, thing in chosen]
        masks[rows, columns] = _coverage(shape, things)
        colours[rows, columns] = torch.tensor([COLOURS[thing.colour] for thing in things]).view(-1, 3)
    generator = torch.Generator().manual_seed(seed)
    grey = 0.1 + 0.3 * torch.rand(len(scenes), 1, 1, 1, generator=generator)
    ground = grey + 0.03 * torch.randn(len(scenes), 3, SIDE, SIDE, generator=generator)
    painted = torch.einsum("bnhw,bnc->bchw", masks, colours)
    free = 1 - masks.sum(dim=1, keepdim=True)  # (B, 1, S, S)
    return Pictures((painted + free * ground).clamp(0, 1), masks)


def _coverage(shape: str, things: Sequence[Thing]) -> Tensor:
    """What part of each pixel things of one shape cover: (things, S, S)."""
    fine = 2  # sub-pixels along each side
    axis = (torch.arange(SIDE * fine) + 0.5) / fine  # (S · fine,)
    x, y, radius = torch.tensor([(thing.x, thing.y, thing.radius) for thing in things]).view(-1, 3, 1, 1).unbind(1)
    across, down = (axis[None, :] - x) / radius, (axis[:, None] - y) / radius  # (things, 1, S · fine), transposed
    longer, shorter = torch.maximum(across.abs(), down.abs()), torch.minimum(across.abs(), down.abs())
    inside = {
        "circle": lambda: across.square() + down.square() <= 1,
        "square": lambda: longer <= 0.88,
        "triangle": lambda: (down.abs() <= 1) & (across.abs() <= (down + 1) / 2),
        "cross": lambda: (shorter <= 0.34) & (longer <= 1),
    }[shape]()
    return F.avg_pool2d(inside.float()[:, None], fine).squeeze(1)


def holds(relation: str, first: Sequence[Thing], second: Sequence[Thing]) -> bool:
    """Whether all of the first things lie on that side of all of the second, clearly: by half a step of the lattice."""
    if relation in ("right", "below"):
        return holds("left" if relation == "right" else "above", second, first)
    clear = SIDE / LATTICE / 2
    if relation == "left":
        return max(thing.x for thing in first) + clear < min(thing.x for thing in second)
    return max(thing.y for thing in first) + clear < min(thing.y for thing in second)


def caption_scene(scene: Scene, *, seed: int = 0) -> Caption:
    """One of the right captions, drawn at random: a sweep from left to right or from the top down, group by group."""
    draw = random.Random(f"caption {seed} {scene.things}")
    axis = draw.choice(("x", "y"))
    groups = {kind: [scene.things[index] for index in members] for kind, members in scene.groups().items()}
    order = sorted(groups, key=lambda kind: min(getattr(thing, axis) for thing in groups[kind]))
    said: list[tuple[str, Kind | None]] = [(word, None) for word in draw.choice(OPENINGS)]
    for place, kind in enumerate(order):
        if place:
            true = [name for name in RELATIONS if holds(name, groups[order[place - 1]], groups[kind])]
            if true and draw.random() < 0.5:
                joint = draw.choice(RELATIONS[draw.choice(true)])
            else:
                joint = ("and",) if place == len(order) - 1 else (",",)
            said += [(word, None) for word in joint]
        number = len(groups[kind])
        shape = kind[1] if number == 1 else PLURALS[kind[1]]
        said += [(word, kind) for word in (NUMBERS[number - 1], kind[0], shape)]
    words, names = zip(*said, strict=True)
    return Caption(words, names)


class Claim(NamedTuple):
    """What a caption says: kinds in order, how many of each, and how each lies to the next (None: just "and")."""

    kinds: tuple[Kind, ...]
    numbers: tuple[int, ...]
    relations: tuple[str | None, ...]
    places: tuple[int, ...]  # where each kind's number word stands; colour and shape follow it


def read_caption(words: Sequence[str]) -> Claim | None:
    """Understand a caption, or None where it is no sentence of this little language."""
    openings = [opening for opening in OPENINGS if opening and tuple(words[: len(opening)]) == opening]
    at = len(openings[0]) if openings else 0
    kinds: list[Kind] = []
    relations: list[str | None] = []
    numbers, places = [], []
    joints: dict[tuple[str, ...], str | None] = {way: name for name, ways in RELATIONS.items() for way in ways}
    joints |= {("and",): None, (",",): None}
    singular = {plural: shape for shape, plural in PLURALS.items()}
    while True:
        group = tuple(words[at : at + 3])
        if len(group) < 3 or group[0] not in NUMBERS or group[1] not in COLOURS:
            return None
        shape = group[2] if group[0] == "a" else singular.get(group[2], "")
        if shape not in SHAPES:
            return None
        kinds.append((group[1], shape))
        numbers.append(NUMBERS.index(group[0]) + 1)
        places.append(at)
        at += 3
        if at == len(words):
            return Claim(tuple(kinds), tuple(numbers), tuple(relations), tuple(places))
        joint = next((joint for joint in joints if tuple(words[at : at + len(joint)]) == joint), None)
        if joint is None:
            return None
        relations.append(joints[joint])
        at += len(joint)


def describes(words: Sequence[str], scene: Scene) -> bool:
    """Whether a caption is right and complete: every group with its number, once, and only relations that hold."""
    claim = read_caption(words)
    if claim is None or len(set(claim.kinds)) < len(claim.kinds):
        return False
    if Counter(dict(zip(claim.kinds, claim.numbers, strict=True))) != Counter(thing.kind for thing in scene.things):
        return False
    groups = [[thing for thing in scene.things if thing.kind == kind] for kind in claim.kinds]
    return all(
        relation is None or holds(relation, groups[place], groups[place + 1])
        for place, relation in enumerate(claim.relations)
    )
