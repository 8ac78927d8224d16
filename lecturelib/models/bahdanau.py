"""The first attention: at every step the decoder looks back at all source positions and takes what it needs."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from lecturelib.layers.additive import AdditiveAttention
from lecturelib.layers.cells import GRU
from lecturelib.layers.checks import check_config, check_ids, check_lengths, check_tokens
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.maxout import MaxoutOutput
from lecturelib.layers.recurrent import Recurrent
from lecturelib.layers.state import in_precision_of, select_rows


@dataclass(frozen=True, kw_only=True)
class BahdanauConfig:
    """Sizes of a `BahdanauSeq2Seq`; the encoder has `hidden_dim` units in each direction."""

    source_vocab_size: int
    target_vocab_size: int
    embedding_dim: int = 64
    hidden_dim: int = 128
    attention_dim: int = 128
    maxout_dim: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
        sizes = ("source_vocab_size", "target_vocab_size", "embedding_dim", "hidden_dim", "attention_dim", "maxout_dim")
        check_config(self, sizes=sizes)


RNNSEARCH = BahdanauConfig(
    source_vocab_size=30_000,
    target_vocab_size=30_000,
    embedding_dim=620,
    hidden_dim=1000,
    attention_dim=1000,
    maxout_dim=500,
)


@dataclass(frozen=True)
class BahdanauState:
    """The decoder's GRU state (B, H), and what it looks back at: the annotations and their share of the scores."""

    hidden: Tensor
    annotations: Tensor  # (B, Ts, 2 H)
    keys: Tensor  # (B, Ts, attention_dim)
    mask: Tensor  # (B, 1, Ts), True = may attend

    def select(self, index: Tensor) -> "BahdanauState":
        return select_rows(self, index)


class BahdanauSeq2Seq(nn.Module):
    """A GRU decoder that, before each step, averages the source annotations by how well they fit its state.

    c_i = Σ_j α_ij h_j with α_i = softmax_j(v · tanh(W s_{i-1} + U h_j));  s_i = GRU([E y_{i-1}; c_i], s_{i-1});
    logits_i = maxout(s_{i-1}, E y_{i-1}, c_i)

    Paper: Bahdanau et al. 2015 [bahdanau2015neural], "RNNsearch".
    Differs: the GRU is torch's, whose reset gate works after the product with s; weights start as torch's do, not
    from the paper's narrow Gaussians; dropout of embeddings. The encoder runs on torch's fused kernel, U h_j is
    computed once, and the output layer once for all steps.

    Shapes: source (B, Ts), source_lengths (B,), target_in (B, Tt) -> logits (B, Tt, V)
    """

    def __init__(self, config: BahdanauConfig) -> None:
        super().__init__()
        self.config = config
        embedding, hidden = config.embedding_dim, config.hidden_dim
        self.source_embedding = nn.Embedding(config.source_vocab_size, embedding)
        self.target_embedding = nn.Embedding(config.target_vocab_size, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Recurrent(GRU, embedding, hidden, bidirectional=True)
        self.bridge = nn.Linear(hidden, hidden)
        self.attention = AdditiveAttention(hidden, 2 * hidden, config.attention_dim)
        self.decoder = GRU(embedding + 2 * hidden, hidden)
        self.output = MaxoutOutput(3 * hidden + embedding, config.maxout_dim, config.target_vocab_size)

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        """Teacher forcing: the logits of the next token at every position of the target.

        Args:
            source: (B, Ts) token ids
            source_lengths: (B,) number of real tokens
            target_in: (B, Tt) the target, shifted right by its start symbol

        Shapes: -> (B, Tt, V)
        """
        return self.aligned(source, source_lengths, target_in)[0]

    def aligned(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """As `forward`, and the alignment: row i is where the decoder looked to write token i.

        Shapes: -> (B, Tt, V), (B, Tt, Ts)
        """
        state = self.start(source, source_lengths)
        check_tokens(target_in, self.config.target_vocab_size, "target_in", batch=source.shape[0])
        embedded = self.dropout(self.target_embedding(target_in))  # (B, Tt, E)
        states, contexts, alignments = [], [], []
        for token in embedded.unbind(1):
            states.append(state.hidden)
            context, weights, state = self._advance(token, state)
            contexts.append(context)
            alignments.append(weights)
        if not states:
            logits = embedded.new_zeros(*target_in.shape, self.config.target_vocab_size)
            return logits, logits.new_zeros(*target_in.shape, source.shape[1])
        logits = self.output(torch.stack(states, 1), embedded, torch.stack(contexts, 1))  # (B, Tt, V)
        return logits, torch.stack(alignments, 1)

    @torch.no_grad()
    def posterior(self, source: Tensor, source_lengths: Tensor, target_in: Tensor, target_out: Tensor) -> Tensor:
        """Where each target token came from, now that it is known: p(j | y_i) ∝ α_ij · p(y_i | c_i = h_j).

        The attention α_i chooses before y_i is known; this is what Bayes' rule makes of it afterwards, if the token
        came from one position.

        Paper: Shankar & Sarawagi 2019 [shankar2019posterior].
        Differs: only read off; the model was trained with, and goes on with, the usual average.

        Shapes: as `forward`, with target_out (B, Tt) -> (B, Tt, Ts), rows adding up to one over real source tokens
        """
        state = self.start(source, source_lengths)
        check_tokens(target_in, self.config.target_vocab_size, "target_in", batch=source.shape[0])
        check_tokens(target_out, self.config.target_vocab_size, "target_out", batch=source.shape[0])
        rows = [source.new_zeros(source.shape[0], 0, source.shape[1], dtype=state.annotations.dtype)]  # if Tt is 0
        for read, written in zip(target_in.unbind(1), target_out.unbind(1), strict=True):
            embedded, before = self.dropout(self.target_embedding(read)), state.hidden
            _, weights, state = self._advance(embedded, state)
            parts = (part.unsqueeze(1).expand(-1, source.shape[1], -1) for part in (before, embedded))
            logits = self.output(*parts, state.annotations)  # (B, Ts, V), one for each annotation as the context
            likely = logits.log_softmax(dim=-1).gather(-1, written[:, None, None].expand(*source.shape, 1)).squeeze(-1)
            joint = weights * (likely - likely.amax(dim=1, keepdim=True)).exp()  # (B, Ts)
            rows.append((joint / joint.sum(dim=1, keepdim=True).clamp_min(torch.finfo(joint.dtype).tiny)).unsqueeze(1))
        return torch.cat(rows, dim=1)

    def start(self, source: Tensor, source_lengths: Tensor) -> BahdanauState:
        """Read the source: (B, Ts), (B,) -> the state before the first target token."""
        check_tokens(source, self.config.source_vocab_size, "source")
        check_lengths(source_lengths, source.shape[0], source.shape[1], "source_lengths")
        annotations, (_, (first,)) = self.encoder(self.dropout(self.source_embedding(source)), source_lengths)
        return BahdanauState(
            hidden=self.bridge(first).tanh(),  # from the backward state, which ends at the first word
            annotations=annotations,
            keys=self.attention.key_proj(annotations),
            mask=padding_mask(source_lengths, source.shape[1]),
        )

    def step(self, tokens: Tensor, state: BahdanauState) -> tuple[Tensor, BahdanauState]:
        """One target token a row: (B,) -> logits of the next (B, V), and the state after it."""
        check_ids(tokens, self.config.target_vocab_size)
        state = in_precision_of(self.target_embedding.weight, state)
        embedded = self.dropout(self.target_embedding(tokens))  # (B, E)
        context, _, after = self._advance(embedded, state)
        return self.output(state.hidden, embedded, context), after

    def _advance(self, embedded: Tensor, state: BahdanauState) -> tuple[Tensor, Tensor, BahdanauState]:
        """Attend with the state before the step, then step: context (B, 2 H), weights (B, Ts), the state after."""
        query = state.hidden.unsqueeze(1)  # (B, 1, H)
        context, weights = self.attention.attend(query, state.keys, state.annotations, state.mask)
        context = context.squeeze(1)  # (B, 2 H)
        (hidden,) = self.decoder(torch.cat([embedded, context], dim=-1), (state.hidden,))
        return context, weights.squeeze(1), replace(state, hidden=hidden)
