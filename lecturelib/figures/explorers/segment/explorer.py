"""Click on an image and get masks: the prompt encoder and the mask decoder of a segmenter run in the page itself."""

import base64
import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from lecturelib.figures.explorers.explorer import Explorer
from lecturelib.figures.plots.image_grid import drawable

LARGE = 256  # a matrix with as many numbers is sent in 8 bits
LEVELS = 127


class SegmentExplorer(Explorer):
    """Click on an image and choose among the masks that the model offers; add points to say more, or what is not meant.

    The images are read here, once, by the model's encoder. What comes after that is quick, and is done in the page for
    every click: the page holds the weights of the two parts that do it, large matrices in 8 bits with a scale for each
    row, and the features of the images as float16. `model` is the model as the page has it.

    Args:
        model: a `PromptableSegmenter` whose encoder has a stride of 4
        images: by name, (3, height, width) from 0 to 1, all of one size
        inputs: the same images as the model wants them, (images, channels, height, width)
        start: the image shown first, and where in it (x, y) the first click is
    """

    title = "What do you mean by this click?"
    hint = "click on an innermost shape and compare the three masks; then add a second point."

    def __init__(
        self, model: Any, images: Mapping[str, ArrayLike], inputs: Tensor, *, start: tuple[int, int, int] = (0, 0, 0)
    ) -> None:
        self.names, self.pixels = list(images), [drawable(image) for image in images.values()]
        if not images or len({pixels.shape for pixels in self.pixels}) != 1 or len(images) != len(inputs):
            raise ValueError(
                "SegmentExplorer: give one or more images of one size and as many inputs, got "
                f"{[pixels.shape for pixels in self.pixels]} and inputs {tuple(inputs.shape)}"
            )
        height, width = self.pixels[0].shape[:2]
        if model.config.image.stride != 4:
            raise ValueError(f"the masks are as large as the image at a stride of 4, got {model.config.image.stride}")
        number, x, y = start
        if not (0 <= number < len(images) and 0 <= x < width and 0 <= y < height):
            raise ValueError(f"start={start} is outside the {len(images)} images of {width} × {height} pixels")
        self.config, self.start, self.model = model.config, start, copy.deepcopy(model).eval()
        self.weights = {
            f"{part}.{name}": weight
            for part in ("prompt", "decoder")
            for name, weight in getattr(self.model, part).state_dict().items()
        }
        with torch.no_grad():
            for weight in self.weights.values():
                weight.copy_(_rows(weight)[0] * _rows(weight)[1] if _is_large(weight) else weight.half())
            self.features = model.eval().encode(inputs).half()  # (images, D, rows, columns)
            point = torch.tensor([[[x, y], [0, 0]]], dtype=torch.float32)
            feature = self.features[number : number + 1].to(inputs.dtype)
            kinds = torch.tensor([[1, -1]])
            first, offered = self.model.decode(feature, point, kinds), model.offered(kinds)[0]
        self.first = first.quality[0, offered].tolist(), (first.logits[0, offered] > 0).sum(dim=(1, 2)).tolist()

    def data(self) -> dict[str, object]:
        rows = [_rows(weight) for weight in self.weights.values() if _is_large(weight)]
        small = [weight.flatten() for weight in self.weights.values() if not _is_large(weight)]
        codes = torch.cat([codes.flatten() for codes, _ in rows]).to(torch.int8).cpu().numpy()
        return {
            "heads": self.config.num_heads,
            "layers": self.config.num_layers,
            "masks": self.config.num_masks,
            "size": list(self.pixels[0].shape[:2]),
            "channels": 1 if self.pixels[0].ndim == 2 else 3,
            "shapes": {name: list(weight.shape) for name, weight in self.weights.items()},
            "large": LARGE,
            "codes": base64.b64encode(codes.tobytes()).decode(),
            "scales": _halves(torch.cat([scales.flatten() for _, scales in rows])),
            "weights": _halves(torch.cat(small)),
            "features": [_halves(feature.flatten(1).T) for feature in self.features],  # (N, D) each
            "grid": list(self.features.shape[2:]),
            "names": self.names,
            "pictures": [base64.b64encode(pixels.tobytes()).decode() for pixels in self.pixels],
            "start": list(self.start),
        }

    def text(self) -> str:
        number, x, y = self.start
        quality, areas = self.first
        order: Sequence[int] = np.argsort(quality)[::-1].tolist()
        told = ", ".join(f"{areas[mask]} pixels (predicted IoU {quality[mask]:.2f})" for mask in order)
        return f"{self.names[number]}, one click at column {x + 1}, row {y + 1}. The model offers masks of {told}."


def _is_large(weight: Tensor) -> bool:
    return weight.dim() > 1 and weight.numel() >= LARGE


def _rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A weight as whole numbers from -127 to 127, and the scale of each row: their product is nearly the weight."""
    highest = weight.detach().abs().flatten(1).amax(dim=1)  # (rows,)
    scales = (highest / LEVELS).half().to(weight.dtype).view(-1, *[1] * (weight.dim() - 1))
    return (weight.detach() / scales.where(scales > 0, 1.0)).round(), scales


def _halves(values: Tensor) -> str:
    """Numbers as base64 float16, half of what float32 takes."""
    return base64.b64encode(np.ascontiguousarray(values.half().cpu().numpy(), dtype="<f2").tobytes()).decode()
