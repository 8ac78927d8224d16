"""WordPiece: BERT's tokens, whole words where the vocabulary has them and pieces of words elsewhere."""

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

CHINESE = (  # the blocks of Chinese characters that BERT counts as such
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
LONGEST_WORD = 100  # characters; a longer word is unknown as a whole


class WordPieceTokenizer:
    """Cut a text into words and signs, in small letters without accents, and each word into the longest known pieces.

    A piece that goes on with a word begins with "##": "embeddings" is "em", "##bed", "##ding", "##s".

    Paper: Wu et al. 2016 [wu2016google], Section 4.1; as BERT uses it, Devlin et al. 2019 [devlin2019bert].
    Differs: only the reading of a finished vocabulary; nothing is trained. Always in small letters, as "uncased" BERT.

    Args:
        tokens: the vocabulary, in the order of its ids; with [UNK], [CLS] and [SEP]
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.ids = {token: index for index, token in enumerate(tokens)}
        self.tokens = list(tokens)
        missing = [symbol for symbol in ("[UNK]", "[CLS]", "[SEP]") if symbol not in self.ids]
        if missing:
            raise ValueError(f"the vocabulary has no {missing[0]}; is it BERT's?")

    @classmethod
    def load(cls, path: str | Path) -> "WordPieceTokenizer":
        """Read a `vocab.txt`, a token a line."""
        return cls(Path(path).read_text(encoding="utf-8").splitlines())

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Text to ids, between [CLS] and [SEP]."""
        pieces = [piece for word in split_signs(text) for piece in self._pieces(word)]
        return [self.ids["[CLS]"], *pieces, self.ids["[SEP]"]]

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids, for looking at."""
        return [self.tokens[index] for index in ids]

    def _pieces(self, word: str) -> list[int]:
        """The longest piece that fits, again and again; a word with a part that fits nothing is unknown."""
        if len(word) > LONGEST_WORD:
            return [self.ids["[UNK]"]]
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in self.ids)
            end = next(ends, None)
            if end is None:
                return [self.ids["[UNK]"]]
            found.append(self.ids[prefix + word[start:end]])
            start = end
        return found


def split_signs(text: str) -> list[str]:
    """Words in small letters without accents; every sign, and every Chinese character, is a word of its own."""
    spaced: list[str] = []
    for character in text:
        kind = unicodedata.category(character)
        if character in "\t\n\r" or kind == "Zs":
            spaced.append(" ")
        elif character in "\x00\ufffd" or kind.startswith("C"):
            continue  # control characters and the like are dropped
        else:
            spaced.append(f" {character} " if _is_chinese(character) else character)
    plain = unicodedata.normalize("NFD", "".join(spaced).lower())
    kept = [character for character in plain if unicodedata.category(character) != "Mn"]
    return "".join(f" {character} " if _is_sign(character) else character for character in kept).split()


def _is_sign(character: str) -> bool:
    """Punctuation, and all of ASCII that is neither letter nor digit, as BERT counts it."""
    is_ascii_sign = character.isascii() and character.isprintable() and not character.isalnum() and character != " "
    return is_ascii_sign or unicodedata.category(character).startswith("P")


def _is_chinese(character: str) -> bool:
    code = ord(character)
    return any(first <= code <= last for first, last in CHINESE)
