"""One token a word, for translation and classification."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from lecturelib.tokens.vocabulary import SPECIALS, Vocabulary

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_NO_SPACE_BEFORE = re.compile(r" ([.,;:!?%)\]}·;»”’])")
_NO_SPACE_AFTER = re.compile(r"([(\[{«“‘]) ")


def split_words(text: str) -> list[str]:
    """Words and single punctuation marks: "Don't stop, Ann!" -> ["Don't", "stop", ",", "Ann", "!"]."""
    return _WORD.findall(text)


class WordTokenizer:
    """Words and punctuation marks by their ids; a word outside the vocabulary becomes "<unk>"."""

    def __init__(self, vocabulary: Vocabulary, *, lower: bool = False) -> None:
        self.vocabulary = vocabulary
        self.lower = lower

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        lower: bool = False,
        min_count: int = 1,
        max_size: int | None = None,
        specials: Sequence[str] = SPECIALS,
    ) -> "WordTokenizer":
        """Collect the words of the texts, the most frequent first."""
        sequences = (split_words(text.lower() if lower else text) for text in texts)
        vocabulary = Vocabulary.build(sequences, specials=specials, min_count=min_count, max_size=max_size)
        return cls(vocabulary, lower=lower)

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return len(self.vocabulary)

    def __len__(self) -> int:
        return self.vocab_size

    def encode(self, text: str) -> list[int]:
        """Text to ids."""
        return self.vocabulary.encode(split_words(text.lower() if self.lower else text))

    def decode(self, ids: Iterable[int]) -> str:
        """Ids to text, one space between words and none before a comma. Spacing and unknown words are not recovered."""
        text = " ".join(self.vocabulary.decode(ids))
        return _NO_SPACE_AFTER.sub(r"\1", _NO_SPACE_BEFORE.sub(r"\1", text))

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON."""
        self.vocabulary.save(path)

    @classmethod
    def load(cls, path: str | Path, *, lower: bool = False) -> "WordTokenizer":
        """Read what `save` wrote."""
        return cls(Vocabulary.load(path), lower=lower)
