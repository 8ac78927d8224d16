"""Fill in gaps: what BERT learns from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from lecturelib.data import Splits
from lecturelib.evaluation import accuracy
from lecturelib.recipes import texts
from lecturelib.recipes.texts import SPLITS, device_of
from lecturelib.tokens import CharTokenizer, Tokenizer
from lecturelib.tokens.masking import CLS, MASK, SEP, MaskedBatch, MaskedPassages
from lecturelib.training import masked_loss, to_device


class MaskedTask:
    """Guess the characters that are missing from a text, and whether one passage follows another."""

    monitor = "loss"
    higher_is_better = False

    def __init__(self, tokenizer: Tokenizer, length: int, splits: Splits[str]) -> None:
        self.tokenizer, self.length = tokenizer, length
        self._ids = {name: torch.tensor(tokenizer.encode(splits[name])) for name in SPLITS}

    @classmethod
    def from_data(cls, name: str, length: int) -> Self:
        """Load a text and its alphabet, for rows of this length."""
        splits = texts.TEXTS[name]()
        tokenizer = CharTokenizer.train(splits.train, specials=(CLS, SEP, MASK), byte_fallback=True)
        return cls(tokenizer, length, splits)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / "tokens.json")

    @property
    def sizes(self) -> dict[str, int]:
        return {"vocab_size": self.tokenizer.vocab_size}

    def loss(self, model: nn.Module, batch: MaskedBatch) -> Any:
        return masked_loss(model, batch)

    def batches(self, batch_size: int, seed: int) -> Callable[[int], MaskedBatch]:
        return self._passages("train", batch_size, seed)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self._score(model, "validation", batches=4)

    def show(self, model: nn.Module) -> str:
        batch = to_device(self._passages("validation", 3, 0)(0), device_of(model))
        found = model(batch.tokens, batch.token_types)[0].argmax(dim=-1)  # (B, T)
        filled = torch.where(batch.chosen, found, batch.targets)
        lines = []
        for ids, chosen, guess in zip(batch.targets, batch.chosen, filled, strict=True):
            gaps = "".join("_" if gap else self.tokenizer.decode([i]) for i, gap in zip(ids, chosen, strict=True))
            lines.append(f"{gaps}  →  {self.tokenizer.decode(guess)}".replace("\n", " "))
        return "\n".join(lines)

    def final(self, model: nn.Module) -> tuple[str, dict[str, float]]:
        score = self._score(model, "test", batches=16)
        line = f"test: {score['accuracy']:.1%} of the gaps filled in right, {score['follows']:.1%} of the passages told"
        return line, {f"test_{name}": value for name, value in score.items()}

    def _passages(self, split: str, batch_size: int, seed: int) -> MaskedPassages:
        return MaskedPassages(
            self._ids[split],
            batch_size=batch_size,
            length=self.length,
            specials=dict(self.tokenizer.specials),
            vocab_size=self.tokenizer.vocab_size,
            seed=seed,
        )

    def _score(self, model: nn.Module, split: str, batches: int) -> dict[str, float]:
        """Loss, gaps and passages, on the same pieces of a split every time."""
        passages = self._passages(split, 64, 0)
        found: dict[str, list[float]] = {"loss": [], "accuracy": [], "follows": []}
        for step in range(batches):
            batch = to_device(passages(step), device_of(model))
            words, follows = model(batch.tokens, batch.token_types)
            found["loss"].append(float(masked_loss(model, batch)[0]))
            found["accuracy"].append(accuracy(words.argmax(dim=-1), batch.targets, batch.chosen))
            found["follows"].append(accuracy(follows.argmax(dim=-1), batch.follows))
        return {name: sum(values) / len(values) for name, values in found.items()}
