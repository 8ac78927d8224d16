"""Wolves and dogs, in the snow and on the grass: drawn images whose background can give the animal away.

Paper: Ribeiro et al. 2016 [ribeiro2016why], Section 6.4, where a classifier tells wolves from huskies by the snow.
Differs: drawn, not photographed, so the share of wolves in the snow is ours to choose, and the animal's place is known.
"""

import random
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

ANIMALS = ("wolf", "dog")
GROUNDS = {"snow": (0.90, 0.92, 0.96), "grass": (0.30, 0.55, 0.22)}
USUAL = {"wolf": "snow", "dog": "grass"}
FURS = ((0.20, 0.18, 0.18), (0.42, 0.34, 0.28), (0.50, 0.50, 0.54))
ENDINGS = {
    "snow": (("in", "the", "snow"), ("on", "white", "snow")),
    "grass": (("on", "the", "grass"), ("in", "green", "grass")),
}
ANIMAL_WORDS = ("a", "there", "is", *ANIMALS, "in", "on", "the", "white", "green", *GROUNDS)
SIDE = 32  # pixels

# Head to the right; the ears and the tail tell the two apart.
SPRITES = {
    "wolf": (
        "........#.#",
        "........###",
        "........###",
        "#.#########",
        "#########..",
        "#########..",
        "#.#...#.#..",
        "..#...#.#..",
    ),
    "dog": (
        "#..........",
        "#......####",
        ".#.....#.##",
        ".########.#",
        "..#######..",
        "..#######..",
        "..#...#.#..",
        "..#...#.#..",
    ),
}


@dataclass(frozen=True)
class AnimalScene:
    """One animal on one ground; `left` and `top` of its sprite in pixels, and whether it looks to the left."""

    animal: str
    ground: str
    left: int
    top: int
    fur: int
    is_mirrored: bool

    def caption(self, *, seed: int = 0) -> tuple[str, ...]:
        """One of the right captions: the animal first, then the ground."""
        draw = random.Random(f"animal {seed} {self}")
        opening = draw.choice(((), ("there", "is")))
        return (*opening, "a", self.animal, *draw.choice(ENDINGS[self.ground]))


class AnimalPictures(NamedTuple):
    """Images (B, 3, S, S) from 0 to 1, and where the animal is: masks (B, S, S), 0 or 1."""

    images: Tensor
    masks: Tensor


def draw_animals(count: int, *, usual: float = 0.5, seed: int = 0) -> list[AnimalScene]:
    """Draw scenes, wolves and dogs equally often; the same arguments give the same scenes.

    Args:
        usual: the share of animals on their usual ground: 1 has wolves in the snow only and dogs on grass only, 0 the
            other way round, and at 0.5 the ground says nothing
    """
    if count < 0 or not 0 <= usual <= 1:
        raise ValueError(f"need count ≥ 0 and a share from 0 to 1, got count={count}, usual={usual}")
    draw = random.Random(f"animals {usual} {seed}")
    scenes = []
    for _ in range(count):
        animal = draw.choice(ANIMALS)
        other = next(ground for ground in GROUNDS if ground != USUAL[animal])
        ground = USUAL[animal] if draw.random() < usual else other
        rows, columns = len(SPRITES[animal]), len(SPRITES[animal][0])
        left, top = draw.randint(1, SIDE - columns - 1), draw.randint(1, SIDE - rows - 1)
        scenes.append(AnimalScene(animal, ground, left, top, draw.randrange(len(FURS)), draw.random() < 0.5))
    return scenes


def render_animals(scenes: list[AnimalScene], *, seed: int = 0) -> AnimalPictures:
    """Paint the scenes; the seed is that of the ground's grain."""
    generator = torch.Generator().manual_seed(seed)
    masks = torch.zeros(len(scenes), SIDE, SIDE)
    grounds = torch.tensor([GROUNDS[scene.ground] for scene in scenes]).view(-1, 3, 1, 1)
    furs = torch.tensor([FURS[scene.fur] for scene in scenes]).view(-1, 3, 1, 1)
    for row, scene in enumerate(scenes):
        sprite = torch.tensor([[mark == "#" for mark in line] for line in SPRITES[scene.animal]]).float()
        sprite = sprite.flip(1) if scene.is_mirrored else sprite
        height, width = sprite.shape
        masks[row, scene.top : scene.top + height, scene.left : scene.left + width] = sprite
    grain = 0.06 * torch.randn(len(scenes), 3, SIDE, SIDE, generator=generator)
    covered = masks[:, None]  # (B, 1, S, S)
    return AnimalPictures((covered * furs + (1 - covered) * grounds + grain).clamp(0, 1), masks)
