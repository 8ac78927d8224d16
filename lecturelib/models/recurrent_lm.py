"""A language model without attention: all it knows of the past is one hidden state."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.cells_searched import CELLS
from lecturelib.layers.checks import check_config, check_ids, check_lengths, check_tokens
from lecturelib.layers.recurrent import Recurrent, RecurrentState
from lecturelib.layers.state import in_precision_of, select_rows


@dataclass(frozen=True, kw_only=True)
class RecurrentLMConfig:
    """Sizes of a `RecurrentLM`, and which cell it runs on: one of `CELLS`."""

    vocab_size: int
    embedding_dim: int = 64
    hidden_dim: int = 128
    num_layers: int = 1
    cell: str = "lstm"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "embedding_dim", "hidden_dim", "num_layers"))
        if self.cell not in CELLS:
            raise ValueError(f"RecurrentLMConfig: cell must be one of {[*CELLS]}, got {self.cell!r}")


ZAREMBA2014_MEDIUM = RecurrentLMConfig(vocab_size=10_000, embedding_dim=650, hidden_dim=650, num_layers=2, dropout=0.5)


@dataclass(frozen=True)
class RecurrentLMState:
    """The hidden state after the last token."""

    hidden: RecurrentState

    def select(self, index: Tensor) -> "RecurrentLMState":
        return select_rows(self, index)


class RecurrentLM(nn.Module):
    """Read a token, update the state, guess the next token from it.

    Paper: Mikolov et al. 2010 [mikolov2010recurrent]; dropout as in Zaremba et al. 2014 [zaremba2014recurrent].
    Differs: any cell, of which Mikolov et al. have the first; tokens are embedded in a layer of their own.

    Shapes: tokens (B, T) -> logits of the next token (B, T, V)
    """

    def __init__(self, config: RecurrentLMConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.recurrent = Recurrent(
            CELLS[config.cell],
            config.embedding_dim,
            config.hidden_dim,
            num_layers=config.num_layers,
            dropout=config.dropout,
        )
        self.output = nn.Linear(config.hidden_dim, config.vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        """Shapes: tokens (B, T) -> logits (B, T, V)"""
        logits, _ = self.read(tokens)
        return logits

    def read(
        self, tokens: Tensor, state: RecurrentLMState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, RecurrentLMState]:
        """As `forward`, going on from a state, and return the new one: for truncated backpropagation.

        Args:
            tokens: (B, T)
            state: after the tokens before; pass it through `detach_state` to stop the gradient there
            lengths: (B,) tokens that count in each row

        Shapes: -> (B, T, V), state
        """
        check_tokens(tokens, self.config.vocab_size)
        embedded = self.dropout(self.embedding(tokens))
        outputs, hidden = self.recurrent(embedded, lengths, None if state is None else state.hidden)
        return self.output(self.dropout(outputs)), RecurrentLMState(hidden=hidden)

    def start(self, prompt: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, RecurrentLMState]:
        """Read prompts (B, T), of unequal lengths (B,) where given -> logits of what follows (B, V), state."""
        if prompt.dim() == 2 and prompt.shape[1] == 0:
            raise ValueError("the prompt is empty; start from at least one token, such as a begin-of-text symbol")
        if lengths is not None:
            check_lengths(lengths, prompt.shape[0], prompt.shape[1])
        logits, state = self.read(prompt, lengths=lengths)
        if lengths is None:
            return logits[:, -1], state
        return logits[torch.arange(len(lengths), device=logits.device), (lengths - 1).clamp(min=0)], state

    def step(self, tokens: Tensor, state: RecurrentLMState) -> tuple[Tensor, RecurrentLMState]:
        """One token a row: (B,) -> logits of the next (B, V), and the state after it."""
        check_ids(tokens, self.config.vocab_size)
        state = in_precision_of(self.embedding.weight, state)
        logits, state = self.read(tokens.unsqueeze(1), state)
        return logits.squeeze(1), state
