"""FNet: BERT with its attention replaced by a Fourier transform."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.block import GELU_TANH, Block, FeedForward, PostNorm
from lecturelib.layers.checks import check_config, check_tokens
from lecturelib.layers.mixers.fourier import FourierMixing
from lecturelib.layers.positions.added import LearnedPositions
from lecturelib.models.bert import EPS, BERTOutput


@dataclass(frozen=True, kw_only=True)
class FNetConfig:
    """The sizes of an FNet; `d_ff` is 4 · d_model when left out."""

    vocab_size: int
    max_len: int
    d_model: int
    num_layers: int
    d_ff: int | None = None
    num_token_types: int = 4
    dropout: float = 0.1

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "max_len", "d_model", "num_layers", "num_token_types")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"))


FNET_BASE = FNetConfig(vocab_size=32_000, max_len=512, d_model=768, num_layers=12)
FNET_LARGE = FNetConfig(vocab_size=32_000, max_len=512, d_model=1024, num_layers=24)


class FNet(nn.Module):
    """Read a text with no attention at all: every layer mixes tokens by one fixed transform.

    Paper: Lee-Thorp et al. 2022 [leethorp2022fnet], Section 3.
    Differs: nothing. The embeddings pass through one matrix before the first layer, as in the authors' code and in
    transformers. There is no mask: padding mixes in like any token.
    """

    def __init__(self, config: FNetConfig) -> None:
        super().__init__()
        self.config = config
        d_model, dropout = config.d_model, config.dropout
        self.token_embedding = nn.Embedding(config.vocab_size, d_model)
        self.type_embedding = nn.Embedding(config.num_token_types, d_model)
        self.positions = LearnedPositions(config.max_len, d_model)
        self.norm = nn.LayerNorm(d_model, eps=EPS)
        self.projection = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                FourierMixing(),
                FeedForward(d_model, config.d_ff or 4 * d_model, activation=GELU_TANH),
                partial(PostNorm, d_model, dropout=dropout, eps=EPS),
            )
            for _ in range(config.num_layers)
        )
        self.pooler = nn.Linear(d_model, d_model)
        self.apply(_initialise)

    def forward(self, tokens: Tensor, token_types: Tensor | None = None) -> BERTOutput:
        """Encode texts, or pairs of texts told apart by their token types (B, T).

        Shapes: tokens (B, T) -> hidden (B, T, D), pooled (B, D)
        """
        check_tokens(tokens, self.config.vocab_size)
        if not 1 <= tokens.shape[1] <= self.config.max_len:
            raise ValueError(
                f"a text of {tokens.shape[1]} tokens does not fit; 1 to max_len={self.config.max_len} are allowed"
            )
        types = torch.zeros_like(tokens) if token_types is None else token_types
        check_tokens(types, self.config.num_token_types, "token_types", batch=len(tokens))
        where = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.type_embedding(types) + self.positions(where)  # (B, T, D)
        x = self.dropout(self.projection(self.norm(x)))
        for block in self.blocks:
            x = block(x)
        return BERTOutput(x, torch.tanh(self.pooler(x[:, 0])))


class FNetPretraining(nn.Module):
    """An FNet with BERT's two heads: which word was masked, and is this the next sentence?

    Paper: Lee-Thorp et al. 2022 [leethorp2022fnet], Section 4.1.
    Differs: nothing; the word head ends in the embedding matrix, tied, with a bias of its own.
    """

    def __init__(self, config: FNetConfig) -> None:
        super().__init__()
        self.config = config
        self.fnet = FNet(config)
        self.transform = nn.Linear(config.d_model, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, eps=EPS)
        self.token_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.next_sentence = nn.Linear(config.d_model, 2)
        self.transform.apply(_initialise)
        self.next_sentence.apply(_initialise)

    def forward(self, tokens: Tensor, token_types: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Arguments as those of `FNet`.

        Shapes: tokens (B, T) -> logits of each word (B, T, V), and of "it follows", "it does not" (B, 2)
        """
        hidden, pooled = self.fnet(tokens, token_types)
        words = self.norm(GELU_TANH(self.transform(hidden)))  # (B, T, D)
        return F.linear(words, self.fnet.token_embedding.weight, self.token_bias), self.next_sentence(pooled)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding | LearnedPositions):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
