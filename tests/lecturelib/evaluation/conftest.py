"""A model small enough to search by hand, whose next token depends on all tokens before."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor


@dataclass(frozen=True)
class TinyState:
    memory: Tensor  # (B, D)

    def select(self, index: Tensor) -> "TinyState":
        return TinyState(self.memory[index])


class TinyModel:
    """A recurrence with random weights; an encoder-decoder or a language model, by how it is started."""

    def __init__(self, vocab_size: int = 5, d_model: int = 7, max_len: int | None = None, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.embedding = 1.5 * torch.randn(vocab_size, d_model, generator=generator)
        self.mix = torch.randn(d_model, d_model, generator=generator) / d_model**0.5
        self.output = torch.randn(d_model, vocab_size, generator=generator)
        self.max_len = max_len
        self.steps = 0
        self.rows = 0

    def start(self, tokens: Tensor, lengths: Tensor | None = None) -> TinyState | tuple[Tensor, TinyState]:
        state = TinyState(torch.zeros(len(tokens), len(self.mix)))
        if lengths is not None:
            return TinyState(
                torch.stack([self.embedding[row[:n]].sum(0) for row, n in zip(tokens, lengths, strict=True)])
            )
        for column in tokens.T:
            logits, state = self.step(column, state)
        return logits, state

    def step(self, tokens: Tensor, state: TinyState) -> tuple[Tensor, TinyState]:
        self.steps += 1
        self.rows += len(tokens)
        memory = torch.tanh(state.memory @ self.mix + self.embedding[tokens])
        return memory @ self.output, TinyState(memory)


@pytest.fixture
def tiny_model() -> type[TinyModel]:
    return TinyModel
