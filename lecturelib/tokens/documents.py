"""Documents as sentences of words: one axis more than a sentence has."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+")


class PaddedDocuments(NamedTuple):
    """Documents of unequal length in one tensor: ids (B, S, T), lengths (B, S) words a sentence, 0 where there is none.

    `lengths` is what `HierarchicalAttentionNetwork` takes; (lengths > 0).sum(1) counts the sentences.
    """

    ids: Tensor
    lengths: Tensor


def split_sentences(text: str) -> list[str]:
    """Cut a text at line ends and after full stops, question marks and exclamation marks that a space follows.

    Rough: "Dr. No" becomes two sentences.
    """
    return [sentence for sentence in (part.strip() for part in _END.split(text)) if sentence]


def pad_documents(
    documents: Sequence[Sequence[Sequence[int]]],
    *,
    pad_id: int,
    max_sentences: int | None = None,
    max_words: int | None = None,
) -> PaddedDocuments:
    """Put documents side by side: short sentences and short documents are filled up, sentences without a word dropped.

    Args:
        documents: for each document its sentences, for each sentence its ids.
        max_sentences: where to cut a document; None: never.
        max_words: where to cut a sentence; None: never.
    """
    cut = [[sentence[:max_words] for sentence in document if len(sentence)][:max_sentences] for document in documents]
    sentences = max((len(document) for document in cut), default=0)
    words = max((len(sentence) for document in cut for sentence in document), default=0)
    ids = np.full((len(cut), sentences, words), pad_id, dtype=np.int64)
    lengths = np.zeros((len(cut), sentences), dtype=np.int64)
    for row, document in enumerate(cut):
        for place, sentence in enumerate(document):
            ids[row, place, : len(sentence)] = sentence
            lengths[row, place] = len(sentence)
    return PaddedDocuments(torch.from_numpy(ids), torch.from_numpy(lengths))
