"""Recurrent networks that label: one label for a whole sequence, or one for each of its elements."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.cells_searched import CELLS
from lecturelib.layers.checks import check_config, check_lengths, check_tokens
from lecturelib.layers.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class RecurrentClassifierConfig:
    """Sizes of a `RecurrentClassifier` or `RecurrentTagger`, and which cell it runs on: one of `CELLS`."""

    vocab_size: int
    num_classes: int
    embedding_dim: int = 64
    hidden_dim: int = 64
    num_layers: int = 1
    bidirectional: bool = True
    cell: str = "lstm"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "num_classes", "embedding_dim", "hidden_dim", "num_layers"))
        if self.cell not in CELLS:
            raise ValueError(f"{type(self).__name__}: cell must be one of {[*CELLS]}, got {self.cell!r}")

    def runner(self) -> Recurrent:
        """The recurrent part, as configured."""
        return Recurrent(
            CELLS[self.cell],
            self.embedding_dim,
            self.hidden_dim,
            num_layers=self.num_layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
        )


class RecurrentClassifier(nn.Module):
    """Read a sequence and label it from the last state of the top layer, in each direction.

    Paper: Schuster & Paliwal 1997 [schuster1997bidirectional] for the two directions.
    Differs: one label for the sequence, where the paper labels each element.

    Shapes: tokens (B, T), lengths (B,) -> logits (B, C)
    """

    def __init__(self, config: RecurrentClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.recurrent = config.runner()
        self.output = nn.Linear(self.recurrent.output_dim, config.num_classes)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: tokens (B, T), lengths (B,) -> logits (B, C)"""
        check_tokens(tokens, self.config.vocab_size)
        check_lengths(lengths, tokens.shape[0], tokens.shape[1])
        _, state = self.recurrent(self.dropout(self.embedding(tokens)), lengths)
        last = torch.cat([part[0] for part in state[-self.recurrent.directions :]], dim=-1)  # (B, directions · H)
        return self.output(self.dropout(last))


class RecurrentTagger(nn.Module):
    """Read a sequence and label each of its elements.

    Paper: Schuster & Paliwal 1997 [schuster1997bidirectional].
    Differs: any cell; tokens are embedded first.

    Shapes: tokens (B, T), lengths (B,) -> logits (B, T, C)
    """

    def __init__(self, config: RecurrentClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.recurrent = config.runner()
        self.output = nn.Linear(self.recurrent.output_dim, config.num_classes)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: tokens (B, T), lengths (B,) -> logits (B, T, C)"""
        check_tokens(tokens, self.config.vocab_size)
        check_lengths(lengths, tokens.shape[0], tokens.shape[1])
        outputs, _ = self.recurrent(self.dropout(self.embedding(tokens)), lengths)
        return self.output(self.dropout(outputs))
