"""All heads of a model as a map of layers by heads, and what the chosen one attends to."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack

LEVELS = 255
"""Weights travel in a byte each, so that hundreds of heads fit into a page: to 0.002, which two digits do not show."""


@dataclass(frozen=True)
class HeadsExample:
    """A text, the attention of every head of a causal model on it, and one or more numbers for each head.

    Args:
        tokens: the T tokens
        weights: (L, H, T, T), nothing above the diagonal
        scores: by name, (L, H): how much a head does of something
        name: what to call the example; its tokens, if left out
    """

    tokens: Sequence[str]
    weights: ArrayLike
    scores: Mapping[str, ArrayLike]
    name: str | None = None


class HeadsExplorer(Explorer):
    """Choose a text, a score and a head on the map; see where each of its tokens looks.

    Args:
        examples: all of one model and with scores under the same names
        start: example, layer, head and query token shown first, counted from 0
    """

    title = "What does each head do?"
    hint = "choose the darkest square of the map, then another score."
    what: ClassVar[str] = "score"
    """What the map shows, in a word."""

    def __init__(self, examples: Sequence[HeadsExample], *, start: tuple[int, int, int, int] = (0, 0, 0, 0)) -> None:
        if not examples:
            raise ValueError("HeadsExplorer: give at least one HeadsExample, got none")
        self.examples = list(examples)
        self.names = list(examples[0].scores)
        self.weights = [np.asarray(example.weights, dtype=np.float32) for example in examples]
        self.heads: tuple[int, ...] = self.weights[0].shape[:2]
        for example, weights in zip(examples, self.weights, strict=True):
            expected = (*self.heads, len(example.tokens), len(example.tokens))
            if weights.shape != expected or not example.tokens:
                raise ValueError(f"weights must be (layers, heads, tokens, tokens) = {expected}, got {weights.shape}")
            if (weights < 0).any() or (weights > 1 + 1e-5).any() or np.triu(weights, 1).any():
                raise ValueError("weights must be those of causal attention: from 0 to 1, none above the diagonal")
            if list(example.scores) != self.names or not self.names:
                raise ValueError(f"all examples need the same scores, got {list(example.scores)} and {self.names}")
            for name, score in example.scores.items():
                if np.shape(score) != self.heads:
                    raise ValueError(f"score {name!r} must be (layers, heads) = {self.heads}, got {np.shape(score)}")
        if not 0 <= start[0] < len(examples) or any(
            not 0 <= index < size for index, size in zip(start[1:], self.weights[start[0]].shape, strict=False)
        ):
            raise ValueError(f"start={start} is outside (examples, layers, heads, tokens)")
        self.start = start

    def data(self) -> dict[str, object]:
        return {
            "examples": [
                {
                    "name": self._name(example),
                    "tokens": list(example.tokens),
                    "weights": triangles(weights),
                    "scores": pack(np.stack([np.asarray(score) for score in example.scores.values()])),
                }
                for example, weights in zip(self.examples, self.weights, strict=True)
            ],
            "names": self.names,
            "what": self.what,
            "heads": list(self.heads),
            "start": list(self.start),
        }

    def text(self) -> str:
        example = self.examples[self.start[0]]
        score = np.asarray(example.scores[self.names[0]])
        layer, head = (int(index) for index in np.unravel_index(int(score.argmax()), score.shape))
        return (
            f"{self.heads[0]} layers of {self.heads[1]} heads. In “{self._name(example)}” the largest {self.what}, "
            f"{self.names[0]}, is that of layer {layer}, head {head} ({score[layer, head]:.2f})."
        )

    def _name(self, example: HeadsExample) -> str:
        return example.name or " ".join(example.tokens)


class PatchingExplorer(HeadsExplorer):
    """The same for an experiment: the map shows what replacing a head's output did to the answer."""

    title = "Which heads carry the answer?"
    hint = "choose a dark square, and see where its last token looks."
    what = "effect"


def triangles(weights: np.ndarray) -> str:
    """The lower triangles of (L, H, T, T) weights, row after row, as base64 of a byte for each weight."""
    rows, columns = np.tril_indices(weights.shape[-1])
    return base64.b64encode(np.rint(LEVELS * weights[..., rows, columns]).astype(np.uint8).tobytes()).decode()
