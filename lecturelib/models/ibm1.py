"""Word alignment by counting: which source word does each target word come from, most likely?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

Sentences = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Pairs (source ids, target ids)."""


@dataclass(frozen=True, kw_only=True)
class IBM1Config:
    """Vocabulary sizes of an `IBM1`, and how many rounds of EM to make.

    `empty_word` lets a target word come from no source word at all.
    """

    source_vocab_size: int
    target_vocab_size: int
    iterations: int = 10
    empty_word: bool = True

    def __post_init__(self) -> None:
        for name in ("source_vocab_size", "target_vocab_size", "iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"IBM1Config: {name} must be at least 1, got {getattr(self, name)}")


@dataclass
class IBM1:
    """A table t(e | f), how likely source word f becomes target word e, learned from pairs without any alignment.

    p(e_i | f) = 1 / (Ts + 1) · Σ_j t(e_i | f_j), with j = 0 the empty word. Every source position is equally likely
    beforehand; the word alone decides. EM: share each target word out among the source words by the table (E), then
    make a new table from the shares (M).

    Paper: Brown et al. 1993 [brown1993mathematics], Model 1.
    Differs: only pairs of words that share a sentence are stored, all others have t = 0; `posterior` leaves the empty
    word's share out, so that its rows may add up to less than one; a target word no source word of the sentence was
    ever seen with has a row of zeros.
    """

    config: IBM1Config
    log_likelihoods: list[float] = field(default_factory=list)  # nats per target word, before each round of EM
    _keys: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long), repr=False)  # f · V + e, sorted
    _table: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.double), repr=False)

    @property
    def num_entries(self) -> int:
        """How many pairs of words have a probability above zero."""
        return int((self._table > 0).sum())

    def fit(self, sentences: Sentences) -> "IBM1":
        """Learn the table by EM, from the start, and return the model itself."""
        flat = [self._pairs(source, target) for source, target in sentences]
        if not sum(len(keys) for keys, _ in flat):
            raise ValueError("IBM1.fit: there are no words to learn from; give pairs (source ids, target ids)")
        sizes = torch.tensor([[len(keys), words] for keys, words in flat])
        # Each possible link is one entry: which cell of the table it reads, and which target word it explains.
        self._keys, cells = torch.unique(torch.cat([keys for keys, _ in flat]), return_inverse=True)
        per_word = (sizes[:, 0] // sizes[:, 1].clamp(min=1)).repeat_interleave(sizes[:, 1])  # choices of each word
        words = torch.arange(len(per_word)).repeat_interleave(per_word)
        rows = self._keys // self.config.target_vocab_size  # the source word of each cell
        table = torch.full((len(self._keys),), 1 / self.config.target_vocab_size, dtype=torch.double)
        self.log_likelihoods = []
        for _ in range(self.config.iterations):
            likely = table[cells]
            total = likely.new_zeros(len(per_word)).index_add(0, words, likely)
            self.log_likelihoods.append(float((total / per_word).log().mean()))
            shares = likely / total[words]
            counts = torch.zeros_like(table).index_add(0, cells, shares)
            of_source = counts.new_zeros(self.config.source_vocab_size + 1).index_add(0, rows, counts)
            table = counts / of_source[rows]
        self._table = table
        return self

    def probability(self, source: int, target: int) -> float:
        """t(target | source), two word ids."""
        return float(self._look_up(torch.tensor([(source + 1) * self.config.target_vocab_size + target])))

    def posterior(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Where each target word came from, given both sentences.

        Shapes: Ts source ids, Tt target ids -> (Tt, Ts), not negative, each row adding up to at most one
        """
        if not len(source) or not len(target):
            return torch.zeros(len(target), len(source))
        keys, _ = self._pairs(source, target)
        likely = self._look_up(keys).view(len(target), -1)  # (Tt, Ts), with the empty word (Tt, 1 + Ts)
        shares = likely / likely.sum(dim=1, keepdim=True).clamp_min(torch.finfo(likely.dtype).tiny)
        return shares[:, int(self.config.empty_word) :].float()

    def _pairs(self, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, int]:
        """Every (target word, source word) of one sentence as a key, target by target, and the number of targets."""
        sizes = {"source": self.config.source_vocab_size, "target": self.config.target_vocab_size}
        for name, ids in (("source", source), ("target", target)):
            if len(ids) and not 0 <= min(ids) <= max(ids) < sizes[name]:
                raise ValueError(f"IBM1: {name} ids must be in 0 to {sizes[name] - 1}, got {min(ids)} to {max(ids)}")
        with_empty = ([0] if self.config.empty_word else []) + [index + 1 for index in source]  # 0 is the empty word
        if not with_empty:
            return torch.zeros(0, dtype=torch.long), 0
        rows = torch.tensor(with_empty) * sizes["target"]
        return (torch.tensor(list(target), dtype=torch.long)[:, None] + rows).flatten(), len(target)

    def _look_up(self, keys: Tensor) -> Tensor:
        if not len(self._keys):
            raise ValueError("IBM1: the table is empty; call fit with pairs of sentences first")
        places = torch.searchsorted(self._keys, keys).clamp(max=len(self._keys) - 1)
        return torch.where(self._keys[places] == keys, self._table[places], 0.0)
