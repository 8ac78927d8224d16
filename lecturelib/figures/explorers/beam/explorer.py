"""Beam search as a tree: choose a beam size and a length penalty, and watch beginnings live, end and die."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from lecturelib.evaluation.beam import beam_search
from lecturelib.evaluation.decoding import Start
from lecturelib.figures.explorers.explorer import Explorer, pack


class _Level(NamedTuple):
    """All beginnings of one length that some beam size keeps: where each comes from, and its likeliest next tokens."""

    parents: list[int]
    tokens: list[int]
    best: list[list[int]]
    values: list[list[float]]


class BeamExplorer(Explorer):
    """One source's beam search at every beam size up to the largest, run again in the browser from the model's numbers.

    Paper: Sutskever et al. 2014 [sutskever2014sequence], Section 3.2.
    Differs: searches as `lecturelib.evaluation.beam_search` does, which says how that differs.

    Args:
        model: anything with `step(tokens, state) -> (logits, state)`, in eval mode
        start: of one row, from `read_prompt` or `read_source`
        symbols: the name of every token, by id
        eos_id: the token that ends a sequence
        max_len: the longest sequence searched, eos included
        largest_beam: beam sizes from 1 to this are offered
        length_penalties: the exponents offered
        title: what is being written, for the captions
    """

    title = "Which beginnings survive?"
    hint = "press play, then try beam size 1."

    def __init__(
        self,
        model: Any,
        start: Start,
        symbols: Sequence[str],
        *,
        eos_id: int,
        max_len: int = 12,
        largest_beam: int = 5,
        length_penalties: Sequence[float] = (0.0, 0.5, 1.0, 2.0),
        title: str = "the source",
    ) -> None:
        rows, vocab_size = start.logits.shape
        if rows != 1:
            raise ValueError(f"BeamExplorer: start holds {rows} rows; it shows one, so start with a batch of one")
        if len(symbols) != vocab_size:
            raise ValueError(f"BeamExplorer: {len(symbols)} symbols do not name the model's {vocab_size} tokens")
        if largest_beam < 1 or max_len < 1 or not length_penalties:
            raise ValueError(
                f"BeamExplorer: largest_beam={largest_beam} and max_len={max_len} must be at least 1, "
                f"and length_penalties={tuple(length_penalties)} must not be empty"
            )
        self.model, self.start, self.symbols, self.eos_id = model, start, list(symbols), eos_id
        self.max_len, self.largest_beam, self.subject = max_len, largest_beam, title
        self.length_penalties = [float(penalty) for penalty in length_penalties]
        self.levels = self._walk()

    def found(self, beam_size: int, length_penalty: float) -> list[tuple[list[str], float]]:
        """The finished sequences that the explorer must show, best first, from `beam_search`: symbols and score."""
        beams = beam_search(
            self.model,
            self.start,
            max_len=self.max_len,
            beam_size=beam_size,
            eos_id=self.eos_id,
            length_penalty=length_penalty,
        )
        rows = zip(beams.ids[0].tolist(), beams.lengths[0].tolist(), beams.scores[0].tolist(), strict=True)
        return [([self.symbols[token] for token in ids[:length]], score) for ids, length, score in rows if length]

    def data(self) -> dict[str, object]:
        levels = [
            {"parents": level.parents, "tokens": level.tokens, "best": level.best, "values": pack(level.values)}
            for level in self.levels
        ]
        return {
            "title": self.subject,
            "symbols": self.symbols,
            "eos": self.eos_id,
            "length": self.max_len,
            "largest": self.largest_beam,
            "penalties": self.length_penalties,
            "levels": levels,
        }

    def text(self) -> str:
        penalty = self.length_penalties[0]
        (greedy, low), (beam, high) = (self.found(size, penalty)[0] for size in (1, self.largest_beam))
        return (
            f"Beam search for {self.subject}: greedy decoding writes “{' '.join(greedy)}” (score {low:.2f}), "
            f"a beam of {self.largest_beam} “{' '.join(beam)}” (score {high:.2f})."
        )

    @torch.inference_mode()
    def _walk(self) -> list[_Level]:
        """Follow every beam size side by side, and note what the model said at each beginning that any of them keeps.

        Nothing stops early here: where a search stops depends on the length penalty, and the browser decides that.
        """
        logits, state = self.start
        beams: dict[int, list[tuple[float, int]]] = {size: [(0.0, 0)] for size in range(1, self.largest_beam + 1)}
        parents, tokens, levels = [-1], [-1], []
        for _ in range(self.max_len):
            log_probs = logits.float().log_softmax(dim=-1)
            values, best = log_probs.topk(min(2 * self.largest_beam, log_probs.shape[-1]), dim=-1)  # (N, W)
            levels.append(_Level(parents, tokens, best.tolist(), values.tolist()))
            places: dict[tuple[int, int], int] = {}  # (parent, token) -> its number on the next level
            for size, beam in beams.items():
                kept = self._continue(beam, levels[-1], size)
                beams[size] = [(total, places.setdefault(key, len(places))) for total, key in kept]
            if not places:
                break
            parents, tokens = [parent for parent, _ in places], [token for _, token in places]
            device = logits.device
            state = state.select(torch.tensor(parents, device=device))
            logits, state = self.model.step(torch.tensor(tokens, device=device), state)
        return levels

    def _continue(self, beam: list[tuple[float, int]], level: _Level, size: int) -> list[tuple[float, tuple[int, int]]]:
        """The beginnings that a beam of this size goes on with: (log-probability, (parent, token)), best first."""
        candidates = [
            (total + value, (node, token))
            for total, node in beam
            for token, value in zip(level.best[node][: 2 * size], level.values[node][: 2 * size], strict=True)
        ]
        candidates.sort(key=lambda candidate: -candidate[0])
        return [candidate for candidate in candidates[: 2 * size] if candidate[1][1] != self.eos_id][:size]
