"""From text to integers and back: vocabularies, characters, byte-pair encoding, padding."""

from lecturelib.tokens.batches import (
    ContiguousWindows,
    LabelledBatch,
    LanguageBatch,
    Padded,
    PairBatch,
    RandomWindows,
    StepBatches,
    bucket_by_length,
    collate_labelled,
    collate_pairs,
    pad,
    pair_batches,
)
from lecturelib.tokens.bpe import BPETokenizer
from lecturelib.tokens.characters import CharTokenizer
from lecturelib.tokens.chat import ChatML, Message
from lecturelib.tokens.saved import Tokenizer, load_tokenizer
from lecturelib.tokens.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from lecturelib.tokens.wordpiece import WordPieceTokenizer
from lecturelib.tokens.words import WordTokenizer, split_words

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "BPETokenizer",
    "CharTokenizer",
    "ChatML",
    "ContiguousWindows",
    "LabelledBatch",
    "LanguageBatch",
    "Message",
    "Padded",
    "PairBatch",
    "RandomWindows",
    "StepBatches",
    "Tokenizer",
    "Vocabulary",
    "WordPieceTokenizer",
    "WordTokenizer",
    "bucket_by_length",
    "collate_labelled",
    "collate_pairs",
    "load_tokenizer",
    "pad",
    "pair_batches",
    "split_words",
]
