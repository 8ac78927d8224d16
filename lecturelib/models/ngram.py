"""Language models that only count: how often did this token follow these n − 1 tokens?"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

Context = tuple[int, ...]
Table = dict[Context, Counter[int]]
"""After each context: how often each token came."""


@dataclass(frozen=True)
class Counts:
    """What a corpus says: `tables[m]` counts tokens after contexts of m tokens, `totals[m]` the contexts themselves.

    `preceded[m]` counts, in place of occurrences, how many different tokens stood before (context, token).
    """

    vocab_size: int
    tables: tuple[Table, ...]
    totals: tuple[dict[Context, int], ...]
    preceded: tuple[Table, ...]
    preceded_totals: tuple[dict[Context, int], ...]


class Smoothing(Protocol):
    """From counts to a probability: for each context, the probabilities of all tokens must add up to 1."""

    def probability(self, counts: Counts, context: Context, token: int) -> float: ...


@dataclass(frozen=True)
class AddK:
    """Pretend that every token followed every context k times more than it did; k = 0 is the plain ratio of counts.

    Paper: Laplace's rule of succession for k = 1; Chen & Goodman 1999 [chen1999empirical], Section 2.1.
    Differs: nothing. With k = 0 a context that was never seen gives every token probability 0.
    """

    k: float = 1.0

    def __post_init__(self) -> None:
        if not self.k >= 0:
            raise ValueError(f"AddK: k must be 0 or more, got {self.k}")

    def probability(self, counts: Counts, context: Context, token: int) -> float:
        total = counts.totals[len(context)].get(context, 0) + self.k * counts.vocab_size
        return (_count(counts.tables, context, token) + self.k) / total if total else 0.0


@dataclass(frozen=True)
class Interpolation:
    """Average the plain ratios for long contexts, short ones, none at all, and the uniform distribution.

    Paper: Jelinek & Mercer 1980 [jelinek1980interpolated].
    Differs: one weight for each context length, given by hand, where the paper fits them on held-out text. The
    weight of a context that was never seen is shared among the others.

    Args:
        weights: from short to long: uniform, no context, one token, …; as many as n + 1, adding up to 1
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if min(self.weights, default=-1.0) < 0 or not math.isclose(sum(self.weights), 1.0):
            raise ValueError(f"Interpolation: weights must not be negative and add up to 1, got {self.weights}")

    def probability(self, counts: Counts, context: Context, token: int) -> float:
        if len(self.weights) != len(counts.tables) + 1:
            raise ValueError(
                f"Interpolation: an n-gram model with n = {len(counts.tables)} needs {len(counts.tables) + 1} weights, "
                f"got {len(self.weights)}"
            )
        share, mixed = self.weights[0], self.weights[0] / counts.vocab_size
        for length in range(len(context) + 1):
            near = context[len(context) - length :]
            total = counts.totals[length].get(near, 0)
            if total:
                share += self.weights[length + 1]
                mixed += self.weights[length + 1] * _count(counts.tables, near, token) / total
        return mixed / share if share else 0.0


@dataclass(frozen=True)
class KneserNey:
    """Take a little from every count, and give it to tokens by how many different contexts they are known from.

    "Francisco" is frequent, but only after "San": after a new context it is unlikely.

    Paper: Kneser & Ney 1995 [kneser1995improved], interpolated as in Chen & Goodman 1999 [chen1999empirical].
    Differs: one discount for all orders; below the shortest context lies the uniform distribution, so that a token
    that was never seen has a probability too.
    """

    discount: float = 0.75

    def __post_init__(self) -> None:
        if not 0 < self.discount <= 1:
            raise ValueError(f"KneserNey: discount must be in (0, 1], got {self.discount}")

    def probability(self, counts: Counts, context: Context, token: int) -> float:
        probability = 1 / counts.vocab_size
        for length in range(len(context) + 1):
            longest = length == len(counts.tables) - 1
            tables = counts.tables if longest else counts.preceded
            near = context[len(context) - length :]
            total = (counts.totals if longest else counts.preceded_totals)[length].get(near, 0)
            if total:
                kept = max(_count(tables, near, token) - self.discount, 0.0)
                freed = self.discount * len(tables[length][near])
                probability = (kept + freed * probability) / total
        return probability


class NGramModel:
    """Guess the next token from the n − 1 before it, by counting.

    At the first n − 1 tokens of a sequence the context is as long as there are tokens.

    Paper: Shannon 1948 [shannon1948mathematical], Section 3.
    Differs: smoothed, in a way that is passed in.

    Args:
        n: length of the counted sequences: 1 ignores the past, 2 sees one token back, …
        vocab_size: number of different token ids
        smoothing: `AddK`, `Interpolation` or `KneserNey`
    """

    def __init__(self, n: int, vocab_size: int, smoothing: Smoothing | None = None) -> None:
        if n < 1 or vocab_size < 1:
            raise ValueError(f"n and vocab_size must be at least 1, got n={n} and vocab_size={vocab_size}")
        self.n, self.vocab_size = n, vocab_size
        self.smoothing = AddK() if smoothing is None else smoothing
        self.counts = self._count_all([])

    def fit(self, sequences: Iterable[Sequence[int]]) -> "NGramModel":
        """Count all sequences of token ids, forgetting what was counted before, and return self."""
        self.counts = self._count_all([self._checked(sequence) for sequence in sequences])
        return self

    @property
    def num_cells(self) -> int:
        """How many different n-grams there could be: vocab_size to the power of n."""
        return self.vocab_size**self.n

    @property
    def seen_cells(self) -> int:
        """How many different n-grams there were."""
        return sum(len(followers) for followers in self.counts.tables[-1].values())

    def probability(self, context: Sequence[int], token: int) -> float:
        """P(token | context); of the context only the last n − 1 tokens matter."""
        return self.smoothing.probability(self.counts, self._near(context), token)

    def distribution(self, context: Sequence[int] = ()) -> Tensor:
        """P(· | context) of every token: (V,), in double precision."""
        near = self._near(context)
        values = [self.smoothing.probability(self.counts, near, token) for token in range(self.vocab_size)]
        return torch.tensor(values, dtype=torch.float64)

    def log_probability(self, sequence: Sequence[int]) -> float:
        """log P of a whole sequence by the chain rule; minus infinity when a token has probability 0."""
        total = 0.0
        for t, token in enumerate(self._checked(sequence)):
            probability = self.probability(sequence[max(0, t - self.n + 1) : t], token)
            total += math.log(probability) if probability > 0 else -math.inf
        return total

    def perplexity(self, sequences: Iterable[Sequence[int]]) -> float:
        """exp of the mean negative log-probability of a token; a uniform guess has vocab_size."""
        sequences = list(sequences)
        num_tokens = sum(len(sequence) for sequence in sequences)
        if num_tokens == 0:
            raise ValueError("perplexity needs at least one token")
        return math.exp(-sum(self.log_probability(sequence) for sequence in sequences) / num_tokens)

    def sample(self, length: int, prompt: Sequence[int] = (), *, generator: torch.Generator | None = None) -> list[int]:
        """Draw `length` tokens, one after the other, to follow the prompt; returns the new ones."""
        tokens = self._checked(prompt)
        for _ in range(length):
            probabilities = self.distribution(tokens)
            if not probabilities.any():
                raise ValueError(f"nothing ever followed {self._near(tokens)}; smooth, for example with AddK(0.1)")
            tokens.append(int(torch.multinomial(probabilities, 1, generator=generator)))
        return tokens[len(prompt) :]

    def _near(self, context: Sequence[int]) -> Context:
        return tuple(context[max(0, len(context) - self.n + 1) :])

    def _checked(self, sequence: Sequence[int]) -> list[int]:
        tokens = [int(token) for token in sequence]
        if tokens and not 0 <= min(tokens) <= max(tokens) < self.vocab_size:
            wrong = min(tokens) if min(tokens) < 0 else max(tokens)
            raise ValueError(f"token ids must be from 0 to {self.vocab_size - 1}, got {wrong}")
        return tokens

    def _count_all(self, sequences: list[list[int]]) -> Counts:
        tables = tuple(_count_followers(sequences, length) for length in range(self.n))
        preceded = tuple(_count_preceding(table) for table in tables[1:])
        return Counts(self.vocab_size, tables, _sums(tables), preceded, _sums(preceded))


class MarkovChain(NGramModel):
    """The n-gram model with n = 2: the next token depends on the one before and on nothing else.

    Paper: Markov 1913 [markov1913example], who counted vowels and consonants in Pushkin.
    Differs: smoothed, in a way that is passed in.
    """

    def __init__(self, vocab_size: int, smoothing: Smoothing | None = None) -> None:
        super().__init__(2, vocab_size, smoothing)

    def transition_matrix(self) -> Tensor:
        """Row i is P(next | i): (V, V)."""
        return torch.stack([self.distribution([token]) for token in range(self.vocab_size)])


def _count(tables: tuple[Table, ...], context: Context, token: int) -> int:
    followers = tables[len(context)].get(context)
    return followers[token] if followers is not None else 0


def _count_followers(sequences: list[list[int]], length: int) -> Table:
    grams: Counter[Context] = Counter()
    for sequence in sequences:
        grams.update(zip(*(sequence[start:] for start in range(length + 1)), strict=False))
    table: Table = defaultdict(Counter)
    for gram, count in grams.items():
        table[gram[:-1]][gram[-1]] = count
    return dict(table)


def _count_preceding(longer: Table) -> Table:
    """Each different (first, *context, token) of the longer table counts once for (context, token)."""
    table: Table = defaultdict(Counter)
    for context, followers in longer.items():
        table[context[1:]].update(followers.keys())
    return dict(table)


def _sums(tables: tuple[Table, ...]) -> tuple[dict[Context, int], ...]:
    return tuple({context: followers.total() for context, followers in table.items()} for table in tables)
