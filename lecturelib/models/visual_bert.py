"""VisualBERT: words and the regions of an image in one sequence, read by one BERT."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.checks import check_config, check_lengths
from lecturelib.layers.masked_heads import Guesses, MaskedHead, check_regions
from lecturelib.layers.masks import padding_mask
from lecturelib.models.bert import BERT, BERT_BASE, BERTConfig, BERTOutput, initialise_bert


@dataclass(frozen=True, kw_only=True)
class VisualBERTConfig:
    """The sizes of a VisualBERT: those of its BERT, the width of a region's vector, and what regions may hold."""

    bert: BERTConfig
    region_dim: int
    num_region_classes: int = 1601

    def __post_init__(self) -> None:
        check_config(self, sizes=("region_dim", "num_region_classes"), dropout=())
        if self.bert.activation != "gelu":
            raise ValueError(f"VisualBERTConfig: the activation of its BERT must be gelu, got {self.bert.activation!r}")


VISUAL_BERT_BASE = VisualBERTConfig(bert=BERT_BASE, region_dim=2048)


class VisualBERT(nn.Module):
    """Read a text and an image as one sequence: the regions of the image stand behind the words, as more tokens.

    Every layer lets words read words and regions, and regions read both too. Nothing else is new: a region's vector is
    projected to the width of the tokens, and one learned vector says that it is not a word.

    Paper: Li et al. 2019 [li2019visualbert], Section 3.2.
    Differs: nothing. The paper gives a region the position of the word that names it, where that is known; without it,
    as here, the authors' code adds the same position to all regions, which is part of `region_segment`.

    Shapes: tokens (B, T), regions (B, N, F) -> hidden (B, T + N, D), pooled (B, D)
    """

    def __init__(self, config: VisualBERTConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BERT(config.bert)
        self.region_proj = nn.Linear(config.region_dim, config.bert.d_model)
        self.region_segment = nn.Parameter(0.02 * torch.randn(config.bert.d_model))
        self.region_proj.apply(initialise_bert)

    def forward(
        self,
        tokens: Tensor,
        regions: Tensor,
        lengths: Tensor | None = None,
        counts: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> BERTOutput:
        """Encode texts with their images.

        Args:
            tokens: (B, T), the first of each row being the one that is pooled
            regions: (B, N, F), in any order
            lengths: (B,) real tokens in each row; all of them when left out
            counts: (B,) real regions in each row; all of them when left out
            token_types: (B, T) as those of `BERT`
        """
        check_regions(regions, self.config.region_dim, len(tokens))
        words = self.bert.embed(tokens, token_types)  # (B, T, D)
        seen = self.region_proj(regions) + self.region_segment  # (B, N, D)
        mask = torch.cat([_readable(words, lengths, "lengths"), _readable(seen, counts, "counts")], dim=2)
        return self.bert.encode(torch.cat([words, seen], dim=1), mask)  # (B, T + N, D)


class VisualBERTPretraining(nn.Module):
    """A VisualBERT with three heads: which word was masked, what is in a masked region, do text and image match?

    Paper: Li et al. 2019 [li2019visualbert], Section 3.3, for words and matches; the head for regions is that of
    VL-BERT, Su et al. 2020 [su2020vl], Section 3.3.
    Differs: VisualBERT asks which of two captions belongs to the image; here it is one caption, which does or does not.
    """

    def __init__(self, config: VisualBERTConfig) -> None:
        super().__init__()
        self.config = config
        self.trunk = VisualBERT(config)
        bert, table = config.bert, self.trunk.bert.token_embedding.weight
        self.words = MaskedHead(bert.d_model, bert.vocab_size)
        self.regions = MaskedHead(bert.d_model, config.num_region_classes)
        self.matches = nn.Linear(bert.d_model, 2)
        for head in (self.words, self.regions, self.matches):
            head.apply(initialise_bert)
        self.words.output.weight = table

    def forward(
        self, tokens: Tensor, regions: Tensor, lengths: Tensor | None = None, counts: Tensor | None = None
    ) -> Guesses:
        """Arguments as those of `VisualBERT`.

        Shapes: tokens (B, T), regions (B, N, F) -> words (B, T, V), regions (B, N, C), matches (B, 2)
        """
        hidden, pooled = self.trunk(tokens, regions, lengths, counts)
        words, seen = hidden.split([tokens.shape[1], regions.shape[1]], dim=1)
        return Guesses(self.words(words), self.regions(seen), self.matches(pooled))


def _readable(x: Tensor, lengths: Tensor | None, name: str) -> Tensor:
    """Which of the vectors (B, T, D) may be read: (B, 1, T)."""
    batch, length = x.shape[:2]
    if lengths is None:
        return torch.ones(batch, 1, length, dtype=torch.bool, device=x.device)
    check_lengths(lengths, batch, length, name)
    return padding_mask(lengths, length)
