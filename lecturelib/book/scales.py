"""How much a chapter computes: seconds, about a minute, or all that a GPU can do in an evening."""

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch

from lecturelib.training import choose_device

SCALES = ("smoke", "default", "full")
SHAPES = ("d_model", "num_heads", "num_layers", "d_ff")  # sizes of models, which a dry run leaves as they are


class Sizes(SimpleNamespace):
    """The numbers of one scale, by name, and what the scale means for claims and machines.

    is_trained: False at "smoke", whose few steps train nothing: claims about trained models are checked only above it
    device: "cpu" up to "default", so that stored numbers are the same everywhere; this machine's best at "full"
    """

    is_trained: bool
    device: str

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no size {name!r}; there are: {', '.join(sorted(vars(self)))}")


def sizes(
    scale: str, *, smoke: Mapping[str, object], default: Mapping[str, object], full: Mapping[str, object]
) -> Sizes:
    """Choose the numbers of a scale: `size = sizes(scale, smoke=dict(steps=9), ...)`, then `size.steps`.

    Up to "default", torch is also kept to one thread: small models run no slower, and the numbers do not depend on
    how many cores there are. "full" leaves threads and device as the machine has them.

    With LECTURELIB_DRY_RUN=1 in the environment, "full" is rehearsed: its device, its threads and its models, but only
    as much computed as at "smoke". The tests run every chapter so.
    """
    choices = dict(zip(SCALES, (smoke, default, full), strict=True))
    if scale not in choices:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    for name, choice in choices.items():
        if choice.keys() != default.keys():
            differ = ", ".join(sorted(choice.keys() ^ default.keys()))
            raise ValueError(f"every scale needs the same names, but {name} and default differ in: {differ}")
    if scale != "full":
        torch.set_num_threads(1)
    device = str(choose_device()) if scale == "full" else "cpu"
    chosen, is_trained = choices[scale], scale != "smoke"
    if scale == "full" and os.environ.get("LECTURELIB_DRY_RUN") == "1":
        chosen, is_trained = {name: full[name] if name in SHAPES else smoke[name] for name in full}, False
    return Sizes(is_trained=is_trained, device=device, **chosen)
