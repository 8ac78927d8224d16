"""Language models that others have trained, ready to use: the model and its tokenizer from one file."""

from pathlib import Path
from typing import NamedTuple

from lecturelib.data import read_gguf, smollm2
from lecturelib.models import Llama, load
from lecturelib.models.weights.few_bits import load_in_bits
from lecturelib.tokens import BPETokenizer
from lecturelib.training import choose_device

PRETRAINED = {"smollm2": smollm2}
"""Names that `lecturelib sample` and `lecturelib chat` take, and what fetches the file of each."""


class Pretrained(NamedTuple):
    """A model in eval mode, and the tokenizer it was trained with."""

    model: Llama
    tokenizer: BPETokenizer


def is_pretrained(name: Path | str) -> bool:
    """Whether a name is one of those, or the path of a GGUF file, and no run's."""
    return str(name) in PRETRAINED or Path(name).suffix == ".gguf"


def load_pretrained(name: Path | str = "smollm2", device: str = "cpu", *, bits: int | None = None) -> Pretrained:
    """Load a pretrained language model by its name, fetching it on first use, or from a GGUF file.

    Args:
        name: one of `PRETRAINED`, or the path of a file
        device: cpu, cuda, mps, or auto
        bits: keep linear layers in 8 or 4 bits, for less memory; float32 when left out
    """
    path = PRETRAINED[str(name)]() if str(name) in PRETRAINED else Path(name)
    model = load(Llama, path) if bits is None else load_in_bits(path, bits)
    model = model.eval().to(choose_device(device))
    return Pretrained(model, BPETokenizer.from_gguf(read_gguf(path).settings))
