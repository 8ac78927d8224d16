"""Small colour pictures with names: the emoji of Twemoji."""

import io
import json
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lecturelib.data.store.archives import read_member, read_members
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import Splits, split_of


@dataclass(frozen=True)
class Emoji:
    """Pictures with what they show.

    Shapes: pixels (N, 4, size, size) in 0..255, red, green, blue and opacity; names and categories have N entries.
    """

    pixels: Tensor
    names: tuple[str, ...]
    categories: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


def emoji(*, size: int = 32, skin_tones: bool = False) -> Splits[Emoji]:
    """About 1,900 pictures, or 3,786 with every skin tone; all tones of a picture belong to one split.

    Args:
        size: width and height in pixels, at most 64.
    """
    if not 1 <= size <= 64:
        raise ValueError(f"size={size} must be from 1 to 64, the size the pictures are drawn in")
    (path,) = fetch("emoji").values()
    described = {}
    for entry in json.loads(read_member(path, "package/emoji.json")):
        name = (entry["name"] or entry["short_name"]).lower()
        described[entry["image"]] = (name, entry["category"])
        if skin_tones:
            for variation in entry.get("skin_variations", {}).values():
                described[variation["image"]] = (name, entry["category"])
    parts: dict[str, list[tuple[np.ndarray, str, str]]] = {"train": [], "validation": [], "test": []}
    for member, content in read_members(path, "package/img/twitter/64/*.png"):
        file = member.rpartition("/")[2]
        if file in described:
            with Image.open(io.BytesIO(content)) as picture:
                pixels = np.asarray(picture.convert("RGBA").resize((size, size), Image.Resampling.BOX))
            name, category = described[file]
            parts[split_of(name, validation=0.1, test=0.1)].append((pixels.transpose(2, 0, 1), name, category))
    return Splits(*map(_stack, (parts["train"], parts["validation"], parts["test"])))


def _stack(rows: list[tuple[np.ndarray, str, str]]) -> Emoji:
    pixels, names, categories = zip(*rows, strict=True)
    return Emoji(torch.from_numpy(np.stack(pixels)), names, categories)  # (N, 4, size, size)
