"""From logits to sequences, one token at a time: greedy, sampling, and a chooser of your own.

A model takes part by the protocol of `lecturelib.layers.state`: `step(tokens, state) -> (logits, state)`. What comes
before the first new token differs between kinds of model, so it has a function each:

    start = read_prompt(model, prompt)                            # a language model
    start = read_source(model, source, source_lengths, bos_id=1)  # an encoder-decoder
    decoded = decode(model, start, max_len=50, eos_id=2)

Each opens `lecturelib.fast` once: the model's plain path reads what is given, a prepared one takes the steps.
Beam search is in `lecturelib.evaluation.beam`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lecturelib.fast import fast_if_possible

Choose = Callable[[Tensor], Tensor]


class Start(NamedTuple):
    """Where decoding begins: the logits of the first new token (B, V), and the state that goes with them."""

    logits: Tensor
    state: Any


class Decoded(NamedTuple):
    """New tokens, padded on the right: ids (B, T), and how many of them count, eos included: lengths (B,)."""

    ids: Tensor
    lengths: Tensor

    def sequences(self, eos_id: int | None = None) -> list[list[int]]:
        """The rows as lists without padding, and without the closing `eos_id` when one is given."""
        pairs = zip(self.ids.tolist(), self.lengths.tolist(), strict=True)
        rows = [ids[:length] for ids, length in pairs]
        return [row[:-1] if row and row[-1] == eos_id else row for row in rows]


@torch.no_grad()
def read_source(model: Any, source: Tensor, *lengths: Tensor, bos_id: int) -> Start:
    """Let an encoder-decoder read its source and ask it for the first target token.

    The source is what `model.start` takes: tokens (B, Ts) and their lengths (B,), or images alone.
    """
    state = model.start(source, *lengths)
    first = torch.full((source.shape[0],), bos_id, dtype=torch.int64, device=source.device)  # (B,)
    return Start(*model.step(first, state))


@torch.no_grad()
def read_prompt(model: Any, prompt: Tensor, lengths: Tensor | None = None) -> Start:
    """Let a language model read prompts (B, T), of unequal lengths (B,) where given."""
    return Start(*(model.start(prompt) if lengths is None else model.start(prompt, lengths)))


def greedy(logits: Tensor) -> Tensor:
    """Choose the likeliest token of each row: (B, V) -> (B,)."""
    return logits.argmax(dim=-1)


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Choose tokens at random from the model's own distribution, sharpened or cut off.

    Paper: Holtzman et al. 2020 [holtzman2020curious] for top-p; Fan et al. 2018 [fan2018hierarchical] for top-k.
    Differs: nothing. Temperature comes first, then top-k, then top-p among what is left. Equal logits at the border of
    top-k are cut by their order, so that exactly k remain.

    Args:
        temperature: below 1 prefers the likely, above 1 evens out
        top_k: keep the k likeliest tokens
        top_p: keep the fewest likeliest tokens that together have at least this probability
        generator: the source of randomness; torch's own when left out

    Shapes: (B, V) -> (B,)
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"Sampler: temperature={self.temperature} must be positive; for the likeliest use greedy")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"Sampler: top_k={self.top_k} must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"Sampler: top_p={self.top_p} must be more than 0 and at most 1")

    def __call__(self, logits: Tensor) -> Tensor:
        probabilities, tokens = self._shortlist(logits)
        place = torch.multinomial(probabilities, 1, generator=self.generator)  # (B, 1)
        return (place if tokens is None else tokens.gather(1, place)).squeeze(1)  # (B,)

    def probabilities(self, logits: Tensor) -> Tensor:
        """The distribution that tokens are drawn from: (B, V) -> (B, V)."""
        probabilities, tokens = self._shortlist(logits)
        if tokens is None:
            return probabilities
        return torch.zeros_like(logits, dtype=probabilities.dtype).scatter(1, tokens, probabilities)

    def _shortlist(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """Probabilities of the tokens in question, and their ids where these are not simply all in order."""
        logits = logits.float() if self.temperature == 1 else logits.float() / self.temperature
        if self.top_k is None and self.top_p is None:
            return logits.softmax(dim=-1), None
        vocab_size = logits.shape[-1]
        kept, tokens = logits.topk(min(self.top_k or vocab_size, vocab_size), dim=-1)  # (B, k), likeliest first
        probabilities = kept.softmax(dim=-1)
        if self.top_p is not None:
            before = probabilities.cumsum(dim=-1) - probabilities  # what the likelier ones have together
            outside = before >= self.top_p
            outside[:, :1] = False
            probabilities = probabilities.masked_fill(outside, 0.0)
            probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
        return probabilities, tokens


def decode(
    model: Any, start: Start, *, max_len: int, choose: Choose = greedy, eos_id: int | None = None, pad_id: int = 0
) -> Decoded:
    """Choose tokens one after the other until every row has chosen `eos_id`, or `max_len` are there.

    Args:
        model: anything with `step(tokens, state) -> (logits, state)`, in eval mode
        start: from `read_prompt` or `read_source`
        choose: `greedy`, a `Sampler`, or any function from logits (B, V) to tokens (B,)
        eos_id: the token that ends a row; None goes on to max_len
        pad_id: what fills a row after its end
    """
    with torch.inference_mode():  # faster than no_grad by a few percent; a model must not keep tensors made in here
        ids, lengths = _decode(fast_if_possible(model), start, max_len, choose, eos_id, pad_id)
    return Decoded(ids.clone(), lengths.clone())  # ordinary tensors again, which may be changed in place


def _decode(
    model: Any, start: Start, max_len: int, choose: Choose, eos_id: int | None, pad_id: int
) -> tuple[Tensor, Tensor]:
    batch, device = start.logits.shape[0], start.logits.device
    if max_len < 1 or batch == 0:
        return torch.full((batch, 0), pad_id, device=device), torch.zeros(batch, dtype=torch.int64, device=device)
    logits, state = start
    tokens = choose(logits)
    chosen = [tokens]
    if eos_id is None:
        for _ in range(max_len - 1):
            logits, state = model.step(tokens, state)
            tokens = choose(logits)
            chosen.append(tokens)
        ids = torch.stack(chosen, dim=1)  # (B, T)
        return ids, torch.full((batch,), max_len, device=device)
    running = tokens != eos_id  # (B,)
    lengths = torch.ones(batch, dtype=torch.int64, device=device)
    while len(chosen) < max_len and bool(running.any()):
        logits, state = model.step(tokens, state)
        tokens = choose(logits).where(running, pad_id)
        chosen.append(tokens)
        lengths += running
        running = running & (tokens != eos_id)
    return torch.stack(chosen, dim=1), lengths


@torch.no_grad()
def generate(model: Any, prompt: Tensor, *, max_new_tokens: int, choose: Choose = greedy) -> Tensor:
    """Go on with prompts (B, T) for `max_new_tokens` tokens: -> (B, T + max_new_tokens), the prompt included.

    Where the model can read only so much (`model.max_len`), what is farther back than half of that is forgotten each
    time the window is full.
    """
    text = prompt
    while (wanted := prompt.shape[1] + max_new_tokens - text.shape[1]) > 0:
        seen, room = _window(model, text)
        new = decode(model, read_prompt(model, seen), max_len=min(wanted, room), choose=choose)
        text = torch.cat([text, new.ids], dim=1)  # (B, T + new)
    return text


def stream(model: Any, prompt: Tensor, *, choose: Choose = greedy) -> Iterator[Tensor]:
    """Give one new token (B,) after the other, for as long as you ask; the model must stay as it is meanwhile."""
    text, quick = prompt, fast_if_possible(model)
    while True:
        seen, room = _window(model, text)
        logits, state = read_prompt(model, seen)
        for left in reversed(range(room)):
            tokens = choose(logits)
            text = torch.cat([text, tokens[:, None]], dim=1)  # (B, T + 1)
            yield tokens
            if left:  # else the window is full, and a new one is read
                with torch.no_grad():
                    logits, state = quick.step(tokens, state)


def _window(model: Any, text: Tensor) -> tuple[Tensor, int]:
    """The end of the text that the model reads again, and how many tokens can follow it."""
    max_len = getattr(model, "max_len", None)
    if max_len is None:
        return text, 2**31
    if text.shape[1] >= max_len:
        text = text[:, -max(1, max_len // 2) :]
    return text, max(1, max_len - text.shape[1])
