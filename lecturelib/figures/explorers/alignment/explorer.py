"""Who looked where: a source, a target, the weights between them, and the links that people drew."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack


@dataclass(frozen=True)
class AlignmentExample:
    """One pair with the weights of one or more models on it.

    Args:
        source: the Ts words that were read
        target: the Tt words that were written
        weights: for each model, by its name, (Tt, Ts) weights that are not negative; the rows of a local attention
            need not add up to one
        links: pairs (target index, source index) from people or from a generator; None where nobody knows
        name: what to call the example; its source, if left out
    """

    source: Sequence[str]
    target: Sequence[str]
    weights: Mapping[str, ArrayLike]
    links: Collection[tuple[int, int]] | None = None
    name: str | None = None


class AlignmentExplorer(Explorer):
    """Choose an example and a model, move over the target words, and see what each took from the source.

    Args:
        examples: all with weights under the same names
        start: example and target word shown first, counted from 0
    """

    title = "Where does it look while it writes?"
    hint = "choose another word to write, or press play."
    says: ClassVar[tuple[str, str]] = ("Write", "To write")
    """The name of the row of words to choose from, and how a sentence about one of them begins."""

    def __init__(self, examples: Sequence[AlignmentExample], *, start: tuple[int, int] = (0, 0)) -> None:
        if not examples:
            raise ValueError("AlignmentExplorer: give at least one AlignmentExample, got none")
        self.examples = list(examples)
        self.models = list(examples[0].weights)
        self.weights: list[np.ndarray] = []  # for each example (models, Tt, Ts)
        for number, example in enumerate(self.examples):
            self.weights.append(self._checked(number, example))
        if not (0 <= start[0] < len(examples) and 0 <= start[1] < len(examples[start[0]].target)):
            raise ValueError(f"start={start} is outside the {len(examples)} examples and their target words")
        self.start = start

    def _checked(self, number: int, example: AlignmentExample) -> np.ndarray:
        size = (len(example.target), len(example.source))
        if list(example.weights) != self.models or not self.models:
            raise ValueError(
                f"example {number} has weights of {list(example.weights)}, the first one of {self.models}: all "
                "examples need the same models, at least one"
            )
        for name, values in example.weights.items():
            array = np.asarray(values)
            if array.shape != size or 0 in size:
                raise ValueError(
                    f"example {number}, {name!r}: weights must be {size} (target, source), got {array.shape}"
                )
            if not (np.isfinite(array).all() and (array >= 0).all()):
                raise ValueError(f"example {number}, {name!r}: weights must be finite and not negative")
        if any(not (0 <= i < size[0] and 0 <= j < size[1]) for i, j in example.links or ()):
            raise ValueError(f"example {number}: a link lies outside its {size[0]} target and {size[1]} source words")
        return np.stack([np.asarray(values, dtype=np.float32) for values in example.weights.values()])

    def _name(self, example: AlignmentExample) -> str:
        return example.name if example.name is not None else " ".join(example.source)

    def data(self) -> dict[str, object]:
        return {
            "models": self.models,
            "examples": [
                {
                    "name": self._name(example),
                    "source": list(example.source),
                    "target": list(example.target),
                    "weights": pack(weights),
                    "links": None if example.links is None else sorted(map(list, example.links)),
                }
                for example, weights in zip(self.examples, self.weights, strict=True)
            ],
            "start": list(self.start),
            "says": list(self.says),
        }

    def text(self) -> str:
        number, word = self.start
        example, row = self.examples[number], self.weights[number][0, word]
        best = int(row.argmax())
        count = len(self.examples)
        return (
            f"Alignment of {count} example{'s' * (count > 1)}. In “{self._name(example)}”, "
            f"{self.says[1].lower()} “{example.target[word]}”, {self.models[0]} looks most at "
            f"“{example.source[best]}” ({row[best]:.3f})."
        )


class ReadingExplorer(AlignmentExplorer):
    """The same for two texts that are both read: choose a word of one, and see where it looks in the other."""

    title = "Which word answers which?"
    hint = "choose another word, and compare the two examples that share their words."
    says = ("Look from", "For")
