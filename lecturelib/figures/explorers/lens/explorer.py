"""The logit lens as a table: what a model would say after each layer, at each token of a text."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack


class LensExplorer(Explorer):
    """Rows are layers, columns the tokens of a text; a square has the likeliest next token, inked by its probability.

    Args:
        examples: for each text its tokens and the logits (1 + L, T, V) of the stream before, and after, every layer
        name: the words of a token id
        num_bars: how many of the likeliest tokens are shown for the chosen square
        start: example, layers passed (0 is the embedding) and token shown first, counted from 0
    """

    title = "What would it say if it stopped here?"
    hint = "press play, and watch the answer form in the last layers."

    def __init__(
        self,
        examples: Sequence[tuple[Sequence[str], ArrayLike]],
        name: Callable[[int], str],
        *,
        num_bars: int = 5,
        start: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        if not examples:
            raise ValueError("LensExplorer: give at least one text with its logits, got none")
        self.texts = [list(tokens) for tokens, _ in examples]
        self.best: list[np.ndarray] = []  # of (1 + L, T, bars) token ids
        self.probabilities: list[np.ndarray] = []
        layers = np.shape(examples[0][1])[:1]
        for tokens, given in examples:
            logits = np.asarray(given, dtype=np.float32)
            if logits.ndim != 3 or logits.shape[:2] != (*layers, len(tokens)) or logits.shape[2] < num_bars:
                raise ValueError(
                    f"logits must be (layers, tokens, vocabulary) with {len(tokens)} tokens, the same layers for all "
                    f"texts and at least {num_bars} words, got {logits.shape}"
                )
            few = np.argpartition(logits, -num_bars, axis=-1)[..., -num_bars:]
            order = np.argsort(-np.take_along_axis(logits, few, axis=-1), axis=-1, kind="stable")
            best = np.take_along_axis(few, order, axis=-1)
            top = logits.max(axis=-1, keepdims=True)
            total = np.exp(logits - top).sum(axis=-1, keepdims=True, dtype=np.float64)
            self.best.append(best)
            self.probabilities.append(np.exp(np.take_along_axis(logits, best, axis=-1) - top) / total)
        text = start[0]
        if not 0 <= text < len(examples) or any(
            not 0 <= index < size for index, size in zip(start[1:], self.best[text].shape, strict=False)
        ):
            raise ValueError(f"start={start} is outside (texts, layers, tokens)")
        self.name, self.start = name, start

    def data(self) -> dict[str, object]:
        used = sorted({int(token) for best in self.best for token in best.flatten()})
        place = {token: index for index, token in enumerate(used)}
        return {
            "words": [self.name(token) for token in used],
            "examples": [
                {
                    "tokens": tokens,
                    "best": [[[place[int(token)] for token in square] for square in row] for row in best],
                    "probabilities": pack(probabilities),
                }
                for tokens, best, probabilities in zip(self.texts, self.best, self.probabilities, strict=True)
            ],
            "start": list(self.start),
        }

    def text(self) -> str:
        text, layer, token = self.start
        best, probability = self.best[text][layer, token, 0], self.probabilities[text][layer, token, 0]
        tokens = self.texts[text]
        return (
            f"The logit lens on “{''.join(tokens)}”: after {layer} layers, at “{tokens[token]}”, the "
            f"likeliest next token is “{self.name(int(best))}” ({probability:.3f})."
        )
