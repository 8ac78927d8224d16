"""Masks say who may attend, and True always means yes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lecturelib.layers.masks import causal_mask, padding_mask


@given(query_len=st.integers(0, 9), earlier=st.integers(0, 7))
def test_causal_mask_matches_its_definition(query_len, earlier):
    mask = causal_mask(query_len, query_len + earlier)
    assert mask.dtype == torch.bool
    assert mask.shape == (query_len, query_len + earlier)
    for query in range(query_len):
        for key in range(query_len + earlier):
            assert bool(mask[query, key]) == (key <= query + earlier)


def test_causal_mask_of_a_cache_is_the_last_rows_of_the_full_mask():
    assert torch.equal(causal_mask(3, 8), causal_mask(8)[-3:])


def test_causal_mask_refuses_fewer_keys_than_queries():
    with pytest.raises(ValueError, match=r"5 queries need at least as many keys, got 3"):
        causal_mask(5, 3)


@given(lengths=st.lists(st.integers(0, 6), max_size=5), spare=st.integers(0, 3))
def test_padding_mask_matches_its_definition(lengths, spare):
    max_len = max(lengths, default=0) + spare
    mask = padding_mask(torch.tensor(lengths, dtype=torch.long), max_len)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(lengths), 1, max_len)
    for row, length in zip(mask[:, 0].tolist(), lengths, strict=True):
        assert row == [position < length for position in range(max_len)]


def test_padding_mask_is_as_wide_as_the_longest_sequence_by_default():
    assert padding_mask(torch.tensor([2, 5, 0])).shape == (3, 1, 5)


@pytest.mark.parametrize(
    ("lengths", "max_len", "message"),
    [
        (torch.tensor([2.0, 3.0]), None, r"vector of integers, got torch\.float32 \(2,\)"),
        (torch.tensor([[2, 3]]), None, r"vector of integers, got torch\.int64 \(1, 2\)"),
        (torch.tensor([True, False]), None, r"vector of integers, got torch\.bool"),
        (torch.tensor([2, 7]), 5, r"a length of 7 does not fit in max_len=5"),
        (torch.tensor([2, -1]), None, r"a length of -1"),
    ],
)
def test_padding_mask_refuses_lengths_that_make_no_sense(lengths, max_len, message):
    with pytest.raises(ValueError, match=message):
        padding_mask(lengths, max_len)
