"""Data sets and the toy problems of the course, each named once with its licence, size and hash.

    splits = load("shakespeare")        # or shakespeare(), and likewise for every name in DATA_SETS
    splits.train, splits.validation, splits.test

What a name loads is fetched on first use, with a word about its licence, and kept; see `fetch`.

Pictures are augmented here too, as whole batches of tensors and before any model sees them: `rand_augment`, `mixup`,
`cutmix`, `random_erasing` and their kin know pixels and labels only, so they stand where the pictures stand.
"""

from collections.abc import Callable
from typing import Any

from lecturelib.data.augment.frequencies import high_frequency_adversary, split_frequencies
from lecturelib.data.augment.mixing import ImageBatch, cutmix, mixup, mixup_or_cutmix, smooth_labels
from lecturelib.data.augment.rand_augment import rand_augment
from lecturelib.data.augment.simple import random_crop, random_erasing, random_flip, repeated_indices
from lecturelib.data.sets.animals import AnimalScene, draw_animals, render_animals
from lecturelib.data.sets.dates import date_pairs, dates
from lecturelib.data.sets.detection import DetectionBatch, detection_batch, draw_spread, thing_box
from lecturelib.data.sets.digit_sets import DigitSets, digit_sets
from lecturelib.data.sets.emoji import Emoji, emoji
from lecturelib.data.sets.episodes import Episodes, Windows, by_table, play, returns_to_go, together, windows
from lecturelib.data.sets.fireflies import Flash, Night, draw_nights, render_nights
from lecturelib.data.sets.graphs import CitationGraph, cora
from lecturelib.data.sets.greek_english import Verse, greek_english, greek_tags, plain_text, stem, verses
from lecturelib.data.sets.images import Images, cifar10, digits, fashion_mnist, mnist
from lecturelib.data.sets.inference import InferencePair, inference, inference_pairs, read_snli, snli
from lecturelib.data.sets.molecules import Molecules, draw_molecules, shortest_paths
from lecturelib.data.sets.multi30k import multi30k
from lecturelib.data.sets.nested import Asked, Nested, draw_boxes, draw_clicks, draw_nested
from lecturelib.data.sets.pairs import Pair
from lecturelib.data.sets.photo_captions import CaptionedPhoto, photo_captions
from lecturelib.data.sets.placed_scenes import draw_placed, follows, place_caption, quarters, render_placed
from lecturelib.data.sets.pretrained import minilm, smollm2
from lecturelib.data.sets.pronunciation import pronunciations
from lecturelib.data.sets.reading import Question, dialogues, questions, read_squad, reading, squad
from lecturelib.data.sets.reviews import Review, long_reviews, movie_reviews
from lecturelib.data.sets.scene_statements import (
    Statement,
    StatementPair,
    draw_scene_boxes,
    draw_statements,
    place_of_boxes,
    regions_of_grid,
)
from lecturelib.data.sets.scenes import (
    Scene,
    Thing,
    caption_scene,
    describes,
    draw_scenes,
    read_caption,
    render_scenes,
)
from lecturelib.data.sets.sequences import (
    RULES,
    SequenceBatch,
    adding,
    copying,
    hopping,
    looking_up,
    mixed_rules,
    neighbouring,
    pairing,
    recalling,
    remembering,
    walking,
)
from lecturelib.data.sets.shakespeare import shakespeare, shakespeare_works
from lecturelib.data.sets.toy import SentenceBatch, ShapeBatch, reference_sentences, shape_pairs
from lecturelib.data.sets.worlds import Environment, World, as_gymnasium, from_gymnasium, key_to_door, two_doors
from lecturelib.data.store.data_set import Archive, DataSet
from lecturelib.data.store.fetching import fetch, fetch_to
from lecturelib.data.store.gguf import GGUF, read_gguf
from lecturelib.data.store.registry import DATA_SETS, UnknownDataSetError, find
from lecturelib.data.store.sources import FetchError
from lecturelib.data.store.splits import Splits, split_by, split_of

LOADERS: dict[str, Callable[[], Any]] = {
    "dates": dates,
    "shakespeare": shakespeare,
    "cmudict": pronunciations,
    "movie_reviews": movie_reviews,
    "greek_english": greek_english,
    "digits": digits,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "cifar10": cifar10,
    "long_reviews": long_reviews,
    "cora": cora,
    "emoji": emoji,
    "smollm2": smollm2,
    "minilm": minilm,
    "multi30k": multi30k,
    "inference": inference,
    "reading": reading,
    "snli": snli,
    "squad": squad,
}


def load(name: str) -> Any:
    """Load a data set by its name, with its loader's defaults; an unknown name lists the known ones."""
    return LOADERS[find(name).name]()


__all__ = [
    "DATA_SETS",
    "GGUF",
    "RULES",
    "AnimalScene",
    "Archive",
    "Asked",
    "CaptionedPhoto",
    "CitationGraph",
    "DataSet",
    "DetectionBatch",
    "DigitSets",
    "Emoji",
    "Environment",
    "Episodes",
    "FetchError",
    "Flash",
    "ImageBatch",
    "Images",
    "InferencePair",
    "Molecules",
    "Nested",
    "Night",
    "Pair",
    "Question",
    "Review",
    "Scene",
    "SentenceBatch",
    "SequenceBatch",
    "ShapeBatch",
    "Splits",
    "Statement",
    "StatementPair",
    "Thing",
    "UnknownDataSetError",
    "Verse",
    "Windows",
    "World",
    "adding",
    "as_gymnasium",
    "by_table",
    "caption_scene",
    "cifar10",
    "copying",
    "cora",
    "cutmix",
    "date_pairs",
    "dates",
    "describes",
    "detection_batch",
    "dialogues",
    "digit_sets",
    "digits",
    "draw_animals",
    "draw_boxes",
    "draw_clicks",
    "draw_molecules",
    "draw_nested",
    "draw_nights",
    "draw_placed",
    "draw_scene_boxes",
    "draw_scenes",
    "draw_spread",
    "draw_statements",
    "emoji",
    "fashion_mnist",
    "fetch",
    "fetch_to",
    "find",
    "follows",
    "from_gymnasium",
    "greek_english",
    "greek_tags",
    "high_frequency_adversary",
    "hopping",
    "inference",
    "inference_pairs",
    "key_to_door",
    "load",
    "long_reviews",
    "looking_up",
    "minilm",
    "mixed_rules",
    "mixup",
    "mixup_or_cutmix",
    "mnist",
    "movie_reviews",
    "multi30k",
    "neighbouring",
    "pairing",
    "photo_captions",
    "place_caption",
    "place_of_boxes",
    "plain_text",
    "play",
    "pronunciations",
    "quarters",
    "questions",
    "rand_augment",
    "random_crop",
    "random_erasing",
    "random_flip",
    "read_caption",
    "read_gguf",
    "read_snli",
    "read_squad",
    "reading",
    "recalling",
    "reference_sentences",
    "regions_of_grid",
    "remembering",
    "render_animals",
    "render_nights",
    "render_placed",
    "render_scenes",
    "repeated_indices",
    "returns_to_go",
    "shakespeare",
    "shakespeare_works",
    "shape_pairs",
    "shortest_paths",
    "smollm2",
    "smooth_labels",
    "snli",
    "split_by",
    "split_frequencies",
    "split_of",
    "squad",
    "stem",
    "thing_box",
    "together",
    "two_doors",
    "verses",
    "walking",
    "windows",
]
