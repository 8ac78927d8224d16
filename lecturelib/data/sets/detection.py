"""Scenes to find things in: coloured shapes of many sizes anywhere in the image, each with its class and its box.

    scenes = draw_spread(64, seed=3)
    batch = detection_batch(scenes, seed=3)       # images, and padded classes and boxes

The things are those of `scenes.py`. There they lie on a lattice and are of one size; here neither holds, so that where
a thing is has to be found. Boxes do not touch, which keeps every thing whole.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lecturelib.data.sets.scenes import COLOURS, MOST_THINGS, SHAPES, SIDE, Scene, Thing, render_scenes

SMALLEST, LARGEST = 2.5, 5.5  # radius in pixels
TRIES = 60


class DetectionBatch(NamedTuple):
    """Images and what is in them: M is the most things of any image, at least 1; padding is class 0 and a zero box.

    images (B, 3, S, S); classes (B, M) places in SHAPES; boxes (B, M, 4) with middle x and y, width and height as
    parts of the image's side; counts (B,), how many of the M are real.
    """

    images: Tensor
    classes: Tensor
    boxes: Tensor
    counts: Tensor

    @property
    def real(self) -> Tensor:
        """Which entries are things, not padding: (B, M)."""
        return torch.arange(self.classes.shape[1], device=self.counts.device) < self.counts[:, None]


def draw_spread(count: int, *, things: int | None = None, seed: int = 0) -> list[Scene]:
    """Draw scenes of things that differ in size and lie anywhere; the same arguments give the same scenes.

    Args:
        things: how many in each scene; None draws one to MOST_THINGS
    """
    if count < 0 or (things is not None and not 1 <= things <= MOST_THINGS):
        raise ValueError(f"need count ≥ 0 and 1 to {MOST_THINGS} things, got count={count}, things={things}")
    draw = random.Random(f"spread {things} {seed}")
    return [_spread(draw, things or draw.randint(1, MOST_THINGS)) for _ in range(count)]


def _spread(draw: random.Random, things: int) -> Scene:
    """One scene; where the things so far leave no room for the next one, all are drawn again."""
    while True:
        placed: list[Thing] = []
        for _ in range(TRIES):
            radius = draw.uniform(SMALLEST, LARGEST)
            x, y = (draw.uniform(radius, SIDE - radius) for _ in range(2))
            if all(max(abs(x - t.x), abs(y - t.y)) > radius + t.radius for t in placed):
                placed.append(Thing(draw.choice(list(COLOURS)), draw.choice(SHAPES), x, y, radius))
            if len(placed) == things:
                return Scene(tuple(placed))


def thing_box(thing: Thing) -> tuple[float, float, float, float]:
    """Middle x and y, width and height, as parts of the image's side."""
    side = 2 * thing.radius * (0.88 if thing.shape == "square" else 1.0)
    return thing.x / SIDE, thing.y / SIDE, side / SIDE, side / SIDE


def detection_batch(scenes: Sequence[Scene], *, seed: int = 0) -> DetectionBatch:
    """Paint scenes and list their things in the order they were drawn; the seed is that of the grey ground."""
    most = max((len(scene.things) for scene in scenes), default=1)
    classes, boxes = torch.zeros(len(scenes), most, dtype=torch.long), torch.zeros(len(scenes), most, 4)
    for row, scene in enumerate(scenes):
        classes[row, : len(scene.things)] = torch.tensor([SHAPES.index(thing.shape) for thing in scene.things])
        boxes[row, : len(scene.things)] = torch.tensor([thing_box(thing) for thing in scene.things])
    counts = torch.tensor([len(scene.things) for scene in scenes], dtype=torch.long)
    return DetectionBatch(render_scenes(scenes, seed=seed).images, classes, boxes, counts)
