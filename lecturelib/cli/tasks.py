"""What a model learns from: data, tokens, batches, loss and evaluation, for each kind of task `lecturelib train` knows.

A task is made for training by `from_data`, and for use afterwards by `load` from the folder of a run.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

import lecturelib.data
from lecturelib.data import Pair, Splits
from lecturelib.evaluation import (
    Sampler,
    beam_search,
    decode,
    error_rate,
    exact_match,
    generate,
    mean_loss,
    perplexity,
    read_source,
)
from lecturelib.tokens import CharTokenizer, ContiguousWindows, RandomWindows, StepBatches, Vocabulary, collate_pairs
from lecturelib.tokens.batches import pair_batches
from lecturelib.training import next_token_loss, target_loss, to_device

TEXTS: Mapping[str, Callable[[], Splits[str]]] = {"shakespeare": lecturelib.data.shakespeare}
PAIRS: Mapping[str, Callable[[], Splits[list[Pair]]]] = {
    "dates": functools.partial(lecturelib.data.dates, train=30_000),
    "cmudict": lecturelib.data.pronunciations,
    "greek_english": functools.partial(lecturelib.data.greek_english, max_len=20),
}
WORDS = ("greek_english",)  # pairs of sentences; all others are pairs of spelled-out words


class Task(Protocol):
    """What `lecturelib train` needs to know of a task; `monitor` names the number that decides on the best weights."""

    monitor: str
    higher_is_better: bool

    def loss(self, model: nn.Module, batch: Any) -> Any: ...

    def batches(self, batch_size: int, seed: int) -> Callable[[int], Any]: ...

    def evaluate(self, model: nn.Module) -> dict[str, float]: ...

    def show(self, model: nn.Module) -> str:
        """A few lines that let a reader see what the model can do."""
        ...

    def final(self, model: nn.Module) -> str:
        """One line on held-out data that nothing was chosen by."""
        ...

    def save(self, folder: Path) -> None: ...


class TextTask:
    """Continue a text, character by character."""

    monitor = "loss"
    higher_is_better = False

    def __init__(self, tokenizer: CharTokenizer, length: int, splits: Splits[str] | None = None) -> None:
        self.tokenizer, self.length = tokenizer, length
        self._ids = {name: torch.tensor(tokenizer.encode(splits[name])) for name in SPLITS} if splits else {}

    @classmethod
    def from_data(cls, name: str, length: int) -> "TextTask":
        splits = TEXTS[name]()
        return cls(CharTokenizer.train(splits.train, byte_fallback=True), length, splits)

    @classmethod
    def load(cls, folder: Path) -> "TextTask":
        return cls(CharTokenizer.load(folder / "tokens.json"), 0)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / "tokens.json")

    def loss(self, model: nn.Module, batch: Any) -> Any:
        return next_token_loss(model, batch)

    def batches(self, batch_size: int, seed: int) -> Callable[[int], Any]:
        return RandomWindows(self._ids["train"], batch_size=batch_size, length=self.length, seed=seed)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"loss": self._loss(model, "validation", batches=4)}

    def show(self, model: nn.Module) -> str:
        sampler = Sampler(temperature=0.7, generator=_generator(model))
        return self.sample(model, "\n", 240, sampler).strip("\n")

    def final(self, model: nn.Module) -> str:
        loss = self._loss(model, "test", batches=16)
        return f"test loss {loss:.3f} nats a character (perplexity {perplexity(loss):.2f})"

    def sample(self, model: nn.Module, prompt: str, length: int, choose: Callable[[Any], Any]) -> str:
        """Go on with a prompt for `length` tokens; the prompt is not repeated."""
        ids = torch.tensor([self.tokenizer.encode(prompt or "\n")], device=_device(model))
        new = generate(model, ids, max_new_tokens=length, choose=choose)[0, ids.shape[1] :]
        return self.tokenizer.decode(new.tolist())

    def _loss(self, model: nn.Module, split: str, batches: int) -> float:
        """The loss on evenly spread pieces of a split, the same ones every time."""
        windows = ContiguousWindows(self._ids[split], batch_size=64, length=self.length)
        stride = max(1, windows.steps_per_pass // batches)
        chosen = (windows(step) for step in range(0, stride * min(batches, windows.steps_per_pass), stride))
        return mean_loss(model, (to_device(batch, _device(model)) for batch in chosen), next_token_loss)


class PairTask:
    """Turn a source sequence into a target sequence."""

    monitor = "exact_match"
    higher_is_better = True

    def __init__(
        self, source: Vocabulary, target: Vocabulary, *, words: bool, splits: Splits[list[Pair]] | None = None
    ) -> None:
        self.source, self.target, self.words, self._splits = source, target, words, splits

    @classmethod
    def from_data(cls, name: str, *, shared: bool = False) -> "PairTask":
        """Load the data and build vocabularies; with `shared`, one for both sides."""
        splits = PAIRS[name]()
        min_count = 2 if name in WORDS else 1
        if shared:
            both = Vocabulary.build(
                (side for pair in splits.train for side in (pair.source, pair.target)), min_count=min_count
            )
            return cls(both, both, words=name in WORDS, splits=splits)
        source = Vocabulary.build((pair.source for pair in splits.train), min_count=min_count)
        target = Vocabulary.build((pair.target for pair in splits.train), min_count=min_count)
        return cls(source, target, words=name in WORDS, splits=splits)

    @classmethod
    def load(cls, folder: Path, *, words: bool) -> "PairTask":
        return cls(Vocabulary.load(folder / "source.json"), Vocabulary.load(folder / "target.json"), words=words)

    def save(self, folder: Path) -> None:
        self.source.save(folder / "source.json")
        self.target.save(folder / "target.json")

    def loss(self, model: nn.Module, batch: Any) -> Any:
        return target_loss(model, batch)

    def batches(self, batch_size: int, seed: int) -> Callable[[int], Any]:
        return self._batches("train", batch_size, seed)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        pairs = self._pairs("validation", 500)
        predicted = self.translate(model, [pair.source for pair in pairs])
        wanted = [pair.target for pair in pairs]
        batches = self._batches("validation", 250, 0, limit=500).in_order()
        loss = mean_loss(model, (to_device(batch, _device(model)) for batch in batches), target_loss)
        return {
            "loss": loss,
            "exact_match": exact_match(predicted, wanted),
            "error_rate": error_rate(predicted, wanted),
        }

    def show(self, model: nn.Module) -> str:
        pairs = self._pairs("validation", 3)
        predicted = self.translate(model, [pair.source for pair in pairs])
        lines = []
        for pair, found in zip(pairs, predicted, strict=True):
            wanted, given = self.join(pair.target), self.join(found)
            verdict = "right" if wanted == given else f"wrong, it is {wanted}"
            lines.append(f"{self.join(pair.source, source=True)}  →  {given}  ({verdict})")
        return "\n".join(lines)

    def final(self, model: nn.Module) -> str:
        pairs = self._pairs("test", 1000)
        predicted = self.translate(model, [pair.source for pair in pairs])
        wanted = [pair.target for pair in pairs]
        exact, rate = exact_match(predicted, wanted), error_rate(predicted, wanted)
        return f"test: {exact:.1%} of {len(pairs)} exactly right, {rate:.2%} of the symbols wrong"

    def translate(
        self, model: nn.Module, sources: Sequence[Sequence[str]], *, beam_size: int = 1, batch_size: int = 250
    ) -> list[tuple[str, ...]]:
        """Decode sources, given as symbols."""
        found: list[tuple[str, ...]] = []
        eos, bos, pad = self.target.eos_id, self.target.bos_id, self.target.pad_id
        for first in range(0, len(sources), batch_size):
            ids: list[tuple[list[int], list[int]]] = [
                (self.source.encode(source), []) for source in sources[first : first + batch_size]
            ]
            batch = to_device(collate_pairs(ids, pad_id=pad, bos_id=bos, eos_id=eos), _device(model))
            start = read_source(model, batch.source, batch.source_lengths, bos_id=bos)
            longest = 2 * batch.source.shape[1] + 10
            if beam_size > 1:
                rows = beam_search(model, start, max_len=longest, beam_size=beam_size, eos_id=eos).best(eos)
            else:
                rows = decode(model, start, max_len=longest, eos_id=eos, pad_id=pad).sequences(eos)
            found += [tuple(self.target.decode(row)) for row in rows]
        return found

    def split(self, text: str) -> list[str]:
        """Cut a line of text into source symbols."""
        symbols = text.split() if self.words else list(text)
        unknown = [] if self.words else sorted({symbol for symbol in symbols if symbol not in self.source})
        if unknown:
            raise ValueError(f"{text!r} has {' '.join(map(repr, unknown))}, which never occurs in the training data")
        if not symbols:
            raise ValueError("there is nothing to translate: the text is empty")
        return symbols

    def join(self, symbols: Sequence[str], *, source: bool = False) -> str:
        """Put symbols together; those of more than one character (words, phonemes) with spaces between."""
        apart = self.words if source else any(len(symbol) > 1 for symbol in self.target.symbols[4:])
        return (" " if apart else "").join(symbols)

    def _pairs(self, split: str, limit: int) -> list[Pair]:
        if self._splits is None:
            raise ValueError("this task was loaded without its data")
        return self._splits[split][:limit]

    def _batches(self, split: str, batch_size: int, seed: int, limit: int | None = None) -> StepBatches[Any, Any]:
        pairs = self._pairs(split, limit or 2**31)
        ids = [(self.source.encode(pair.source), self.target.encode(pair.target)) for pair in pairs]
        special = {"pad_id": self.target.pad_id, "bos_id": self.target.bos_id, "eos_id": self.target.eos_id}
        return pair_batches(ids, batch_size=batch_size, seed=seed, **special)


SPLITS = ("train", "validation", "test")


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _generator(model: nn.Module) -> torch.Generator:
    return torch.Generator(_device(model)).manual_seed(0)
