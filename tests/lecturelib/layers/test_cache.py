"""The key-value cache: what goes in comes out, in its place, and never in another branch's."""

import pytest
import torch
from torch.testing import assert_close

from lecturelib.layers import KeyValueCache, MultiHeadAttention, causal_mask
from lecturelib.layers.cache import FIRST_CAPACITY

LAYERS, BATCH, HEADS, HEAD_DIM = 2, 3, 4, 5


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def pairs(length, batch=BATCH):
    return [torch.randn(2, batch, HEADS, length, HEAD_DIM) for _ in range(LAYERS)]


def extend(cache, new):
    """The cache after `new`, and what each layer then holds."""
    cache = cache.advance(new[0].shape[3], new[0].shape[1], like=new[0])
    return cache, [torch.stack(cache[layer].append(*pair)) for layer, pair in enumerate(new)]


def test_cache_returns_all_that_was_appended_also_past_its_first_room():
    cache, want = KeyValueCache(LAYERS, HEADS, HEAD_DIM), None
    for length in (4, 1, FIRST_CAPACITY, 1, 2):
        new = pairs(length)
        want = new if want is None else [torch.cat(both, dim=3) for both in zip(want, new, strict=True)]
        cache, held = extend(cache, new)
        assert all(torch.equal(a, b) for a, b in zip(held, want, strict=True))
    assert cache.length == FIRST_CAPACITY + 8


def test_cache_appends_in_place_until_a_search_branches():
    cache, _ = extend(KeyValueCache(LAYERS, HEADS, HEAD_DIM), pairs(3))
    first_new, second_new = pairs(1), pairs(1)
    first, before = extend(cache, first_new)
    assert first._storage is cache._storage
    second, held_second = extend(cache, second_new)
    assert second._storage is not cache._storage
    still = torch.stack(first._storage.layers)[..., :4, :]  # (layers, 2, B, H, 4, Dh)
    assert torch.equal(still, torch.stack(before))
    for held, new, other in zip(held_second, second_new, before, strict=True):
        assert torch.equal(held[:, :, :, 3:], new)
        assert torch.equal(held[:, :, :, :3], other[:, :, :, :3])


def test_cache_selects_rows():
    cache, held = extend(KeyValueCache(LAYERS, HEADS, HEAD_DIM), pairs(3))
    index = torch.tensor([2, 2, 0, 1])
    new = pairs(1, batch=4)
    _, chosen = extend(cache.select(index), new)
    for before, after, pair in zip(held, chosen, new, strict=True):
        assert torch.equal(after, torch.cat((before[:, index], pair), dim=3))


def test_cache_rows_of_different_lengths_stand_at_their_own_positions():
    cache, held = extend(KeyValueCache(LAYERS, HEADS, HEAD_DIM), pairs(4))
    lengths = torch.tensor([1, 3, 2])
    new = pairs(2)
    cache, after = extend(cache.with_lengths(lengths), new)
    assert cache.positions.tolist() == [[1, 2], [3, 4], [2, 3]]
    mask = cache.mask()
    assert mask.shape == (BATCH, 2, 5)
    for row, length in enumerate(lengths.tolist()):
        for layer in range(LAYERS):
            want = torch.cat((held[layer][:, row, :, :length], new[layer][:, row]), dim=2)
            assert torch.equal(after[layer][:, row, :, : length + 2], want)
        assert mask[row].sum(-1).tolist() == [length + 1, length + 2]


def test_cache_mask_is_causal_for_several_new_tokens_and_none_for_one():
    cache, _ = extend(KeyValueCache(LAYERS, HEADS, HEAD_DIM), pairs(3))
    several, _ = extend(cache, pairs(2))
    assert torch.equal(several.mask(), causal_mask(2, 5))
    one, _ = extend(cache, pairs(1))
    assert one.mask() is None


def test_attention_with_a_cache_in_chunks_equals_causal_attention():
    d_model = HEADS * HEAD_DIM
    attention = MultiHeadAttention(d_model, HEADS)
    x = torch.randn(BATCH, 7, d_model)
    cache, pieces = KeyValueCache(1, HEADS, HEAD_DIM), []
    with torch.no_grad():
        for chunk in x.split((3, 1, 2, 1), dim=1):
            cache = cache.advance(chunk.shape[1], BATCH, like=chunk)
            pieces.append(attention(chunk, mask=cache.mask(), cache=cache[0]))
        want = attention(x, is_causal=True)
    assert_close(torch.cat(pieces, dim=1), want, atol=1e-6, rtol=1e-5)


def test_cache_says_what_is_wrong():
    cache, _ = extend(KeyValueCache(LAYERS, HEADS, HEAD_DIM, max_len=4), pairs(3))
    with pytest.raises(ValueError, match="3 tokens and 2 more do not fit in max_len=4"):
        cache.advance(2, BATCH, like=torch.zeros(1))
    with pytest.raises(ValueError, match="3 rows but 5 tokens"):
        cache.advance(1, 5, like=torch.zeros(1))
