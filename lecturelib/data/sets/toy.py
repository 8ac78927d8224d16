"""Toy problems small enough to see: averaging the heights of shapes, and saying what a word refers to."""

import random
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Pairing = Literal["shape", "position"]


@dataclass(frozen=True)
class ShapeBatch:
    """Sequences with two triangles and two rectangles, and the sequences wanted in return.

    Shapes: inputs, targets, blind (B, T); heights, centres, widths (B, 4); is_rectangle (B, 4) boolean
    """

    inputs: Tensor
    targets: Tensor  # each shape redrawn with the mean height of its pair
    blind: Tensor  # the best guess of who sees all four heights but not who is paired with whom
    heights: Tensor
    centres: Tensor
    widths: Tensor
    is_rectangle: Tensor


def shape_pairs(batch_size: int, *, pair_by: Pairing = "shape", length: int = 100, seed: int = 0) -> ShapeBatch:
    """Draw sequences of four shapes; the target gives both shapes of a pair the mean of their heights.

    The two triangles are one pair and the two rectangles the other (`pair_by="shape"`), or the two leftmost shapes are
    one pair and the two rightmost the other (`pair_by="position"`). Which shape stands where, and how high, is
    independent and random: without the pairing, the partner is equally likely any of the other three, so the best
    guess in mean square is half the own height plus half the mean of the others. That guess is `blind`.

    Same seed, same batch, on every device.
    """
    if pair_by not in ("shape", "position"):
        raise ValueError(f'pair_by must be "shape" or "position", got {pair_by!r}')
    if length < 40:
        raise ValueError(f"length must be at least 40 to hold four shapes apart, got {length}")
    if batch_size < 0:
        raise ValueError(f"batch_size must be 0 or more, got {batch_size}")
    generator = torch.Generator().manual_seed(seed)
    widths = torch.randint(5, 9, (batch_size, 4), generator=generator)  # (B, 4)
    heights = 0.1 + 0.9 * torch.rand(batch_size, 4, generator=generator)  # (B, 4)
    is_rectangle = torch.rand(batch_size, 4, generator=generator).argsort(dim=1) < 2  # (B, 4), two of each
    # Spread the free room at random over the five gaps, so that shapes never touch.
    free = length - widths.sum(dim=1, keepdim=True) - 3  # (B, 1)
    cuts = (torch.rand(batch_size, 4, generator=generator).sort(dim=1).values * (free + 1)).long()  # (B, 4)
    starts = cuts + widths.cumsum(dim=1) - widths + torch.arange(4)  # (B, 4)
    centres = starts + (widths - 1) / 2  # (B, 4)

    if pair_by == "shape":
        partner = _same_kind(is_rectangle)
    else:
        partner = torch.tensor([1, 0, 3, 2]).expand(batch_size, 4)
    means = (heights + heights.gather(1, partner)) / 2
    others = (heights.sum(dim=1, keepdim=True) - heights) / 3
    return ShapeBatch(
        inputs=_draw(heights, centres, widths, is_rectangle, length),
        targets=_draw(means, centres, widths, is_rectangle, length),
        blind=_draw((heights + others) / 2, centres, widths, is_rectangle, length),
        heights=heights,
        centres=centres,
        widths=widths,
        is_rectangle=is_rectangle,
    )


def _same_kind(is_rectangle: Tensor) -> Tensor:
    same = is_rectangle[:, :, None] == is_rectangle[:, None, :]  # (B, 4, 4)
    return (same & ~torch.eye(4, dtype=torch.bool)).int().argmax(dim=2)  # (B, 4)


def _draw(heights: Tensor, centres: Tensor, widths: Tensor, is_rectangle: Tensor, length: int) -> Tensor:
    distance = (torch.arange(length) - centres[..., None]).abs()  # (B, 4, T)
    half = (widths[..., None] + 1) / 2  # (B, 4, 1)
    flat = (distance < half).float()
    peaked = (1 - distance / half).clamp(min=0)
    peaked = peaked / peaked.amax(dim=2, keepdim=True)  # the tip is as high as the shape, for even widths too
    profile = torch.where(is_rectangle[..., None], flat, peaked)  # (B, 4, T)
    return (heights[..., None] * profile).sum(dim=1)  # (B, T)


NAMES = {"he": ("Ernie", "Otto", "Karim", "Jonas"), "she": ("Anna", "Mira", "Ruth", "Leila")}
ADJECTIVES = ("smart", "tired", "early", "brave", "quiet", "rich")
SENSES = {"river": "bank (of a river)", "money": "bank (for money)"}
_REST = ("<pad>", "was", "but", "didn't", "know", "the", "answer", "met", "and", "saw", "near", "bank")
WORDS = (*_REST, *NAMES, *NAMES["he"], *NAMES["she"], *ADJECTIVES, *SENSES)
MEANINGS = (*WORDS, *SENSES.values())
SENTENCE_LENGTH = 13


@dataclass(frozen=True)
class SentenceBatch:
    """Padded sentences, and what each word of them means there.

    Shapes: words, meanings (B, T) integers; lengths (B,)
    """

    words: Tensor  # indices into WORDS, 0 is padding
    meanings: Tensor  # indices into MEANINGS
    lengths: Tensor


def reference_sentences(batch_size: int, *, seed: int = 0) -> SentenceBatch:
    """Draw sentences in which the meaning of a word lies in another word.

    "he" and "she" mean a name of their own gender, "but" means the adjective it sets up a contrast to, "bank" is one
    of two, by whether a river or money is near; every other word means itself. No meaning depends on the order of the
    words. Same seed, same batch.
    """
    draw = random.Random(seed)
    pairs = [_sentence(draw) for _ in range(batch_size)]
    words = torch.zeros(batch_size, SENTENCE_LENGTH, dtype=torch.long)
    meanings = torch.zeros(batch_size, SENTENCE_LENGTH, dtype=torch.long)
    for row, (said, meant) in enumerate(pairs):
        words[row, : len(said)] = encode_words(said)
        meanings[row, : len(said)] = torch.tensor([MEANINGS.index(meaning) for meaning in meant])
    return SentenceBatch(words, meanings, torch.tensor([len(said) for said, _ in pairs], dtype=torch.long))


def encode_words(words: list[str]) -> Tensor:
    """Indices into `WORDS`, (T,), of words that are all among them."""
    unknown = [word for word in words if word not in WORDS]
    if unknown:
        raise ValueError(f"these words are not in the toy vocabulary: {unknown}; see lecturelib.data.sets.toy.WORDS")
    return torch.tensor([WORDS.index(word) for word in words], dtype=torch.long)


def _sentence(draw: random.Random) -> tuple[list[str], list[str]]:
    pronoun = draw.choice(("he", "she"))
    name, adjective = draw.choice(NAMES[pronoun]), draw.choice(ADJECTIVES)
    other = draw.choice(NAMES["she" if pronoun == "he" else "he"])
    sense = draw.choice(tuple(SENSES))
    people = draw.sample((name, other), 2)
    said, meant = draw.choice(
        (
            (
                [name, "was", adjective, "but", pronoun, "didn't", "know", "the", "answer"],
                [name, "was", adjective, adjective, name, "didn't", "know", "the", "answer"],
            ),
            (
                [
                    people[0],
                    "met",
                    people[1],
                    "and",
                    pronoun,
                    "was",
                    adjective,
                    "but",
                    "didn't",
                    "know",
                    "the",
                    "answer",
                ],
                [
                    people[0],
                    "met",
                    people[1],
                    "and",
                    name,
                    "was",
                    adjective,
                    adjective,
                    "didn't",
                    "know",
                    "the",
                    "answer",
                ],
            ),
            (
                [name, "saw", "the", sense, "near", "the", "bank", "and", pronoun, "was", adjective],
                [name, "saw", "the", sense, "near", "the", SENSES[sense], "and", name, "was", adjective],
            ),
        )
    )
    return said, meant
