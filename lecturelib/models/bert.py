"""BERT: a bidirectional encoder, trained to fill in masked words and to tell if two sentences follow each other."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Block, FeedForward, PostNorm
from lecturelib.layers.checks import check_config, check_heads, check_lengths, check_tokens
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.positions.added import LearnedPositions
from lecturelib.models.huggingface import Entry, Source, copy_weights, read_checkpoint, require_settings

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

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "max_len", "d_model", "num_heads", "num_layers", "num_token_types")
        check_config(self, sizes=sizes if self.d_ff is None else (*sizes, "d_ff"))
        check_heads(self.d_model, self.num_heads, "BERTConfig")


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
                FeedForward(d_model, config.d_ff or 4 * d_model, activation=F.gelu),
                partial(PostNorm, d_model, dropout=dropout, eps=EPS),
            )
            for _ in range(config.num_layers)
        )
        self.pooler = nn.Linear(d_model, d_model)
        self.apply(_initialise)

    def forward(self, tokens: Tensor, token_types: Tensor | None = None, lengths: Tensor | None = None) -> BERTOutput:
        """Encode texts, or pairs of texts told apart by their token types.

        Args:
            tokens: (B, T), the first of each row being the one that is pooled
            token_types: (B, T) which of the texts a token belongs to; the first when left out
            lengths: (B,) real tokens in each row, the rest is padding; all of them when left out

        Shapes: -> hidden (B, T, D), pooled (B, D)
        """
        self._check(tokens, token_types, lengths)
        where = torch.arange(tokens.shape[1], device=tokens.device)
        types = torch.zeros_like(tokens) if token_types is None else token_types
        x = self.token_embedding(tokens) + self.type_embedding(types) + self.positions(where)  # (B, T, D)
        x = self.dropout(self.norm(x))
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])  # (B, 1, T)
        for block in self.blocks:
            x = block(x, mask)
        return BERTOutput(x, torch.tanh(self.pooler(x[:, 0])))

    def _check(self, tokens: Tensor, token_types: Tensor | None, lengths: Tensor | None) -> None:
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
        if lengths is not None:
            check_lengths(lengths, *tokens.shape)

    @classmethod
    def from_huggingface(cls, source: Source, config: BERTConfig | None = None) -> Self:
        """Build a BERT with the weights of a checkpoint in the layout of the Hugging Face hub, without its heads.

        Args:
            source: a state dict, a local `.safetensors` file or folder, or a name on the hub ("bert-base-uncased")
            config: the sizes; read from `config.json` when left out and there is one
        """
        tensors, settings = read_checkpoint(source)
        model = cls(_config(config, settings))
        ignored = rf"{_NO_WEIGHTS}|cls\..*"
        copy_weights(model, tensors, _trunk_entries(model), ignored=ignored, rename=_rename)
        return model


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
        self.transform.apply(_initialise)
        self.next_sentence.apply(_initialise)

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
        x = self.norm(F.gelu(self.transform(hidden)))
        return F.linear(x, self.bert.token_embedding.weight, self.token_bias)

    @classmethod
    def from_huggingface(cls, source: Source, config: BERTConfig | None = None) -> Self:
        """As `BERT.from_huggingface`, for a pre-training checkpoint with both heads."""
        tensors, settings = read_checkpoint(source)
        model = cls(_config(config, settings))
        entries = {f"bert.{ours}": entry for ours, entry in _trunk_entries(model.bert).items()}
        entries["token_bias"] = Entry("cls.predictions.bias")
        for ours, theirs in (
            ("transform", "cls.predictions.transform.dense"),
            ("norm", "cls.predictions.transform.LayerNorm"),
            ("next_sentence", "cls.seq_relationship"),
        ):
            entries |= {f"{ours}.{kind}": Entry(f"{theirs}.{kind}") for kind in ("weight", "bias")}
        tied = {
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        }
        copy_weights(model, tensors, entries, tied=tied, ignored=_NO_WEIGHTS, rename=_rename)
        return model


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding | LearnedPositions):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


_NO_WEIGHTS = r"embeddings\.(position_ids|token_type_ids)"


def _rename(name: str) -> str:
    """Drop the prefix of models with a head, and bring old names of the norms up to date."""
    name = name.removeprefix("bert.")
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _config(config: BERTConfig | None, settings: dict[str, Any] | None) -> BERTConfig:
    if config is not None:
        return config
    if settings is None:
        raise ValueError("the sizes are not in the weights alone; pass config=, such as config=BERT_BASE")
    expected = {"model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": EPS, "is_decoder": False}
    require_settings(settings, expected | {"position_embedding_type": "absolute", "tie_word_embeddings": True})
    return BERTConfig(
        vocab_size=settings["vocab_size"],
        max_len=settings["max_position_embeddings"],
        d_model=settings["hidden_size"],
        num_heads=settings["num_attention_heads"],
        num_layers=settings["num_hidden_layers"],
        d_ff=settings["intermediate_size"],
        num_token_types=settings.get("type_vocab_size", 2),
        dropout=settings.get("hidden_dropout_prob", 0.1),
    )


def _trunk_entries(model: BERT) -> dict[str, Entry]:
    parts = {
        "mixer.query_proj": "attention.self.query",
        "mixer.key_proj": "attention.self.key",
        "mixer.value_proj": "attention.self.value",
        "mixer.out_proj": "attention.output.dense",
        "mixer_wiring.norm": "attention.output.LayerNorm",
        "feed_forward.widen": "intermediate.dense",
        "feed_forward.narrow": "output.dense",
        "feed_forward_wiring.norm": "output.LayerNorm",
    }
    modules = {"norm": "embeddings.LayerNorm", "pooler": "pooler.dense"}
    for layer in range(len(model.blocks)):
        modules |= {f"blocks.{layer}.{ours}": f"encoder.layer.{layer}.{theirs}" for ours, theirs in parts.items()}
    entries = {f"{o}.{kind}": Entry(f"{t}.{kind}") for o, t in modules.items() for kind in ("weight", "bias")}
    return entries | {
        "token_embedding.weight": Entry("embeddings.word_embeddings.weight"),
        "type_embedding.weight": Entry("embeddings.token_type_embeddings.weight"),
        "positions.weight": Entry("embeddings.position_embeddings.weight"),
    }
