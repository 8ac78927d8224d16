"""Two pictures at once: turn λ and see what mixup and CutMix make of the picture and of its label."""

import base64

import numpy as np
import torch
from torch import Tensor

from lecturelib.data.augment.mixing import cutmix_boxes, smooth_labels
from lecturelib.data.sets.images import Images
from lecturelib.figures.explorers.explorer import Explorer, pack
from lecturelib.figures.plots.image_grid import drawable

STEPS = 20
KINDS = ("mixup", "CutMix")
SMOOTHINGS = (0.0, 0.1)


class MixingExplorer(Explorer):
    """A slider for λ, the part of the first picture; the mixed picture; the mass that each class gets.

    Args:
        pictures: the first two are mixed
        centre: of CutMix's box, down and across, from 0 to 1
    """

    title = "Two images at once: whose label is it?"
    hint = "switch from mixup to CutMix, then move λ."

    def __init__(self, pictures: Images, *, centre: tuple[float, float] = (0.5, 0.5)) -> None:
        if len(pictures) < 2:
            raise ValueError(f"two pictures are needed to mix, got {len(pictures)}")
        if not all(0.0 <= place <= 1.0 for place in centre):
            raise ValueError(f"centre must be two numbers from 0 to 1, got {centre}")
        self.pictures = pictures[:2]
        keep = torch.arange(STEPS + 1) / STEPS  # (STEPS + 1,)
        places = torch.tensor(centre)[:, None].expand(2, STEPS + 1)
        height, width = self.pictures.pixels.shape[-2:]
        self.boxes = cutmix_boxes(keep, places, (height, width))  # (STEPS + 1, height, width)

    def kept(self, step: int, kind: str) -> float:
        """The part of the label that the first picture keeps, at λ = step / STEPS."""
        return step / STEPS if kind == "mixup" else 1.0 - float(self.boxes[step].float().mean())

    def mixed(self, step: int, kind: str) -> Tensor:
        """The mixed picture, (channels, height, width) from 0 to 1."""
        first, second = self.pictures.scaled()
        if kind == "mixup":
            return step / STEPS * first + (1 - step / STEPS) * second
        return torch.where(self.boxes[step], second, first)

    def mass(self, step: int, kind: str, smoothing: float = 0.0) -> Tensor:
        """The probabilities of the classes that go with it, (classes,)."""
        first, second = smooth_labels(self.pictures.labels, len(self.pictures.classes), smoothing)
        keep = self.kept(step, kind)
        return keep * first + (1 - keep) * second

    def data(self) -> dict[str, object]:
        pixels = [drawable(picture) for picture in self.pictures.scaled()]
        edges = []
        for box in self.boxes.numpy():
            rows, columns = np.flatnonzero(box.any(axis=1)), np.flatnonzero(box.any(axis=0))
            empty = len(rows) == 0 or len(columns) == 0
            edges.append([0, 0, 0, 0] if empty else [rows[0], rows[-1] + 1, columns[0], columns[-1] + 1])
        return {
            "pictures": [base64.b64encode(picture.tobytes()).decode() for picture in pixels],
            "size": list(pixels[0].shape[:2]),
            "channels": 1 if pixels[0].ndim == 2 else 3,
            "labels": self.pictures.labels.tolist(),
            "classes": list(self.pictures.classes),
            "boxes": np.array(edges).tolist(),
            "kept": pack([self.kept(step, "CutMix") for step in range(STEPS + 1)]),
            "steps": STEPS,
            "kinds": list(KINDS),
            "smoothings": list(SMOOTHINGS),
        }

    def text(self) -> str:
        first, second = (self.pictures.classes[label] for label in self.pictures.labels.tolist())
        step = 7 * STEPS // 10
        return (
            f"At λ = {step / STEPS:.2f} mixup blends a {first} with a {second} and labels the blend "
            f"{self.kept(step, 'mixup'):.2f} {first}; CutMix pastes a box, and its label keeps "
            f"{self.kept(step, 'CutMix'):.2f}, the part of the image that is left."
        )
