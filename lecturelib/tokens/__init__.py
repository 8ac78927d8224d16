"""From text to integers and back: vocabularies, characters, byte-pair encoding, padding."""

from lecturelib.tokens.batches import (
    CaptionBatch,
    ContiguousWindows,
    LabelledBatch,
    LanguageBatch,
    Padded,
    PairBatch,
    RandomWindows,
    StepBatches,
    collate_captions,
    collate_labelled,
    collate_pairs,
    pad,
    pair_batches,
)
from lecturelib.tokens.bpe import BPETokenizer
from lecturelib.tokens.characters import CharTokenizer
from lecturelib.tokens.chat import ChatML, Message
from lecturelib.tokens.documents import PaddedDocuments, pad_documents, split_sentences
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
    "CaptionBatch",
    "CharTokenizer",
    "ChatML",
    "ContiguousWindows",
    "LabelledBatch",
    "LanguageBatch",
    "Message",
    "Padded",
    "PaddedDocuments",
    "PairBatch",
    "RandomWindows",
    "StepBatches",
    "Tokenizer",
    "Vocabulary",
    "WordPieceTokenizer",
    "WordTokenizer",
    "collate_captions",
    "collate_labelled",
    "collate_pairs",
    "load_tokenizer",
    "pad",
    "pad_documents",
    "pair_batches",
    "split_sentences",
    "split_words",
]
