"""Does one sentence follow from another? Align their words softly, compare what was aligned, and decide."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.alignment import SoftAlignment
from lecturelib.layers.cells import LSTM
from lecturelib.layers.checks import check_config, check_lengths, check_tokens
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.pooling import MaxPooling, MeanPooling
from lecturelib.layers.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class ESIMConfig:
    """Sizes of an `ESIM`; each LSTM has `hidden_dim` units in each direction."""

    vocab_size: int
    num_classes: int = 3
    embedding_dim: int = 64
    hidden_dim: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "num_classes", "embedding_dim", "hidden_dim"))


CHEN2017 = ESIMConfig(vocab_size=40_000, embedding_dim=300, hidden_dim=300, dropout=0.5)


class ESIM(nn.Module):
    """Premise and hypothesis attend to each other word by word, and a second LSTM reads the comparison.

    e_ij = ā_i · b̄_j;  ã_i = Σ_j softmax_j(e_ij) b̄_j,  b̃_j = Σ_i softmax_i(e_ij) ā_i;  m = [ā; ã; ā − ã; ā ∗ ã], and
    the same for b; both are read by one LSTM, averaged and maximised over the words, and classified. Watch the weights
    under "premise_reads" (B, 1, Tp, Th) and "hypothesis_reads" (B, 1, Th, Tp).

    Paper: Chen et al. 2017 [chen2017enhanced], the sequential model of Section 3.
    Differs: word vectors are learned with the rest; the paper begins with GloVe's. The preset's vocabulary is a
    round number.

    Shapes: premise (B, Tp), its lengths (B,), hypothesis (B, Th), its lengths (B,) -> logits (B, C)
    """

    def __init__(self, config: ESIMConfig) -> None:
        super().__init__()
        self.config = config
        width = 2 * config.hidden_dim
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Recurrent(LSTM, config.embedding_dim, config.hidden_dim, bidirectional=True)
        self.premise_reads, self.hypothesis_reads = SoftAlignment(), SoftAlignment()
        self.projection = nn.Linear(4 * width, config.hidden_dim)
        self.composer = Recurrent(LSTM, config.hidden_dim, config.hidden_dim, bidirectional=True)
        self.mean, self.max = MeanPooling(), MaxPooling()
        self.hidden = nn.Linear(4 * width, config.hidden_dim)
        self.output = nn.Linear(config.hidden_dim, config.num_classes)

    def forward(
        self, premise: Tensor, premise_lengths: Tensor, hypothesis: Tensor, hypothesis_lengths: Tensor
    ) -> Tensor:
        """Shapes: (B, Tp), (B,), (B, Th), (B,) -> logits (B, C)"""
        a, a_mask = self._encode(premise, premise_lengths, "premise")  # (B, Tp, 2 H), (B, 1, Tp)
        b, b_mask = self._encode(hypothesis, hypothesis_lengths, "hypothesis")  # (B, Th, 2 H), (B, 1, Th)
        a_found = self.premise_reads(a, b, b, b_mask)  # (B, Tp, 2 H)
        b_found = self.hypothesis_reads(b, a, a, a_mask)  # (B, Th, 2 H)
        a_parts = self._compose(a, a_found, premise_lengths, a_mask)
        b_parts = self._compose(b, b_found, hypothesis_lengths, b_mask)
        hidden = self.hidden(self.dropout(torch.cat([*a_parts, *b_parts], dim=-1))).tanh()  # (B, H)
        logits: Tensor = self.output(self.dropout(hidden))
        return logits

    def _encode(self, tokens: Tensor, lengths: Tensor, name: str) -> tuple[Tensor, Tensor]:
        check_tokens(tokens, self.config.vocab_size, name)
        check_lengths(lengths, tokens.shape[0], tokens.shape[1], f"{name}_lengths")
        states, _ = self.encoder(self.dropout(self.embedding(tokens)), lengths)  # (B, T, 2 H)
        return states, padding_mask(lengths, tokens.shape[1])

    def _compose(self, own: Tensor, found: Tensor, lengths: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        compared = torch.cat([own, found, own - found, own * found], dim=-1)  # (B, T, 8 H)
        local = self.dropout(self.projection(compared).relu())  # (B, T, H)
        states, _ = self.composer(local, lengths)  # (B, T, 2 H)
        return self.mean(states, mask.squeeze(1)), self.max(states, mask.squeeze(1))
