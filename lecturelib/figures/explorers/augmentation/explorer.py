"""One picture, every augmentation of the recipe, at several strengths and with several throws of the dice."""

import base64
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lecturelib.data.augment.frequencies import high_frequency_adversary
from lecturelib.data.augment.mixing import ImageBatch, cutmix, mixup, smooth_labels
from lecturelib.data.augment.rand_augment import OPERATIONS, apply_operation, rand_augment
from lecturelib.data.augment.simple import random_crop, random_erasing, random_flip
from lecturelib.data.sets.images import Images
from lecturelib.figures.explorers.explorer import Explorer
from lecturelib.figures.plots.image_grid import drawable

DRAWS = 4
LEVELS = (-1.0, -0.5, 0.0, 0.5, 1.0)


@dataclass(frozen=True)
class View:
    """What one augmentation makes of a picture: names of its strengths, and pictures (strengths, draws, …)."""

    name: str
    strengths: tuple[str, ...]
    pictures: Tensor


class AugmentationExplorer(Explorer):
    """Choose an augmentation and its strength; see the picture before and after, several draws where it is random.

    Args:
        pictures: the first is augmented; mixup and CutMix take partners from all of them
        loss: pictures -> a number that HAT's augmentation raises; without it HAT is left out
        radius: waves up to here HAT leaves alone
        start: the augmentation shown first
        seed: of the draws
    """

    title = "What does an augmentation do to an image?"
    hint = "choose another augmentation, then raise its strength."

    def __init__(
        self,
        pictures: Images,
        *,
        loss: Callable[[Tensor], Tensor] | None = None,
        radius: int = 4,
        start: str = "RandAugment",
        seed: int = 0,
    ) -> None:
        if len(pictures) < 2:
            raise ValueError(f"mixing needs at least two pictures, got {len(pictures)}")
        self.pictures, self.seed = pictures, seed
        self.original = pictures.scaled()[0]  # (channels, height, width)
        self.views = [*self._of_the_recipe(), *self._operations()]
        if loss is not None:
            self.views.insert(6, self._adversary(loss, radius))
        names = [view.name for view in self.views]
        if start not in names:
            raise ValueError(f"start must be one of {', '.join(names)}, got {start!r}")
        self.start = names.index(start)

    def view(self, name: str) -> View:
        """The pictures behind one choice."""
        return next(view for view in self.views if view.name == name)

    def _random(
        self, name: str, strengths: dict[str, float], change: Callable[[Tensor, float, torch.Generator], Tensor]
    ) -> View:
        """The same picture changed by several throws of the same dice at each strength."""
        copies = self.original.expand(DRAWS, -1, -1, -1)  # (draws, channels, height, width)
        changed = [
            change(copies, strength, torch.Generator().manual_seed(self.seed)) for strength in strengths.values()
        ]
        return View(name, tuple(strengths), torch.stack(changed))

    def _of_the_recipe(self) -> list[View]:
        def number(prefix: str, *values: float) -> dict[str, float]:
            return {f"{prefix} {value:g}": value for value in values}

        return [
            self._random(
                "flip", number("probability", 0, 0.5, 1), lambda x, s, g: random_flip(x, probability=s, generator=g)
            ),
            self._random(
                "shift", number("padding", 0, 1, 2, 4), lambda x, s, g: random_crop(x, padding=int(s), generator=g)
            ),
            self._random(
                "RandAugment",
                number("magnitude", 0, 3, 6, 9),
                lambda x, s, g: rand_augment(x, magnitude=s, generator=g),
            ),
            self._random(
                "random erasing",
                number("area up to", 0, 0.1, 0.33, 0.6),
                lambda x, s, g: random_erasing(x, probability=1.0, area=(0.02 if s else 0.0, s), generator=g),
            ),
            self._random("mixup", number("α", 0, 0.2, 0.8, 4), lambda x, s, g: self._mixed(mixup, s, g)),
            self._random("CutMix", number("α", 0, 0.2, 1, 4), lambda x, s, g: self._mixed(cutmix, s, g)),
        ]

    def _mixed(self, mix: Callable[..., ImageBatch], alpha: float, generator: torch.Generator) -> Tensor:
        """The first picture mixed with one of the others, whichever the dice say."""
        images, labels = self.pictures.scaled(), self.pictures.labels
        targets = smooth_labels(labels, len(self.pictures.classes))
        batch = ImageBatch(images, targets)
        return torch.stack([mix(batch, alpha=alpha, generator=generator).images[0] for _ in range(DRAWS)])

    def _adversary(self, loss: Callable[[Tensor], Tensor], radius: int) -> View:
        strengths = {f"strength {size}/255": size / 255 for size in (0, 2, 8, 32)}

        def change(x: Tensor, strength: float, generator: torch.Generator) -> Tensor:
            return high_frequency_adversary(x, loss, radius=radius, strength=strength, generator=generator).detach()

        return self._random("HAT", strengths, change)

    def _operations(self) -> list[View]:
        levels = torch.tensor(LEVELS)
        names = tuple(f"level {level:+g}" if level else "level 0" for level in LEVELS)
        repeated = self.original.expand(len(LEVELS), -1, -1, -1)
        return [
            View(operation, names, apply_operation(repeated, operation, levels)[:, None])
            for operation in OPERATIONS
            if operation not in ("identity", *(("color",) if self.original.shape[0] == 1 else ()))
        ]

    def data(self) -> dict[str, object]:
        views = []
        for view in self.views:
            pixels = [drawable(picture).tobytes() for picture in view.pictures.flatten(0, 1)]
            views.append(
                {
                    "name": view.name.replace("_", " "),
                    "strengths": list(view.strengths),
                    "draws": view.pictures.shape[1],
                    "pixels": base64.b64encode(b"".join(pixels)).decode(),
                }
            )
        shape = drawable(self.original).shape
        return {
            "original": base64.b64encode(drawable(self.original).tobytes()).decode(),
            "views": views,
            "size": list(shape[:2]),
            "channels": 1 if len(shape) == 2 else 3,
            "name": self.pictures.classes[int(self.pictures.labels[0])],
            "start": self.start,
        }

    def text(self) -> str:
        names = ", ".join(view.name.replace("_", " ") for view in self.views)
        return (
            f"A {self.pictures.classes[int(self.pictures.labels[0])]} under {len(self.views)} augmentations at several "
            f"strengths: {names}. At strength zero each leaves the image as it is."
        )
