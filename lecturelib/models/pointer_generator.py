"""Summarise by writing words or by pointing at them, with a memory of what was read before."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from lecturelib.layers.additive import AdditiveAttention
from lecturelib.layers.cells import LSTM
from lecturelib.layers.checks import check_config, check_ids, check_lengths, check_tokens
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.precision import precise
from lecturelib.layers.recurrent import Recurrent
from lecturelib.layers.state import in_precision_of, select_rows


@dataclass(frozen=True, kw_only=True)
class PointerGeneratorConfig:
    """Sizes of a `PointerGenerator`.

    Words of a source that are not in the vocabulary get the ids vocab_size, vocab_size + 1, … in that source;
    `max_oov` is how many of them there may be. They are embedded as `unk_id`. `coverage` lets the attention see how
    much each source word was read before.
    """

    vocab_size: int
    max_oov: int = 0
    unk_id: int = 0
    embedding_dim: int = 64
    hidden_dim: int = 128
    coverage: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "embedding_dim", "hidden_dim"))
        if self.max_oov < 0 or not 0 <= self.unk_id < self.vocab_size:
            raise ValueError(
                f"PointerGeneratorConfig: max_oov must be at least 0 and unk_id below vocab_size, got "
                f"max_oov={self.max_oov}, unk_id={self.unk_id}, vocab_size={self.vocab_size}"
            )


SEE2017 = PointerGeneratorConfig(vocab_size=50_000, max_oov=400, embedding_dim=128, hidden_dim=256)


@dataclass(frozen=True)
class PointerState:
    """The decoder's LSTM state, the coverage so far, and what it looks back at."""

    hidden: tuple[Tensor, ...]  # h, c: (B, H) each
    coverage: Tensor  # (B, Ts) the sum of all earlier attention
    source: Tensor  # (B, Ts) extended ids
    values: Tensor  # (B, Ts, 2 H)
    keys: Tensor  # (B, Ts, H)
    mask: Tensor  # (B, 1, Ts), True = may attend

    def select(self, index: Tensor) -> "PointerState":
        return select_rows(self, index)


class PointerGenerator(nn.Module):
    """An attentive decoder that writes a word of the vocabulary with probability p_gen, else copies a source word.

    P(w) = p_gen · P_vocab(w) + (1 − p_gen) · Σ_{i: w_i = w} a_i, over the vocabulary and the source's own words.

    Paper: See et al. 2017 [see2017get], Equations 1 to 12; b_attn is `attention_bias`, w_c is `coverage_proj`.
    Differs: the two encoder states are brought to the decoder's width by one linear map and a relu each, as in the
    authors' code, which the paper does not mention; the code's feeding of the last context into the decoder's input
    is left out, as in the paper. `forward` and `step` return log-probabilities, which are logits that are
    already normalised, over vocab_size + max_oov words; a word that cannot be written has the smallest number.
    Initial weights are torch's; the paper gives none, and the code draws the LSTMs' from ±0.02 and most others with
    deviation 0.0001.

    Shapes: source (B, Ts), source_lengths (B,), target_in (B, Tt) -> logits (B, Tt, V + max_oov)
    """

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        self.config = config
        embedding, hidden = config.embedding_dim, config.hidden_dim
        self.embedding = nn.Embedding(config.vocab_size, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Recurrent(LSTM, embedding, hidden, bidirectional=True)
        self.bridge = nn.ModuleList([nn.Linear(2 * hidden, hidden), nn.Linear(2 * hidden, hidden)])
        self.decoder = LSTM(embedding, hidden)
        self.attention = AdditiveAttention(hidden, 2 * hidden, hidden)
        self.attention_bias = nn.Parameter(torch.zeros(hidden))
        self.coverage_proj = nn.Linear(1, hidden, bias=False) if config.coverage else None
        self.generate = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.Linear(hidden, config.vocab_size))
        self.switch = nn.Linear(3 * hidden + embedding, 1)

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        """Teacher forcing: the log-probabilities of the next word at every position of the target.

        Args:
            source: (B, Ts) extended token ids
            source_lengths: (B,) number of real tokens
            target_in: (B, Tt) the target, shifted right by its start symbol; extended ids are allowed

        Shapes: -> (B, Tt, V + max_oov)
        """
        return self.aligned(source, source_lengths, target_in)[0]

    def aligned(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """As `forward`, and the attention, which `coverage_loss` takes.

        Shapes: -> (B, Tt, V + max_oov), (B, Tt, Ts)
        """
        state = self.start(source, source_lengths)
        check_tokens(target_in, self._num_words, "target_in", batch=source.shape[0])
        embedded = self._embed(target_in)  # (B, Tt, E)
        features, alignments = [], []
        for token in embedded.unbind(1):
            feature, weights, state = self._advance(token, state)
            features.append(feature)
            alignments.append(weights)
        if not features:
            logits = state.values.new_zeros(*target_in.shape, self._num_words)
            return logits, logits.new_zeros(*target_in.shape, source.shape[1])
        weights = torch.stack(alignments, 1)  # (B, Tt, Ts)
        return self._mix(torch.stack(features, 1), embedded, weights, source), weights

    def start(self, source: Tensor, source_lengths: Tensor) -> PointerState:
        """Read the source: (B, Ts), (B,) -> the state before the first target token."""
        check_tokens(source, self._num_words, "source")
        check_lengths(source_lengths, source.shape[0], source.shape[1], "source_lengths")
        values, (forward, backward) = self.encoder(self._embed(source), source_lengths)
        both = (torch.cat(pair, dim=-1) for pair in zip(forward, backward, strict=True))  # h, c: (B, 2 H)
        return PointerState(
            hidden=tuple(bridge(pair).relu() for bridge, pair in zip(self.bridge, both, strict=True)),
            coverage=values.new_zeros(source.shape),
            source=source,
            values=values,
            keys=self.attention.key_proj(values) + self.attention_bias,
            mask=padding_mask(source_lengths, source.shape[1]),
        )

    def step(self, tokens: Tensor, state: PointerState) -> tuple[Tensor, PointerState]:
        """One target word a row: (B,) -> log-probabilities of the next (B, V + max_oov), and the state after it."""
        check_ids(tokens, self._num_words)
        state = in_precision_of(self.embedding.weight, state)
        embedded = self._embed(tokens)  # (B, E)
        feature, weights, after = self._advance(embedded, state)
        logits = self._mix(feature.unsqueeze(1), embedded.unsqueeze(1), weights.unsqueeze(1), state.source)
        return logits.squeeze(1), after

    @property
    def _num_words(self) -> int:
        return self.config.vocab_size + self.config.max_oov

    def _embed(self, tokens: Tensor) -> Tensor:
        known = tokens.masked_fill(tokens >= self.config.vocab_size, self.config.unk_id)
        return self.dropout(self.embedding(known))

    def _advance(self, embedded: Tensor, state: PointerState) -> tuple[Tensor, Tensor, PointerState]:
        """Step, then attend: [state; context] (B, 3 H), weights (B, Ts), the state after."""
        hidden = self.decoder(embedded, state.hidden)
        keys = state.keys
        if self.coverage_proj is not None:
            keys = keys + self.coverage_proj(state.coverage.unsqueeze(-1))  # (B, Ts, H)
        context, weights = self.attention.attend(hidden[0].unsqueeze(1), keys, state.values, state.mask)
        context, weights = context.squeeze(1), weights.squeeze(1)  # (B, 2 H), (B, Ts)
        feature = torch.cat([hidden[0], context], dim=-1)
        return feature, weights, replace(state, hidden=hidden, coverage=state.coverage + weights)

    def _mix(self, feature: Tensor, embedded: Tensor, weights: Tensor, source: Tensor) -> Tensor:
        """Words from the vocabulary and words from the source in one distribution: -> (B, T, V + max_oov)."""
        batch, length, _ = feature.shape
        p_gen = precise(self.switch(torch.cat([feature, embedded], dim=-1))).sigmoid()  # (B, T, 1)
        written = p_gen * precise(self.generate(feature)).softmax(dim=-1)  # (B, T, V)
        words = nn.functional.pad(written, (0, self.config.max_oov))  # (B, T, V + max_oov)
        copied = (1 - p_gen) * precise(weights)  # (B, T, Ts)
        words = words.scatter_add(-1, source.long().unsqueeze(1).expand(batch, length, -1), copied)
        return words.clamp_min(torch.finfo(words.dtype).tiny).log()


def coverage_loss(weights: Tensor) -> Tensor:
    """What each step pays for reading again what was read before: Σ_i min(a_i, coverage_i).

    Paper: See et al. 2017 [see2017get], Equation 12; add its mean over real target positions to the loss.
    Differs: nothing.

    Shapes: weights (B, Tt, Ts) -> (B, Tt)
    """
    coverage = weights.cumsum(dim=1) - weights  # (B, Tt, Ts), of the steps before
    return torch.minimum(weights, coverage).sum(dim=-1)
