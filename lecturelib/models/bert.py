"""BERT: a bidirectional encoder, trained to fill in masked words and to tell if two sentences follow each other."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PostNorm, find_activation
from lecturelib.layers.checks import check_config, check_heads, check_lengths, check_tokens
from lecturelib.layers.initialisation import truncated_normal_
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.positions.added import LearnedPositions

EPS = 1e-12


@dataclass(frozen=True, kw_only=True)
class BERTConfig:
    """The sizes of a BERT; `d_ff` is 4 · d_model when left out."""

    vocab_size: int
    max_len: int
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int | None = None
    num_token_types: int = 2
    dropout: float = 0.1
    activation: str = "gelu"

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "max_len", "d_model", "num_heads", "num_layers", "num_token_types")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"))
        check_heads(self.d_model, self.num_heads, "BERTConfig")
        find_activation(self.activation)


BERT_BASE = BERTConfig(vocab_size=30_522, max_len=512, d_model=768, num_heads=12, num_layers=12)
BERT_LARGE = BERTConfig(vocab_size=30_522, max_len=512, d_model=1024, num_heads=16, num_layers=24)


class BERTOutput(NamedTuple):
    """Every token in its context (B, T, D), and the whole text from its first token (B, D)."""

    hidden: Tensor
    pooled: Tensor


class BERT(nn.Module):
    """Read a text in both directions at once: every token sees every other.

    Paper: Devlin et al. 2019 [devlin2019bert], Section 3.
    Differs: nothing. Matrices start from a normal distribution of deviation 0.02 cut off at two deviations, as in the
    authors' code. The pooler, a dense tanh layer on the first token, is theirs too.
    """

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.config = config
        d_model, dropout = config.d_model, config.dropout
        self.token_embedding = nn.Embedding(config.vocab_size, d_model)
        self.type_embedding = nn.Embedding(config.num_token_types, d_model)
        self.positions = LearnedPositions(config.max_len, d_model)
        self.norm = nn.LayerNorm(d_model, eps=EPS)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(d_model, config.num_heads, dropout=dropout),
                FeedForward(d_model, config.d_ff or 4 * d_model, activation=find_activation(config.activation)),
                partial(PostNorm, d_model, dropout=dropout, eps=EPS),
            )
            for _ in range(config.num_layers)
        )
        self.pooler = nn.Linear(d_model, d_model)
        self.apply(initialise_bert)

    def forward(self, tokens: Tensor, token_types: Tensor | None = None, lengths: Tensor | None = None) -> BERTOutput:
        """Encode texts, or pairs of texts told apart by their token types.

        Args:
            tokens: (B, T), the first of each row being the one that is pooled
            token_types: (B, T) which of the texts a token belongs to; the first when left out
            lengths: (B,) real tokens in each row, the rest is padding; all of them when left out

        Shapes: -> hidden (B, T, D), pooled (B, D)
        """
        embedded = self.embed(tokens, token_types)
        if lengths is not None:
            check_lengths(lengths, *tokens.shape)
        return self.encode(embedded, None if lengths is None else padding_mask(lengths, tokens.shape[1]))

    def embed(self, tokens: Tensor, token_types: Tensor | None = None) -> Tensor:
        """The sum of each token's three vectors, before the first norm: (B, T) -> (B, T, D)."""
        self._check(tokens, token_types)
        where = torch.arange(tokens.shape[1], device=tokens.device)
        types = torch.zeros_like(tokens) if token_types is None else token_types
        return self.token_embedding(tokens) + self.type_embedding(types) + self.positions(where)  # (B, T, D)

    def encode(self, embedded: Tensor, mask: Tensor | None = None) -> BERTOutput:
        """All that follows the sum: norm, blocks and pooler; `mask` as that of `MultiHeadAttention`."""
        x = self.dropout(self.norm(embedded))  # (B, T, D)
        for block in self.blocks:
            x = block(x, mask)
        return BERTOutput(x, torch.tanh(self.pooler(x[:, 0])))

    def _check(self, tokens: Tensor, token_types: Tensor | None) -> None:
        check_tokens(tokens, self.config.vocab_size)
        if not 1 <= tokens.shape[1] <= self.config.max_len:
            raise ValueError(
                f"a text of {tokens.shape[1]} tokens does not fit; 1 to max_len={self.config.max_len} are allowed"
            )
        if token_types is not None and token_types.shape != tokens.shape:
            raise ValueError(
                f"token_types must have the shape of tokens {tuple(tokens.shape)}, got {tuple(token_types.shape)}"
            )
        if token_types is not None:
            check_tokens(token_types, self.config.num_token_types, "token_types")


class BERTPretraining(nn.Module):
    """A BERT with the two heads it is pre-trained by: which word was masked, and is this the next sentence?

    Paper: Devlin et al. 2019 [devlin2019bert], Section 3.1 and Appendix A.
    Differs: nothing; the word head is a dense layer, a norm, and the embedding matrix (tied) with a bias of its own.
    """

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BERT(config)
        self.transform = nn.Linear(config.d_model, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, eps=EPS)
        self.token_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.next_sentence = nn.Linear(config.d_model, 2)
        self.transform.apply(initialise_bert)
        self.next_sentence.apply(initialise_bert)

    def forward(
        self, tokens: Tensor, token_types: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Arguments as those of `BERT`.

        Shapes: tokens (B, T) -> logits of the word at each place (B, T, V), and of "it follows", "it does not" (B, 2)
        """
        hidden, pooled = self.bert(tokens, token_types, lengths)
        return self.predict_tokens(hidden), self.next_sentence(pooled)

    def predict_tokens(self, hidden: Tensor) -> Tensor:
        """The word head alone, for the masked places only if you pick those out: (..., D) -> (..., V)."""
        x = self.norm(find_activation(self.config.activation)(self.transform(hidden)))
        return F.linear(x, self.bert.token_embedding.weight, self.token_bias)


def initialise_bert(module: nn.Module) -> None:
    """For `model.apply`: truncated normal matrices and tables of standard deviation 0.02, biases zero."""
    if isinstance(module, nn.Linear | nn.Embedding | LearnedPositions):
        truncated_normal_(module.weight)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
