"""BLEU: how many of a translation's n-grams its references have, and whether it is long enough."""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

Smoothing = Literal["exp", "none"]

_APART = re.compile("([" + re.escape("".join(set(string.punctuation) - set("',-."))) + "])")
_AFTER_NO_DIGIT = re.compile(r"([^0-9])([.,])")
_BEFORE_NO_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])-")
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))  # in this order


class Bleu(NamedTuple):
    """A corpus's BLEU with what it is made of; score and precisions in percent."""

    score: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    length: int
    reference_length: int


def bleu(
    predicted: Sequence[str] | Sequence[Sequence[str]],
    *references: Sequence[str] | Sequence[Sequence[str]],
    max_order: int = 4,
    smoothing: Smoothing = "exp",
    effective_order: bool = False,
) -> Bleu:
    """Score translations of a corpus, each against one reference or several.

    A sentence is a string, which `tokenize_13a` cuts into words, or a list of words, taken as they are. The numbers
    are those of `sacrebleu` with its tokenizers 13a and none.

    Paper: Papineni et al. 2002 [papineni2002bleu]; Post 2018 [post2018call] for the conventions.
    Differs: smoothing "exp" replaces the k-th precision that is zero by 1 / (2ᵏ · total), as Post's does; "none" is
    the paper's.

    Args:
        predicted: one translation a sentence
        references: one or more lists, each as long as predicted
        effective_order: leave out orders longer than any sentence, for scoring single sentences
    """
    if not references:
        raise ValueError("bleu: give at least one list of references")
    for number, reference in enumerate(references):
        if len(reference) != len(predicted):
            raise ValueError(f"bleu: {len(predicted)} sentences, but {len(reference)} in list {number} of references")
    matches, totals = [0] * max_order, [0] * max_order
    length, reference_length = 0, 0
    for sentence, *alternatives in zip(predicted, *references, strict=True):
        words, choices = _words(sentence), [_words(alternative) for alternative in alternatives]
        length += len(words)
        reference_length += min((abs(len(words) - len(choice)), len(choice)) for choice in choices)[1]
        for order in range(1, max_order + 1):
            grams = _ngrams(words, order)
            allowed: Counter[tuple[str, ...]] = Counter()
            for choice in choices:
                allowed |= _ngrams(choice, order)
            matches[order - 1] += (grams & allowed).total()
            totals[order - 1] += grams.total()
    return _score(matches, totals, length, reference_length, smoothing, effective_order)


def _score(
    matches: list[int], totals: list[int], length: int, reference_length: int, smoothing: Smoothing, effective: bool
) -> Bleu:
    brevity = 1.0
    if length < reference_length:
        brevity = math.exp(1 - reference_length / length) if length else 0.0
    precisions = [0.0] * len(matches)
    if not any(matches):
        return Bleu(0.0, tuple(precisions), brevity, length, reference_length)
    zeros = 0
    for order, (match, total) in enumerate(zip(matches, totals, strict=True)):
        if match:
            precisions[order] = 100 * match / total
        elif total and smoothing == "exp":
            zeros += 1
            precisions[order] = 100 / (2**zeros * total)
    used = precisions[: sum(total > 0 for total in totals)] if effective else precisions
    if not all(used):
        return Bleu(0.0, tuple(precisions), brevity, length, reference_length)
    score = brevity * math.exp(sum(map(math.log, used)) / len(used))
    return Bleu(score, tuple(precisions), brevity, length, reference_length)


def tokenize_13a(sentence: str) -> list[str]:
    """Cut a sentence into words and marks as the evaluation script of the WMT campaigns, mteval-v13a, does.

    Differs: nothing; like the script it knows only ASCII punctuation, and keeps a dot or comma between digits.
    """
    text = sentence.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    text = _APART.sub(r" \1 ", f" {text} ")
    text = _AFTER_NO_DIGIT.sub(r"\1 \2 ", text)
    text = _BEFORE_NO_DIGIT.sub(r" \1 \2", text)
    return _DASH_AFTER_DIGIT.sub(r"\1 - ", text).split()


def _words(sentence: str | Sequence[str]) -> list[str]:
    return tokenize_13a(sentence) if isinstance(sentence, str) else list(sentence)


def _ngrams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
