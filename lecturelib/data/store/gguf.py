"""GGUF, the file format of llama.cpp: settings, a tokenizer and tensors, many of them quantised, in one file.

The file is a header, then named settings, then a table of tensors, then their bytes, each aligned. Numbers are
little-endian. This reads the container; `lecturelib.models.weights.gguf` knows what the tensors' bytes mean.

Differs: versions 2 and 3 only; version 1 had shorter counts, and nobody writes it any more.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MAGIC = b"GGUF"
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9


class RawTensor(NamedTuple):
    """One tensor as it lies in the file: the number of its type, its shape (rows first), and all bytes from its start.

    How many of the bytes are its own depends on the type.
    """

    type: int
    shape: tuple[int, ...]
    data: np.ndarray


@dataclass(frozen=True)
class GGUF:
    """The content of a file: settings by name ("llama.block_count", "tokenizer.ggml.tokens"), and tensors by name."""

    settings: dict[str, Any]
    tensors: dict[str, RawTensor]


class _Reader:
    """Read values one after another."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        self.content = np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.zeros(0, np.uint8)
        self.view = self.content.data  # a slice of it costs a tenth of the array's, and headers have many

    def take(self, size: int) -> bytes:
        if size > len(self.content) - self.at:
            raise ValueError(
                f"{self.path} is damaged: it ends at byte {len(self.content)}, in the middle of its header"
            )
        self.at += size
        return self.view[self.at - size : self.at].tobytes()

    def numbers(self, kinds: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{kinds}", self.take(struct.calcsize(f"<{kinds}")))

    def text(self) -> str:
        (size,) = self.numbers("Q")
        return self.take(size).decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            inner, length = self.numbers("IQ")
            if inner in NUMBERS:
                return list(self.numbers(f"{length}{NUMBERS[inner]}"))
            return [self.value(inner) for _ in range(length)]
        if kind not in NUMBERS:
            raise ValueError(f"{self.path} is damaged: a setting has type {kind}, and there is none above 12")
        return self.numbers(NUMBERS[kind])[0]


def read_gguf(path: Path | str) -> GGUF:
    """Read a file's settings and find its tensors; their bytes stay on the disk until somebody looks at them."""
    reader = _Reader(Path(path))
    if reader.take(4) != MAGIC:
        raise ValueError(f"{path} is no GGUF file: it does not begin with the letters GGUF")
    (version,) = reader.numbers("I")
    if version not in (2, 3):
        raise ValueError(f"{path} is a GGUF file of version {version}; 2 and 3 can be read here")
    num_tensors, num_settings = reader.numbers("QQ")
    settings = {}
    for _ in range(num_settings):
        name = reader.text()
        settings[name] = reader.value(*reader.numbers("I"))
    table = []
    for _ in range(num_tensors):
        name = reader.text()
        (num_axes,) = reader.numbers("I")
        shape = reader.numbers(f"{num_axes}Q")[::-1]  # the file names the fastest axis first
        table.append((name, shape, *reader.numbers("IQ")))
    alignment = settings.get("general.alignment", 32)
    start = -(-reader.at // alignment) * alignment
    tensors = {name: RawTensor(kind, shape, reader.content[start + at :]) for name, shape, kind, at in table}
    return GGUF(settings, tensors)
