"""Read a tokenizer back from its file, whichever it is."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from lecturelib.tokens.bpe import BPETokenizer
from lecturelib.tokens.characters import CharTokenizer
from lecturelib.tokens.words import WordTokenizer


class Tokenizer(Protocol):
    """What all tokenizers can do; `specials` are the symbols that stand for no text, with their ids."""

    @property
    def specials(self) -> Mapping[str, int]: ...

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def save(self, path: str | Path) -> None: ...


KINDS: Mapping[str, Callable[[str | Path], Tokenizer]] = {
    "characters": CharTokenizer.load,
    "words": WordTokenizer.load,
    "byte-level bpe": BPETokenizer.load,
}


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read what the `save` of a tokenizer wrote; the file says of which kind it is."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} can't be read as a saved tokenizer: {error}") from error
    kind = content.get("type", "") if isinstance(content, dict) else ""
    if kind not in KINDS:
        raise ValueError(f"{path} is not a saved tokenizer: its type is {kind!r}, not one of {', '.join(KINDS)}")
    return KINDS[kind](path)
