"""Continue a text: what a language model learns from, and what is done with it afterwards."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

import lecturelib.data
from lecturelib.data import Splits
from lecturelib.evaluation import Sampler, generate, mean_loss, perplexity
from lecturelib.tokens import (
    BOS,
    UNK,
    CharTokenizer,
    ContiguousWindows,
    RandomWindows,
    Tokenizer,
    WordTokenizer,
    load_tokenizer,
)
from lecturelib.training import Run, next_token_loss, to_device

TEXTS: Mapping[str, Callable[[], Splits[str]]] = {"shakespeare": lecturelib.data.shakespeare}
SPLITS = ("train", "validation", "test")


class TextTask:
    """Continue a text, token by token; trained here on characters."""

    monitor = "loss"
    higher_is_better = False

    def __init__(self, tokenizer: Tokenizer, length: int = 0, splits: Splits[str] | None = None) -> None:
        self.tokenizer, self.length = tokenizer, length
        self._ids = {name: torch.tensor(tokenizer.encode(splits[name])) for name in SPLITS} if splits else {}

    @classmethod
    def from_data(cls, name: str, length: int) -> Self:
        """Load a text and its alphabet, for windows of this length."""
        splits = TEXTS[name]()
        return cls(CharTokenizer.train(splits.train, byte_fallback=True), length, splits)

    @classmethod
    def load(cls, run: Run) -> Self:
        """For use: the tokens of a run, without its data."""
        return cls(load_tokenizer(run.folder / "tokens.json"))

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / "tokens.json")

    @property
    def sizes(self) -> dict[str, int]:
        return {"vocab_size": self.tokenizer.vocab_size}

    def loss(self, model: nn.Module, batch: Any) -> Any:
        return next_token_loss(model, batch)

    def batches(self, batch_size: int, seed: int) -> Callable[[int], Any]:
        return RandomWindows(self._ids["train"], batch_size=batch_size, length=self.length, seed=seed)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"loss": self._loss(model, "validation", batches=4)}

    def show(self, model: nn.Module) -> str:
        generator = torch.Generator(device_of(model)).manual_seed(0)
        return self.sample(model, "\n", 240, Sampler(temperature=0.7, generator=generator)).strip("\n")

    def final(self, model: nn.Module) -> tuple[str, dict[str, float]]:
        loss = self._loss(model, "test", batches=16)
        line = f"test loss {loss:.3f} nats a character (perplexity {perplexity(loss):.2f})"
        return line, {"test_loss": loss, "test_perplexity": perplexity(loss)}

    def sample(self, model: nn.Module, prompt: str, length: int, choose: Callable[[Any], Any]) -> str:
        """A prompt and what follows, for `length` tokens; words that the model does not know are not read."""
        specials = self.tokenizer.specials
        known = [index for index in self.tokenizer.encode(prompt) if index != specials.get(UNK)]
        start = [specials[BOS]] if BOS in specials else []
        ids = torch.tensor([start + known or self.tokenizer.encode("\n")], device=device_of(model))
        new = generate(model, ids, max_new_tokens=length, choose=choose)[0, ids.shape[1] :]
        between = " " if prompt and isinstance(self.tokenizer, WordTokenizer) else ""
        return prompt + between + self.tokenizer.decode(new.tolist())

    def _loss(self, model: nn.Module, split: str, batches: int) -> float:
        """The loss on evenly spread pieces of a split, the same ones every time."""
        windows = ContiguousWindows(self._ids[split], batch_size=64, length=self.length)
        stride = max(1, windows.steps_per_pass // batches)
        chosen = (windows(step) for step in range(0, stride * min(batches, windows.steps_per_pass), stride))
        return mean_loss(model, (to_device(batch, device_of(model)) for batch in chosen), next_token_loss)


def device_of(model: nn.Module) -> torch.device:
    """Where a model's weights are."""
    return next(model.parameters()).device
