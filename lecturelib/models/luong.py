"""Attention after the step: three ways to score, three ways to choose where to look."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from lecturelib.layers.attention import masked_softmax
from lecturelib.layers.cells import LSTM
from lecturelib.layers.checks import check_config, check_ids, check_lengths, check_tokens
from lecturelib.layers.precision import precise
from lecturelib.layers.recurrent import Recurrent, RecurrentState
from lecturelib.layers.state import in_precision_of, select_rows


class DotScore(nn.Module):
    """score(h, k) = h · k.

    Paper: Luong et al. 2015 [luong2015effective], Equation 8, "dot".
    Differs: nothing.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def prepare(self, keys: Tensor) -> Tensor:
        """The part that does not depend on the query, done once: (B, Ts, D) -> (B, Ts, D)."""
        return keys

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Shapes: query (B, D), prepared (B, Ts, D) -> scores (B, Ts)"""
        return (prepared @ query.unsqueeze(-1)).squeeze(-1)


class GeneralScore(nn.Module):
    """score(h, k) = h · W k.

    Paper: Luong et al. 2015 [luong2015effective], Equation 8, "general".
    Differs: nothing; W k is computed once for all steps.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.key_proj = nn.Linear(d_model, d_model, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        """The part that does not depend on the query, done once: (B, Ts, D) -> (B, Ts, D)."""
        return self.key_proj(keys)

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Shapes: query (B, D), prepared (B, Ts, D) -> scores (B, Ts)"""
        return (prepared @ query.unsqueeze(-1)).squeeze(-1)


class ConcatScore(nn.Module):
    """score(h, k) = v · tanh(W [h; k]).

    Paper: Luong et al. 2015 [luong2015effective], Equation 8, "concat".
    Differs: W [h; k] is written as W_h h + W_k k, and W_k k computed once for all steps.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(d_model, d_model, bias=False)
        self.key_proj = nn.Linear(d_model, d_model, bias=False)
        self.score = nn.Linear(d_model, 1, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        """The part that does not depend on the query, done once: (B, Ts, D) -> (B, Ts, D)."""
        return self.key_proj(keys)

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Shapes: query (B, D), prepared (B, Ts, D) -> scores (B, Ts)"""
        return self.score((self.query_proj(query).unsqueeze(1) + prepared).tanh()).squeeze(-1)


class GlobalAlignment(nn.Module):
    """Look at the whole source.

    Paper: Luong et al. 2015 [luong2015effective], Section 3.1.
    Differs: nothing.
    """

    def __init__(self, d_model: int, window: int) -> None:
        super().__init__()

    def forward(self, scores: Tensor, query: Tensor, time: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: scores (B, Ts), query (B, D), time (B,), lengths (B,) -> weights (B, Ts)"""
        positions = torch.arange(scores.shape[1], device=scores.device)
        return masked_softmax(scores, positions < lengths[:, None])


class MonotonicAlignment(nn.Module):
    """Look at a window around the source position with the same number as the step, "local-m".

    Paper: Luong et al. 2015 [luong2015effective], Section 3.2.
    Differs: once the target is longer than the source, the window stays at the last source token.

    Args:
        window: D in the paper; positions p − D … p + D are seen
    """

    def __init__(self, d_model: int, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, scores: Tensor, query: Tensor, time: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: scores (B, Ts), query (B, D), time (B,), lengths (B,) -> weights (B, Ts)"""
        positions = torch.arange(scores.shape[1], device=scores.device)
        centre = torch.minimum(time, lengths - 1)[:, None]  # (B, 1)
        near = (positions - centre).abs() <= self.window
        return masked_softmax(scores, near & (positions < lengths[:, None]))


class PredictiveAlignment(nn.Module):
    """Predict where to look, p = S · σ(v · tanh(W h)), and favour that position by a Gaussian, "local-p".

    Paper: Luong et al. 2015 [luong2015effective], Section 3.2, Equations 9 and 10; σ = D / 2. As there, the
    weights no longer add up to one.
    Differs: positions count from 0, so p lies in [0, S).

    Args:
        window: D in the paper; positions within D of p are seen
    """

    def __init__(self, d_model: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.hidden = nn.Linear(d_model, d_model, bias=False)
        self.position = nn.Linear(d_model, 1, bias=False)

    def forward(self, scores: Tensor, query: Tensor, time: Tensor, lengths: Tensor) -> Tensor:
        """Shapes: scores (B, Ts), query (B, D), time (B,), lengths (B,) -> weights (B, Ts)"""
        positions = torch.arange(scores.shape[1], device=scores.device)
        centre = lengths[:, None] * precise(self.position(self.hidden(query).tanh())).sigmoid()  # (B, 1)
        distance = positions - centre  # (B, Ts)
        near = distance.abs() <= self.window
        weights = masked_softmax(scores, near & (positions < lengths[:, None]))
        return weights * torch.exp(-distance.square() / (2 * (self.window / 2) ** 2))


Score = DotScore | GeneralScore | ConcatScore
SCORES: dict[str, type[Score]] = {"dot": DotScore, "general": GeneralScore, "concat": ConcatScore}
ALIGNMENTS = {"global": GlobalAlignment, "local-m": MonotonicAlignment, "local-p": PredictiveAlignment}


@dataclass(frozen=True, kw_only=True)
class LuongConfig:
    """Sizes of a `LuongSeq2Seq`, and which score and alignment it is built from; `window` is for the local ones."""

    source_vocab_size: int
    target_vocab_size: int
    d_model: int = 128
    num_layers: int = 1
    dropout: float = 0.0
    score: Literal["dot", "general", "concat"] = "general"
    alignment: Literal["global", "local-m", "local-p"] = "global"
    window: int = 10

    def __post_init__(self) -> None:
        check_config(self, sizes=("source_vocab_size", "target_vocab_size", "d_model", "num_layers", "window"))
        for name, allowed in (("score", SCORES), ("alignment", ALIGNMENTS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"LuongConfig: {name} must be one of {[*allowed]}, got {getattr(self, name)!r}")


LUONG2015 = LuongConfig(
    source_vocab_size=50_000, target_vocab_size=50_000, d_model=1000, num_layers=4, dropout=0.2, alignment="local-p"
)


@dataclass(frozen=True)
class LuongState:
    """The decoder's LSTM state, its last attentional vector (B, D), and what it looks back at."""

    hidden: RecurrentState
    attentional: Tensor  # (B, D)
    time: Tensor  # (B,) how many steps were made
    keys: Tensor  # (B, Ts, D), prepared for the score
    values: Tensor  # (B, Ts, D)
    lengths: Tensor  # (B,)

    def select(self, index: Tensor) -> "LuongState":
        return select_rows(self, index)


class LuongSeq2Seq(nn.Module):
    """Stacked LSTMs; after each decoder step its top state looks back at the source's top states.

    h̃_t = tanh(W [c_t; h_t]), logits = W_s h̃_t, and h̃_t is fed into the next step beside the next token.

    Paper: Luong et al. 2015 [luong2015effective], with input feeding.
    Differs: the source is not reversed; weights start as torch's do, not in ±0.1. The encoder runs on torch's fused
    kernel; the decoder makes one step at a time, because of input feeding, and the output layer is done once.

    Shapes: source (B, Ts), source_lengths (B,), target_in (B, Tt) -> logits (B, Tt, V)
    """

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        self.config = config
        width, depth, dropout = config.d_model, config.num_layers, config.dropout
        self.source_embedding = nn.Embedding(config.source_vocab_size, width)
        self.target_embedding = nn.Embedding(config.target_vocab_size, width)
        self.dropout = nn.Dropout(dropout)
        self.encoder = Recurrent(LSTM, width, width, num_layers=depth, dropout=dropout)
        self.decoder = Recurrent(LSTM, 2 * width, width, num_layers=depth, dropout=dropout)
        self.score: Score = SCORES[config.score](width)
        self.alignment = ALIGNMENTS[config.alignment](width, config.window)
        self.combine = nn.Linear(2 * width, width, bias=False)
        self.output = nn.Linear(width, config.target_vocab_size, bias=False)

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
        """As `forward`, and the alignment: row t is where the decoder looked to write token t.

        Shapes: -> (B, Tt, V), (B, Tt, Ts)
        """
        state = self.start(source, source_lengths)
        check_tokens(target_in, self.config.target_vocab_size, "target_in", batch=source.shape[0])
        attentional, alignments = [], []
        for token in self.dropout(self.target_embedding(target_in)).unbind(1):
            weights, state = self._advance(token, state)
            attentional.append(state.attentional)
            alignments.append(weights)
        if not attentional:
            logits = state.values.new_zeros(*target_in.shape, self.config.target_vocab_size)
            return logits, logits.new_zeros(*target_in.shape, source.shape[1])
        logits = self.output(self.dropout(torch.stack(attentional, 1)))  # (B, Tt, V)
        return logits, torch.stack(alignments, 1)

    def start(self, source: Tensor, source_lengths: Tensor) -> LuongState:
        """Read the source: (B, Ts), (B,) -> the state before the first target token."""
        check_tokens(source, self.config.source_vocab_size, "source")
        check_lengths(source_lengths, source.shape[0], source.shape[1], "source_lengths")
        values, hidden = self.encoder(self.dropout(self.source_embedding(source)), source_lengths)
        return LuongState(
            hidden=hidden,
            attentional=values.new_zeros(source.shape[0], self.config.d_model),
            time=torch.zeros_like(source_lengths),
            keys=self.score.prepare(values),
            values=values,
            lengths=source_lengths,
        )

    def step(self, tokens: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        """One target token a row: (B,) -> logits of the next (B, V), and the state after it."""
        check_ids(tokens, self.config.target_vocab_size)
        state = in_precision_of(self.target_embedding.weight, state)
        _, state = self._advance(self.dropout(self.target_embedding(tokens)), state)
        return self.output(self.dropout(state.attentional)), state

    def _advance(self, embedded: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        """Step, then attend with the state after the step: weights (B, Ts), the state after."""
        fed = torch.cat([embedded, state.attentional], dim=-1).unsqueeze(1)  # (B, 1, 2 D)
        outputs, hidden = self.decoder(fed, state=state.hidden)
        query = outputs.squeeze(1)  # (B, D)
        weights = self.alignment(self.score(query, state.keys), query, state.time, state.lengths)
        context = (weights.unsqueeze(1).to(state.values.dtype) @ state.values).squeeze(1)  # (B, D)
        attentional = self.combine(torch.cat([context, query], dim=-1)).tanh()
        return weights, replace(state, hidden=hidden, attentional=attentional, time=state.time + 1)
