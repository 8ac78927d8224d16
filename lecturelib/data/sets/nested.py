"""Shapes within shapes, and clicks on them that may mean the whole, a part, or a part of the part.

    scenes = draw_nested(16, seed=3)                     # images (16, 3, 48, 48), and the mask of everything in them
    asked = draw_clicks(scenes, clicks=1, seed=3)        # points, and the mask that each was meant for

A click on the innermost shape fits three masks, one on the ring around it two, and one on the outermost ring a single
one. Which is meant is drawn, each equally likely: no model can know it from the click.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lecturelib.data.sets.scenes import COLOURS

SIDE = 48  # pixels
CELLS = 2  # things lie in the cells of a 2 × 2 lattice
LEVELS = ("whole", "part", "sub-part")
FORMS = ("circle", "square", "diamond", "triangle")


class Nested(NamedTuple):
    """Scenes of nested things: images (B, 3, S, S) from 0 to 1; masks (B, things, levels, S, S), all False if none.

    A level's mask holds those of the levels within it.
    """

    images: Tensor
    masks: Tensor

    @property
    def visible(self) -> Tensor:
        """Where each level is on top: its mask without that of the next level, (B, things, levels, S, S)."""
        return self.masks & ~F.pad(self.masks[:, :, 1:], (0, 0, 0, 0, 0, 1))


class Asked(NamedTuple):
    """Prompts for scenes, Q for each: points (B, Q, P, 2), x before y; kinds (B, Q, P); targets (B, Q, S, S), boolean.

    `clicked` and `meant` (B, Q) are the levels of the first click and of the target, `thing` (B, Q) whose they are.
    """

    images: Tensor
    points: Tensor
    kinds: Tensor
    targets: Tensor
    clicked: Tensor
    meant: Tensor
    thing: Tensor


def draw_nested(count: int, *, seed: int = 0) -> Nested:
    """Draw scenes of one to three things, each of one to three levels; the same arguments give the same scenes."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    cells, levels, step = CELLS**2, len(LEVELS), SIDE / CELLS
    number = torch.randint(1, cells, (count, 1), generator=generator)
    there = uniform(0, 1, cells).argsort(dim=1) < number  # (B, things)
    depth = torch.tensor([1, 2, 3, 3, 3, 3])[torch.randint(6, (count, cells), generator=generator)]
    present = there[..., None] & (torch.arange(levels) < depth[..., None])  # (B, things, levels)
    forms = torch.randint(len(FORMS), (count, cells, levels), generator=generator)
    steps = torch.randint(1, len(COLOURS), (count, cells, levels), generator=generator)
    colours = torch.tensor(list(COLOURS.values()))[steps.cumsum(dim=2) % len(COLOURS)]  # neighbours differ
    shrink = torch.cat((uniform(9, 11, cells, 1), uniform(0.55, 0.65, cells, levels - 1)), dim=2)
    radius = shrink.cumprod(dim=2)  # (B, things, levels)
    corner = torch.stack(torch.meshgrid(*[torch.arange(CELLS)] * 2, indexing="ij")).flatten(1).flip(0)  # (2, things)
    x, y = ((corner[axis] + 0.5) * step + uniform(-1, 1, cells) for axis in range(2))  # (B, things)
    placed = []
    for level in range(levels):
        placed.append(torch.stack((x, y, radius[..., level]), dim=-1))
        low = 0.3 * (forms[..., level] == FORMS.index("triangle"))  # a triangle is wider below
        x = x + uniform(-0.08, 0.08, cells) * radius[..., level]
        y = y + (uniform(-0.08, 0.08, cells) + low) * radius[..., level]
    cover = _cover(forms, torch.stack(placed, dim=2), present)  # (B, things, levels, S, S)
    cover = cover.cummin(dim=2).values  # nothing of a part is outside its whole
    grey = uniform(0.1, 0.4, 1, 1, 1) + 0.03 * torch.randn(count, 3, SIDE, SIDE, generator=generator)
    images = grey
    for level in range(levels):
        painted = torch.einsum("bnhw,bnc->bchw", cover[:, :, level], colours[:, :, level])
        images = painted + (1 - cover[:, :, level].sum(dim=1, keepdim=True)) * images
    return Nested(images.clamp(0, 1), cover > 0.5)


def _cover(forms: Tensor, placed: Tensor, present: Tensor) -> Tensor:
    """What part of each pixel each shape covers: forms (...), centre and radius (..., 3) -> (..., S, S)."""
    fine = 2  # sub-pixels along each side
    axis = (torch.arange(SIDE * fine) + 0.5) / fine
    cover = torch.zeros(*forms.shape, SIDE, SIDE)
    for number, form in enumerate(FORMS):
        chosen = present & (forms == number)
        x, y, radius = placed[chosen].view(-1, 3, 1, 1).unbind(1)  # (shapes, 1, 1) each
        across, down = ((axis[None, :] - x) / radius).abs(), (axis[:, None] - y) / radius
        if form == "circle":
            inside = across.square() + down.square() <= 1
        elif form == "square":
            inside = (across <= 0.88) & (down.abs() <= 0.88)
        elif form == "diamond":
            inside = across + down.abs() <= 1.1
        else:
            inside = (across <= 0.55 * (down + 1)) & (down <= 1)
        cover[chosen] = F.avg_pool2d(inside.float().unsqueeze(1), fine).squeeze(1)
    return cover


def draw_clicks(scenes: Nested, *, questions: int = 1, clicks: int = 1, seed: int = 0) -> Asked:
    """Ask for something in each scene by clicks: the first on what is meant, others to say where the mask ends.

    The first click falls on any thing; half of the time on its innermost level, else on any, with equal chances; and
    there on any pixel where that level is on top. What is meant is that level or one around it, with equal chances.
    Every later click is on a random pixel of the thing or just around it, and is a foreground click if what is meant
    holds that pixel. A NOTHING stands at the end.
    """
    generator = torch.Generator().manual_seed(seed)
    count = len(scenes.images)
    rows = torch.arange(count)[:, None].expand(count, questions)  # (B, Q)
    visible = scenes.visible.flatten(3).any(dim=3)  # (B, things, levels)
    thing = _one_of(visible.any(dim=2)[rows], generator)  # (B, Q)
    innermost = visible[rows, thing].sum(dim=2) - 1  # (B, Q)
    inwards = torch.rand(count, questions, generator=generator) < 0.5
    clicked = torch.where(inwards, innermost, _one_of(visible[rows, thing], generator))
    meant = (torch.rand(count, questions, generator=generator) * (clicked + 1)).long()
    targets = scenes.masks[rows, thing, meant]  # (B, Q, S, S)
    around = F.max_pool2d(scenes.masks[rows, thing, 0].float(), 7, 1, 3) > 0  # three pixels further
    pixels = [_one_of(scenes.visible[rows, thing, clicked].flatten(2), generator)]
    pixels += [_one_of(around.flatten(2), generator) for _ in range(clicks - 1)]
    chosen = torch.stack(pixels, dim=2)  # (B, Q, clicks)
    points = F.pad(torch.stack((chosen % SIDE, chosen // SIDE), dim=-1), (0, 0, 0, 1)).float()
    kinds = F.pad(targets.flatten(2).gather(2, chosen).long(), (0, 1), value=-1)  # (B, Q, clicks + 1)
    return Asked(scenes.images, points, kinds, targets, clicked, meant, thing)


def draw_boxes(scenes: Nested, *, questions: int = 1, seed: int = 0) -> Asked:
    """Ask for something in each scene by its box: the top left and bottom right corners, a pixel off at most."""
    asked = draw_clicks(scenes, questions=questions, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    corners = boxes(asked.targets) + torch.randint(-1, 2, (*asked.meant.shape, 2, 2), generator=generator)
    return asked._replace(points=corners, kinds=torch.tensor([2, 3]).expand(corners.shape[:-1]))


def boxes(masks: Tensor) -> Tensor:
    """The first and the last column and row of each mask: (..., S, S) -> (..., 2, 2), top left and bottom right."""
    ends = []
    for axis in (-2, -1):  # what is left are columns, then rows
        filled = masks.any(dim=axis).float()  # (..., S)
        ends.append(torch.stack((filled.argmax(-1), filled.shape[-1] - 1 - filled.flip(-1).argmax(-1)), dim=-1))
    return torch.stack(ends, dim=-1).float()  # (..., end, x and y)


def _one_of(allowed: Tensor, generator: torch.Generator) -> Tensor:
    """One index of the last axis where `allowed`, each with equal chances: (..., n) -> (...)."""
    return (torch.rand(allowed.shape, generator=generator) * allowed).argmax(dim=-1)
