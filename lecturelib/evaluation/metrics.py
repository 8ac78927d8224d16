"""Numbers that say how good a model is: accuracy, perplexity, edit distance, exact match, alignment error rate."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Link = tuple[int, int]


@torch.no_grad()
def mean_loss(model: nn.Module, batches: Iterable[Any], loss: Callable[[nn.Module, Any], Any]) -> float:
    """Average a training loss over batches, each weighted by its count where the loss gives (mean, count).

    Weights matter: the mean of batch means is not the mean over tokens when batches hold unequal numbers of them.
    The model should be in eval mode, and the batches on its device.
    """
    total, weight = 0.0, 0.0
    for batch in batches:
        value = loss(model, batch)
        mean, count = value if isinstance(value, tuple) else (value, 1.0)
        if float(count) > 0:
            total, weight = total + float(mean) * float(count), weight + float(count)
    if not weight:
        raise ValueError("mean_loss: there is no batch with anything in it to average over")
    return total / weight


def perplexity(nats_per_token: float) -> float:
    """Turn a mean cross-entropy in nats into perplexity: between how many tokens the model hesitates, as it were.

    Paper: Jelinek et al. 1977 [jelinek1977perplexity].
    Differs: nothing.
    """
    return math.exp(nats_per_token) if nats_per_token < 700 else math.inf


def accuracy(predicted: Tensor, target: Tensor, mask: Tensor | None = None) -> float:
    """Say which share of the predictions is right, where the mask is True.

    Args:
        predicted: class numbers of any shape, or logits with one more axis, the last, over classes
        target: class numbers
        mask: True where a prediction counts; everywhere when left out
    """
    if predicted.dim() == target.dim() + 1:
        predicted = predicted.argmax(dim=-1)
    if predicted.shape != target.shape or (mask is not None and mask.shape != target.shape):
        shapes = f"predicted {tuple(predicted.shape)} and target {tuple(target.shape)}"
        shapes += "" if mask is None else f" and mask {tuple(mask.shape)}"
        raise ValueError(f"accuracy: {shapes} must have the same shape (or predicted one more axis, of logits)")
    right = predicted == target
    right = right if mask is None else right[mask]
    if not right.numel():
        raise ValueError("accuracy: there is nothing to compare, the target is empty or all of it is masked")
    return right.double().mean().item()


def exact_match(predicted: Sequence[Any], target: Sequence[Any]) -> float:
    """Say which share of the predicted sequences equals its target altogether."""
    _same_number("exact_match", predicted, target)
    return sum(list(p) == list(t) for p, t in zip(predicted, target, strict=True)) / len(target)


def edit_distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Count the insertions, deletions and substitutions that turn one sequence into the other.

    Paper: Levenshtein 1966 [levenshtein1966binary]; computed row by row as in Wagner and Fischer 1974
    [wagner1974string].
    Differs: nothing.
    """
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def error_rate(predicted: Sequence[Sequence[Any]], target: Sequence[Sequence[Any]]) -> float:
    """Divide all edits by all target symbols: word, character or phoneme error rate, by what the symbols are."""
    _same_number("error_rate", predicted, target)
    symbols = sum(len(sequence) for sequence in target)
    if not symbols:
        raise ValueError("error_rate: all targets are empty, so there is nothing to divide by")
    return sum(edit_distance(p, t) for p, t in zip(predicted, target, strict=True)) / symbols


def alignment_error_rate(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> float:
    """Compare predicted word links with human ones, sentence by sentence; 0 is perfect.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), counted over the whole corpus, with S taken as part of P.

    Paper: Och and Ney 2003 [och2003systematic], Equation 5.
    Differs: nothing; where annotators mark no merely possible links, leave them out and P is S.
    """
    _same_number("alignment_error_rate", predicted, sure)
    possible = sure if possible is None else possible
    _same_number("alignment_error_rate", predicted, possible)
    hits, size = 0, 0
    for a, s, p in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        hits += len(a & s) + len(a & (p | s))
        size += len(a) + len(s)
    return 1 - hits / size if size else 0.0


def best_links(weights: Tensor) -> set[Link]:
    """Link each target word with the source word that has the most weight; a row of zeros links with nothing.

    Shapes: (Tt, Ts), not negative -> pairs (target index, source index)
    """
    if weights.dim() != 2:
        raise ValueError(f"best_links: weights must be (target, source), got {tuple(weights.shape)}")
    if not weights.numel():
        return set()
    top, place = weights.max(dim=1)
    return {(i, j) for i, (value, j) in enumerate(zip(top.tolist(), place.tolist(), strict=True)) if value > 0}


def diagonal_links(target_len: int, source_len: int) -> set[Link]:
    """Link each target word with the source word equally far through its sentence, which needs no model at all."""
    return {(i, (2 * i + 1) * source_len // (2 * target_len)) for i in range(target_len)} if source_len else set()


def _same_number(name: str, predicted: Sequence[Any], target: Sequence[Any]) -> None:
    if len(predicted) != len(target):
        raise ValueError(f"{name}: {len(predicted)} predictions do not go with {len(target)} targets")
    if not len(target):
        raise ValueError(f"{name}: there is nothing to compare, both lists are empty")
