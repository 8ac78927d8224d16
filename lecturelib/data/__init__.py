"""Data sets and the toy problems of the course, each named once with its licence, size and hash."""

from lecturelib.data.dates import date_pair, date_pairs, dates
from lecturelib.data.fetching import fetch, store
from lecturelib.data.pairs import Pair
from lecturelib.data.registry import DATA_SETS, Archive, DataSet, UnknownDataSetError, find
from lecturelib.data.shakespeare import shakespeare, shakespeare_works
from lecturelib.data.sources import FetchError
from lecturelib.data.splits import Splits, split_by, split_of
from lecturelib.data.toy import SentenceBatch, ShapeBatch, reference_sentences, shape_pairs

__all__ = [
    "DATA_SETS",
    "Archive",
    "DataSet",
    "FetchError",
    "Pair",
    "SentenceBatch",
    "ShapeBatch",
    "Splits",
    "UnknownDataSetError",
    "date_pair",
    "date_pairs",
    "dates",
    "fetch",
    "find",
    "reference_sentences",
    "shakespeare",
    "shakespeare_works",
    "shape_pairs",
    "split_by",
    "split_of",
    "store",
]
