"""What every test of the package may count on."""

import importlib.util
from pathlib import Path

import pytest
import torch


def prepare_torchvision() -> torch.library.Library | None:
    """Let timm and transformers import a torchvision that was built for another torch.

    Where its compiled operators cannot be loaded, it still looks two of them up by name when it is imported. The models
    need neither, so a declaration will do. The library must be kept: the declarations live as long as it does.
    """
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    try:
        torch.ops.load_library(next(Path(found.origin).parent.glob("_C*.so")))
    except (OSError, StopIteration):
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


TORCHVISION = prepare_torchvision()


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Every test of the package draws the same numbers, whichever ran before it."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed files a stack trace for every device that is missing
