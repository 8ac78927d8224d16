"""The RNN encoder-decoder: one vector summarises the source, and the decoder sees it at every step."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.cells import GRU
from lecturelib.layers.checks import check_config, check_ids, check_lengths, check_tokens
from lecturelib.layers.maxout import MaxoutOutput
from lecturelib.layers.recurrent import Recurrent, RecurrentState
from lecturelib.layers.state import in_precision_of, select_rows


@dataclass(frozen=True, kw_only=True)
class ChoSeq2SeqConfig:
    """Sizes of a `ChoSeq2Seq`."""

    source_vocab_size: int
    target_vocab_size: int
    embedding_dim: int = 64
    hidden_dim: int = 128
    maxout_dim: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
        sizes = ("source_vocab_size", "target_vocab_size", "embedding_dim", "hidden_dim", "maxout_dim")
        check_config(self, sizes=sizes)


CHO2014 = ChoSeq2SeqConfig(
    source_vocab_size=15_000, target_vocab_size=15_000, embedding_dim=100, hidden_dim=1000, maxout_dim=500
)


@dataclass(frozen=True)
class ChoState:
    """The decoder's GRU state, and the summary c (B, H) that stays."""

    hidden: RecurrentState
    context: Tensor

    def select(self, index: Tensor) -> "ChoState":
        return select_rows(self, index)


class ChoSeq2Seq(nn.Module):
    """A GRU reads the source into one vector c, which the decoder's GRU and the output see at every step.

    c = tanh(V h_T);  h'_0 = tanh(V' c);  h'_t = GRU([E y_{t-1}; c], h'_{t-1});  logits = maxout(h'_t, E y_{t-1}, c)

    Paper: Cho et al. 2014 [cho2014learning], Section 2.2 and Appendix A.
    Differs: the GRU is torch's, whose reset gate works after the product with h and not on the share of c; the
    embeddings are full, where the paper factors large matrices to rank 100; biases throughout; dropout of
    embeddings. Initial weights are torch's: the paper draws them with deviation 0.01, and makes the recurrent
    matrices orthogonal. Because c is the same at all steps, both GRUs run on torch's fused kernel.

    Shapes: source (B, Ts), source_lengths (B,), target_in (B, Tt) -> logits (B, Tt, V)
    """

    def __init__(self, config: ChoSeq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        embedding, hidden = config.embedding_dim, config.hidden_dim
        self.source_embedding = nn.Embedding(config.source_vocab_size, embedding)
        self.target_embedding = nn.Embedding(config.target_vocab_size, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Recurrent(GRU, embedding, hidden)
        self.summary = nn.Linear(hidden, hidden)
        self.bridge = nn.Linear(hidden, hidden)
        self.decoder = Recurrent(GRU, embedding + hidden, hidden)
        self.output = MaxoutOutput(2 * hidden + embedding, config.maxout_dim, config.target_vocab_size)

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
        logits, _ = self._decode(target_in, state)
        return logits

    def start(self, source: Tensor, source_lengths: Tensor) -> ChoState:
        """Read the source: (B, Ts), (B,) -> the state before the first target token."""
        check_tokens(source, self.config.source_vocab_size, "source")
        check_lengths(source_lengths, source.shape[0], source.shape[1], "source_lengths")
        _, ((last,),) = self.encoder(self.dropout(self.source_embedding(source)), source_lengths)
        context = self.summary(last).tanh()  # (B, H)
        return ChoState(hidden=((self.bridge(context).tanh(),),), context=context)

    def step(self, tokens: Tensor, state: ChoState) -> tuple[Tensor, ChoState]:
        """One target token a row: (B,) -> logits of the next (B, V), and the state after it."""
        check_ids(tokens, self.config.target_vocab_size)
        state = in_precision_of(self.target_embedding.weight, state)
        logits, state = self._decode(tokens.unsqueeze(1), state)
        return logits.squeeze(1), state

    def _decode(self, tokens: Tensor, state: ChoState) -> tuple[Tensor, ChoState]:
        embedded = self.dropout(self.target_embedding(tokens))  # (B, T, E)
        context = state.context.unsqueeze(1).expand(-1, tokens.shape[1], -1)  # (B, T, H)
        outputs, hidden = self.decoder(torch.cat([embedded, context], dim=-1), state=state.hidden)
        return self.output(outputs, embedded, context), ChoState(hidden=hidden, context=state.context)
