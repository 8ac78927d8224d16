"""Fireflies along a hedge: short drawn videos whose label is a relation of two flashes, near or far.

    nights = draw_nights(64, seed=3)          # two flashes each, at most a few cells or the whole hedge apart
    videos = render_nights(nights, seed=3)    # (B, 8, 3, 8, 48): frames, colours, height, width, from 0 to 1
    labels = [night.is_couple for night in nights]

Two species live in the hedge: in one the partners flash red and green, in the other blue and yellow. Two colours that
differ always flash; the question is whether they are a couple. Neither colour says anything alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lecturelib.data.sets.scenes import COLOURS

FRAMES, ROWS, COLUMNS = 8, 2, 12  # cells of one frame each; a hedge may be longer or shorter
CELL = 4  # pixels along each side of a cell
MOST_DISTANCE = COLUMNS - 1
COUPLES = (("red", "green"), ("blue", "yellow"))
FLASHES = tuple(colour for couple in COUPLES for colour in couple)


@dataclass(frozen=True)
class Flash:
    """One flash: it fills most of a cell, for one frame."""

    colour: str
    frame: int
    row: int
    column: int


@dataclass(frozen=True)
class Night:
    """Two flashes, the first before the second, and a pale moth that flies through."""

    first: Flash
    second: Flash
    moth: tuple[float, float, float]  # x and y in frame 0, and pixels to the right per frame

    @property
    def is_couple(self) -> bool:
        """Whether the two colours belong to one species."""
        return any({self.first.colour, self.second.colour} == set(couple) for couple in COUPLES)

    @property
    def distance(self) -> int:
        """The largest of how many frames, rows and columns lie between the flashes."""
        a, b = self.first, self.second
        return max(b.frame - a.frame, abs(b.row - a.row), abs(b.column - a.column))


def draw_nights(count: int, *, distance: int | None = None, columns: int = COLUMNS, seed: int = 0) -> list[Night]:
    """Draw nights, half of them with a couple on average; the same arguments give the same nights.

    Args:
        distance: how far apart the flashes are; None draws 1 to columns - 1, all equally often
        columns: length of the hedge, in cells
    """
    if count < 0 or columns < 2 or (distance is not None and not 1 <= distance < columns):
        raise ValueError(
            f"need count ≥ 0, columns ≥ 2 and a distance from 1 to columns - 1, got count={count}, columns={columns}, "
            f"distance={distance}"
        )
    draw = random.Random(f"fireflies {distance} {columns} {seed}")
    return [_night(draw, distance or draw.randrange(1, columns), columns) for _ in range(count)]


def _night(draw: random.Random, distance: int, columns: int) -> Night:
    later = draw.randint(1, min(distance, FRAMES - 1))  # frames
    across = draw.randint(-distance, distance) if later == distance else draw.choice((-distance, distance))  # columns
    frame, column = draw.randrange(FRAMES - later), draw.randrange(max(0, -across), min(columns, columns - across))
    couple, other = draw.sample(COUPLES, 2)
    colours = [draw.choice(couple), draw.choice(other)] if draw.random() < 0.5 else draw.sample(couple, 2)
    draw.shuffle(colours)
    return Night(
        Flash(colours[0], frame, draw.randrange(ROWS), column),
        Flash(colours[1], frame + later, draw.randrange(ROWS), column + across),
        (draw.uniform(0, columns * CELL), draw.uniform(1.5, ROWS * CELL - 1.5), draw.uniform(-5, 5)),
    )


def render_nights(nights: Sequence[Night], *, columns: int = COLUMNS, seed: int = 0) -> Tensor:
    """Paint the nights: dark noise, a pale moth that leaves on one side and returns on the other, and the flashes.

    Shapes: -> (B, frames, 3, height, width)
    """
    generator = torch.Generator().manual_seed(seed)
    height, width = ROWS * CELL, columns * CELL
    videos = 0.12 + 0.04 * torch.randn(len(nights), FRAMES, 3, height, width, generator=generator)
    y, x = torch.arange(height)[:, None] + 0.5, torch.arange(width) + 0.5  # (height, 1), (width,)
    at, down, step = torch.tensor([night.moth for night in nights]).view(-1, 3, 1, 1, 1).unbind(1)  # (B, 1, 1, 1)
    frames = torch.arange(FRAMES)[:, None, None]  # (frames, 1, 1)
    across = (x - at - step * frames + width / 2) % width - width / 2  # (B, frames, 1, width)
    moth = (1.8 - (across.square() + (y - down).square()).sqrt()).clamp(0, 1)  # (B, frames, height, width)
    videos = torch.lerp(videos, torch.full((), 0.6), moth[:, :, None])
    offset = (torch.arange(CELL) + 0.5 - CELL / 2).square()
    glow = (2.3 - (offset[:, None] + offset).sqrt()).clamp(0, 1)  # (cell, cell)
    for number, night in enumerate(nights):
        for flash in (night.first, night.second):
            down_to, along = (slice(place * CELL, (place + 1) * CELL) for place in (flash.row, flash.column))
            colour = torch.tensor(COLOURS[flash.colour])[:, None, None]  # (3, 1, 1)
            cell = videos[number, flash.frame, :, down_to, along]  # (3, cell, cell)
            videos[number, flash.frame, :, down_to, along] = torch.lerp(cell, colour.expand_as(cell), glow)
    return videos.clamp(0, 1)
