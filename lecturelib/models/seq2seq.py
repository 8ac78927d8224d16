"""Sequence to sequence with two LSTMs: one reads, its last state is all the other knows, the other writes."""

from dataclasses import dataclass

from torch import Tensor, nn

from lecturelib.layers.cells import LSTM
from lecturelib.layers.checks import check_config, check_ids, check_lengths, check_tokens
from lecturelib.layers.recurrent import Recurrent, RecurrentState, reverse_sequences
from lecturelib.layers.state import in_precision_of, select_rows


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    """Sizes of a `Seq2Seq`; `reverse_source` feeds the source from its end, the paper's most useful trick."""

    source_vocab_size: int
    target_vocab_size: int
    d_model: int = 128
    num_layers: int = 1
    dropout: float = 0.0
    reverse_source: bool = True

    def __post_init__(self) -> None:
        check_config(self, sizes=("source_vocab_size", "target_vocab_size", "d_model", "num_layers"))


SUTSKEVER2014 = Seq2SeqConfig(source_vocab_size=160_000, target_vocab_size=80_000, d_model=1000, num_layers=4)


@dataclass(frozen=True)
class Seq2SeqState:
    """The decoder's LSTM state: at the start, the encoder's last one, the "thought vector"."""

    hidden: RecurrentState

    def select(self, index: Tensor) -> "Seq2SeqState":
        return select_rows(self, index)


class Seq2Seq(nn.Module):
    """An LSTM reads the source, and its last state starts an LSTM that writes the target.

    Paper: Sutskever et al. 2014 [sutskever2014sequence].
    Differs: weights start as torch's do, in ±1/√d_model, not in ±0.08 (which suits the paper's 1,000 units);
    dropout of embeddings and between layers, which the paper has not. Both LSTMs run on torch's fused kernel.

    Shapes: source (B, Ts), source_lengths (B,), target_in (B, Tt) -> logits (B, Tt, V)
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        width, depth, dropout = config.d_model, config.num_layers, config.dropout
        self.source_embedding = nn.Embedding(config.source_vocab_size, width)
        self.target_embedding = nn.Embedding(config.target_vocab_size, width)
        self.dropout = nn.Dropout(dropout)
        self.encoder = Recurrent(LSTM, width, width, num_layers=depth, dropout=dropout)
        self.decoder = Recurrent(LSTM, width, width, num_layers=depth, dropout=dropout)
        self.output = nn.Linear(width, config.target_vocab_size)

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        """Teacher forcing: the logits of the next token at every position of the target.

        Args:
            source: (B, Ts) token ids
            source_lengths: (B,) number of real tokens
            target_in: (B, Tt) the target, shifted right by its start symbol

        Shapes: -> (B, Tt, V)
        """
        state = self.start(source, source_lengths)
        check_tokens(target_in, self.config.target_vocab_size, "target_in", batch=source.shape[0])
        hidden, _ = self.decoder(self.dropout(self.target_embedding(target_in)), state=state.hidden)
        return self.output(self.dropout(hidden))

    def start(self, source: Tensor, source_lengths: Tensor) -> Seq2SeqState:
        """Read the source: (B, Ts), (B,) -> the state before the first target token."""
        check_tokens(source, self.config.source_vocab_size, "source")
        check_lengths(source_lengths, source.shape[0], source.shape[1], "source_lengths")
        if self.config.reverse_source:
            source = reverse_sequences(source, source_lengths)
        _, hidden = self.encoder(self.dropout(self.source_embedding(source)), source_lengths)
        return Seq2SeqState(hidden=hidden)

    def step(self, tokens: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        """One target token a row: (B,) -> logits of the next (B, V), and the state after it."""
        check_ids(tokens, self.config.target_vocab_size)
        state = in_precision_of(self.target_embedding.weight, state)
        embedded = self.dropout(self.target_embedding(tokens)).unsqueeze(1)  # (B, 1, D)
        outputs, hidden = self.decoder(embedded, state=state.hidden)
        return self.output(self.dropout(outputs.squeeze(1))), Seq2SeqState(hidden=hidden)
