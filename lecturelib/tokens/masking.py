"""Gaps to fill in: batches of a text for BERT's two tasks, as a function of the step."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

CLS, SEP, MASK = "<cls>", "<sep>", "<mask>"


class MaskedBatch(NamedTuple):
    """Two passages a row, with gaps.

    tokens (B, T) is what the model reads, token_types (B, T) says which passage a token belongs to; chosen (B, T) is
    True where the model is asked, and targets (B, T) has the text as it was. follows (B,) is 0 where the second
    passage follows the first, and 1 where it is from elsewhere.
    """

    tokens: Tensor
    token_types: Tensor
    chosen: Tensor
    targets: Tensor
    follows: Tensor


class MaskedPassages:
    """Rows of "<cls> passage <sep> passage <sep>" cut out of a text; some tokens are to be guessed.

    Of all tokens of the text 15 % are asked for: 80 % of these are read as "<mask>", 10 % as another token, and 10 %
    as they are. Half of the second passages follow the first.

    Paper: Devlin et al. 2019 [devlin2019bert], Section 3.1 and Appendix A.1.
    Differs: every token is chosen by a draw of its own; passages are all of the same length, and begin anywhere.

    Args:
        ids: the text (N,), without special symbols
        length: tokens in a row, the three special ones included
        specials: the ids of "<cls>", "<sep>" and "<mask>"; every smaller or larger id below `vocab_size` may replace
    """

    def __init__(
        self,
        ids: Sequence[int] | Tensor,
        *,
        batch_size: int,
        length: int,
        specials: dict[str, int],
        vocab_size: int,
        seed: int = 0,
        share: float = 0.15,
    ) -> None:
        self.ids = torch.as_tensor(ids, dtype=torch.int64)
        if self.ids.dim() != 1 or batch_size < 1 or length < 5:
            raise ValueError(
                f"ids must be one row, batch_size={batch_size} at least 1 and length={length} at least 5; "
                f"the ids have shape {tuple(self.ids.shape)}"
            )
        if len(self.ids) < length:
            raise ValueError(f"{len(self.ids)} ids are too few for two passages in length={length} tokens")
        self.batch_size, self.length, self.seed, self.share = batch_size, length, seed, share
        self.cls, self.sep, self.mask = (specials[name] for name in (CLS, SEP, MASK))
        self._ordinary = np.array([index for index in range(vocab_size) if index not in specials.values()])

    def __call__(self, step: int) -> MaskedBatch:
        """The batch of that step."""
        draw = np.random.Generator(np.random.PCG64((self.seed, step)))
        rows, first = self.batch_size, (self.length - 3) // 2
        second = self.length - 3 - first
        starts = torch.from_numpy(draw.integers(0, len(self.ids) - first - second + 1, size=rows))
        elsewhere = torch.from_numpy(draw.integers(0, len(self.ids) - second + 1, size=rows))
        follows = torch.from_numpy(draw.integers(0, 2, size=rows))
        next_starts = torch.where(follows == 0, starts + first, elsewhere)
        one = self.ids[starts[:, None] + torch.arange(first)]  # (B, first)
        two = self.ids[next_starts[:, None] + torch.arange(second)]  # (B, second)
        edge = torch.ones(rows, 1, dtype=torch.int64)
        targets = torch.cat([self.cls * edge, one, self.sep * edge, two, self.sep * edge], dim=1)  # (B, T)
        types = (torch.arange(self.length) > first + 1).long().expand(rows, -1)  # (B, T)
        text = (targets != self.cls) & (targets != self.sep)
        chance = torch.from_numpy(draw.random((2, rows, self.length)))
        chosen = text & (chance[0] < self.share)
        others = torch.from_numpy(draw.choice(self._ordinary, size=(rows, self.length)))
        read = torch.where(chance[1] < 0.8, self.mask, torch.where(chance[1] < 0.9, others, targets))
        return MaskedBatch(torch.where(chosen, read, targets), types, chosen, targets, follows)
