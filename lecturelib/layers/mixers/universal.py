"""A universal transformer: one block, again and again, for each token as often as it takes (ACT)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import Memory
from lecturelib.layers.mixers.mixer import check_alone
from lecturelib.layers.positions.added import SinusoidalPositions
from lecturelib.layers.precision import precise


class Thought(NamedTuple):
    """The tokens after thinking (B, T, D), how many steps each took (B, T), and what was left to halt (B, T).

    `steps + remainders` is the ponder time: its mean, times a small number, is added to the loss, so that thinking has
    a price.
    """

    hidden: Tensor
    steps: Tensor
    remainders: Tensor


class UniversalTransformer(nn.Module):
    """Apply one block over and over; each token decides by a halting probability when it has thought enough.

    At every step positions and the number of the step are added, a sigmoid gives each token's halting probability, and
    the block gives new states. A token halts when its probabilities would sum to more than `threshold`, or at the last
    step; what is missing to 1, the remainder, is the weight of that step. The output is the mean of a token's states,
    weighted so. A token that has halted keeps its state, and others go on reading it.

    Paper: Dehghani et al. 2019 [dehghani2019universal], Section 2.2; the halting is Graves 2016 [graves2016adaptive],
    Section 2.1.
    Differs: the weighted mean is Graves's ("accumulated" in the authors' code); the listing in the paper's appendix
    moves the output by each weight from the old to the new state instead, which favours late steps.

    Args:
        block: (B, T, D) -> (B, T, D), a `Block` with any mixer
        d_model: width
        max_steps: at most so many
        threshold: 1 - ε of the papers

    Shapes: (B, T, D) -> (B, T, D)
    """

    def __init__(self, block: nn.Module, d_model: int, *, max_steps: int = 8, threshold: float = 0.99) -> None:
        super().__init__()
        if max_steps < 1 or not 0.0 < threshold < 1.0:
            raise ValueError(
                f"UniversalTransformer: max_steps must be at least 1 and threshold between 0 and 1, got {max_steps} "
                f"and {threshold}"
            )
        self.block, self.max_steps, self.threshold = block, max_steps, threshold
        self.halt = nn.Linear(d_model, 1)
        nn.init.ones_(self.halt.bias)  # halt early at first, as in the authors' code
        self.positions = SinusoidalPositions(d_model)

    def forward(
        self,
        x: Tensor,
        key: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Memory | None = None,
    ) -> Tensor:
        """The tokens after thinking; `mask` and `is_causal` go to the block."""
        check_alone("UniversalTransformer", key, cache)
        return self.think(x, mask, is_causal=is_causal).hidden

    def think(self, x: Tensor, mask: Tensor | None = None, *, is_causal: bool = False) -> Thought:
        """Think, and tell how long each token took."""
        where = self.positions(torch.arange(x.shape[1], device=x.device)).to(x.dtype)  # (T, D)
        when = self.positions(torch.arange(self.max_steps, device=x.device)).to(x.dtype)  # (steps, D)
        spent = torch.zeros_like(precise(x[..., 0]))  # (B, T) probability so far
        steps, remainders, out = torch.zeros_like(spent), torch.zeros_like(spent), torch.zeros_like(x)
        thinking = torch.ones_like(spent, dtype=torch.bool)
        for step in range(self.max_steps):
            entering = x + where + when[step]
            chance = precise(self.halt(entering).squeeze(-1)).sigmoid()  # (B, T)
            halts = thinking if step == self.max_steps - 1 else thinking & (spent + chance > self.threshold)
            remainders = torch.where(halts, 1.0 - spent, remainders)
            weight = torch.where(halts, remainders, chance) * thinking  # (B, T)
            steps, spent = steps + thinking, spent + weight
            x = torch.where(thinking[..., None], self.block(entering, mask, is_causal=is_causal), x)
            out = out + weight[..., None].to(x.dtype) * x
            thinking = thinking & ~halts
        return Thought(out, steps, remainders)
