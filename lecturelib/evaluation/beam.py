"""Beam search: keep the few best beginnings of each sequence instead of the one best."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lecturelib.evaluation.decoding import Start
from lecturelib.fast import fast_if_possible


class Beams(NamedTuple):
    """The best sequences of each row, best first.

    ids (B, K, T) padded on the right, lengths (B, K) with eos counted, scores (B, K): log-probability divided by
    length ** length_penalty. A place that no sequence came to fill has length 0 and score -inf.
    """

    ids: Tensor
    lengths: Tensor
    scores: Tensor

    def best(self, eos_id: int | None = None) -> list[list[int]]:
        """The best sequence of each row as a list, without padding and the closing `eos_id`."""
        pairs = zip(self.ids[:, 0].tolist(), self.lengths[:, 0].tolist(), strict=True)
        rows = [ids[:length] for ids, length in pairs]
        return [row[:-1] if row and row[-1] == eos_id else row for row in rows]


def beam_search(
    model: Any,
    start: Start,
    *,
    max_len: int,
    beam_size: int = 4,
    eos_id: int | None = None,
    pad_id: int = 0,
    length_penalty: float = 1.0,
) -> Beams:
    """Search for the sequences with the best log-probability per token, `beam_size` beginnings at a time.

    Paper: Sutskever et al. 2014 [sutskever2014sequence], Section 3.2; Wu et al. 2016 [wu2016google], Section 7, for
    dividing by a power of the length.
    Differs: the divisor is length ** length_penalty, not Wu's ((5 + length) / 6) ** length_penalty, and there is no
    coverage term. A row stops when its best beginning, divided as it stands, is worse than all of its `beam_size`
    finished sequences: what `transformers` calls early_stopping=False.

    Args:
        model: anything with `step(tokens, state) -> (logits, state)`, in eval mode
        start: from `read_prompt` or `read_source`
        length_penalty: 0 compares plain log-probabilities and so prefers short sequences; more prefers longer ones
    """
    if beam_size < 1 or max_len < 1:
        raise ValueError(f"beam_search: beam_size={beam_size} and max_len={max_len} must both be at least 1")
    with torch.inference_mode():  # as in `decode`
        found = _search(
            fast_if_possible(model), start, _Search.begin(start, max_len, beam_size, eos_id, pad_id, length_penalty)
        )
    return Beams(*(part.clone() for part in found))  # ordinary tensors again, which may be changed in place


def _search(model: Any, start: Start, search: "_Search") -> Beams:
    beam_size = search.scores.shape[1]
    logits, state = start
    rows = torch.arange(logits.shape[0], device=logits.device).repeat_interleave(beam_size)  # (B * K,)
    logits, state = logits[rows], state.select(rows)
    for length in range(1, search.max_len + 1):
        parents = search.extend(logits, length)
        if parents is None:
            break
        if not torch.equal(parents, torch.arange(len(logits), device=parents.device)):
            state = state.select(parents)
        logits, state = model.step(search.tokens, state)
    return search.found


@dataclass
class _Search:
    """Beginnings of the rows still searched (R of them), and finished sequences of all B rows."""

    ids: Tensor  # (R, K, T) beginnings
    scores: Tensor  # (R, K) their log-probabilities
    rows: Tensor  # (R,) which of the B rows they belong to
    found: Beams
    max_len: int
    eos_id: int | None
    pad_id: int
    length_penalty: float

    @classmethod
    def begin(
        cls, start: Start, max_len: int, beam_size: int, eos_id: int | None, pad_id: int, length_penalty: float
    ) -> "_Search":
        batch, device = start.logits.shape[0], start.logits.device
        scores = torch.full((batch, beam_size), -torch.inf, device=device)
        found = Beams(
            torch.full((batch, beam_size, max_len), pad_id, device=device),
            torch.zeros(batch, beam_size, dtype=torch.int64, device=device),
            scores.clone(),
        )
        scores[:, 0] = 0.0  # all beams of a row begin equal: let only one of them count
        ids = torch.zeros(batch, beam_size, 0, dtype=torch.int64, device=device)
        return cls(ids, scores, torch.arange(batch, device=device), found, max_len, eos_id, pad_id, length_penalty)

    @property
    def tokens(self) -> Tensor:
        """The newest token of every beginning: (R * K,)."""
        return self.ids[:, :, -1].flatten()  # (R * K,)

    def extend(self, logits: Tensor, length: int) -> Tensor | None:
        """Take the best next tokens; return which beginning each new one continues (R * K,), None when all is done."""
        num_rows, beam_size = self.scores.shape
        if num_rows == 0:
            return None
        scores, beams, tokens = self._candidates(logits)
        ends = torch.zeros_like(tokens, dtype=torch.bool) if self.eos_id is None else tokens == self.eos_id
        if length == self.max_len:
            ends = torch.ones_like(ends)  # out of room: what there is must do
        if self.eos_id is not None or length == self.max_len:
            self._finish(scores, beams, tokens, ends, length)
            if length == self.max_len:
                return None
        self.scores, kept = scores.masked_fill(ends, -torch.inf).topk(beam_size, dim=1)  # (R, K)
        beams, tokens = beams.gather(1, kept), tokens.gather(1, kept)
        before = self.ids.gather(1, beams[:, :, None].expand(-1, -1, length - 1))  # (R, K, T)
        self.ids = torch.cat([before, tokens[:, :, None]], dim=2)  # (R, K, T + 1)
        parents = torch.arange(num_rows, device=beams.device)[:, None] * beam_size + beams  # (R, K)
        return self._drop_done(parents, length)

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2 K best continuations of each row, best first: scores, beams and tokens, each (R, 2 K).

        2 K, because up to K of them may end their sequence, and K beginnings must remain.
        """
        num_rows, beam_size = self.scores.shape
        width = min(2 * beam_size, logits.shape[-1])
        logits = logits.float()
        best, tokens = logits.topk(width, dim=-1)  # (R * K, width)
        best = best - logits.logsumexp(dim=-1, keepdim=True)
        scores = (best.view(num_rows, beam_size, width) + self.scores[:, :, None]).flatten(1)  # (R, K * width)
        scores, place = scores.topk(min(2 * beam_size, scores.shape[1]), dim=1)  # (R, 2 K)
        return scores, place // width, tokens.view(num_rows, -1).gather(1, place)

    def _finish(self, scores: Tensor, beams: Tensor, tokens: Tensor, ends: Tensor, length: int) -> None:
        """Put sequences that end among the finished ones, if they are among the best of either."""
        beam_size = self.scores.shape[1]
        scores, beams, tokens, ends = (part[:, :beam_size] for part in (scores, beams, tokens, ends))
        if not bool(ends.any()):
            return
        divided = (scores / length**self.length_penalty).masked_fill(~ends, -torch.inf)
        ids = self.found.ids[self.rows]  # (R, K, max_len)
        new = ids.new_full((len(ids), scores.shape[1], self.max_len), self.pad_id)
        new[:, :, : length - 1] = self.ids.gather(1, beams[:, :, None].expand(-1, -1, length - 1))
        new[:, :, length - 1] = tokens
        lengths = torch.full_like(tokens, length).masked_fill(divided == -torch.inf, 0)
        all_scores = torch.cat([self.found.scores[self.rows], divided], dim=1)  # (R, 2 K)
        best, place = all_scores.topk(beam_size, dim=1)  # (R, K)
        self.found.scores[self.rows] = best
        self.found.lengths[self.rows] = torch.cat([self.found.lengths[self.rows], lengths], dim=1).gather(1, place)
        wide = place[:, :, None].expand(-1, -1, self.max_len)
        self.found.ids[self.rows] = torch.cat([ids, new], dim=1).gather(1, wide)

    def _drop_done(self, parents: Tensor, length: int) -> Tensor | None:
        """Stop searching the rows whose finished sequences can't be bettered any more."""
        if self.eos_id is None:
            return parents.flatten()  # (R * K,)
        worst = self.found.scores[self.rows, -1]  # -inf while there are fewer than K
        open_rows = self.scores[:, 0] / length**self.length_penalty > worst  # (R,)
        if not bool(open_rows.all()):
            self.ids, self.scores, self.rows = self.ids[open_rows], self.scores[open_rows], self.rows[open_rows]
            parents = parents[open_rows]
        return parents.flatten() if len(self.rows) else None  # (R * K,)
