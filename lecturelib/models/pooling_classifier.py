"""A sentence as one vector: read it in both directions, pool the states, and decide."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.cells import LSTM
from lecturelib.layers.checks import check_config, check_lengths, check_tokens
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.pooling import AttentionPooling, LastPooling, MaxPooling, MeanPooling, Pooling
from lecturelib.layers.recurrent import Recurrent

POOLINGS = ("attention", "mean", "max", "last")


@dataclass(frozen=True, kw_only=True)
class PoolingConfig:
    """Sizes of a `PoolingClassifier` or `PairClassifier`; `pooling` is one of `POOLINGS`, `hidden_dim` is per side."""

    vocab_size: int
    num_classes: int
    pooling: str = "attention"
    embedding_dim: int = 64
    hidden_dim: int = 64
    attention_dim: int = 64
    num_queries: int = 1
    classifier_dim: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "num_classes", "embedding_dim", "hidden_dim", "attention_dim", "num_queries")
        check_config(self, sizes=(*sizes, "classifier_dim"))
        if self.pooling not in POOLINGS:
            raise ValueError(f"{type(self).__name__}: pooling must be one of {[*POOLINGS]}, got {self.pooling!r}")
        if self.num_queries > 1 and self.pooling != "attention":
            raise ValueError(
                f"{type(self).__name__}: num_queries={self.num_queries} needs pooling='attention', "
                f"got {self.pooling!r}, which has no query"
            )

    def pool(self) -> Pooling:
        """The pooling layer, as configured."""
        match self.pooling:
            case "mean":
                return MeanPooling()
            case "max":
                return MaxPooling()
            case "last":
                return LastPooling(directions=2)
        return AttentionPooling(2 * self.hidden_dim, self.attention_dim, num_queries=self.num_queries)


INNER_ATTENTION = PoolingConfig(
    vocab_size=40_000,
    num_classes=3,
    embedding_dim=300,
    hidden_dim=2048,
    attention_dim=4096,
    num_queries=4,
    classifier_dim=512,
)
INFERSENT = PoolingConfig(
    vocab_size=40_000, num_classes=3, pooling="max", embedding_dim=300, hidden_dim=2048, classifier_dim=512
)


class SentenceEncoder(nn.Module):
    """Read a sentence in both directions and pool the states into one vector.

    Paper: Conneau et al. 2017 [conneau2017supervised], Section 3.2.
    Differs: word vectors are learned with the rest; the paper's are GloVe's and stay as they are.

    Shapes: tokens (B, T), lengths (B,) -> (B, output_dim)
    """

    def __init__(self, config: PoolingConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.recurrent = Recurrent(LSTM, config.embedding_dim, config.hidden_dim, bidirectional=True)
        self.pooling = config.pool()
        self.output_dim = 2 * config.hidden_dim * config.num_queries

    def forward(self, tokens: Tensor, lengths: Tensor, name: str = "tokens") -> Tensor:
        """Shapes: tokens (B, T), lengths (B,) -> (B, output_dim)"""
        check_tokens(tokens, self.config.vocab_size, name)
        check_lengths(lengths, tokens.shape[0], tokens.shape[1])
        states, _ = self.recurrent(self.dropout(self.embedding(tokens)), lengths)  # (B, T, 2 H)
        pooled: Tensor = self.pooling(states, padding_mask(lengths, tokens.shape[1]).squeeze(1))
        return pooled


class PoolingClassifier(nn.Module):
    """Label a sentence from its pooled states.

    Paper: Conneau et al. 2017 [conneau2017supervised] for the encoders; Lin et al. 2017 [lin2017structured] label
    single texts so.
    Differs: one linear layer decides.

    Shapes: tokens (B, T), lengths (B,) -> logits (B, C)
    """

    def __init__(self, config: PoolingConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = SentenceEncoder(config)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(self.encoder.output_dim, config.num_classes)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: tokens (B, T), lengths (B,) -> logits (B, C)"""
        logits: Tensor = self.output(self.dropout(self.encoder(tokens, lengths)))
        return logits


class PairClassifier(nn.Module):
    """Compare two sentences by their vectors u and v alone: classify [u; v; |u − v|; u ∗ v].

    Paper: Conneau et al. 2017 [conneau2017supervised], Section 3.1, Figure 1.
    Differs: one hidden layer with tanh decides.

    Shapes: premise (B, Tp), its lengths (B,), hypothesis (B, Th), its lengths (B,) -> logits (B, C)
    """

    def __init__(self, config: PoolingConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = SentenceEncoder(config)
        self.hidden = nn.Linear(4 * self.encoder.output_dim, config.classifier_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.classifier_dim, config.num_classes)

    def forward(
        self, premise: Tensor, premise_lengths: Tensor, hypothesis: Tensor, hypothesis_lengths: Tensor
    ) -> Tensor:
        """Shapes: (B, Tp), (B,), (B, Th), (B,) -> logits (B, C)"""
        u = self.encoder(premise, premise_lengths, "premise")  # (B, output_dim)
        v = self.encoder(hypothesis, hypothesis_lengths, "hypothesis")  # (B, output_dim)
        compared = torch.cat([u, v, (u - v).abs(), u * v], dim=-1)  # (B, 4 · output_dim)
        logits: Tensor = self.output(self.dropout(self.hidden(compared).tanh()))
        return logits
