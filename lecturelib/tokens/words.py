"""One token a word, for translation and classification."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from lecturelib.data.sets.wording import WORD
from lecturelib.tokens.vocabulary import SPECIALS, Vocabulary

_NO_SPACE_BEFORE = re.compile(r" ([.,;:!?%)\]}·;»”’])")
_NO_SPACE_AFTER = re.compile(r"([(\[{«“‘]) ")


def split_words(text: str) -> list[str]:
    """Words and single punctuation marks: "Don't stop, Ann!" -> ["Don't", "stop", ",", "Ann", "!"]."""
    return WORD.findall(text)


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
    def specials(self) -> dict[str, int]:
        """The symbols that stand for no text, with their ids."""
        return self.vocabulary.special_ids

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
        """Write the tokenizer as JSON."""
        first = len(self.vocabulary.specials)
        content = {"type": "words", "lower": self.lower, "specials": self.vocabulary.specials}
        Path(path).write_text(json.dumps({**content, "words": self.vocabulary.symbols[first:]}), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "WordTokenizer":
        """Read what `save` wrote."""
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("type") != "words":
            raise ValueError(f"{path} is not a saved WordTokenizer")
        return cls(Vocabulary(content["words"], specials=content["specials"]), lower=content["lower"])
