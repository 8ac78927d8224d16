"""One token a character."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from lecturelib.tokens.text_bytes import bytes_of, text_of
from lecturelib.tokens.vocabulary import Vocabulary


class CharTokenizer:
    """One token for each character of an alphabet.

    A character outside the alphabet is an error that names it. With `byte_fallback` it becomes its UTF-8 bytes
    instead, 256 more tokens after the characters, and every string there is can be encoded and comes back the same.
    """

    def __init__(self, alphabet: Iterable[str], *, specials: Sequence[str] = (), byte_fallback: bool = False) -> None:
        characters = list(alphabet)
        if wrong := [symbol for symbol in characters if len(symbol) != 1]:
            raise ValueError(f"an alphabet is made of single characters, not {wrong[0]!r}")
        self.byte_fallback = byte_fallback
        self.vocabulary = Vocabulary(characters, specials=specials)
        self._first_byte = len(self.vocabulary)
        first = len(self.vocabulary.specials)
        self._ids = {symbol: first + index for index, symbol in enumerate(self.vocabulary.symbols[first:])}

    @classmethod
    def train(cls, text: str, *, specials: Sequence[str] = (), byte_fallback: bool = False) -> "CharTokenizer":
        """The alphabet of a text, in code point order."""
        return cls(sorted(set(text)), specials=specials, byte_fallback=byte_fallback)

    @property
    def specials(self) -> dict[str, int]:
        """The symbols that stand for no text, with their ids."""
        return self.vocabulary.special_ids

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return len(self.vocabulary) + 256 * self.byte_fallback

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        return f"CharTokenizer({self.vocab_size} tokens{', with byte fallback' if self.byte_fallback else ''})"

    def encode(self, text: str) -> list[int]:
        """Text to ids. Special symbols are never read from text."""
        try:
            return [self._ids[character] for character in text]
        except KeyError:
            pass
        ids = []
        for place, character in enumerate(text):
            index = self._ids.get(character)
            if index is not None:
                ids.append(index)
            elif self.byte_fallback:
                ids.extend(self._first_byte + byte for byte in bytes_of(character))
            else:
                raise ValueError(
                    f"character {character!r} (U+{ord(character):04X}) at position {place} is not in this alphabet of "
                    f"{len(self._ids)}. Train on text that has it, or with byte_fallback=True."
                )
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Ids (a list or a tensor of one dimension) to text, without special symbols."""
        text: list[str] = []
        pending = bytearray()
        for index in map(int, ids):
            if self._first_byte <= index < self.vocab_size:
                pending.append(index - self._first_byte)
                continue
            if pending:
                text.append(text_of(bytes(pending)))
                pending.clear()
            text += self.vocabulary.decode([index])
        if pending:
            text.append(text_of(bytes(pending)))
        return "".join(text)

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as JSON."""
        content = {"type": "characters", "specials": self.vocabulary.specials, "byte_fallback": self.byte_fallback}
        Path(path).write_text(json.dumps({**content, "alphabet": list(self._ids)}), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "CharTokenizer":
        """Read what `save` wrote."""
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("type") != "characters":
            raise ValueError(f"{path} is not a saved CharTokenizer")
        return cls(content["alphabet"], specials=content["specials"], byte_fallback=content["byte_fallback"])
