"""What a model of text and image says: which word was there, what is in a region, whether the two match."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-12


class Guesses(NamedTuple):
    """Logits of each word (B, T, V), of what is in each region (B, N, C), and of "they match", "they do not" (B, 2)."""

    words: Tensor
    regions: Tensor
    matches: Tensor


class MaskedHead(nn.Module):
    """Say what was masked: a dense layer, gelu and a norm, and then one score for each word or class.

    Paper: Devlin et al. 2019 [devlin2019bert], Section 3.1; Lu et al. 2019 [lu2019vilbert] for regions.
    Differs: nothing.

    Args:
        d_model: width of the vectors
        num_classes: how many scores; for words, `output.weight` is to be the embedding matrix

    Shapes: (..., D) -> (..., num_classes)
    """

    def __init__(self, d_model: int, num_classes: int) -> None:
        super().__init__()
        self.transform, self.norm = nn.Linear(d_model, d_model), nn.LayerNorm(d_model, eps=EPS)
        self.output = nn.Linear(d_model, num_classes)

    def forward(self, hidden: Tensor) -> Tensor:
        """The scores."""
        return self.output(self.norm(F.gelu(self.transform(hidden))))


def check_regions(regions: Tensor, region_dim: int, batch: int) -> None:
    """Raise unless `regions` is one set of vectors of this width for each of `batch` texts, none of them empty."""
    if regions.dim() != 3 or len(regions) != batch or regions.shape[2] != region_dim or not regions.shape[1]:
        raise ValueError(
            f"regions must be ({batch}, regions, {region_dim}) with at least one region, got {tuple(regions.shape)}"
        )
