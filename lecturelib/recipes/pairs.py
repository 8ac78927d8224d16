"""Turn a source into a target: what an encoder-decoder learns from, and what is done with it afterwards."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from torch import nn

import lecturelib.data
from lecturelib.data import Pair, Splits, plain_text, stem
from lecturelib.evaluation import beam_search, decode, error_rate, exact_match, mean_loss, read_source
from lecturelib.recipes.texts import device_of
from lecturelib.tokens import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    CharTokenizer,
    StepBatches,
    Tokenizer,
    Vocabulary,
    WordTokenizer,
    collate_pairs,
    load_tokenizer,
    pair_batches,
    split_words,
)
from lecturelib.training import Run, target_loss, to_device

PAIRS: Mapping[str, Callable[[], Splits[list[Pair]]]] = {
    "dates": functools.partial(lecturelib.data.dates, train=30_000),
    "cmudict": lecturelib.data.pronunciations,
    "greek_english": functools.partial(lecturelib.data.greek_english, max_len=20),
}
RARE = {"greek_english": 2}  # how often a symbol must occur to be in the vocabulary, where once is not enough
READERS: Mapping[str, Callable[[str], str]] = {
    "text": str,
    "plain": lambda text: plain_text([text]),
    "stems": lambda text: " ".join(stem(word) for word in split_words(text) if word[0].isalnum()),
}


class PairTask:
    """Turn a source sequence into a target sequence.

    Args:
        source, target: tokenizers; the same one twice where both sides share a vocabulary
        reads: what a typed source becomes before it is tokenized: "text" as it is, "plain" in small letters without
            accents, "stems" the beginnings of its words
        splits: the data, for training
    """

    monitor = "exact_match"
    higher_is_better = True

    def __init__(
        self, source: Tokenizer, target: Tokenizer, *, reads: str = "text", splits: Splits[list[Pair]] | None = None
    ) -> None:
        if reads not in READERS:
            raise ValueError(f"reads={reads!r} must be one of {', '.join(READERS)}")
        self.source, self.target, self._read, self._splits = source, target, READERS[reads], splits

    @classmethod
    def from_data(cls, name: str, *, shared: bool = False) -> Self:
        """Load the data and build vocabularies; with `shared`, one for both sides."""
        splits, least = PAIRS[name](), RARE.get(name, 1)
        sources, targets = ([getattr(pair, side) for pair in splits.train] for side in ("source", "target"))
        if shared:
            both = _tokenizer([*sources, *targets], least)
            return cls(both, both, splits=splits)
        return cls(_tokenizer(sources, least), _tokenizer(targets, least), splits=splits)

    @classmethod
    def load(cls, run: Run) -> Self:
        """For use: the tokens of a run, without its data."""
        both = run.folder / "tokens.json"
        paths = (both, both) if both.exists() else (run.folder / "source.json", run.folder / "target.json")
        return cls(*map(load_tokenizer, paths), reads=run.facts.get("reads", "text"))

    def save(self, folder: Path) -> None:
        if self.source is self.target:
            self.source.save(folder / "tokens.json")
        else:
            self.source.save(folder / "source.json")
            self.target.save(folder / "target.json")

    @property
    def sizes(self) -> dict[str, int]:
        if self.source is self.target:
            return {"vocab_size": self.source.vocab_size}
        return {"source_vocab_size": self.source.vocab_size, "target_vocab_size": self.target.vocab_size}

    def loss(self, model: nn.Module, batch: Any) -> Any:
        return target_loss(model, batch)

    def batches(self, batch_size: int, seed: int) -> Callable[[int], Any]:
        return self._batches("train", batch_size, seed)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        batches = self._batches("validation", 250, 0, limit=500).in_order()
        loss = mean_loss(model, (to_device(batch, device_of(model)) for batch in batches), target_loss)
        return {"loss": loss} | self._score(model, "validation", 500)

    def show(self, model: nn.Module) -> str:
        pairs = self._pairs("validation", 3)
        lines = []
        for pair, row in zip(pairs, self._decode(model, self._encoded(pairs)), strict=True):
            source, wanted = _join(self.source, pair.source), _join(self.target, pair.target)
            given = self.target.decode(row)
            verdict = "right" if wanted == given else f"wrong, it is {wanted}"
            lines.append(f"{source}  →  {given}  ({verdict})")
        return "\n".join(lines)

    def final(self, model: nn.Module) -> tuple[str, dict[str, float]]:
        score, count = self._score(model, "test", 1000), len(self._pairs("test", 1000))
        exact, rate = score["exact_match"], score["error_rate"]
        line = f"test: {exact:.1%} of {count} exactly right, {rate:.2%} of the symbols wrong"
        return line, {f"test_{name}": value for name, value in score.items()}

    def translate(self, model: nn.Module, texts: Sequence[str], *, beam_size: int = 1) -> list[str]:
        """What the model writes for each text."""
        sources = [self.source.encode(self._read(text)) for text in texts]
        if not all(sources):
            raise ValueError("there is nothing to translate: a text is empty")
        return [self.target.decode(row) for row in self._decode(model, sources, beam_size=beam_size)]

    def _decode(
        self, model: nn.Module, sources: Sequence[Sequence[int]], *, beam_size: int = 1, batch_size: int = 250
    ) -> list[list[int]]:
        rows: list[list[int]] = []
        ids = self._specials
        for first in range(0, len(sources), batch_size):
            examples: list[tuple[Sequence[int], list[int]]] = [(s, []) for s in sources[first : first + batch_size]]
            batch = to_device(collate_pairs(examples, **ids), device_of(model))
            start = read_source(model, batch.source, batch.source_lengths, bos_id=ids["bos_id"])
            longest = 2 * batch.source.shape[1] + 10
            if beam_size > 1:
                found = beam_search(model, start, max_len=longest, beam_size=beam_size, eos_id=ids["eos_id"])
                rows += found.best(ids["eos_id"])
            else:
                written = decode(model, start, max_len=longest, eos_id=ids["eos_id"], pad_id=ids["pad_id"])
                rows += written.sequences(ids["eos_id"])
        return rows

    def _score(self, model: nn.Module, split: str, limit: int) -> dict[str, float]:
        pairs = self._pairs(split, limit)
        vocabulary = _vocabulary(self.target)
        predicted = [tuple(vocabulary.decode(row)) for row in self._decode(model, self._encoded(pairs))]
        wanted = [pair.target for pair in pairs]
        return {"exact_match": exact_match(predicted, wanted), "error_rate": error_rate(predicted, wanted)}

    @property
    def _specials(self) -> dict[str, int]:
        ids = self.target.specials
        return {"pad_id": ids[PAD], "bos_id": ids[BOS], "eos_id": ids[EOS]}

    def _encoded(self, pairs: list[Pair]) -> list[list[int]]:
        vocabulary = _vocabulary(self.source)
        return [vocabulary.encode(pair.source) for pair in pairs]

    def _pairs(self, split: str, limit: int) -> list[Pair]:
        if self._splits is None:
            raise ValueError("this task was loaded without its data")
        return self._splits[split][:limit]

    def _batches(self, split: str, batch_size: int, seed: int, limit: int | None = None) -> StepBatches[Any, Any]:
        pairs, target = self._pairs(split, limit or 2**31), _vocabulary(self.target)
        ids = list(zip(self._encoded(pairs), (target.encode(pair.target) for pair in pairs), strict=True))
        return pair_batches(ids, batch_size=batch_size, seed=seed, **self._specials)


def _tokenizer(sequences: Sequence[Sequence[str]], least: int) -> Tokenizer:
    """Characters where all symbols are single ones, words (or phonemes) otherwise."""
    vocabulary = Vocabulary.build(sequences, min_count=least)
    ordinary = vocabulary.symbols[len(SPECIALS) :]
    if all(len(symbol) == 1 for symbol in ordinary):
        return CharTokenizer(ordinary, specials=SPECIALS)
    return WordTokenizer(vocabulary)


def _vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    assert isinstance(tokenizer, CharTokenizer | WordTokenizer)  # those that `from_data` makes
    return tokenizer.vocabulary


def _join(tokenizer: Tokenizer, symbols: Sequence[str]) -> str:
    """Symbols as text: words with spaces between them, characters without."""
    return ("" if isinstance(tokenizer, CharTokenizer) else " ").join(symbols)
