"""Which words decided? A text coloured by weight, and the verdict as its words are deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lecturelib.figures.explorers.explorer import Explorer, pack


@dataclass(frozen=True)
class DeletionExample:
    """One text, the weight of each of its N words, and what was left of the verdict as words went.

    Args:
        sentences: the words of each sentence, N in all
        weights: (N,), not negative; the largest has full ink
        sentence_weights: one for each sentence, not negative, with sum one: shown in percent and as a bar beside it
        orders: for each ranking, by its name, which words go first: distinct indices into the N words
        curves: for each ranking the probability of the verdict with 0, 1, 2, … of those words deleted, one number more
            than there are words in its order
        verdict: what the model said of the whole text
        name: what to call the example
    """

    sentences: Sequence[Sequence[str]]
    weights: ArrayLike
    sentence_weights: ArrayLike
    orders: Mapping[str, Sequence[int]]
    curves: Mapping[str, ArrayLike]
    verdict: str
    name: str


class DeletionExplorer(Explorer):
    """Choose a text and a ranking of its words, delete the first of them, and watch the verdict.

    Args:
        examples: all with the same rankings, and orders of one length within an example
        start: example shown first, and how many words are deleted then
    """

    title = "Did the coloured words decide?"
    hint = "delete the coloured words, then as many others, and compare."

    def __init__(self, examples: Sequence[DeletionExample], *, start: tuple[int, int] = (0, 0)) -> None:
        if not examples:
            raise ValueError("DeletionExplorer: give at least one DeletionExample, got none")
        self.examples = list(examples)
        self.rankings = list(examples[0].orders)
        for number, example in enumerate(self.examples):
            self._check(number, example)
        if not (0 <= start[0] < len(examples) and 0 <= start[1] <= self._most(self.examples[start[0]])):
            raise ValueError(f"start={start} is outside the {len(examples)} examples and what they delete")
        self.start = start

    def _check(self, number: int, example: DeletionExample) -> None:
        words = sum(len(sentence) for sentence in example.sentences)
        if np.shape(example.weights) != (words,) or words == 0:
            raise ValueError(f"example {number}: {words} words need as many weights, got {np.shape(example.weights)}")
        if np.shape(example.sentence_weights) != (len(example.sentences),):
            raise ValueError(
                f"example {number}: {len(example.sentences)} sentences need as many sentence_weights, got "
                f"{np.shape(example.sentence_weights)}"
            )
        if not self.rankings or list(example.orders) != self.rankings or list(example.curves) != self.rankings:
            raise ValueError(
                f"example {number} has orders {list(example.orders)} and curves {list(example.curves)}; all need "
                f"those of the first one, {self.rankings}, at least one"
            )
        for name, order in example.orders.items():
            if len(set(order)) != len(order) or not all(0 <= index < words for index in order):
                raise ValueError(f"example {number}, {name!r}: an order holds distinct indices below {words}")
            if len(order) != self._most(example) or np.shape(example.curves[name]) != (len(order) + 1,):
                raise ValueError(
                    f"example {number}, {name!r}: {len(order)} deletions need {len(order) + 1} probabilities, and "
                    f"every ranking as many, got {np.shape(example.curves[name])}"
                )

    def _most(self, example: DeletionExample) -> int:
        return len(example.orders[self.rankings[0]])

    def data(self) -> dict[str, object]:
        return {
            "rankings": self.rankings,
            "examples": [
                {
                    "name": example.name,
                    "verdict": example.verdict,
                    "sentences": [list(sentence) for sentence in example.sentences],
                    "weights": pack(example.weights),
                    "sentence_weights": pack(example.sentence_weights),
                    "orders": [list(map(int, example.orders[name])) for name in self.rankings],
                    "curves": pack(np.stack([np.asarray(example.curves[name]) for name in self.rankings])),
                }
                for example in self.examples
            ],
            "start": list(self.start),
        }

    def text(self) -> str:
        example, ranking = self.examples[self.start[0]], self.rankings[0]
        curve, most = np.asarray(example.curves[ranking]), self._most(example)
        return (
            f"“{example.name}” is called {example.verdict} with a probability of {curve[0]:.3f}. Without the {most} "
            f"words that come first by {ranking} it is {curve[most]:.3f}."
        )
