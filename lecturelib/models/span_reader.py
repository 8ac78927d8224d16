"""Answer a question by pointing: where in the passage does the answer begin, and where does it end?"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.alignment import SoftAlignment
from lecturelib.layers.attention import masked_softmax
from lecturelib.layers.cells import GRU, LSTM
from lecturelib.layers.checks import check_config, check_lengths, check_tokens
from lecturelib.layers.masks import padding_mask
from lecturelib.layers.pooling import AttentionPooling
from lecturelib.layers.precision import precise
from lecturelib.layers.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class SpanReaderConfig:
    """Sizes of a `SpanReader`: LSTMs have `hidden_dim` units a direction, and `num_turns` is how often it answers."""

    vocab_size: int
    embedding_dim: int = 64
    hidden_dim: int = 64
    num_layers: int = 1
    num_turns: int = 1
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "embedding_dim", "hidden_dim", "num_layers", "num_turns"))


DRQA = SpanReaderConfig(vocab_size=50_000, embedding_dim=300, hidden_dim=128, num_layers=3, dropout=0.3)
SAN = SpanReaderConfig(vocab_size=50_000, embedding_dim=300, hidden_dim=128, num_layers=2, num_turns=5, dropout=0.1)


class SpanReader(nn.Module):
    """Each passage word looks up its counterpart in the question; a pooled question then points at start and end.

    p_i = LSTM([e_i; Σ_j a_ij e(q_j); is e_i in the question]),  s_0 = pooled question states,
    start_i ∝ exp(p_i W s),  end_i ∝ exp(p_i W' s). With several turns the state s reads the passage between them,
    s_t = GRU(Σ_i β_i p_i, s_{t-1}), and the turns' distributions are averaged. Watch the weights under "lookup"
    (B, 1, Tp, Tq) and "question_pooling" (B, 1, Tq).

    Paper: Chen et al. 2017 [chen2017reading], Section 3.2 (DrQA), for one turn; Liu et al. 2018 [liu2018stochastic],
    the answer module, for several.
    Differs: of DrQA's features only the exact match and the aligned question; the question is pooled with a tanh
    layer; no answer distribution is dropped in training, and the end does not wait for the start. Presets have the
    papers' sizes, and a vocabulary of ours.

    Shapes: passage (B, Tp), its lengths (B,), question (B, Tq), its lengths (B,) -> log-probabilities (B, 2, Tp)
    """

    def __init__(self, config: SpanReaderConfig) -> None:
        super().__init__()
        self.config = config
        embedding, hidden, layers = config.embedding_dim, config.hidden_dim, config.num_layers
        width = 2 * hidden
        self.embedding = nn.Embedding(config.vocab_size, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.lookup_proj = nn.Linear(embedding, embedding)
        self.lookup = SoftAlignment()
        self.passage_reader = Recurrent(LSTM, 2 * embedding + 1, hidden, num_layers=layers, bidirectional=True)
        self.question_reader = Recurrent(LSTM, embedding, hidden, num_layers=layers, bidirectional=True)
        self.question_pooling = AttentionPooling(width, width)
        self.pointers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in ("start", "end"))
        if config.num_turns > 1:
            self.reread = nn.Linear(width, width, bias=False)
            self.turn = GRU(width, width)

    def forward(self, passage: Tensor, passage_lengths: Tensor, question: Tensor, question_lengths: Tensor) -> Tensor:
        """Log-probabilities of each passage word as the first and as the last of the answer.

        Shapes: (B, Tp), (B,), (B, Tq), (B,) -> (B, 2, Tp); far below all others at padding
        """
        probabilities = self.turns(passage, passage_lengths, question, question_lengths).mean(dim=1)  # (B, 2, Tp)
        return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()

    def turns(self, passage: Tensor, passage_lengths: Tensor, question: Tensor, question_lengths: Tensor) -> Tensor:
        """What each turn by itself believes: probabilities (B, num_turns, 2, Tp) of start and end."""
        check_tokens(passage, self.config.vocab_size, "passage")
        check_lengths(passage_lengths, passage.shape[0], passage.shape[1], "passage_lengths")
        check_tokens(question, self.config.vocab_size, "question", batch=passage.shape[0])
        check_lengths(question_lengths, question.shape[0], question.shape[1], "question_lengths")
        words, asked = self.dropout(self.embedding(passage)), self.dropout(self.embedding(question))
        passage_mask = padding_mask(passage_lengths, passage.shape[1])  # (B, 1, Tp)
        question_mask = padding_mask(question_lengths, question.shape[1])  # (B, 1, Tq)

        keys = self.lookup_proj(asked).relu()  # (B, Tq, E)
        found = self.lookup(self.lookup_proj(words).relu(), keys, asked, question_mask)  # (B, Tp, E)
        same = (passage.unsqueeze(2) == question.unsqueeze(1)) & question_mask  # (B, Tp, Tq)
        features = torch.cat([words, found, same.any(dim=2, keepdim=True).to(words.dtype)], dim=-1)
        memory, _ = self.passage_reader(features, passage_lengths)  # (B, Tp, 2 H)
        states, _ = self.question_reader(asked, question_lengths)  # (B, Tq, 2 H)
        state = self.question_pooling(states, question_mask.squeeze(1))  # (B, 2 H)

        believed = []
        for number in range(self.config.num_turns):
            if number > 0:
                weights = masked_softmax(self.reread(state).unsqueeze(1) @ memory.transpose(1, 2), passage_mask)
                (state,) = self.turn((weights @ memory).squeeze(1), (state,))  # (B, 2 H)
            asking = torch.stack([pointer(state) for pointer in self.pointers], dim=1)  # (B, 2, 2 H)
            believed.append(masked_softmax(precise(asking @ memory.transpose(1, 2)), passage_mask))  # (B, 2, Tp)
        return torch.stack(believed, dim=1)  # (B, turns, 2, Tp)


def best_span(log_probabilities: Tensor, *, max_len: int = 15) -> Tensor:
    """The likeliest span of at most `max_len` words that does not end before it starts.

    Paper: Chen et al. 2017 [chen2017reading], Section 3.2, Prediction.
    Differs: nothing.

    Shapes: (B, 2, T) -> (B, 2), first and last word
    """
    if max_len < 1:
        raise ValueError(f"best_span: max_len must be at least 1, got {max_len}")
    start, end = log_probabilities.unbind(dim=1)  # (B, T) each
    length = start.shape[1]
    allowed = torch.ones(length, length, dtype=torch.bool, device=start.device).triu().tril(max_len - 1)  # (T, T)
    scores = (start[:, :, None] + end[:, None, :]).masked_fill(~allowed, -torch.inf)  # (B, T, T)
    best = scores.flatten(1).argmax(dim=1)  # (B,)
    return torch.stack([best // length, best % length], dim=1)
